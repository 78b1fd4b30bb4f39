//! The language by example, and its laws: what is printed reads the same; SQL and stream agree; nothing panics.

mod agree;
mod language;
mod manual;
mod streams;

use super::*;
use crate::capture::{PacketNumber, Span, StreamId, Time};
use crate::decode::Direction;
use crate::decode::exchange::ExchangeNumber;
use crate::decode::json;
use crate::decode::jsonrpc::{self, Envelope, Kind, Parsed};
use crate::mcp::{Carrier, MessageNumber, Peers, SessionNumber, Transport};

/// A message with this text, its kind and members read off it.
pub(crate) fn message(number: u64, raw: &str) -> Message {
    let envelope = match jsonrpc::parse(raw.as_bytes(), 64, 64) {
        Parsed::Single(envelope) => envelope,
        _ => Envelope::default(),
    };
    let kind = envelope.kind.unwrap_or(Kind::Invalid);
    let answer = matches!(kind, Kind::Response | Kind::Error);
    Message {
        session: SessionNumber(1),
        number: MessageNumber(number),
        time: Time(1_764_000_000_000_000_000 + number as i64 * 1_000_000),
        transport: Transport::StreamableHttp,
        direction: if answer { Direction::ServerToClient } else { Direction::ClientToServer },
        kind,
        id: envelope.id.clone().map(|id| raw[id].to_owned()),
        method: envelope.method.clone().and_then(|method| json::string(&raw[method]).map(|name| name.into_owned())),
        tool: None,
        raw: raw.as_bytes().to_vec(),
        envelope,
        batch: None,
        answers: None,
        answered_by: None,
        latency: None,
        span: Span { stream: StreamId(1), start: 0, end: 0 },
        packets: vec![PacketNumber(number), PacketNumber(number + 10)],
        carrier: if answer { Carrier::SseEvent } else { Carrier::RequestBody },
        exchange: Some(ExchangeNumber(number)),
        sse_id: None,
        line: None,
        redelivered: false,
        link: None,
        findings: Vec::new(),
    }
}

/// The same, as the answer to a request.
pub(crate) fn answer(number: u64, request: &Message, raw: &str) -> Message {
    let message = message(number, raw);
    Message {
        answers: Some(request.number),
        method: request.method.clone(),
        latency: Some(message.time.since(request.time)),
        ..message
    }
}

/// A session between two loopback addresses.
pub(super) fn session() -> Session {
    Session {
        number: SessionNumber(1),
        transport: Transport::StreamableHttp,
        protocol_version: Some("2025-11-25".into()),
        session_id: None,
        client: None,
        server: Some(crate::mcp::Party { name: "weather".into(), version: "1".into() }),
        peers: Peers::Network {
            client: "127.0.0.1:50085".parse().unwrap(),
            server: "[::1]:8080".parse().unwrap(),
            host: Some("localhost".into()),
        },
        connections: Vec::new(),
        started: Time(1_764_000_000_000_000_000),
        ended: Time(0),
        messages: 0,
        requests: 0,
        responses: 0,
        notifications: 0,
        errors: 0,
        invalid: 0,
        unanswered: 0,
        bytes: (0, 0),
        exit: None,
    }
}

pub(super) const CALL: &str = r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"get_weather","arguments":{"city":"Quito","days":[1,2.0,"x"]},"_meta":{"io.modelcontextprotocol/clientInfo":{"name":"c"}}}}"#;
pub(super) const FAILED: &str =
    r#"{"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"no such city: Quito\n"}],"isError":true}}"#;
pub(super) const REFUSED: &str = r#"{"jsonrpc":"2.0","id":"3","error":{"code":-32602,"message":"Invalid params"}}"#;

fn passes(filter: &str, message: &Message, tool: Option<&str>) -> bool {
    let session = session();
    let row = Row {
        message,
        tool,
        answered: message.answered_by.is_some(),
        operation: message.link.map(|link| link.operation),
        findings: &message.findings,
        severities: &[],
        session: Some(&session),
        exchange: None,
    };
    Filter::parse(filter).unwrap_or_else(|error| panic!("{error}")).matches(&row)
}
