//! Tests of the language by examples and by its laws: a printed filter parses as the same tree,
//! and nothing panics.

mod event_filter;
mod expectation;
mod language;
mod manual;
pub(crate) mod random;

use super::*;
use crate::capture::{PacketNumber, Time};
use crate::decode::Direction;
use crate::decode::exchange::ExchangeNumber;
use crate::decode::jsonrpc::Kind;
use crate::mcp::{Carrier, MessageNumber, Peers, SessionNumber, Transport};
use crate::test_messages;

/// A message with this text. Its kind and members are read from the text.
pub(crate) fn message(number: u64, raw: &str) -> Message {
    let time = Time(1_764_000_000_000_000_000 + number as i64 * 1_000_000);
    let message = test_messages::message(number, time, Direction::ClientToServer, raw);
    let answer = matches!(message.kind, Kind::Response | Kind::Error);
    Message {
        transport: Transport::StreamableHttp,
        direction: if answer { Direction::ServerToClient } else { Direction::ClientToServer },
        packets: vec![PacketNumber(number), PacketNumber(number + 10)],
        carrier: if answer { Carrier::SseEvent } else { Carrier::RequestBody },
        exchange: Some(ExchangeNumber(number)),
        line: None,
        ..message
    }
}

/// The same for a response to a request.
pub(crate) fn answer(number: u64, request: &Message, raw: &str) -> Message {
    let message = message(number, raw);
    Message {
        answers: Some(request.number),
        method: request.method.clone(),
        tool: request.tool.clone(),
        latency: Some(message.time.since(request.time)),
        ..message
    }
}

/// A session between two loopback addresses.
pub(super) fn session() -> Session {
    let peers = Peers::Network {
        client: "127.0.0.1:50085".parse().unwrap(),
        server: "[::1]:8080".parse().unwrap(),
        host: Some("localhost".into()),
    };
    Session {
        protocol_version: Some("2025-11-25".into()),
        server: Some(crate::mcp::Party { name: "weather".into(), version: "1".into() }),
        ended: Time(0),
        ..Session::opened(SessionNumber(1), Transport::StreamableHttp, peers, Time(1_764_000_000_000_000_000))
    }
}

/// A call of the tool `get_weather`.
pub(crate) const CALL: &str = r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"get_weather","arguments":{"city":"Quito","days":[1,2.0,"x"]},"_meta":{"io.modelcontextprotocol/clientInfo":{"name":"c"}}}}"#;
/// A result that reports that the tool failed.
pub(super) const FAILED: &str =
    r#"{"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"no such city: Quito\n"}],"isError":true}}"#;
/// A JSON-RPC error. Its id is a string.
pub(super) const REFUSED: &str = r#"{"jsonrpc":"2.0","id":"3","error":{"code":-32602,"message":"Invalid params"}}"#;

fn passes(filter: &str, message: &Message) -> bool {
    let session = session();
    let row = Row {
        message,
        answered: message.answered_by.is_some(),
        findings: &message.findings,
        severities: &[],
        session: Some(&session),
        exchange: None,
    };
    Filter::parse(filter).unwrap_or_else(|error| panic!("{error}")).matches(&row)
}
