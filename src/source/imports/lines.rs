//! Lines with messages: JSON lines of recorders and of mcptap itself, and text logs of clients.
//!
//! | form | by |
//! |---|---|
//! | `{"ts":…,"direction":"c2s","session_id":…,"raw":{…}}` | mcpsnoop |
//! | `{"type":"message","time":…,"direction":"client-to-server","raw":"…"}` | mcptap |
//! | `{"timestamp":…,"direction":"outgoing","message":{…}}` and similar | Inspector, clients |
//! | `{"jsonrpc":"2.0",…}` | a dump of messages alone |
//! | `2026-01-31T10:00:00.000Z [files] [info] Message from client: {…}` | Claude Desktop |
//!
//! If a line does not say who sent its message, the message shows it: its method, or the request
//! that it answers.

use std::collections::{BTreeMap, HashMap};

use serde_json::value::RawValue;

use super::{ImportBuilder, time, time_of_text};
use crate::capture::Time;
use crate::capture::pipe::Pipe;

/// Lines that are examined to recognise a file. A log may begin with others.
const EXAMINED: usize = 200;

/// Names of members, the likeliest first.
const TIMES: [&str; 5] = ["ts", "time", "timestamp", "at", "date"];
const MESSAGES: [&str; 8] = ["raw", "message", "payload", "data", "body", "content", "msg", "text"];
const DIRECTIONS: [&str; 7] = ["direction", "dir", "from", "source", "sender", "side", "type"];
const SESSIONS: [&str; 6] = ["session_id", "sessionId", "session", "connection_id", "connectionId", "server"];
const NAMES: [&str; 4] = ["server_label", "serverName", "server_name", "server"];

/// Requests that a server sends.
const BY_SERVER: [&str; 3] = ["sampling/createMessage", "roots/list", "elicitation/create"];

/// Notifications that a client sends.
const BY_CLIENT: [&str; 3] =
    ["notifications/initialized", "notifications/roots/list_changed", "notifications/cancelled"];

/// What a log of text writes before a message, and its sender.
const MARKS: [(&str, Pipe); 2] = [("Message from client: ", Pipe::Stdin), ("Message from server: ", Pipe::Stdout)];

type Members<'a> = BTreeMap<String, &'a RawValue>;

/// A line of a recording.
struct LogLine {
    session: String,
    name: Option<String>,
    time: Option<Time>,
    pipe: Option<Pipe>,
    text: String,
}

/// The content of a line.
enum Content {
    Line(LogLine),
    /// The command of a session, which precedes its messages.
    Command(String, Vec<String>),
    /// Nothing about messages.
    Other,
    Damaged(String),
}

/// Whether a file that begins so has such lines.
pub(super) fn recognises(start: &str) -> bool {
    let lines = start.lines().map(str::trim).filter(|line| !line.is_empty()).take(EXAMINED);
    lines.into_iter().any(|line| matches!(content(line), Content::Line(_)))
}

/// Reads the lines. One that is damaged is named.
pub(super) fn read(text: &str, builder: &mut ImportBuilder) {
    let mut commands: HashMap<String, Vec<String>> = HashMap::new();
    let mut senders: HashMap<(String, String), Pipe> = HashMap::new();
    let mut offset = 0;
    for (number, line) in text.split('\n').enumerate() {
        let start = offset;
        offset += line.len() as u64 + 1;
        if !line.is_empty() && builder.is_full(start, number + 1) {
            return;
        }
        match content(line.trim()) {
            Content::Line(line) => {
                let pipe = line.pipe.unwrap_or_else(|| sender(&line, &senders));
                if let (Some(_), Some(id)) = method_and_id(&line.text) {
                    senders.insert((line.session.clone(), id), pipe);
                }
                let command = commands.get(&line.session).map(Vec::as_slice).unwrap_or_default();
                builder.line(&line.session, (line.name.as_deref(), command), line.time, pipe, &line.text);
            }
            Content::Command(session, command) => drop(commands.insert(session, command)),
            Content::Other => {}
            Content::Damaged(reason) => builder.damaged(start, number + 1, &reason),
        }
    }
}

fn content(line: &str) -> Content {
    if line.is_empty() {
        return Content::Other;
    }
    if !line.starts_with('{') {
        return logged(line);
    }
    let members: Members<'_> = match serde_json::from_str(line) {
        Ok(members) => members,
        Err(error) => return Content::Damaged(format!("this is not JSON: {error}")),
    };
    let text = |names: &[&str]| names.iter().find_map(|name| members.get(*name).and_then(|value| plain(value)));
    let time = TIMES.iter().find_map(|name| time(members.get(*name)?.get()));
    let direction = DIRECTIONS.iter().filter_map(|name| plain(members.get(*name)?)).find_map(|word| pipe_of(&word));
    let session = text(&SESSIONS).unwrap_or_default();
    if members.contains_key("jsonrpc") {
        let line = line.to_owned();
        return Content::Line(LogLine { session, name: None, time, pipe: direction, text: line });
    }
    let raw = members.get("raw").map(|raw| raw.get());
    if let Some(command) = raw.filter(|_| text(&["direction"]).as_deref() == Some("meta")).and_then(command) {
        return Content::Command(session, command);
    }
    // Other lines of mcptap's own repeat what messages show.
    let is_own = members.contains_key("transport") || members.contains_key("number");
    if is_own && text(&["type"]).is_some_and(|kind| !matches!(kind.as_str(), "message" | "stderr")) {
        return Content::Other;
    }
    let is_log = direction == Some(Pipe::Stderr);
    let found = MESSAGES.iter().find_map(|name| {
        let value = members.get(*name)?.get();
        match plain(members.get(*name)?) {
            Some(text) if is_log || *name == "raw" || is_message(&text) => Some(text),
            // What a recorder could not read as JSON was sent all the same.
            Some(text) if *name == "text" && direction.is_some() => Some(text),
            Some(_) => None,
            None => is_message(value).then(|| value.to_owned()),
        }
    });
    match found {
        Some(found) => Content::Line(LogLine { session, name: text(&NAMES), time, pipe: direction, text: found }),
        None => Content::Other,
    }
}

/// A line of a text log.
fn logged(line: &str) -> Content {
    let Some((at, mark, pipe)) = MARKS.iter().find_map(|(mark, pipe)| Some((line.find(mark)?, mark, *pipe))) else {
        return Content::Other;
    };
    let rest = &line[at + mark.len()..];
    // More about the message may follow it.
    let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Box<RawValue>>();
    match values.next() {
        Some(Ok(value)) if is_message(value.get()) => {
            let time = line.split_whitespace().next().and_then(time_of_text);
            let name = line[..at].split(['[', ']']).nth(1).filter(|word| !is_level(word)).map(str::to_owned);
            let session = name.clone().unwrap_or_default();
            let text = value.get().to_owned();
            Content::Line(LogLine { session, name, time, pipe: Some(pipe), text })
        }
        Some(Ok(_)) | None => Content::Damaged("no message follows".to_owned()),
        Some(Err(error)) => Content::Damaged(format!("the message is not JSON: {error}")),
    }
}

fn is_level(word: &str) -> bool {
    ["debug", "info", "warn", "warning", "error"].contains(&word.to_ascii_lowercase().as_str())
}

/// A text or a number as text.
fn plain(value: &RawValue) -> Option<String> {
    match serde_json::from_str(value.get()).ok()? {
        serde_json::Value::String(text) => Some(text),
        serde_json::Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Whether a text is a message or a batch of them.
fn is_message(text: &str) -> bool {
    let text = text.trim_start();
    text.starts_with(['{', '[']) && text.contains("\"jsonrpc\"") && serde_json::from_str::<&RawValue>(text).is_ok()
}

/// The command line that mcpsnoop notes at the start.
fn command(meta: &str) -> Option<Vec<String>> {
    let members: BTreeMap<String, serde_json::Value> = serde_json::from_str(meta).ok()?;
    serde_json::from_value(members.get("command")?.clone()).ok()
}

/// The pipe that a word for a direction means.
fn pipe_of(word: &str) -> Option<Pipe> {
    let word = word.to_ascii_lowercase().replace(['-', '_', ' ', '>'], "");
    Some(match word.as_str() {
        "c2s" | "clienttoserver" | "client" | "outgoing" | "out" | "outbound" | "send" | "sent" | "stdin" | "→" => {
            Pipe::Stdin
        }
        "s2c" | "servertoclient" | "server" | "incoming" | "in" | "inbound" | "recv" | "receive" | "received"
        | "stdout" | "←" => Pipe::Stdout,
        "stderr" => Pipe::Stderr,
        _ => return None,
    })
}

/// The method of a message, and its id as JSON.
fn method_and_id(text: &str) -> (Option<String>, Option<String>) {
    let Ok(members) = serde_json::from_str::<Members<'_>>(text) else { return (None, None) };
    let method = members.get("method").and_then(|method| plain(method));
    (method, members.get("id").map(|id| id.get().to_owned()))
}

/// The sender of a message that its line does not name.
fn sender(line: &LogLine, senders: &HashMap<(String, String), Pipe>) -> Pipe {
    match method_and_id(&line.text) {
        (Some(method), Some(_)) if BY_SERVER.contains(&method.as_str()) => Pipe::Stdout,
        (Some(_), Some(_)) => Pipe::Stdin,
        (Some(method), None) if BY_CLIENT.contains(&method.as_str()) => Pipe::Stdin,
        (Some(_), None) => Pipe::Stdout,
        (None, id) => match id.and_then(|id| senders.get(&(line.session.clone(), id))) {
            Some(Pipe::Stdout) => Pipe::Stdin,
            _ => Pipe::Stdout,
        },
    }
}
