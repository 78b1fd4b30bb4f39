//! Plays the server over HTTP: Streamable HTTP, and HTTP+SSE of 2024-11-05.
//!
//! Each connection has a thread that parses requests and writes responses. All of them pass what
//! they read to the thread of the [`hub`], which decides what the server sends. The hub waits for
//! the next text of a client, for the next message that is due, or for the end.

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

/// The most connections at once. Each has a thread and may hold the body of one request. A client
/// of the SDKs has two or three.
const CONNECTIONS: usize = 256;

/// The most requests that connections have read and the hub has not taken.
const AHEAD: usize = 256;

/// Serves until `stop` receives. `address` is a port, or an address and a port. A port alone means
/// 127.0.0.1.
pub fn serve(server: &RecordedServer, address: &str, names: &[String], stop: &Receiver<()>) -> Result<Ledger> {
    let listener = listen::bind(address)?;
    let bound = listener.local_addr().context("cannot listen")?;
    eprintln!(
        "mcptap: listening at http://{bound}/mcp (Streamable HTTP) and http://{bound}/sse (HTTP+SSE); Ctrl-C ends it"
    );
    if !bound.ip().is_loopback() {
        eprintln!(
            "mcptap: other machines can connect and read the recording; an address of 127.0.0.0/8 or ::1 prevents that"
        );
    }
    let (send, events) = bounded(AHEAD);
    let guard =
        Arc::new(Guard { names: names.to_vec(), revision: server.script().recording.session.protocol_version.clone() });
    thread::Builder::new()
        .name("accept".to_owned())
        .spawn(move || {
            listen::serve(&listener, CONNECTIONS, None, move |slot| connection::serve(&slot, &send, &guard));
        })
        .context("cannot start a thread")?;
    Ok(Hub::new(server).run(&events, stop))
}
