//! The store as others use it: a writer and a reader on a real file.

mod file;
mod packets;
mod pages;
mod records;

use std::path::Path;

use tempfile::TempDir;

use super::*;
use crate::capture::{Span, StreamId, Time};
use crate::decode::jsonrpc::{Envelope, Kind};
use crate::decode::{ConnectionId, Direction};
use crate::event::Event;
use crate::mcp::{Carrier, Message, MessageNumber, Peers, Session, SessionNumber, Transport};

fn directory() -> TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

fn info() -> CaptureInfo {
    CaptureInfo { kind: CaptureKind::Import, source: "trace.pcapng".into(), process: 4711, started: Time(7) }
}

fn writer(path: &Path) -> Writer {
    Writer::create(path, &info(), Options::default()).expect("a writer")
}

fn session(number: u32, connections: &[u32]) -> Session {
    Session {
        number: SessionNumber(number),
        transport: Transport::StreamableHttp,
        protocol_version: Some("2025-11-25".into()),
        session_id: None,
        client: None,
        server: None,
        peers: Peers::Network {
            client: "192.0.2.1:50000".parse().expect("an address"),
            server: "[2001:db8::1]:80".parse().expect("an address"),
            host: None,
        },
        connections: connections.iter().copied().map(ConnectionId).collect(),
        started: Time(1),
        ended: Time(2),
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

fn message(session: u32, number: u64, raw: &[u8]) -> Message {
    Message {
        session: SessionNumber(session),
        number: MessageNumber(number),
        time: Time(number as i64),
        transport: Transport::StreamableHttp,
        direction: Direction::ClientToServer,
        kind: Kind::Request,
        id: None,
        method: None,
        tool: None,
        raw: raw.to_vec(),
        envelope: Envelope::default(),
        batch: None,
        answers: None,
        answered_by: None,
        latency: None,
        span: Span { stream: StreamId(1), start: 0, end: raw.len() as u64 },
        packets: Vec::new(),
        carrier: Carrier::RequestBody,
        exchange: None,
        sse_id: None,
        line: None,
        redelivered: false,
        link: None,
        findings: Vec::new(),
    }
}

impl Writer {
    fn told_session(&mut self, record: Session) {
        self.event(Event::Session(Box::new(record)));
    }

    fn told_message(&mut self, record: Message) {
        self.event(Event::Message(Box::new(record)));
    }
}
