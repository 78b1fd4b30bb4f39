//! A reverse proxy before one HTTP server. It forwards requests and responses and records them.
//!
//! ```text
//!            ┌────────────────────── mcptap ──────────────────────┐
//!   client ──┼─► requests ─► heads checked, Host changed ─────────┼─► server
//!   client ◄─┼── redirects to the server lead here ◄─ responses ◄─┼── server (TLS or not)
//!            │        └─ a copy ─► tape ─► queue ─► decoder       │
//!            └────────────────────────────────────────────────────┘
//! ```
//!
//! * **Bytes are forwarded as they arrive.** No message is collected first, so events are forwarded
//!   without delay and bodies can have any size. Each client connection has its own connection to
//!   the server, so requests of different clients never mix ([`relay`]).
//! * **Only addresses change.** `Host` gets the server's name. Redirects to the server get the
//!   proxy's name ([`heads`]), and so does the address that an HTTP+SSE stream announces
//!   ([`endpoint`]).
//! * **Ambiguous requests are refused** ([`conversation`]), because the server might parse them
//!   differently.
//! * **Forwarding does not wait for the recorder.** A copy of the bytes goes to a queue in memory
//!   and on disk before they are forwarded. [`LossyTapeConnection`] counts what had no room there.
//!
//! The recording contains the bytes that left the proxy, between the addresses of the client and of
//! the server: responses as the client gets them, and requests with the server's own name. It also
//! contains responses that the proxy makes itself (502 and others).

mod bridge;
mod conversation;
mod endpoint;
mod forward;
mod forward_heads;
mod fuzz;
mod heads;
mod relay;
#[cfg(test)]
mod tests;

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use self::conversation::Conversation;
use self::heads::HeadRewriter;
use self::relay::{Relay, Upstream};
use crate::capture::Time;
use crate::http::connect::{ConnectOptions, Connector};
use crate::http::listen::{self, HEAD_TIMEOUT};
use crate::http::origin::Origin;
use crate::http::slots::Slot;
use crate::http::socket::Socket;
use crate::source::tape::{LossyTapeConnection, LostBytes, Tape};
use crate::view::secrets;

pub use self::bridge::bridge;
pub use self::forward::{ForwardProxy, HostUse, HostUses};
pub use self::fuzz::fuzz_proxy;

/// The most client connections at once. Each has a thread and about 200 KB of buffers under load. A
/// client of the SDKs has two or three.
const CONNECTIONS: usize = 512;

/// The longest time for which a client that closed its direction waits for the next bytes of the
/// server. It has probably closed the connection, which looks the same.
const ABANDONED: Duration = Duration::from_secs(5);

/// A reverse proxy for one server.
#[derive(Debug)]
pub struct Proxy {
    heads: Arc<HeadRewriter>,
    /// Scheme and authority of the server, for messages.
    server: String,
    connector: Connector,
    context: RelayContext,
    /// Whether the user was informed that the server asks for a log-in.
    login_noted: AtomicBool,
}

/// Parts that all relays of a proxy share.
#[derive(Debug)]
struct RelayContext {
    recorder: TrafficRecorder,
    /// The longest time for a request head to arrive, and for the first request of a connection.
    head_timeout: Duration,
    /// As [`ABANDONED`], or shorter in tests.
    abandoned: Duration,
    /// The last warning that was printed.
    last_warning: Mutex<String>,
}

impl RelayContext {
    fn new(recorder: TrafficRecorder) -> RelayContext {
        RelayContext { recorder, head_timeout: HEAD_TIMEOUT, abandoned: ABANDONED, last_warning: Mutex::default() }
    }

    /// Prints a warning. The same text is printed only once, however often clients try again.
    fn warn(&self, text: &str) {
        let mut last_warning = self.last_warning.lock().unwrap_or_else(PoisonError::into_inner);
        if *last_warning != text {
            text.clone_into(&mut last_warning);
            eprintln!("mcptap: {}", secrets::shown(text));
        }
    }
}

/// Records the traffic of the proxy.
#[derive(Clone, Debug)]
pub struct TrafficRecorder {
    /// The tape that stores the traffic.
    pub tape: Tape,
    /// Counts what the tape had no room for.
    pub loss: LostBytes,
}

impl TrafficRecorder {
    fn track(&self, time: Time, client: SocketAddr, server: SocketAddr) -> LossyTapeConnection {
        LossyTapeConnection::open(&self.tape, &self.loss, time, client, server)
    }
}

impl Proxy {
    /// A proxy for the server at a URL. Clients may call the proxy `localhost`, by its IP address,
    /// or by one of `names`.
    pub fn new(url: &str, options: &ConnectOptions, names: Vec<String>, recorder: TrafficRecorder) -> Result<Proxy> {
        let Some(origin) = Origin::of(url) else {
            bail!("--to {url}: the URL must begin with http:// or https:// and contain a host")
        };
        if origin.user.is_some() {
            bail!("--to: the URL must not contain a name or password, because each client sends its own Authorization");
        }
        let server = format!("{}://{}", if origin.is_https { "https" } else { "http" }, origin.authority);
        let connector = Connector::new(origin.clone(), options)?;
        let heads = Arc::new(HeadRewriter { server: origin, names });
        Ok(Proxy {
            heads,
            server,
            connector,
            context: RelayContext::new(recorder),
            login_noted: AtomicBool::new(false),
        })
    }

    /// Serves clients until `stop` is readable. Open connections are then cut, and their threads
    /// may outlive this call for a moment.
    pub fn serve(self, listener: &TcpListener, stop: &OwnedFd) -> Result<()> {
        serve(listener, stop, move |stop, client| self.relay(stop, client))
    }

    fn relay(&self, stop: BorrowedFd<'_>, client: Slot) {
        let stream = Arc::clone(client.stream());
        // An error means that the client is already gone.
        let relay = || {
            let conversation = Conversation::new(Arc::clone(&self.heads), &stream.local_addr()?.to_string());
            Relay::new(&self.context, self, stop, client, Socket::new(stream, None)?, conversation)
        };
        let _: io::Result<()> = relay().map(|relay| drop(relay.run()));
    }
}

impl Upstream for Proxy {
    fn connect(&self, _: &Conversation, local: SocketAddr) -> Result<Socket, String> {
        let (socket, session) = self.connector.connect()?;
        check_other(&socket, local)?;
        Socket::new(socket, session).map_err(|error| error.to_string())
    }

    fn name(&self, _: &Conversation) -> String {
        self.server.clone()
    }

    fn asked_login(&self) {
        if !self.login_noted.swap(true, Ordering::Relaxed) {
            let host = &self.heads.server.host;
            eprintln!(
                "mcptap: the server asks for a log-in. Clients that log in by OAuth refuse this address, because the server \
                 names another one. For them start: mcptap proxy --intercept {}",
                secrets::shown(host)
            );
        }
    }
}

/// Serves each client on a thread of its own until `stop` is readable.
fn serve(
    listener: &TcpListener,
    stop: &OwnedFd,
    relay: impl Fn(BorrowedFd<'_>, Slot) + Send + Sync + 'static,
) -> Result<()> {
    let shared = Arc::new((relay, stop.try_clone().context("cannot duplicate a file descriptor")?));
    let serve = move |client: Slot| {
        let (relay, stop) = &*shared;
        relay(stop.as_fd(), client);
    };
    listen::serve(listener, CONNECTIONS, Some(stop.as_fd()), serve);
    Ok(())
}

/// Checks that a connection does not lead back to the proxy, which its client reached at `local`.
fn check_other(server: &TcpStream, local: SocketAddr) -> Result<(), String> {
    let is_self = server.peer_addr().is_ok_and(|server| server == local);
    if is_self { Err("this URL is the proxy itself".to_owned()) } else { Ok(()) }
}
