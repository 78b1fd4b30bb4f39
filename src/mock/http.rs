//! The recorded server at an address: Streamable HTTP, and HTTP+SSE of 2024-11-05.
//!
//! Each connection has a thread that reads requests and writes responses. What the server says is decided by one thread, the [`hub`], to which
//! they hand what they read; it waits for whatever comes first: a text of a client, a moment at which something is due, the end.

mod connection;
mod guard;
mod hub;

use std::sync::Arc;
use std::thread;

use anyhow::{Context, Result};
use crossbeam_channel::{Receiver, bounded};

use super::ledger::Ledger;
use super::session::RecordedServer;
use crate::http::listen;
use guard::Guard;
use hub::Hub;

/// Connections at once: each has a thread and may hold the body of one request. A client of the SDKs has two or three.
const CONNECTIONS: usize = 256;

/// What connections have read and the hub has not yet taken.
const AHEAD: usize = 256;

/// Serves until `stop` says so. `address` is a port, or an address and a port; a port alone is one of this machine's own.
///
/// # Errors
/// The address cannot be listened at.
pub fn serve(server: &RecordedServer, address: &str, names: &[String], stop: &Receiver<()>) -> Result<Ledger> {
    let listener = listen::bind(address).with_context(|| format!("cannot listen at {address}"))?;
    let bound = listener.local_addr().context("cannot listen")?;
    eprintln!(
        "mcptap: listening at http://{bound}/mcp (Streamable HTTP) and http://{bound}/sse (HTTP+SSE); Ctrl-C ends it"
    );
    if !bound.ip().is_loopback() {
        eprintln!(
            "mcptap: whoever reaches this machine reads the recording: only an address of 127.0.0.0/8 or ::1 is its own"
        );
    }
    let (send, events) = bounded(AHEAD);
    let guard = Arc::new(Guard::new(names, server.script().recording.session.protocol_version.clone()));
    thread::Builder::new()
        .name("accept".to_owned())
        .spawn(move || {
            listen::serve(&listener, CONNECTIONS, None, move |stream| connection::serve(stream, &send, &guard));
        })
        .context("cannot start a thread")?;
    Ok(Hub::new(server).run(&events, stop))
}
