//! The recorded server at an address: Streamable HTTP, and HTTP+SSE of 2024-11-05.
//!
//! Each connection has a thread that reads requests and writes responses. What the server says is decided by one thread, the [`hub`], to which
//! they hand what they read; it waits for whatever comes first: a text of a client, a moment at which something is due, the end.

mod connection;
mod guard;
mod hub;
mod request;

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use crossbeam_channel::{Receiver, Sender, bounded};

use super::ledger::Ledger;
use super::session::Stage;
use guard::Guard;
use hub::{Event, Hub};

pub use request::fuzz_request;

/// Connections at once: each has a thread and may hold the body of one request. A client of the SDKs has two or three.
const CONNECTIONS: usize = 256;

/// What connections have read and the hub has not yet taken.
const AHEAD: usize = 256;

/// How long to wait where connections cannot be accepted (no more file descriptors): some of those that are there will end.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves until `stop` says so. `address` is a port, or an address and a port; a port alone is one of this machine's own.
///
/// # Errors
/// The address cannot be listened at.
pub fn serve(stage: &Stage, address: &str, names: &[String], stop: &Receiver<()>) -> Result<Ledger> {
    let listener = listen(address).with_context(|| format!("cannot listen at {address}"))?;
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
    let guard = Arc::new(Guard::new(names, stage.script().recording.session.protocol_version.clone()));
    thread::Builder::new()
        .name("accept".to_owned())
        .spawn(move || accept(&listener, &send, &guard))
        .context("cannot start a thread")?;
    Ok(Hub::new(stage).run(&events, stop))
}

fn listen(address: &str) -> std::io::Result<TcpListener> {
    let port = address.strip_prefix(':').unwrap_or(address);
    match port.parse::<u16>() {
        // "When running locally, servers SHOULD bind only to localhost (127.0.0.1) rather than all network interfaces" (basic/transports,
        // "Security Warning")
        Ok(port) => TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], port))),
        Err(_) => TcpListener::bind(address),
    }
}

/// Gives each connection a thread. Ends with the program.
fn accept(listener: &TcpListener, events: &Sender<Event>, guard: &Arc<Guard>) {
    let open = Arc::new(AtomicUsize::new(0));
    for stream in listener.incoming() {
        let Ok(stream) = stream else {
            thread::sleep(PAUSE);
            continue;
        };
        if open.fetch_add(1, Ordering::AcqRel) >= CONNECTIONS {
            open.fetch_sub(1, Ordering::AcqRel);
            turn_away(stream);
            continue;
        }
        let (events, guard, left) = (events.clone(), Arc::clone(guard), Arc::clone(&open));
        let serve = move || {
            connection::serve(stream, &events, &guard);
            left.fetch_sub(1, Ordering::AcqRel);
        };
        if thread::Builder::new().name("connection".to_owned()).spawn(serve).is_err() {
            open.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

fn turn_away(mut stream: TcpStream) {
    // Whether it is heard or not, there is no room.
    let _ = stream.set_write_timeout(Some(PAUSE));
    let _ = stream.write_all(b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
}
