//! Decodes MCP (Model Context Protocol) from captured packets, on any transport. Every byte of a
//! message can be traced back to its packets.
//!
//! This is the core of [mcptap](https://github.com/mcptap/mcptap). It takes the packets of a
//! capture and returns messages, sessions, HTTP exchanges and findings. It does no input or output,
//! starts no thread and reads no clock. Therefore the same packets give the same events, from a
//! file and live.
//!
//! ```text
//!  Packet ─► IP ─► TCP ─► TLS │ HTTP/1 │ HTTP/2 │ WebSocket ─► coding ─► SSE ─┐
//!   │                                                                         │
//!   └── pipe ─► lines ────────────────────────────────────────────────────────┴─► JSON-RPC
//!                                           Event ◄─ rules ◄─ session ◄───────────────┘
//! ```
//!
//! - A [`Packet`] is one observed unit: a frame of a network interface, or a chunk of a process's
//!   pipe ([`pipe`]).
//! - A [`Message`] is one JSON-RPC message with its text as transmitted. It belongs to a
//!   [`Session`] and, over HTTP, to an [`Exchange`].
//! - A [`Finding`] is a place where traffic breaks a [`Rule`]. The rule explains why it matters and
//!   what to do; [`rules`] lists all.
//! - A [`Span`] is the address of bytes in a stream. [`Decoder::packet_ranges`] traces it back to
//!   packets.
//!
//! # Example
//!
//! A request arrives in two TCP segments. Its text is traced back to the bytes of both packets.
//!
//! ```
//! use mcptap_core::{Decoder, Event, Input, LinkType, Options, Packet, PacketNumber, Time};
//!
//! /// An IPv4 packet from 192.0.2.1:50000 to 192.0.2.2:80.
//! fn packet(sequence: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
//!     let length = 40 + payload.len() as u8;
//!     let mut packet = vec![0x45, 0, 0, length, 0, 0, 0, 0, 64, 6, 0, 0];
//!     packet.extend([192, 0, 2, 1, 192, 0, 2, 2]);
//!     packet.extend([0xc3, 0x50, 0, 80]);
//!     packet.extend(sequence.to_be_bytes());
//!     packet.extend([0, 0, 0, 0, 0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
//!     packet.extend(payload);
//!     packet
//! }
//!
//! let text = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
//! let head = format!("POST /mcp HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", text.len());
//! let (first, second) = text.split_at(20);
//! let first = [&head, first].concat();
//! let packets = [
//!     packet(999, 0x02, b""), // SYN
//!     packet(1000, 0x18, first.as_bytes()),
//!     packet(1000 + first.len() as u32, 0x18, second.as_bytes()),
//! ];
//!
//! let mut decoder = Decoder::new(Options::default());
//! let mut events = Vec::new();
//! for (number, data) in (1..).zip(&packets) {
//!     events.extend(decoder.push(Input::Packet(Packet {
//!         number: PacketNumber(number),
//!         time: Time(1_700_000_000_000_000_000 + number as i64),
//!         link: LinkType::RAW,
//!         interface: 0,
//!         original_length: data.len() as u32,
//!         data,
//!     })));
//! }
//! events.extend(decoder.push(Input::End));
//!
//! let is_message = |event: &&Event| matches!(event, Event::Message(_));
//! let Some(Event::Message(message)) = events.iter().find(is_message) else {
//!     panic!("one message was sent")
//! };
//! assert_eq!(message.method.as_deref(), Some("tools/list"));
//! assert_eq!(&message.raw[..], text.as_bytes());
//!
//! // Trace the message back to its packets.
//! let ranges = decoder.packet_ranges(message.span);
//! let numbers: Vec<u64> = ranges.iter().map(|range| range.packet.0).collect();
//! assert_eq!(numbers, [2, 3]);
//! let mut bytes: Vec<u8> = Vec::new();
//! for range in ranges {
//!     let packet = &packets[range.packet.0 as usize - 1];
//!     bytes.extend(&packet[range.start as usize..range.end as usize]);
//! }
//! assert_eq!(bytes, text.as_bytes());
//! ```
//!
//! # What is stable
//!
//! Semantic versioning covers what this page lists. A minor release may add fields to records such
//! as [`Message`]: read them, but do not build them. The hidden module `internal` is for the
//! `mcptap` program and may change in any release.

#[macro_use]
mod words;

mod capture;
mod decode;
mod decoder;
mod event;
mod findings;
mod mcp;
mod pipeline;

#[cfg(test)]
#[path = "../../tests/support/core.rs"]
mod support;

#[doc(hidden)]
#[allow(missing_docs)]
pub mod internal;

pub use capture::pipe;
pub use capture::{
    Damage, Dropped, Limits, LinkType, Origin, Packet, PacketNumber, PacketRange, Span, StreamId, StreamPart, Time,
};
pub use decode::exchange::{Exchange, ExchangeNumber, Fields, Half};
pub use decode::jsonrpc::{Envelope, Kind};
pub use decode::mask::MaskKey;
pub use decode::raw::Raw;
pub use decode::{ConnectionId, Direction};
pub use decoder::{Decoder, Options};
pub use event::Event;
pub use findings::{Finding, Rule, Severity, all as rules, rule};
pub use mcp::link::{Link, Why};
pub use mcp::revision::{Revision, Revisions};
pub use mcp::{Carrier, Message, MessageNumber, Party, Peers, Session, SessionNumber, Transport};
pub use pipeline::Input;
