//! Tests of the store as others use it: a writer and a reader on a real file.

mod deletion;
mod file;
mod packet_feeder;
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
use crate::test_messages;

fn directory() -> TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

fn info() -> CaptureInfo {
    CaptureInfo {
        kind: CaptureKind::Import,
        source: "trace.pcapng".into(),
        process: 4711,
        started: Time(7),
        ..CaptureInfo::default()
    }
}

fn writer(path: &Path) -> Writer {
    Writer::create(path, &info(), WriteOptions::default()).expect("a writer")
}

fn session(number: u32, connections: &[u32]) -> Session {
    let peers = Peers::Network {
        client: "192.0.2.1:50000".parse().expect("an address"),
        server: "[2001:db8::1]:80".parse().expect("an address"),
        host: None,
    };
    Session {
        protocol_version: Some("2025-11-25".into()),
        connections: connections.iter().copied().map(ConnectionId).collect(),
        ended: Time(2),
        ..Session::opened(SessionNumber(number), Transport::StreamableHttp, peers, Time(1))
    }
}

fn message(session: u32, number: u64, raw: &[u8]) -> Message {
    let text = String::from_utf8_lossy(raw);
    Message {
        session: SessionNumber(session),
        transport: Transport::StreamableHttp,
        kind: Kind::Request,
        id: None,
        method: None,
        tool: None,
        raw: raw.to_vec().into(),
        envelope: Envelope::default(),
        span: Span { stream: StreamId(1), start: 0, end: raw.len() as u64 },
        carrier: Carrier::RequestBody,
        line: None,
        ..test_messages::message(number, Time(number as i64), Direction::ClientToServer, &text)
    }
}

impl Writer {
    fn add_session(&mut self, record: Session) {
        self.event(Event::Session(Box::new(record)));
    }

    fn add_message(&mut self, record: Message) {
        self.event(Event::Message(Box::new(record)));
    }
}
