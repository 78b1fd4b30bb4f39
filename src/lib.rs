//! mcptap shows every MCP message on any transport, with proof down to the packet.
//!
//! Five nouns:
//!
//! - A **packet** is one observed unit.
//! - A **stream** is a run of bytes in one direction, with the origin of its bytes.
//! - A **message** is one JSON-RPC message, a range of bytes of a stream.
//! - A **session** is an MCP conversation with its messages and calls.
//! - A **finding** is a place where traffic breaks a rule.
//!
//! ```text
//!  source/   the crate mcptap-core                                     for people
//!  file ─┐
//!  iface ┼─► packet ─► tcp ─► tls │ http ─► coding ─► sse ─┐
//!  stdio ┘      │                                          ├─► jsonrpc ─► session ─┐
//!               └─────────── lines (pipe) ─────────────────┘                       │
//!                                  cli, tui, export ◄─ store ◄─ findings ◄─────────┘
//! ```
//!
//! The crate `mcptap-core` turns packets into events. This crate is the program around it: sources
//! of packets, and commands and views for people. `docs/architecture.md` is the guide.

#![allow(
    rustdoc::private_intra_doc_links,
    reason = "this library is the program's own: its pages are for those who change it"
)]

use mcptap_core::internal::{capture, decode, event, findings, mcp, pipeline};

#[cfg(feature = "agents")]
pub mod agents;
pub mod cli;
pub mod compare;
#[cfg(feature = "parquet")]
mod dataset;
pub mod engine;
pub mod export;
pub mod filter;
pub mod http;
pub mod mock;
#[cfg(feature = "http")]
pub mod proxy;
pub mod replay;
#[cfg(all(feature = "attach", target_os = "linux"))]
pub mod run;
pub mod source;
pub mod store;
#[cfg(test)]
#[path = "../tests/support/mod.rs"]
mod support;
#[cfg(feature = "http")]
pub mod telemetry;
#[cfg(test)]
#[path = "core/mcp/test_messages.rs"]
mod test_messages;
#[cfg(feature = "tui")]
pub mod tui;
pub mod view;
#[cfg(feature = "http")]
pub mod web;
