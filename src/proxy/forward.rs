//! A forward proxy. It opens the TLS of chosen hosts and tunnels everything else.
//!
//! ```text
//!            ┌───────────────────────── mcptap ──────────────────────────┐
//!   client ──┼─► CONNECT ─┬─ a chosen host: TLS ─► bytes ─► TLS ─────────┼─► server
//!            │            │           authority's ┘   └► tape            │   (verified)
//!            │            └─ other hosts: bytes, not recorded ───────────┼─► server
//!   client ──┼─► GET http://... ─► heads changed ────────────────────────┼─► server
//!            └───────────────────────────────────────────────────────────┘
//! ```
//!
//! Clients keep the URLs of their servers, so OAuth works. The server chooses among the protocols
//! that the client offers, and the client gets the same one. So the bytes inside TLS pass
//! unchanged, of HTTP/2 too. If a server cannot be reached or verified, its client gets status 502
//! with the reason.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Result, ensure};

use super::conversation::{Conversation, Protocol};
use super::relay::{Relay, TunnelRequest, Upstream};
use super::{RelayContext, TrafficRecorder, check_other, serve};
use crate::decode::uri;
use crate::http::accept::{Hello, begins_with_tls};
use crate::http::authority::Authority;
use crate::http::connect::{self, ConnectOptions, TlsClient};
use crate::http::listen;
use crate::http::origin::Origin;
use crate::http::requests::Refusal;
use crate::http::slots::Slot;
use crate::http::socket::Socket;
use crate::view::secrets;

/// The most hosts that are counted. A client could ask for any number of names.
const HOSTS: usize = 1_024;

/// A forward proxy.
pub struct ForwardProxy {
    hosts: Hosts,
    authority: Authority,
    tls: TlsClient,
    timeout: Duration,
    context: RelayContext,
    uses: HostUses,
}

/// Counts the connections to each host, by host and port.
pub type HostUses = Arc<Mutex<BTreeMap<String, HostUse>>>;

/// The connections to one host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostUse {
    /// Connections whose TLS was opened.
    pub opened: u64,
    /// Connections that passed unopened.
    pub tunnelled: u64,
}

/// Names of hosts whose traffic is recorded.
#[derive(Debug)]
struct Hosts(Vec<String>);

impl Hosts {
    /// # Errors
    /// A name is none. A URL is accepted for its host.
    fn new(names: &[String]) -> Result<Hosts> {
        let name = |given: &String| {
            let host = Origin::of(given).map_or_else(|| given.clone(), |origin| origin.host);
            let is_name = !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/');
            ensure!(is_name, "--intercept {given}: give the name of a host, as mcp.example.com or *.example.com");
            Ok(host.trim_matches(['[', ']']).to_ascii_lowercase())
        };
        names.iter().map(name).collect::<Result<_>>().map(Hosts)
    }

    fn contain(&self, host: &str) -> bool {
        let host = host.to_ascii_lowercase();
        self.0.iter().any(|name| match name.strip_prefix('*') {
            Some(end) => host.ends_with(end),
            None => *name == host,
        })
    }
}

impl ForwardProxy {
    /// A proxy that records the traffic of these hosts.
    pub fn new(
        hosts: &[String],
        authority: Authority,
        options: &ConnectOptions,
        recorder: TrafficRecorder,
    ) -> Result<ForwardProxy> {
        Ok(ForwardProxy {
            hosts: Hosts::new(hosts)?,
            authority,
            tls: TlsClient::new(options)?,
            timeout: options.timeout,
            context: RelayContext::new(recorder),
            uses: HostUses::default(),
        })
    }

    /// The counts of connections. They go on changing while the proxy serves.
    pub fn uses(&self) -> HostUses {
        Arc::clone(&self.uses)
    }

    /// Serves clients until `stop` is readable, as [`Proxy::serve`](super::Proxy::serve) does.
    pub fn serve(self, listener: &TcpListener, stop: &OwnedFd) -> Result<()> {
        serve(listener, stop, move |stop, client| {
            // An error means that the client is already gone.
            let _ = self.relay(stop, client);
        })
    }

    fn relay(&self, stop: BorrowedFd<'_>, slot: Slot) -> io::Result<()> {
        let client = Socket::new(Arc::clone(slot.stream()), None)?;
        let relay = Relay::new(&self.context, self, stop, slot, client, Conversation::forward())?;
        match relay.run() {
            Some(request) => self.tunnel(stop, request),
            None => Ok(()),
        }
    }

    /// Answers CONNECT, and forwards what follows.
    fn tunnel(&self, stop: BorrowedFd<'_>, request: TunnelRequest) -> io::Result<()> {
        let TunnelRequest { slot, target } = request;
        let client = Arc::clone(slot.stream());
        client.set_nonblocking(false)?;
        let host = uri::host_name(&target).to_owned();
        let is_recorded = self.hosts.contain(&host);
        let port = target.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
        let made = match port {
            Some(port) => connect::dial(&host, port, Some(self.timeout)),
            None => Err("CONNECT needs a host and a port".to_owned()),
        };
        let made = made.and_then(|server| {
            check_other(&server, client.local_addr().map_err(|error| error.to_string())?).map(|()| server)
        });
        let mut server = match made {
            Ok(server) => server,
            Err(why) => return self.refuse(&client, &format!("{target}: {why}")),
        };
        listen::send(&client, "HTTP/1.1 200 Connection established\r\n\r\n")?;
        // Some clients use CONNECT for http:// too.
        let is_tls = || begins_with_tls(&client, self.context.head_timeout) == Some(true);
        if !is_recorded || !is_tls() {
            let protocol = if is_recorded { Protocol::Http1 } else { Protocol::Unknown };
            if !is_recorded {
                self.count_tunnel(&target);
            }
            let upstream = TunnelEnd { name: target, failure: None, is_recorded };
            let (client, server) = (Socket::new(client, None)?, Socket::new(server, None)?);
            let conversation = Conversation::tunnelled(protocol);
            Relay::new(&self.context, &upstream, stop, slot, client, conversation)?.connected(server)?.run();
            return Ok(());
        }
        let hello = Hello::read(&client, self.context.head_timeout)?;
        let name = hello.host().unwrap_or(host);
        let opened = self.tls.open(&mut server, &name, hello.protocols(), self.timeout);
        let protocol = match &opened {
            Ok(session) => session.alpn_protocol().map(<[u8]>::to_vec),
            // The reason is sent as a response of HTTP/1.1.
            Err(_) => hello.protocols().into_iter().find(|protocol| protocol == b"http/1.1"),
        };
        let is_http2 = protocol.as_deref() == Some(b"h2");
        let accepted = hello.accept(&client, &self.authority, &name, protocol, self.context.head_timeout);
        let session = match accepted {
            Ok(session) => session,
            Err(error) => {
                self.context.warn(&refused_by_client(&target, &error));
                return Err(error);
            }
        };
        self.count(&target, |uses| uses.opened += 1);
        let (failure, connection) = match opened {
            Ok(session) => (None, Some(Socket::new(server, Some(session))?)),
            Err(why) => (Some(why), None),
        };
        let upstream = TunnelEnd { name: target, failure, is_recorded };
        let conversation = Conversation::tunnelled(if is_http2 { Protocol::Http2 } else { Protocol::Http1 });
        let client = Socket::new(client, Some(session))?;
        let mut relay = Relay::new(&self.context, &upstream, stop, slot, client, conversation)?;
        if let Some(connection) = connection {
            relay = relay.connected(connection)?;
        }
        relay.run();
        Ok(())
    }

    /// Sends status 502 in place of a tunnel.
    fn refuse(&self, client: &TcpStream, why: &str) -> io::Result<()> {
        self.context.warn(&format!("a client got status 502: {why}"));
        listen::send(client, &Refusal::new(502, why).response("mcptap proxy: "))?;
        listen::drain(client);
        Ok(())
    }

    fn count_tunnel(&self, target: &str) {
        if self.count(target, |uses| uses.tunnelled += 1) {
            let host = uri::host_name(target);
            eprintln!(
                "{}",
                secrets::shown(&format!("mcptap: {target} passes unopened; --intercept {host} would record it"))
            );
        }
    }

    /// Changes the counts of a host. Returns whether it is the first change.
    fn count(&self, target: &str, change: impl FnOnce(&mut HostUse)) -> bool {
        let mut uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
        if uses.len() >= HOSTS && !uses.contains_key(target) {
            return false;
        }
        let host = uses.entry(target.to_owned()).or_default();
        let is_first = *host == HostUse::default();
        change(host);
        is_first
    }
}

/// Requests outside of tunnels name their server in full.
impl Upstream for ForwardProxy {
    fn connect(&self, conversation: &Conversation, local: SocketAddr) -> Result<Socket, String> {
        let origin = conversation.rewriter.origin.as_ref().ok_or("the request names no server")?;
        let server = connect::dial(&origin.host, origin.port, Some(self.timeout))?;
        check_other(&server, local)?;
        if !self.is_recorded(conversation) {
            self.count_tunnel(&origin.authority);
        }
        Socket::new(server, None).map_err(|error| error.to_string())
    }

    fn name(&self, conversation: &Conversation) -> String {
        conversation.rewriter.origin.as_ref().map_or_else(String::new, |origin| format!("http://{}", origin.authority))
    }

    fn is_recorded(&self, conversation: &Conversation) -> bool {
        conversation.rewriter.origin.as_ref().is_none_or(|origin| self.hosts.contain(&origin.host))
    }
}

/// The server at the end of a tunnel.
struct TunnelEnd {
    name: String,
    /// Why there is no connection to it.
    failure: Option<String>,
    is_recorded: bool,
}

impl Upstream for TunnelEnd {
    fn connect(&self, _: &Conversation, _: SocketAddr) -> Result<Socket, String> {
        Err(self.failure.clone().unwrap_or_else(|| "the connection is gone".to_owned()))
    }

    fn name(&self, _: &Conversation) -> String {
        self.name.clone()
    }

    fn is_recorded(&self, _: &Conversation) -> bool {
        self.is_recorded
    }
}

/// A warning about a handshake that the client ended.
fn refused_by_client(target: &str, error: &io::Error) -> String {
    let advice = if error.to_string().contains("alert") || error.kind() == io::ErrorKind::UnexpectedEof {
        "; it may not trust the authority of this proxy: \"mcptap ca\" shows how it can"
    } else {
        ""
    };
    format!("{target}: a client ended the TLS handshake: {error}{advice}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_chosen_by_name_ending_or_url() {
        let names = ["Mcp.example.com", "*.internal", "https://a.test:8443/mcp", "http://[::1]:9/"].map(str::to_owned);
        let hosts = Hosts::new(&names).unwrap();
        for host in ["mcp.example.com", "MCP.EXAMPLE.COM", "x.y.internal", "a.test", "::1"] {
            assert!(hosts.contain(host), "{host}");
        }
        for host in ["example.com", "xmcp.example.com", "internal", "mcp.example.com.evil.test", ""] {
            assert!(!hosts.contain(host), "{host}");
        }
        assert!(Hosts::new(&["*".to_owned()]).unwrap().contain("anything"));
        for wrong in ["", "a/b", "a b", "ftp://a/"] {
            assert!(Hosts::new(&[wrong.to_owned()]).is_err(), "{wrong}");
        }
    }
}
