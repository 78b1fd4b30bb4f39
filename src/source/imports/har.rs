//! Archives of HTTP (HAR 1.2), as browsers, proxies and mcptap itself write them.
//!
//! ```text
//!  entry ─┬─► head and body ───────┬─► pieces with times ─► connections ─► packets
//!         ├─► events    (events) ──┤
//!         └─► messages (websocket) ┘
//! ```
//!
//! Each entry becomes an exchange over HTTP/1.1. The content of an entry has no coding any more, so
//! the fields that describe the framing are written anew.

mod connections;
mod events;
mod websocket;

use std::net::{Ipv4Addr, SocketAddr};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use self::connections::MadeConnections;
use super::{ImportBuilder, time_of_text};
use crate::capture::Time;

/// Events of a stream, or messages of a WebSocket, that become packets of their own: one of two
/// bytes takes as much memory as a packet.
const PIECES: usize = 100_000;

/// Bytes that one side sends at a time. The flag marks those of the client.
type SentPiece = (Time, bool, Vec<u8>);

/// The fields of the framing, which describe bytes that an archive does not have.
const FRAMING: [&str; 7] = [
    "content-length",
    "transfer-encoding",
    "content-encoding",
    "connection",
    "keep-alive",
    "upgrade",
    "sec-websocket-extensions",
];

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    started_date_time: String,
    #[serde(default)]
    timings: Timings,
    #[serde(default)]
    time: f64,
    request: Request,
    response: Response,
    #[serde(rename = "serverIPAddress")]
    server_ip_address: Option<String>,
    /// The name of the connection. Entries with the same one can share it.
    connection: Option<String>,
    #[serde(rename = "_webSocketMessages")]
    websocket_messages: Option<Vec<websocket::WebSocketMessage>>,
    #[serde(default, rename = "_mcp")]
    mcp: ArchiveFacts,
}

/// Facts that only archives of mcptap have.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ArchiveFacts {
    /// Whether both bodies were captured.
    complete: bool,
    /// The times of the server-sent events with texts, in milliseconds after the start.
    event_times: Vec<f64>,
}

impl Default for ArchiveFacts {
    fn default() -> ArchiveFacts {
        ArchiveFacts { complete: true, event_times: Vec::new() }
    }
}

/// Milliseconds. Unknown ones are negative.
#[derive(Default, Deserialize)]
struct Timings {
    send: Option<f64>,
    wait: Option<f64>,
    receive: Option<f64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    method: String,
    url: String,
    #[serde(default)]
    headers: Vec<HeaderField>,
    post_data: Option<Content>,
    /// Negative if it is unknown.
    #[serde(default)]
    body_size: i64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Response {
    status: i64,
    #[serde(default)]
    status_text: String,
    #[serde(default)]
    headers: Vec<HeaderField>,
    #[serde(default)]
    content: Content,
    #[serde(default)]
    body_size: i64,
}

#[derive(Deserialize)]
struct HeaderField {
    name: String,
    value: String,
}

#[derive(Default, Deserialize)]
struct Content {
    #[serde(default)]
    text: String,
    #[serde(alias = "_encoding")]
    encoding: Option<String>,
    #[serde(default, rename = "mimeType")]
    mime_type: String,
}

impl Content {
    fn bytes(&self) -> Vec<u8> {
        match self.encoding.as_deref() {
            Some("base64") => STANDARD.decode(&self.text).unwrap_or_else(|_| self.text.clone().into_bytes()),
            _ => self.text.clone().into_bytes(),
        }
    }
}

/// Whether a file that begins so is an archive.
pub(super) fn recognises(start: &str) -> bool {
    start.starts_with('{') && start.contains("\"log\"") && start.contains("\"entries\"")
}

/// Reads the entries. One that is damaged is named. If its end is known, reading goes on there.
pub(super) fn read(text: &str, builder: &mut ImportBuilder) {
    let list = text.find("\"entries\"").and_then(|at| Some(at + text[at..].find('[')? + 1));
    let Some(mut at) = list else { return };
    let mut connections = MadeConnections::default();
    let (mut line, mut counted_to) = (1, 0);
    loop {
        at += text[at..].len() - text[at..].trim_start_matches([' ', '\t', '\r', '\n', ',']).len();
        line += memchr::memchr_iter(b'\n', &text.as_bytes()[counted_to..at]).count();
        counted_to = at;
        if text[at..].starts_with(']') || builder.is_full(at as u64, line) {
            break;
        }
        let mut values =
            serde_json::Deserializer::from_str(&text[at..]).into_iter::<Box<serde_json::value::RawValue>>();
        let value = match values.next() {
            Some(Ok(value)) => value,
            Some(Err(error)) => {
                builder.damaged(at as u64, line + error.line() - 1, &error.to_string());
                break;
            }
            None => {
                builder.damaged(at as u64, line, "the list of entries has no end");
                break;
            }
        };
        match serde_json::from_str::<Entry>(value.get()) {
            Ok(entry) => {
                if entry.websocket_messages.as_ref().is_some_and(|messages| messages.len() > PIECES) {
                    let text = format!("only the first {PIECES} messages of the WebSocket are read");
                    builder.damaged(at as u64, line, &text);
                }
                add(&entry, &mut connections, builder);
            }
            Err(error) => builder.damaged(at as u64, line, &format!("this is no entry: {error}")),
        }
        at += values.byte_offset();
    }
    connections.close(builder);
}

fn add(entry: &Entry, connections: &mut MadeConnections, builder: &mut ImportBuilder) {
    let Entry { request, response, .. } = entry;
    let started = builder.date(time_of_text(&entry.started_date_time));
    let after = |time: Time, milliseconds: Option<f64>| plus_milliseconds(time, milliseconds.unwrap_or(0.0).max(0.0));
    let sent = after(started, entry.timings.send);
    let begins = after(sent, entry.timings.wait);
    let mut ends = after(begins, entry.timings.receive);
    if ends == started {
        ends = after(started, Some(entry.time));
    }
    let mut pieces = Vec::new();
    // What was not captured to its end gets no end here either.
    let has_end = |size: i64| entry.mcp.complete || size >= 0;
    let mut is_whole = false;
    // Without messages, it may be a handshake that was refused: an ordinary exchange.
    let is_open = response.status == 101 || request.method == "CONNECT" && (200..300).contains(&response.status);
    if let Some(messages) = entry.websocket_messages.as_ref().filter(|messages| is_open || !messages.is_empty()) {
        websocket::exchange(entry, messages, started, &mut pieces);
    } else {
        let (host, target) = split(&request.url);
        let line = format!("{} {target} HTTP/1.1", request.method);
        let body = request.post_data.as_ref().map(Content::bytes).unwrap_or_default();
        let has_body = !body.is_empty() || matches!(request.method.as_str(), "POST" | "PUT" | "PATCH");
        let framing = Framing::new(has_body, has_end(request.body_size), body.len());
        pieces.push((started, true, head(&line, &request.headers, Some(host), &framing)));
        pieces.push((sent, true, framing.framed(body)));
        if (100..=999).contains(&response.status) {
            let line = format!("HTTP/1.1 {} {}", response.status, response.status_text);
            let has_body = !matches!(response.status, 100..=199 | 204 | 304) && request.method != "HEAD";
            let body = if has_body { response.content.bytes() } else { Vec::new() };
            let framing = Framing::new(has_body, has_end(response.body_size), body.len());
            pieces.push((begins, false, head(&line, &response.headers, None, &framing)));
            let parts = match response.content.mime_type.starts_with("text/event-stream") {
                true => events::dated(&body, &entry.mcp.event_times, [started, begins, ends]),
                false => vec![(ends, body)],
            };
            pieces.extend(parts.into_iter().map(|(time, part)| (time, false, framing.framed(part))));
            is_whole = has_end(request.body_size) && has_end(response.body_size);
        }
    }
    let address = entry.server_ip_address.as_deref().and_then(|ip| ip.trim_matches(['[', ']']).parse().ok());
    let server = SocketAddr::new(address.unwrap_or(Ipv4Addr::LOCALHOST.into()), port(&request.url));
    // Nothing follows an exchange without an end, an interim response, or a tunnel.
    let is_last = !is_whole || response.status < 200 || request.method == "CONNECT";
    let connection = entry.connection.as_deref().filter(|name| !name.is_empty());
    connections.exchange(connection, server, &pieces, is_last, builder);
}

fn plus_milliseconds(time: Time, milliseconds: f64) -> Time {
    time.plus((milliseconds * 1e6).round() as i64)
}

/// How a body is framed.
enum Framing {
    None,
    Length(usize),
    /// In chunks without a last one, so that its end is missing.
    Endless,
    /// No body: the messages of a WebSocket follow.
    WebSocket,
}

impl Framing {
    fn new(has_body: bool, has_end: bool, length: usize) -> Framing {
        match (has_body, has_end) {
            (true, true) => Framing::Length(length),
            (true, false) => Framing::Endless,
            (false, _) => Framing::None,
        }
    }

    fn field(&self) -> String {
        match self {
            Framing::None => String::new(),
            Framing::Length(length) => format!("Content-Length: {length}\r\n"),
            Framing::Endless => "Transfer-Encoding: chunked\r\n".to_owned(),
            Framing::WebSocket => "Connection: Upgrade\r\nUpgrade: websocket\r\n".to_owned(),
        }
    }

    /// A part of the body.
    fn framed(&self, part: Vec<u8>) -> Vec<u8> {
        match self {
            Framing::Endless if !part.is_empty() => {
                [format!("{:x}\r\n", part.len()).as_bytes(), &part, b"\r\n"].concat()
            }
            _ => part,
        }
    }
}

/// The bytes of a head.
fn head(line: &str, fields: &[HeaderField], host: Option<&str>, framing: &Framing) -> Vec<u8> {
    // A line end in a value would begin another field.
    let without_ends = |text: &str| text.replace(['\r', '\n'], " ");
    let mut text = without_ends(line) + "\r\n";
    let is_named = |name: &str| fields.iter().any(|field| field.name.eq_ignore_ascii_case(name));
    if let Some(host) = host.filter(|_| !is_named("host")) {
        text += &format!("Host: {}\r\n", without_ends(host));
    }
    for HeaderField { name, value } in fields {
        // Pseudo-fields of HTTP/2 are in the line.
        let is_plain = !name.is_empty() && !name.contains([':', '\r', '\n', ' ']);
        if is_plain && !FRAMING.contains(&name.to_ascii_lowercase().as_str()) {
            text += &format!("{name}: {}\r\n", without_ends(value));
        }
    }
    text += &framing.field();
    text += "\r\n";
    text.into_bytes()
}

/// The host with its port, and the target of a request, without blanks.
fn split(url: &str) -> (&str, String) {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let target = rest[end..].split('#').next().unwrap_or_default().replace([' ', '\r', '\n'], "%20");
    let slash = if target.starts_with('/') { "" } else { "/" };
    (&rest[..end], format!("{slash}{target}"))
}

fn port(url: &str) -> u16 {
    let is_tls = url.starts_with("https:") || url.starts_with("wss:");
    let named = split(url).0.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
    named.unwrap_or(if is_tls { 443 } else { 80 })
}
