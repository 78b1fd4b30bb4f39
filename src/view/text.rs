//! A message summarised in a few words.
//!
//! ```text
//! tools/call                get_weather city=Quito
//! its response              get_weather  "5"        or    get_weather  tool error "no such city"
//! initialize                2025-11-25  corpus-client 1.0
//! notifications/progress    3/10 for 4
//! ```

use std::borrow::Cow;
use std::ops::ControlFlow;

use super::safe::{fit, fit_bytes};
use super::units::count;
use crate::decode::json::{elements, members, string, string_equals};
use crate::decode::jsonrpc::Kind;
use crate::mcp::Message;
use crate::mcp::content::{Status, part, status};

/// Maximum width of the summary in columns. No screen shows more of it.
const ROOM: usize = 160;
/// Maximum width of one value in it.
const VALUE: usize = 60;
/// Maximum number of arguments that are shown.
const ARGUMENTS: usize = 8;
/// Bytes of a message that are searched for its members. A message may have a hundred megabytes,
/// and a screen shows dozens of messages.
const LOOK: usize = 1 << 20;

/// The summary of a message, safe for a terminal and at most 160 columns wide.
pub fn about(message: &Message) -> String {
    let tool = message.tool.as_deref();
    let method = message.method.as_deref().unwrap_or_default();
    let about = match message.kind {
        Kind::Request | Kind::Notification => request_summary(method, part(message, "params").unwrap_or_default()),
        Kind::Response => {
            let result = part(message, "result").unwrap_or_default();
            let answer = result_summary(method, result);
            // The status comes from the whole result, because the member often follows
            // a long content.
            let words = match status(message) {
                Some(Status::ToolError) if answer == "ok" => "tool error".to_owned(),
                Some(Status::ToolError) => format!("tool error {answer}"),
                Some(Status::Negative) => format!("negative {answer}"),
                _ => answer,
            };
            join(tool.map(Cow::Borrowed), words)
        }
        Kind::Error => join(tool.map(Cow::Borrowed), error_summary(part(message, "error").unwrap_or_default())),
        Kind::Invalid => return fit_bytes(&message.raw, ROOM),
    };
    fit(&about, ROOM)
}

/// The summary of a request's or notification's parameters.
fn request_summary(method: &str, params: &str) -> String {
    match method {
        "initialize" => {
            let [revision, client] = some(params, ["protocolVersion", "clientInfo"]);
            join(revision.map(plain), client.map(party).unwrap_or_default())
        }
        "tools/call" | "prompts/get" => {
            let [name, arguments] = some(params, ["name", "arguments"]);
            let arguments = arguments.map(self::arguments).or_else(|| too_long(params));
            words([name.map(plain), arguments.map(Cow::Owned)])
        }
        "resources/read" | "resources/subscribe" | "resources/unsubscribe" | "notifications/resources/updated" => {
            words(some(params, ["uri"]).map(|uri| uri.map(plain)))
        }
        "completion/complete" => {
            let [reference, argument] = some(params, ["ref", "argument"]);
            let [name, uri] = some(reference.unwrap_or_default(), ["name", "uri"]);
            let [argument, written] = some(argument.unwrap_or_default(), ["name", "value"]);
            let argument = argument.map(|argument| format!("{}={}", plain(argument), value(written.unwrap_or("\"\""))));
            words([name.or(uri).map(plain), argument.map(Cow::Owned)])
        }
        "logging/setLevel" => words(some(params, ["level"]).map(|level| level.map(plain))),
        "elicitation/create" => words(some(params, ["message"]).map(|message| message.map(quoted))),
        "sampling/createMessage" => {
            let [messages, most] = some(params, ["messages", "maxTokens"]);
            let most = most.map(|most| format!("at most {} tokens", value(most)));
            join(messages.map(|messages| number_of(messages, "message").into()), most.unwrap_or_default())
        }
        "notifications/progress" => {
            let [progress, total, token, message] = some(params, ["progress", "total", "progressToken", "message"]);
            let total = total.map(|total| format!("/{}", value(total))).unwrap_or_default();
            let progress = progress.map(|progress| format!("{}{total}", value(progress)).into());
            let token = token.map(|token| format!("for {}", value(token)).into());
            join(Some(words([progress, token]).into()), message.map(quoted).unwrap_or_default().into())
        }
        "notifications/cancelled" => {
            let [request, reason] = some(params, ["requestId", "reason"]);
            join(request.map(value), reason.map(quoted).unwrap_or_default().into())
        }
        "notifications/message" => {
            let [level, logger, data] = some(params, ["level", "logger", "data"]);
            join(Some(words([level.map(plain), logger.map(plain)]).into()), data.map(quoted).unwrap_or_default().into())
        }
        "notifications/elicitation/complete" => words(some(params, ["elicitationId"]).map(|id| id.map(plain))),
        _ if method.starts_with("tasks/") || method.starts_with("notifications/tasks") => {
            words(some(params, ["taskId", "status"]).map(|value| value.map(plain)))
        }
        _ if method.ends_with("/list") => {
            words(some(params, ["cursor"]).map(|cursor| cursor.map(|cursor| format!("from {}", value(cursor)).into())))
        }
        _ => String::new(),
    }
}

/// Methods with lists: the method, the member with the list, and the name of an item.
const LISTS: [(&str, &str, &str); 9] = [
    ("tools/list", "tools", "tool"),
    ("resources/list", "resources", "resource"),
    ("resources/templates/list", "resourceTemplates", "template"),
    ("prompts/list", "prompts", "prompt"),
    ("roots/list", "roots", "root"),
    ("tasks/list", "tasks", "task"),
    ("prompts/get", "messages", "message"),
    ("resources/read", "contents", "content"),
    ("completion/complete", "completion", "value"),
];

/// The summary of a result.
fn result_summary(method: &str, result: &str) -> String {
    let [kind, task] = some(result, ["resultType", "task"]);
    if kind.is_some_and(|kind| string_equals(kind, "input_required")) {
        return "input required".to_owned();
    }
    if task.is_some()
        || kind.is_some_and(|kind| string_equals(kind, "task"))
        || method.starts_with("tasks/") && method != "tasks/list"
    {
        let words = words(some(task.unwrap_or(result), ["taskId", "status"]).map(|value| value.map(plain)));
        return if words.is_empty() { ok(result) } else { format!("task {words}") };
    }
    if let Some((_, member, noun)) = LISTS.iter().find(|(list, ..)| *list == method) {
        let [list, cursor] = some(result, [member, "nextCursor"]);
        let list = list.and_then(|list| if *noun == "value" { some(list, ["values"])[0] } else { Some(list) });
        let number = list.map_or_else(|| ok(result), |list| number_of(list, noun));
        return if cursor.is_some() { number + " and more" } else { number };
    }
    let words = match method {
        "initialize" => {
            let [revision, server] = some(result, ["protocolVersion", "serverInfo"]);
            join(revision.map(plain), server.map(party).unwrap_or_default())
        }
        "server/discover" => {
            let mut versions = Vec::new();
            elements(some(result, ["supportedVersions"])[0].unwrap_or_default(), &mut |version| {
                versions.push(plain(version));
                if versions.len() < ARGUMENTS { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            });
            versions.join(" ")
        }
        "tools/call" => {
            let [list] = some(result, ["content"]);
            list.map(content).unwrap_or_default().into_owned()
        }
        "sampling/createMessage" => {
            let [model, content] = some(result, ["model", "content"]);
            join(model.map(plain), content.map(self::content).unwrap_or_default().into())
        }
        "elicitation/create" => words(some(result, ["action"]).map(|action| action.map(plain))),
        _ => String::new(),
    };
    if words.is_empty() { ok(result) } else { words }
}

/// The summary of a result without anything to show, or whose members are beyond
/// the bytes searched.
fn ok(result: &str) -> String {
    too_long(result).unwrap_or_else(|| "ok".to_owned())
}

/// The size of a text that is not searched in full.
fn too_long(text: &str) -> Option<String> {
    (text.len() > LOOK).then(|| format!("{:.1} MB", text.len() as f64 / 1e6))
}

/// The summary of an error.
fn error_summary(error: &str) -> String {
    let [code, message] = some(error, ["code", "message"]);
    words([Some("error".into()), code.map(value), message.map(plain)])
}

/// Content of a tool's result or of a model's message: one item, or the first item of a list.
fn content(content: &str) -> Cow<'static, str> {
    let (mut first, mut number) = (None, 0_usize);
    if content.starts_with('{') {
        first = Some(content);
    } else {
        elements(content, &mut |item| {
            first = first.or(Some(item));
            number += 1;
            ControlFlow::Continue(())
        });
    }
    let Some(item) = first else { return "".into() };
    let [kind, text, mime] = some(item, ["type", "text", "mimeType"]);
    let shown = match text {
        Some(text) => quoted(text).into_owned(),
        None => words([kind.map(plain), mime.map(plain)]),
    };
    if number > 1 { format!("{shown} and {} more", number - 1).into() } else { shown.into() }
}

/// The name and version in `clientInfo` or `serverInfo`.
fn party(party: &str) -> String {
    words(some(party, ["name", "version"]).map(|value| value.map(plain)))
}

/// Arguments in the form `city=Quito days=3`.
fn arguments(object: &str) -> String {
    let mut shown: Vec<Cow<'_, str>> = Vec::new();
    members(object, &mut |name, argument| {
        if shown.len() == ARGUMENTS {
            shown.push("…".into());
            return ControlFlow::Break(());
        }
        shown.push(format!("{}={}", plain(name), value(argument)).into());
        ControlFlow::Continue(())
    });
    shown.join(" ")
}

/// The members of an object with these names. Only the beginning of a long object is searched: a
/// member that does not end in it is not found.
fn some<'a, const N: usize>(object: &'a str, names: [&str; N]) -> [Option<&'a str>; N] {
    let mut found = [None; N];
    let beginning = &object[..object.floor_char_boundary(LOOK)];
    members(beginning, &mut |name, value| {
        if let Some(position) = names.iter().position(|wanted| string_equals(name, wanted)) {
            found[position] = Some(value);
        }
        let done = object.len() > LOOK && found.iter().all(Option::is_some);
        if done { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    found
}

/// The number of elements of a list with their noun: `3 tools`.
fn number_of(list: &str, noun: &str) -> String {
    let mut number = 0;
    elements(list, &mut |_| {
        number += 1;
        ControlFlow::Continue(())
    });
    count(number, noun)
}

/// A JSON value in one word. A string has quotes only where it is more than one word. Of an object
/// or an array only its kind is shown.
fn value(json: &str) -> Cow<'_, str> {
    match json.as_bytes().first() {
        Some(b'"') => {
            let text = plain(json);
            if text.is_empty() || text.contains([' ', '"', '=']) { quoted(json) } else { text }
        }
        Some(b'{') if json == "{}" => json.into(),
        Some(b'{') => "{…}".into(),
        Some(b'[') if json == "[]" => json.into(),
        Some(b'[') => "[…]".into(),
        _ => fit(json, VALUE).into(),
    }
}

/// The content of a string without quotes, or any other value as [`value`] shows it.
fn plain(json: &str) -> Cow<'_, str> {
    if json.starts_with('"') { fit(&beginning(json), VALUE).into() } else { value(json) }
}

/// The content of a string in quotes, or any other value as [`value`] shows it.
fn quoted(json: &str) -> Cow<'_, str> {
    if json.starts_with('"') { format!("\"{}\"", fit(&beginning(json), VALUE)).into() } else { value(json) }
}

/// The content of the beginning of a string, as much as is ever shown.
fn beginning(json: &str) -> Cow<'_, str> {
    const SHOWN: usize = 4_096;
    if json.len() <= SHOWN {
        return string(json).unwrap_or_default();
    }
    // The cut may split an escape, whose longest form has twelve characters (a pair of surrogates).
    let cut = &json[..json.floor_char_boundary(SHOWN)];
    let whole = (0..12).find_map(|less| serde_json::from_str(&format!("{}\"", cut.get(..cut.len() - less)?)).ok());
    whole.map_or_else(|| cut[1..].to_owned().into(), Cow::Owned)
}

/// Words with a blank between them. Missing ones are left out.
fn words<'a, const N: usize>(words: [Option<Cow<'a, str>>; N]) -> String {
    let words: Vec<Cow<'a, str>> = words.into_iter().flatten().filter(|word| !word.is_empty()).collect();
    words.join(" ")
}

/// Two texts with two blanks between them.
fn join(first: Option<Cow<'_, str>>, second: String) -> String {
    match first {
        Some(first) if !first.is_empty() && !second.is_empty() => format!("{first}  {second}"),
        Some(first) if second.is_empty() => first.into_owned(),
        _ => second,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::filter::tests::{answer, message};
    use crate::view::safe::{visible, width};

    /// Methods and parameters of requests and notifications, with the expected summary.
    const ASKED: &[(&str, &str, &str)] = &[
        (
            "initialize",
            r#"{"protocolVersion":"2025-11-25","clientInfo":{"name":"corpus-client","version":"1.0"}}"#,
            "2025-11-25  corpus-client 1.0",
        ),
        ("tools/call", r#"{"name":"get_weather","arguments":{"city":"Quito"}}"#, "get_weather city=Quito"),
        (
            "tools/call",
            r#"{"arguments":{"a":2,"b":[1],"c":{},"d":"two words","e":"","f":null,"g":"1=\u001b"},"name":"add"}"#,
            "add a=2 b=[…] c={} d=\"two words\" e=\"\" f=null g=\"1=␛\"",
        ),
        ("tools/call", r#"{"name":"ping"}"#, "ping"),
        ("prompts/get", r#"{"name":"greet","arguments":{"who":"Ana"}}"#, "greet who=Ana"),
        ("resources/read", r#"{"uri":"file:///a%20b"}"#, "file:///a%20b"),
        (
            "completion/complete",
            r#"{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"who","value":"A"}}"#,
            "greet who=A",
        ),
        ("logging/setLevel", r#"{"level":"debug"}"#, "debug"),
        ("elicitation/create", r#"{"message":"Your name?","requestedSchema":{}}"#, "\"Your name?\""),
        ("sampling/createMessage", r#"{"messages":[{}],"maxTokens":100}"#, "1 message  at most 100 tokens"),
        ("tools/list", "{}", ""),
        ("tools/list", r#"{"cursor":"p2"}"#, "from p2"),
        ("tasks/get", r#"{"taskId":"t1"}"#, "t1"),
        ("ping", "", ""),
        ("notifications/progress", r#"{"progress":3,"total":10,"progressToken":4}"#, "3/10 for 4"),
        ("notifications/progress", r#"{"progressToken":"t","progress":0.5,"message":"half"}"#, "0.5 for t  \"half\""),
        ("notifications/cancelled", r#"{"requestId":4,"reason":"user left"}"#, "4  \"user left\""),
        ("notifications/message", r#"{"level":"error","logger":"db","data":"no\nroom"}"#, "error db  \"no␊room\""),
        ("notifications/message", r#"{"level":"info","data":{"a":1}}"#, "info  {…}"),
        ("notifications/resources/updated", r#"{"uri":"a:b"}"#, "a:b"),
        ("vendor/thing", r#"{"name":"x"}"#, ""),
    ];

    /// Methods and the responses to them, with the expected summary.
    const ANSWERED: &[(&str, &str, &str)] = &[
        (
            "initialize",
            r#""result":{"protocolVersion":"2025-06-18","serverInfo":{"name":"corpus-server","version":"1.30.0"}}"#,
            "2025-06-18  corpus-server 1.30.0",
        ),
        ("tools/list", r#""result":{"tools":[{},{},{}]}"#, "3 tools"),
        ("tools/list", r#""result":{"tools":[{}],"nextCursor":"x"}"#, "1 tool and more"),
        ("resources/read", r#""result":{"contents":[{}]}"#, "1 content"),
        ("completion/complete", r#""result":{"completion":{"values":["a","b"]}}"#, "2 values"),
        ("tools/call", r#""result":{"content":[{"type":"text","text":"5"}]}"#, "add  \"5\""),
        (
            "tools/call",
            r#""result":{"content":[{"type":"text","text":"no"}],"isError":true}"#,
            "add  tool error \"no\"",
        ),
        (
            "tools/call",
            r#""result":{"content":[{"type":"image","data":"…","mimeType":"image/png"},{}]}"#,
            "add  image image/png and 1 more",
        ),
        ("tools/call", r#""result":{"content":[]}"#, "add  ok"),
        ("tools/call", r#""result":{"isError":true}"#, "add  tool error"),
        ("tools/call", r#""result":{"resultType":"input_required"}"#, "add  input required"),
        ("tools/call", r#""result":{"task":{"taskId":"t1","status":"working"}}"#, "add  task t1 working"),
        ("tools/call", r#""error":{"code":-32602,"message":"Unknown tool"}"#, "add  error -32602 Unknown tool"),
        ("sampling/createMessage", r#""result":{"model":"m","content":{"type":"text","text":"hi"}}"#, "m  \"hi\""),
        ("elicitation/create", r#""result":{"action":"decline"}"#, "decline"),
        ("server/discover", r#""result":{"supportedVersions":["2025-11-25","2026-07-28"]}"#, "2025-11-25 2026-07-28"),
        ("ping", r#""result":{}"#, "ok"),
        ("ping", r#""result":3"#, "ok"),
    ];

    #[test]
    fn requests_and_notifications() {
        for (method, params, words) in ASKED {
            let params = if params.is_empty() { String::new() } else { format!(r#","params":{params}"#) };
            let id = if method.starts_with("notifications/") { "" } else { r#""id":1,"# };
            let message = message(1, &format!(r#"{{"jsonrpc":"2.0",{id}"method":"{method}"{params}}}"#));
            assert_eq!(about(&message), *words, "{method}");
        }
    }

    #[test]
    fn answers() {
        for (method, body, words) in ANSWERED {
            let request = message(1, &format!(r#"{{"id":1,"method":"{method}","params":{{"name":"add"}}}}"#));
            let answer = answer(2, &request, &format!(r#"{{"id":1,{body}}}"#));
            assert_eq!(about(&answer), *words, "{method}");
        }
    }

    #[test]
    fn invalid_messages_are_shown_unchanged() {
        let mut invalid = message(1, "starting \u{1b}[31mserver");
        assert_eq!(about(&invalid), "starting ␛[31mserver");
        invalid.raw = b"\xff\n".to_vec().into();
        assert_eq!(about(&invalid), "⟦FF⟧␊");
    }

    #[test]
    fn only_the_beginning_of_a_huge_message_is_read() {
        let long = "é\\ud83d\\ude00".repeat(1 << 18);
        let call = message(
            1,
            &format!(
                r#"{{"id":1,"method":"tools/call","params":{{"name":"add","arguments":{{"a":1,"b":"{long}"}}}}}}"#
            ),
        );
        assert_eq!(about(&call), "add 3.7 MB", "the arguments end beyond what is read");
        let text = message(
            2,
            &format!(
                r#"{{"method":"notifications/message","params":{{"level":"info","data":"{}"}}}}"#,
                &long[..70_000]
            ),
        );
        assert!(about(&text).starts_with("info  \"é😀é😀"));
        let tools = format!(r#"{{"id":1,"result":{{"tools":[{}{{}}]}}}}"#, "{},".repeat(300_000));
        let tools = answer(3, &message(1, r#"{"id":1,"method":"tools/list"}"#), &tools);
        assert_eq!(about(&tools), "300001 tools");
        let body = format!(r#"{{"id":1,"result":{{"content":[{{"text":"{long}"}}],"isError":true}}}}"#);
        assert_eq!(about(&answer(4, &call, &body)), "add  tool error 3.7 MB");
    }

    proptest! {
        #[test]
        fn summaries_of_any_message_are_safe_and_short(
            text in "\\PC{0,8}|[\u{0}-\u{9f}]{0,8}",
            which in 0..ASKED.len(),
            cut in 0..200_usize,
        ) {
            let (method, params, _) = ASKED[which];
            let quoted = serde_json::to_string(&text).unwrap();
            let params = params.replace("\"Quito\"", &quoted).replace("\"half\"", &quoted).replace("\"t1\"", &quoted);
            let params = if params.is_empty() { "1" } else { &params };
            let mut asked = message(1, &format!(r#"{{"id":1,"method":"{method}","params":{params}}}"#));
            // An envelope that does not fit the text must do no harm either.
            asked.raw = asked.raw[..cut.max(1).min(asked.raw.len())].to_vec().into();
            for kind in [Kind::Request, Kind::Response, Kind::Error, Kind::Invalid] {
                let tool = Some(text.as_str().into());
                let words = about(&Message { kind, tool, ..asked.clone() });
                prop_assert!(width(&words) <= ROOM);
                prop_assert_eq!(visible(&words), words.as_str());
            }
        }
    }
}
