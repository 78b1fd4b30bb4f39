//! Archives of HTTP (HAR 1.2), as browsers, proxies and mcptap itself write them.
//!
//! Each entry becomes a connection of its own with one exchange over HTTP/1.1. The content of an
//! entry has no coding any more, so the fields that describe the framing are written anew.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use super::{ImportBuilder, time_of_text};
use crate::capture::Time;

/// The fields of the framing, which describe bytes that an archive does not have.
const FRAMING: [&str; 5] = ["content-length", "transfer-encoding", "content-encoding", "connection", "keep-alive"];

/// Events of a stream that get a time each. Further ones arrive with the last: an event of two
/// bytes would become a packet.
const EVENTS: usize = 100_000;

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
    #[serde(default, rename = "serverIPAddress")]
    server_ip_address: Option<String>,
    #[serde(default, rename = "_webSocketMessages")]
    websocket_messages: Option<serde::de::IgnoredAny>,
}

/// Milliseconds. Unknown ones are negative.
#[derive(Default, Deserialize)]
struct Timings {
    #[serde(default)]
    send: Option<f64>,
    #[serde(default)]
    wait: Option<f64>,
    #[serde(default)]
    receive: Option<f64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    method: String,
    url: String,
    #[serde(default)]
    headers: Vec<HeaderField>,
    #[serde(default)]
    post_data: Option<Content>,
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
    #[serde(default, alias = "_encoding")]
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
    let mut client_port = 49_151;
    let (mut line, mut counted_to) = (1, 0);
    loop {
        at += text[at..].len() - text[at..].trim_start_matches([' ', '\t', '\r', '\n', ',']).len();
        line += memchr::memchr_iter(b'\n', &text.as_bytes()[counted_to..at]).count();
        counted_to = at;
        if text[at..].starts_with(']') || builder.is_full(at as u64, line) {
            return;
        }
        let mut values =
            serde_json::Deserializer::from_str(&text[at..]).into_iter::<Box<serde_json::value::RawValue>>();
        let value = match values.next() {
            Some(Ok(value)) => value,
            Some(Err(error)) => return builder.damaged(at as u64, line + error.line() - 1, &error.to_string()),
            None => return builder.damaged(at as u64, line, "the list of entries has no end"),
        };
        match serde_json::from_str::<Entry>(value.get()) {
            Ok(entry) => {
                client_port = if client_port == u16::MAX { 49_152 } else { client_port + 1 };
                if entry.websocket_messages.is_some() {
                    builder.damaged(at as u64, line, "the messages of a WebSocket are not read from archives");
                }
                add(&entry, client_port, builder);
            }
            Err(error) => builder.damaged(at as u64, line, &format!("this is no entry: {error}")),
        }
        at += values.byte_offset();
    }
}

fn add(entry: &Entry, client_port: u16, builder: &mut ImportBuilder) {
    let Entry { request, response, .. } = entry;
    let started = builder.date(time_of_text(&entry.started_date_time));
    let nanoseconds = |milliseconds: Option<f64>| (milliseconds.unwrap_or(0.0).max(0.0) * 1e6) as i64;
    let sent = started.plus(nanoseconds(entry.timings.send));
    let begins = sent.plus(nanoseconds(entry.timings.wait));
    let mut ends = begins.plus(nanoseconds(entry.timings.receive));
    if ends == started {
        ends = started.plus(nanoseconds(Some(entry.time)));
    }
    let (host, target) = split(&request.url);
    let line = format!("{} {target} HTTP/1.1", request.method);
    let body = request.post_data.as_ref().map(Content::bytes).unwrap_or_default();
    let has_body = !body.is_empty() || matches!(request.method.as_str(), "POST" | "PUT" | "PATCH");
    let head = head(&line, &request.headers, Some(host), has_body.then_some(body.len()));
    let mut pieces: Vec<(Time, bool, Vec<u8>)> = vec![(started, true, head), (sent, true, body)];
    if (100..=999).contains(&response.status) {
        let line = format!("HTTP/1.1 {} {}", response.status, response.status_text);
        let body = response.content.bytes();
        let has_body = !matches!(response.status, 100..=199 | 204 | 304) && request.method != "HEAD";
        let body = if has_body { body } else { Vec::new() };
        pieces.push((begins, false, self::head(&line, &response.headers, None, has_body.then_some(body.len()))));
        let is_stream = response.content.mime_type.starts_with("text/event-stream");
        pieces.extend(dated(body, is_stream, begins, ends).map(|(time, piece)| (time, false, piece)));
    }
    let address = entry.server_ip_address.as_deref().and_then(|ip| ip.trim_matches(['[', ']']).parse().ok());
    let address: IpAddr = address.unwrap_or(Ipv4Addr::LOCALHOST.into());
    let server = SocketAddr::new(address, port(&request.url));
    let client = match address {
        IpAddr::V4(_) => SocketAddr::new(Ipv4Addr::LOCALHOST.into(), client_port),
        IpAddr::V6(_) => SocketAddr::new(std::net::Ipv6Addr::LOCALHOST.into(), client_port),
    };
    builder.exchange([client, server], &pieces);
}

/// The pieces of a body with their times. An archive has no times of events: the first has that of
/// the start, the last that of the end, and the others are spread between. So what a server asks in
/// a stream precedes the answer.
fn dated(body: Vec<u8>, is_stream: bool, begins: Time, ends: Time) -> impl Iterator<Item = (Time, Vec<u8>)> {
    let mut pieces = Vec::new();
    let mut start = 0;
    for end in memchr::memmem::find_iter(&body, b"\n\n").map(|at| at + 2).filter(|_| is_stream).take(EVENTS) {
        pieces.push(body[start..end].to_vec());
        start = end;
    }
    if start < body.len() {
        pieces.push(body[start..].to_vec());
    }
    let last = pieces.len().saturating_sub(1) as i64;
    let time = move |index: i64| match last {
        0 => ends,
        _ => begins.plus((i128::from(ends.since(begins)) * i128::from(index) / i128::from(last)) as i64),
    };
    (0..).zip(pieces).map(move |(index, piece)| (time(index), piece))
}

/// The bytes of a head. `length` is that of the body, if there may be one.
fn head(line: &str, fields: &[HeaderField], host: Option<&str>, length: Option<usize>) -> Vec<u8> {
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
    if let Some(length) = length {
        text += &format!("Content-Length: {length}\r\n");
    }
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
