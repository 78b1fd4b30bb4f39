//! HAR 1.2, the HTTP archive that the network panels of browsers and proxies read
//! (<http://www.softwareishard.com/blog/har-12-spec/>).
//!
//! It contains every HTTP exchange of the sessions, with and without messages. Facts that the
//! format has no member for are in `_mcp`: "Custom fields and elements MUST start with an
//! underscore". Only one exchange is in memory at a time.

mod body;
mod exchange_map;
mod websocket;

use std::io::{self, Write};
use std::net::SocketAddr;

use anyhow::Result;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::json::{Object, write_string};
use crate::capture::Time;
use crate::decode::exchange::{Exchange, ExchangeNumber, Half};
use crate::decode::{Direction, Side, uri};
use crate::event::{Connection, ConnectionKind};
use crate::mcp::{Carrier, Session, SessionNumber};
use crate::store::{CaptureId, RowKey, StoreReader};

use body::{Bodies, DecodedBody};
use exchange_map::ExchangeMap;

/// Writes an archive.
pub struct Har<'a> {
    out: &'a mut dyn Write,
    reader: &'a StoreReader,
    /// The exchanges of the capture that is being written.
    exchanges: Option<ExchangeMap>,
    line: Vec<u8>,
    is_first: bool,
}

/// The MCP messages of an exchange.
#[derive(Debug, Default)]
struct McpContent {
    session: SessionNumber,
    messages: Vec<u64>,
    method: Option<String>,
    findings: Vec<String>,
    /// The times of the server-sent events with messages.
    events: Vec<Time>,
    /// Whether a WebSocket carried them.
    is_websocket: bool,
    /// Whether its directions were captured with different clocks.
    has_two_clocks: bool,
}

impl<'a> Har<'a> {
    /// Begins an archive.
    pub fn new(reader: &'a StoreReader, out: &'a mut dyn Write) -> io::Result<Har<'a>> {
        let version = env!("CARGO_PKG_VERSION");
        let creator = format!(r#"{{"name":"mcptap","version":"{version}"}}"#);
        write!(out, r#"{{"log":{{"version":"1.2","creator":{creator},"entries":["#)?;
        Ok(Har { out, reader, exchanges: None, line: Vec::new(), is_first: true })
    }

    /// Ends the archive.
    pub fn finish(self) -> io::Result<()> {
        self.out.write_all(b"\n]}}\n")
    }

    /// Writes the `wanted` exchanges of a session, with and without messages.
    pub fn session(&mut self, session: &Session, wanted: &dyn Fn(ExchangeNumber) -> bool) -> Result<()> {
        let Some(capture) = self.reader.capture_of(session.number)? else { return Ok(()) };
        let exchanges = match self.exchanges.take().filter(|exchanges| exchanges.capture == capture) {
            Some(exchanges) => exchanges,
            None => ExchangeMap::read(self.reader, capture)?,
        };
        let mut bodies = Bodies::new(self.reader, &exchanges);
        let mut connection = None;
        for exchange in self.reader.all_exchanges(session.number) {
            let exchange = &exchange?;
            if !wanted(exchange.number) {
                continue;
            }
            let carried = exchanges.messages(exchange.number);
            if connection.as_ref().is_none_or(|known: &Connection| known.id != exchange.connection) {
                connection = self.reader.connection(capture, exchange.connection)?;
            }
            let mcp = self.mcp_content(capture, session.number, carried)?;
            let connection = connection.as_ref();
            let side = connection.and_then(|connection| connection.client).unwrap_or(Side::First);
            let request = bodies.read(exchange, Direction::ClientToServer, side)?;
            let response = bodies.read(exchange, Direction::ServerToClient, side.other())?;
            self.line.clear();
            let url = url(exchange, connection, exchanges.recorded_https);
            write_entry(&mut self.line, exchange, (&url, connection), [&request, &response], &mcp);
            self.out.write_all(if self.is_first { b"\n" } else { b",\n" })?;
            self.is_first = false;
            self.out.write_all(&self.line)?;
            if mcp.is_websocket {
                websocket::write(self.out, self.reader, capture, carried)?;
            }
            self.out.write_all(b"}")?;
        }
        self.exchanges = Some(exchanges);
        Ok(())
    }

    fn mcp_content(
        &self,
        capture: CaptureId,
        session: SessionNumber,
        carried: &[exchange_map::ExchangeMessage],
    ) -> Result<McpContent> {
        let mut mcp = McpContent { session, ..McpContent::default() };
        for (_, message) in carried {
            mcp.messages.push(message.0);
            let key = RowKey::new(capture, message.0);
            let Some(row) = self.reader.message_row(key)? else { continue };
            mcp.has_two_clocks |= row.is_paired() && row.latency.is_none();
            mcp.is_websocket |= row.carrier == Carrier::WebSocket;
            // The members of a batch share an event.
            if row.carrier == Carrier::SseEvent && row.batch.is_none_or(|(_, index)| index == 0) {
                mcp.events.push(row.time);
            }
            mcp.method = mcp.method.or(row.method);
            if row.findings > 0 {
                let rules = self.reader.message_findings(key)?.into_iter().map(|finding| finding.rule);
                mcp.findings.extend(rules);
            }
        }
        mcp.findings.sort_unstable();
        mcp.findings.dedup();
        Ok(mcp)
    }
}

/// Writes an entry without its end: the request, the response, and the times between their bytes.
fn write_entry(
    out: &mut Vec<u8>,
    exchange: &Exchange,
    (url, connection): (&str, Option<&Connection>),
    bodies: [&DecodedBody; 2],
    mcp: &McpContent,
) {
    let Exchange { request, response, .. } = exchange;
    let mut entry = Object::inside(out);
    let started = request.started.or(response.started).unwrap_or_default();
    entry.time("startedDateTime", started);
    let send = between(request.started, request.ended);
    let asked = request.ended.or(request.started);
    let wait = if mcp.has_two_clocks { 0 } else { between(asked, response.started) };
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
        if mcp.has_two_clocks {
            timings.text("comment", "wait is unknown: requests and responses were captured with different clocks");
        }
    });
    if let Some(address) = connection.and_then(server) {
        entry.display("serverIPAddress", &address.ip());
    }
    entry.display("connection", &exchange.connection.0);
    entry.object("_mcp", |object| {
        object.number("session", mcp.session.0);
        object.number("exchange", exchange.number.0);
        object.numbers("messages", mcp.messages.iter().copied());
        object.maybe(&mcp.method, |object, method| object.text("method", method));
        object.array("findings", &mcp.findings, |out, rule| write_string(out, rule));
        object.maybe(&exchange.h2_stream, |object, stream| object.number("h2Stream", *stream));
        object.truth("complete", request.complete && response.complete);
        if !mcp.events.is_empty() {
            let times = mcp.events.iter().map(|time| milliseconds(time.since(started)));
            object.array("eventTimes", times, |out, time| out.extend_from_slice(time.to_string().as_bytes()));
        }
    });
}

/// The nanoseconds between two times, at least 0: "The send, wait and receive timings are not
/// optional and must have non-negative values". A response may begin before its request ends.
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

fn write_request(request: &mut Object<'_>, exchange: &Exchange, url: &str, body: &DecodedBody) {
    let query = url.split_once('?').map(|(_, query)| query.split('#').next().unwrap_or_default());
    request.text("method", exchange.method.as_deref().unwrap_or_default());
    request.text("url", url);
    write_head(request, exchange, &exchange.request);
    let pairs = query.into_iter().flat_map(|query| query.split('&')).filter(|pair| !pair.is_empty());
    let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    request.objects("queryString", pairs, write_pair);
    if !body.bytes.is_empty() {
        request.object("postData", |data| {
            data.text("mimeType", exchange.request.fields.get("content-type").unwrap_or_default());
            data.objects("params", [], write_pair);
            // HAR defines `encoding` for the content of a response only.
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

fn write_response(response: &mut Object<'_>, exchange: &Exchange, body: &DecodedBody) {
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

/// Writes the members that requests and responses share. The list of cookies is empty: cookies are
/// secrets, masked in the header fields.
fn write_head(object: &mut Object<'_>, exchange: &Exchange, half: &Half) {
    object.text("httpVersion", &format!("HTTP/{}", exchange.http_version));
    object.objects("cookies", [], write_pair);
    object.objects("headers", half.fields.iter(), write_pair);
}

/// Writes the sizes as transmitted (of HTTP/2 as compressed), or -1 where they are unknown.
fn write_sizes(object: &mut Object<'_>, half: &Half, body: &DecodedBody) {
    let head = half.head_end.checked_sub(half.head_start).filter(|length| *length > 0);
    let size = |size: Option<u64>| size.and_then(|size| i64::try_from(size).ok()).unwrap_or(-1);
    object.signed("headersSize", size(head));
    object.signed("bodySize", size(body.sent));
}

fn write_pair(pair: &mut Object<'_>, (name, value): (&str, &str)) {
    pair.text("name", name);
    pair.text("value", value);
}

/// Writes a body as text, or in base64 if it is not UTF-8.
fn write_text(object: &mut Object<'_>, encoding: &'static str, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => object.text("text", text),
        Err(_) => {
            object.word("text", &STANDARD.encode(bytes));
            object.word(encoding, "base64");
        }
    }
}

/// The absolute URL of a request.
fn url(exchange: &Exchange, connection: Option<&Connection>, recorded_https: bool) -> String {
    let target = exchange.target.as_deref().unwrap_or("/");
    if uri::split_scheme(target).is_some() {
        return target.to_owned();
    }
    let fields = &exchange.request.fields;
    let address = connection.and_then(server);
    // RFC 8441 section 4: with `:protocol`, a CONNECT has a path, and opens no tunnel.
    let is_tunnel = exchange.method.as_deref() == Some("CONNECT") && fields.get(":protocol").is_none();
    // A capture that another program recorded above TLS shows no TLS. The port mostly reveals it.
    let is_https = recorded_https
        || connection.is_some_and(|connection| !connection.tls.is_empty())
        || fields.get(":scheme") == Some("https")
        || address.is_some_and(|address| address.port() == 443);
    let scheme = if is_https { "https" } else { "http" };
    if is_tunnel {
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

    fn entry(exchange: &Exchange, bodies: [&DecodedBody; 2]) -> Value {
        let mut line = Vec::new();
        write_entry(&mut line, exchange, ("http://h/", None), bodies, &McpContent::default());
        line.push(b'}');
        serde_json::from_slice(&line).expect("an entry is JSON")
    }

    #[test]
    fn binary_bodies_are_base64_on_both_sides() {
        let binary = DecodedBody { bytes: b"\xff\0".to_vec(), sent: Some(2), note: None };
        let written = entry(&Exchange::default(), [&binary, &binary]);
        assert_eq!(
            (&written["request"]["postData"]["text"], &written["request"]["postData"]["_encoding"]),
            (&json!("/wA="), &json!("base64"))
        );
        let content = &written["response"]["content"];
        assert_eq!((&content["text"], &content["encoding"]), (&json!("/wA="), &json!("base64")));
    }

    #[test]
    fn missing_parts_have_comments_and_every_member_is_present() {
        let written = entry(&Exchange::default(), [&DecodedBody::default(), &DecodedBody::default()]);
        assert_eq!(written["request"]["comment"], "the request was not captured");
        assert_eq!((&written["response"]["status"], &written["response"]["bodySize"]), (&json!(0), &json!(-1)));
        assert_eq!(written["timings"]["wait"], 0);
    }

    #[test]
    fn a_url_is_absolute_whatever_the_target_is() {
        let of = |method: &str, target: &str, https: bool| {
            let fields: &[_] = match target {
                "/ws" => &[("Host", "h:1"), (":protocol", "websocket")],
                _ => &[("Host", "h:1")],
            };
            let request = Half { fields: fields.iter().copied().collect(), ..Half::default() };
            let (method, target) = (Some(method.to_owned()), Some(target.to_owned()));
            url(&Exchange { method, target, request, ..Exchange::default() }, None, https)
        };
        assert_eq!(of("GET", "/a?b", false), "http://h:1/a?b");
        assert_eq!(of("GET", "/a", true), "https://h:1/a");
        assert_eq!(of("GET", "http://other/a", false), "http://other/a");
        assert_eq!(of("CONNECT", "other:443", false), "http://other:443");
        assert_eq!(of("CONNECT", "/ws", false), "http://h:1/ws");
        assert_eq!(of("OPTIONS", "*", false), "http://h:1/*");
    }
}
