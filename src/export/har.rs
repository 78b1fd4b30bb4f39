//! HAR 1.2, the HTTP archive that network panels of browsers and proxies read
//! (<http://www.softwareishard.com/blog/har-12-spec/>): every HTTP exchange of the sessions, MCP or not.
//!
//! What the format has no place for stands in `_mcp`, as it allows: "Custom fields and elements MUST start with an underscore". One
//! exchange is held at a time.

mod body;
mod index;

use std::collections::HashSet;
use std::io::{self, Write};
use std::net::SocketAddr;

use anyhow::Result;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::json::{Object, write_string};
use crate::capture::Time;
use crate::decode::exchange::{Exchange, ExchangeNumber, Half};
use crate::decode::{ConnectionId, Direction, Side, uri};
use crate::event::{Connection, ConnectionKind};
use crate::mcp::{Session, SessionNumber};
use crate::store::{CaptureId, Page, RowKey, Scope, StoreReader};

use body::{Bodies, Content};
use index::Index;

/// An archive that is being written.
pub struct Har<'a> {
    out: &'a mut dyn Write,
    reader: &'a StoreReader,
    /// The capture that is being written.
    index: Option<Index>,
    /// Its connections of which exchanges without messages were written: sessions may share one.
    written: HashSet<ConnectionId>,
    line: Vec<u8>,
    is_first: bool,
}

/// What an exchange is for MCP.
#[derive(Debug, Default)]
struct Spoken {
    session: SessionNumber,
    messages: Vec<u64>,
    method: Option<String>,
    findings: Vec<String>,
}

impl<'a> Har<'a> {
    /// Begins an archive.
    ///
    /// # Errors
    /// It cannot be written; so for all that follow.
    pub fn new(reader: &'a StoreReader, out: &'a mut dyn Write) -> io::Result<Har<'a>> {
        let version = env!("CARGO_PKG_VERSION");
        let creator = format!(r#"{{"name":"mcptap","version":"{version}"}}"#);
        write!(out, r#"{{"log":{{"version":"1.2","creator":{creator},"entries":["#)?;
        Ok(Har { out, reader, index: None, written: HashSet::new(), line: Vec::new(), is_first: true })
    }

    /// Ends it.
    pub fn finish(self) -> io::Result<()> {
        self.out.write_all(b"\n]}}\n")
    }

    /// The exchanges of a session that are `wanted`: those that carried messages of it, and those on its connections that carried none of
    /// any session, once.
    ///
    /// # Errors
    /// As above, or the store cannot be read.
    pub fn session(&mut self, session: &Session, wanted: &dyn Fn(ExchangeNumber) -> bool) -> Result<()> {
        let Some(capture) = self.reader.capture_of(session.number)? else { return Ok(()) };
        let index = match self.index.take().filter(|index| index.capture == capture) {
            Some(index) => index,
            None => {
                self.written.clear();
                Index::read(self.reader, capture)?
            }
        };
        let mut bodies = Bodies::new(self.reader, &index);
        let mut connection = None;
        for exchange in self.reader.all_exchanges(session.number) {
            let exchange = &exchange?;
            if !wanted(exchange.number) {
                continue;
            }
            let spoken = index.messages(exchange.number);
            let is_own = match spoken {
                [] => !self.written.contains(&exchange.connection),
                some => some.iter().any(|(_, _, number)| *number == session.number),
            };
            if !is_own {
                continue;
            }
            if connection.as_ref().is_none_or(|known: &Connection| known.id != exchange.connection) {
                connection = self.reader.connection(capture, exchange.connection)?;
            }
            let spoken = self.spoken(capture, session.number, spoken)?;
            let connection = connection.as_ref();
            let side = connection.and_then(|connection| connection.client).unwrap_or(Side::First);
            let request = bodies.read(exchange, Direction::ClientToServer, side)?;
            let response = bodies.read(exchange, Direction::ServerToClient, side.other())?;
            self.line.clear();
            let url = url(exchange, connection, index.spoke_https);
            write_entry(&mut self.line, exchange, (&url, connection), [&request, &response], &spoken);
            self.out.write_all(if self.is_first { b"\n" } else { b",\n" })?;
            self.is_first = false;
            self.out.write_all(&self.line)?;
        }
        self.written.extend(&session.connections);
        self.index = Some(index);
        Ok(())
    }

    fn spoken(&self, capture: CaptureId, session: SessionNumber, carried: &[index::Carried]) -> Result<Spoken> {
        let mut spoken = Spoken { session, ..Spoken::default() };
        for (_, message, _) in carried {
            spoken.messages.push(message.0);
            let key = RowKey::new(capture, message.0);
            let Some(row) = self.reader.message_rows(Scope::Capture(capture), Page::from(key, 1))?.pop() else {
                continue;
            };
            spoken.method = spoken.method.or(row.method);
            if row.findings > 0 {
                let rules = self.reader.message_findings(key)?.into_iter().map(|finding| finding.rule);
                spoken.findings.extend(rules);
            }
        }
        spoken.findings.sort_unstable();
        spoken.findings.dedup();
        Ok(spoken)
    }
}

/// Writes an entry: request, response, and the times between their bytes.
fn write_entry(
    out: &mut Vec<u8>,
    exchange: &Exchange,
    (url, connection): (&str, Option<&Connection>),
    bodies: [&Content; 2],
    spoken: &Spoken,
) {
    let Exchange { request, response, .. } = exchange;
    let mut entry = Object::inside(out);
    let started = request.started.or(response.started).unwrap_or_default();
    entry.time("startedDateTime", started);
    let send = between(request.started, request.ended);
    let wait = between(request.ended.or(request.started), response.started);
    let receive = between(response.started, response.ended);
    entry.float("time", milliseconds(send + wait + receive));
    entry.object("request", |object| write_request(object, exchange, url, bodies[0]));
    entry.object("response", |object| write_response(object, exchange, bodies[1]));
    entry.object("cache", |_| {});
    entry.object("timings", |timings| {
        for unknown in ["blocked", "dns", "connect", "ssl"] {
            timings.signed(unknown, -1);
        }
        for (name, time) in [("send", send), ("wait", wait), ("receive", receive)] {
            timings.float(name, milliseconds(time));
        }
    });
    if let Some(address) = connection.and_then(server) {
        entry.display("serverIPAddress", &address.ip());
    }
    entry.display("connection", &exchange.connection.0);
    entry.object("_mcp", |object| {
        object.number("session", spoken.session.0);
        object.number("exchange", exchange.number.0);
        object.numbers("messages", spoken.messages.iter().copied());
        object.maybe(&spoken.method, |object, method| object.text("method", method));
        object.array("findings", &spoken.findings, |out, rule| write_string(out, rule));
        object.maybe(&exchange.h2_stream, |object, stream| object.number("h2Stream", *stream));
        object.truth("complete", request.complete && response.complete);
    });
    entry.end();
}

/// Nanoseconds. "The send, wait and receive timings are not optional and must have non-negative values": an answer may come before its
/// question is over.
fn between(from: Option<Time>, to: Option<Time>) -> i64 {
    from.zip(to).map_or(0, |(from, to)| to.since(from).max(0))
}

fn milliseconds(nanoseconds: i64) -> f64 {
    nanoseconds as f64 / 1e6
}

/// The address of the server.
fn server(connection: &Connection) -> Option<SocketAddr> {
    let ConnectionKind::Tcp(facts) = &connection.kind else { return None };
    let side = connection.client.unwrap_or(Side::First).other();
    Some(facts.endpoints[side.index()])
}

fn write_request(request: &mut Object<'_>, exchange: &Exchange, url: &str, body: &Content) {
    let query = url.split_once('?').map(|(_, query)| query.split('#').next().unwrap_or_default());
    request.text("method", exchange.method.as_deref().unwrap_or_default());
    request.text("url", url);
    write_head(request, exchange, &exchange.request);
    let pairs = query.into_iter().flat_map(|query| query.split('&')).filter(|pair| !pair.is_empty());
    let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    request.array("queryString", pairs, write_pair);
    if !body.bytes.is_empty() {
        request.object("postData", |data| {
            data.text("mimeType", exchange.request.fields.get("content-type").unwrap_or_default());
            data.array("params", [], write_pair);
            // The format has no encoding here.
            write_text(data, "_encoding", &body.bytes);
            data.maybe(&body.note, |data, note| data.text("comment", note));
        });
    }
    write_sizes(request, &exchange.request, body);
    if exchange.method.is_none() {
        request.text("comment", "the request was not captured");
    } else if body.bytes.is_empty() {
        request.maybe(&body.note, |request, note| request.text("comment", note));
    }
}

fn write_response(response: &mut Object<'_>, exchange: &Exchange, body: &Content) {
    let half = &exchange.response;
    response.number("status", exchange.status.unwrap_or(0));
    response.text("statusText", exchange.reason.as_deref().unwrap_or_default());
    write_head(response, exchange, half);
    response.object("content", |content| {
        content.number("size", half.body_bytes);
        content.text("mimeType", half.fields.get("content-type").unwrap_or_default());
        write_text(content, "encoding", &body.bytes);
        content.maybe(&body.note, |content, note| content.text("comment", note));
    });
    response.text("redirectURL", half.fields.get("location").unwrap_or_default());
    write_sizes(response, half, body);
    if exchange.status.is_none() {
        response.text("comment", "no response was captured");
    }
}

/// What both have. Cookies are not taken apart: they are secrets, masked in their fields.
fn write_head(object: &mut Object<'_>, exchange: &Exchange, half: &Half) {
    object.text("httpVersion", &format!("HTTP/{}", exchange.http_version));
    object.array("cookies", [], write_pair);
    object.array("headers", half.fields.iter(), write_pair);
}

/// Bytes as transmitted, of HTTP/2 as it packs them; -1 where unknown.
fn write_sizes(object: &mut Object<'_>, half: &Half, body: &Content) {
    let head = half.head_end.checked_sub(half.head_start).filter(|length| *length > 0);
    let size = |size: Option<u64>| size.and_then(|size| i64::try_from(size).ok()).unwrap_or(-1);
    object.signed("headersSize", size(head));
    object.signed("bodySize", size(body.sent));
}

fn write_pair(out: &mut Vec<u8>, (name, value): (&str, &str)) {
    let mut pair = Object::inside(out);
    pair.text("name", name);
    pair.text("value", value);
    pair.end();
}

/// A body as text, or in base64 where it is none.
fn write_text(object: &mut Object<'_>, encoding: &'static str, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => object.text("text", text),
        Err(_) => {
            object.word("text", &STANDARD.encode(bytes));
            object.word(encoding, "base64");
        }
    }
}

/// The absolute URL of the request.
fn url(exchange: &Exchange, connection: Option<&Connection>, spoke_https: bool) -> String {
    let target = exchange.target.as_deref().unwrap_or("/");
    if uri::split_scheme(target).is_some() {
        return target.to_owned();
    }
    let fields = &exchange.request.fields;
    let address = connection.and_then(server);
    // What others recorded above TLS shows none: its port nearly always tells.
    let is_secret = spoke_https
        || connection.is_some_and(|connection| !connection.tls.is_empty())
        || fields.get(":scheme") == Some("https")
        || address.is_some_and(|address| address.port() == 443);
    let scheme = if is_secret { "https" } else { "http" };
    if exchange.method.as_deref() == Some("CONNECT") {
        return format!("{scheme}://{target}");
    }
    let host = fields.get(":authority").or(fields.get("host")).map(str::to_owned);
    let host = host.or_else(|| connection?.host.clone()).or_else(|| Some(address?.to_string()));
    let slash = if target.starts_with('/') { "" } else { "/" };
    format!("{scheme}://{}{slash}{target}", host.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn entry(exchange: &Exchange, bodies: [&Content; 2]) -> Value {
        let mut line = Vec::new();
        write_entry(&mut line, exchange, ("http://h/", None), bodies, &Spoken::default());
        serde_json::from_slice(&line).expect("an entry is JSON")
    }

    #[test]
    fn what_is_no_text_is_base64_on_both_sides() {
        let binary = Content { bytes: b"\xff\0".to_vec(), sent: Some(2), note: None };
        let written = entry(&Exchange::default(), [&binary, &binary]);
        assert_eq!(
            (&written["request"]["postData"]["text"], &written["request"]["postData"]["_encoding"]),
            (&json!("/wA="), &json!("base64"))
        );
        let content = &written["response"]["content"];
        assert_eq!((&content["text"], &content["encoding"]), (&json!("/wA="), &json!("base64")));
    }

    #[test]
    fn what_was_not_captured_is_said_and_every_member_is_there() {
        let written = entry(&Exchange::default(), [&Content::default(), &Content::default()]);
        assert_eq!(written["request"]["comment"], "the request was not captured");
        assert_eq!((&written["response"]["status"], &written["response"]["bodySize"]), (&json!(0), &json!(-1)));
        assert_eq!(written["timings"]["wait"], 0);
    }

    #[test]
    fn a_url_is_absolute_whatever_the_target_is() {
        let of = |method: &str, target: &str, https: bool| {
            let request = Half { fields: [("Host", "h:1")].into_iter().collect(), ..Half::default() };
            let (method, target) = (Some(method.to_owned()), Some(target.to_owned()));
            url(&Exchange { method, target, request, ..Exchange::default() }, None, https)
        };
        assert_eq!(of("GET", "/a?b", false), "http://h:1/a?b");
        assert_eq!(of("GET", "/a", true), "https://h:1/a");
        assert_eq!(of("GET", "http://other/a", false), "http://other/a");
        assert_eq!(of("CONNECT", "other:443", false), "http://other:443");
        assert_eq!(of("OPTIONS", "*", false), "http://h:1/*");
    }
}
