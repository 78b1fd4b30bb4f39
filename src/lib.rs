//! mcptap shows every MCP message on any transport, with proof down to the packet.
//!
//! Five nouns: a **packet** is what was observed; a **stream** is a run of bytes in one direction that knows where its bytes came from;
//! a **message** is one JSON-RPC message, a range of bytes of a stream; a **session** is an MCP conversation with its messages and calls; a
//! **finding** is something odd at a place.
//!
//! ```text
//!  source/            the crate mcptap-core                                            what people do with it
//!  file ─┐
//!  iface ┼─ Packet ─► packet ─► tcp ─► tls │ http1 ─► coding ─► sse ─┐
//!  stdio ┘               │                                           ├─► jsonrpc ─► session ─► findings ─► store ─► cli tui export
//!                        └──────────── lines (pipe) ─────────────────┘
//! ```
//!
//! The crate `mcptap-core` makes events of packets. This crate is the program around it: where packets come from, and what people do with events. `docs/architecture.md` is
//! the guide.

#![allow(
    rustdoc::private_intra_doc_links,
    reason = "this library is the program's own: its pages are for those who change it"
)]

use mcptap_core::internal::{capture, decode, event, findings, mcp, pipeline};

pub mod cli;
pub mod compare;
pub mod engine;
pub mod export;
pub mod filter;
pub mod http;
pub mod mock;
#[cfg(feature = "http")]
pub mod proxy;
pub mod replay;
pub mod source;
pub mod store;
#[cfg(test)]
#[path = "../tests/support/mod.rs"]
mod support;
#[cfg(test)]
#[path = "core/mcp/talk.rs"]
mod talk;
#[cfg(feature = "tui")]
pub mod tui;
pub mod view;
