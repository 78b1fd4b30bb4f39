//! A reverse proxy: stands before a server that speaks HTTP, passes on what clients say to it and it to them, and notes it.
//!
//! ```text
//!            ┌────────────────────── mcptap ──────────────────────┐
//!   client ──┼─► requests ─► heads checked, Host changed ─────────┼─► server
//!   client ◄─┼── redirects to the server lead here ◄─ answers ◄───┼── server       (inside TLS, or not)
//!            │        └─ a copy ─► tape ─► queue ─► decoder       │
//!            └────────────────────────────────────────────────────┘
//! ```
//!
//! * **Bytes pass as they come.** Nothing is gathered, so events pass before the next come; bodies may have any size. Each client's connection
//!   has one of its own to the server, so that nobody's requests mix ([`relay`]).
//! * **Names of places change, and nothing else**: the server's own name in `Host`, the proxy's in redirects to the server ([`heads`]) and in the address that a stream
//!   of HTTP+SSE announces ([`endpoint`]).
//! * **What cannot be read without a guess is not passed on** ([`conversation`]): the server might read it otherwise.
//! * **Recording comes second** ([`LossyTapeConnection`]): it is bounded, and counts what it has no room for.
//!
//! What is recorded is what left the proxy, between the client's address and the server's: what a client gets, and what the server is asked by its own name. Answers
//! that the proxy makes up itself (502 and the like) are recorded too.

mod conversation;
mod endpoint;
mod fuzz;
mod heads;
mod relay;
#[cfg(test)]
mod tests;

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use self::heads::Places;
use self::relay::Relay;
use crate::capture::Time;
use crate::http::connect::{Connector, Options};
use crate::http::listen::Crowd;
use crate::http::origin::Origin;
use crate::http::socket::Socket;
use crate::source::tape::{LossyTapeConnection, LostBytes, Tape};
use crate::view::safe;

pub use self::fuzz::fuzz_proxy;

/// Clients' connections at once: each has a thread and holds some 200 KB while much passes. A client of the SDKs has two or three.
const CONNECTIONS: usize = 512;

/// How long a client may take to send a head, and how long a connection may lie idle on which nothing was asked.
const PATIENCE: Duration = Duration::from_secs(30);

/// A reverse proxy for one server.
#[derive(Debug)]
pub struct Proxy {
    places: Arc<Places>,
    /// Scheme and authority of the server, as people write them.
    server: String,
    connector: Connector,
    record: Record,
    patience: Duration,
    /// What was said last of what went wrong.
    said: Mutex<String>,
}

/// Where what passes is noted.
#[derive(Clone, Debug)]
pub struct Record {
    /// The tape, whose [`TapeSource`](crate::source::tape::TapeSource) reads it.
    pub tape: Tape,
    /// What it had no room for.
    pub loss: LostBytes,
}

impl Record {
    fn track(&self, time: Time, client: SocketAddr, server: SocketAddr) -> LossyTapeConnection {
        LossyTapeConnection::open(&self.tape, &self.loss, time, client, server)
    }
}

impl Proxy {
    /// One for the server at a URL. Clients may call it `localhost`, by its address, or by one of `names`.
    ///
    /// # Errors
    /// The URL or the options cannot be used.
    pub fn new(url: &str, options: &Options, names: Vec<String>, record: Record) -> Result<Proxy> {
        let Some(origin) = Origin::of(url) else {
            bail!("--to {url}: a URL begins with http:// or https:// and names a host")
        };
        if origin.user.is_some() {
            bail!("--to: name and password do not belong in it: each client sends its own Authorization");
        }
        let server = format!("{}://{}", if origin.is_https { "https" } else { "http" }, origin.authority);
        let connector = Connector::new(origin.clone(), options)?;
        let places = Arc::new(Places { server: origin, names });
        Ok(Proxy { places, server, connector, record, patience: PATIENCE, said: Mutex::default() })
    }

    /// Serves clients until `stop` is readable. Those that are served then are cut off at once; their threads may outlive this call for a moment.
    ///
    /// # Errors
    /// The descriptor cannot be shared with the threads.
    pub fn serve(self, listener: &TcpListener, stop: &OwnedFd) -> Result<()> {
        let shared = Arc::new((self, stop.try_clone().context("cannot share a descriptor")?));
        let serve = move |client: TcpStream| {
            let (proxy, stop) = &*shared;
            proxy.relay(stop.as_fd(), client);
        };
        Crowd::new(CONNECTIONS).serve(listener, Some(stop.as_fd()), serve);
        Ok(())
    }

    fn relay(&self, stop: BorrowedFd<'_>, client: TcpStream) {
        // A client that is gone already wants nothing.
        if let Ok(relay) = Relay::new(self, stop, client) {
            relay.run();
        }
    }

    /// Makes a connection to the server, for a client that reached us at `own`.
    fn connect(&self, own: SocketAddr) -> Result<Socket, String> {
        let connected = self.connector.connect().map_err(|why| self.named(why))?;
        if connected.0.peer_addr().is_ok_and(|server| server == own) {
            return Err(self.named("that is this proxy itself".to_owned()));
        }
        Socket::new(connected).map_err(|error| self.named(error.to_string()))
    }

    /// What is wrong with the server.
    fn named(&self, why: String) -> String {
        format!("{}: {why}", self.server)
    }

    /// Tells the person what goes wrong: the same once, however often a client tries.
    fn say(&self, text: &str) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if *said != text {
            text.clone_into(&mut said);
            eprintln!("mcptap: {}", safe::visible(text));
        }
    }
}
