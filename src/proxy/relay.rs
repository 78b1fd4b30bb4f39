//! Forwards the bytes of one client connection.
//!
//! One thread serves both sides with one `poll`. It forwards what it has read before it reads more.
//! Requests are recorded before they are forwarded, responses too. If one side stops reading, the
//! other side is not read either, and the rest of the program goes on. A closed or reset connection
//! has the same effect on the other side.

use std::io::{self, ErrorKind};
use std::mem;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::set_socket_linger;

use super::RelayContext;
use super::conversation::Conversation;
use crate::capture::Time;
use crate::decode::Direction::{ClientToServer, ServerToClient};
use crate::http::listen;
use crate::http::origin::Origin;
use crate::http::requests::Refusal;
use crate::http::slots::Slot;
use crate::http::socket::Socket;
use crate::source::now;
use crate::source::tape::LossyTapeConnection;

/// Bytes per read.
const PIECE: usize = 64 << 10;

/// The longest time that a client may keep a connection which the server has closed.
const CLIENT_LINGER: Duration = Duration::from_secs(60);

/// The longest time that a client may take to read why it was refused.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(5);

/// The end of a connection.
#[derive(Debug)]
enum RelayEnd {
    /// Both sides have closed their direction.
    Finished,
    /// One side reset its connection, so the other one is reset too.
    Broken,
    /// The client gets this response from the proxy.
    Answered(Refusal),
    /// The client of a forward proxy wants a tunnel to this host and port.
    Tunnel(String),
}

/// The server behind a relay.
pub(super) trait Upstream {
    /// Connects for a client that reached the proxy at `local`.
    fn connect(&self, conversation: &Conversation, local: SocketAddr) -> Result<Socket, String>;

    /// The server's name, for messages.
    fn name(&self, conversation: &Conversation) -> String;

    /// Whether the traffic is recorded.
    fn is_recorded(&self, _conversation: &Conversation) -> bool {
        true
    }

    /// A response asked for a log-in.
    fn asked_login(&self) {}
}

/// A client that wants a tunnel. It waits for the response to its request.
pub(super) struct TunnelRequest {
    pub(super) slot: Slot,
    /// Host and port.
    pub(super) target: String,
}

/// One client connection and its connection to the server.
pub(super) struct Relay<'p> {
    context: &'p RelayContext,
    upstream: &'p dyn Upstream,
    stop: BorrowedFd<'p>,
    slot: Slot,
    /// Whether the slot serves a request at the moment.
    is_serving: bool,
    client: Socket,
    /// The client's address, and the local address that it connected to.
    addresses: (SocketAddr, SocketAddr),
    server: Option<Socket>,
    /// The server that a client of a forward proxy named for this connection.
    connected_to: Option<Origin>,
    conversation: Conversation,
    track: Option<LossyTapeConnection>,
    /// Time at which the bytes that are being forwarded were read.
    read_at: Time,
    /// Whether each side has closed its direction: client, server.
    ended: (bool, bool),
    /// The client has closed its direction, also if what it sent before is not read yet.
    client_left: bool,
    /// The server does not accept more bytes. It may still send a response.
    server_stopped_reading: bool,
    /// The time at which a slow or absent client is given up.
    until: Option<Instant>,
    read: Vec<u8>,
    out: Vec<u8>,
}

impl<'p> Relay<'p> {
    /// # Errors
    /// The client is already gone.
    pub(super) fn new(
        context: &'p RelayContext,
        upstream: &'p dyn Upstream,
        stop: BorrowedFd<'p>,
        slot: Slot,
        client: Socket,
        conversation: Conversation,
    ) -> io::Result<Relay<'p>> {
        client.socket().set_nodelay(true)?;
        let addresses = (client.socket().peer_addr()?, client.socket().local_addr()?);
        Ok(Relay {
            context,
            upstream,
            stop,
            slot,
            is_serving: false,
            client,
            addresses,
            server: None,
            connected_to: None,
            conversation,
            track: None,
            read_at: now(),
            ended: (false, false),
            client_left: false,
            server_stopped_reading: false,
            until: Some(Instant::now() + context.head_timeout),
            read: vec![0; PIECE],
            out: Vec::new(),
        })
    }

    /// The same relay with a connection to its server.
    pub(super) fn connected(mut self, server: Socket) -> io::Result<Relay<'p>> {
        let address = server.socket().peer_addr()?;
        if self.upstream.is_recorded(&self.conversation) {
            self.track = Some(self.context.recorder.track(self.read_at, self.addresses.0, address));
        }
        self.server = Some(server);
        Ok(self)
    }

    /// Forwards until the connection ends, or until the client wants a tunnel.
    pub(super) fn run(mut self) -> Option<TunnelRequest> {
        let end = loop {
            match self.step() {
                Ok(()) => {}
                Err(end) => break end,
            }
        };
        match end {
            RelayEnd::Finished => {}
            RelayEnd::Broken => self.break_off(),
            RelayEnd::Answered(refusal) => self.answer(&refusal),
            RelayEnd::Tunnel(target) => return Some(TunnelRequest { slot: self.slot, target }),
        }
        None
    }

    /// Waits for the next bytes and forwards them.
    fn step(&mut self) -> Result<(), RelayEnd> {
        let (reads_client, reads_server) = (self.reads_client(), self.reads_server());
        let has_plaintext = reads_server && self.server.as_ref().is_some_and(Socket::has_buffered_plaintext);
        let client_has_plaintext = reads_client && self.client.has_buffered_plaintext();
        let limit = if has_plaintext || client_has_plaintext {
            Some(Duration::ZERO)
        } else {
            self.until.map(|until| until - Instant::now().min(until))
        };
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        let flag = |is_wanted: bool, flag: PollFlags| if is_wanted { flag } else { PollFlags::empty() };
        let flags = |reads, writes| flag(reads, PollFlags::IN) | flag(writes, PollFlags::OUT);
        let client = flags(reads_client, self.client.has_unsent()) | flag(!self.client_left, PollFlags::RDHUP);
        let server = self.server.as_ref();
        let server =
            server.map(|socket| (socket, flags(reads_server, socket.has_unsent() && !self.server_stopped_reading)));
        // If nothing is expected from the server at the moment, it is not polled. The next read or
        // write will show whether it is gone.
        let (server_end, server) = match server.filter(|(_, flags)| !flags.is_empty()) {
            Some((socket, flags)) => (socket.socket().as_fd(), flags),
            None => (self.stop, PollFlags::empty()),
        };
        let mut watched = [
            PollFd::from_borrowed_fd(self.stop, PollFlags::IN),
            PollFd::new(self.client.socket(), client),
            PollFd::from_borrowed_fd(server_end, server),
        ];
        match poll(&mut watched, limit.as_ref()) {
            Err(rustix::io::Errno::INTR) => return Ok(()),
            Err(_) => return Err(RelayEnd::Broken),
            Ok(_) => {}
        }
        let [stop, client, server] = watched.map(|watched| watched.revents());
        if !stop.is_empty() {
            return Err(RelayEnd::Finished);
        }
        let is_reset = client.intersects(PollFlags::ERR | PollFlags::HUP) && !reads_client;
        if is_reset {
            return Err(RelayEnd::Broken);
        }
        if self.slot.is_revoked() {
            // A reset would destroy what a waiting client has not read yet.
            return Err(if self.is_serving { RelayEnd::Broken } else { RelayEnd::Finished });
        }
        self.client_left |= client.intersects(PollFlags::RDHUP);
        if self.client_left && !(client | server).is_empty() {
            // Something is still forwarded.
            self.until = None;
        }
        if !client.is_empty() || client_has_plaintext {
            self.client.flush().map_err(|_| RelayEnd::Broken)?;
            if reads_client {
                self.read_client()?;
            }
        }
        if !server.is_empty() || has_plaintext {
            self.read_server(reads_server)?;
        }
        self.check_end()
    }

    /// Whether to read the client. It is not read while bytes for the server wait to be sent.
    fn reads_client(&self) -> bool {
        let is_stuck = self.server_stopped_reading || self.server.as_ref().is_some_and(Socket::has_unsent);
        !self.ended.0 && !is_stuck && self.conversation.wants_more()
    }

    fn reads_server(&self) -> bool {
        self.server.is_some() && !self.ended.1 && !self.client.has_unsent()
    }

    fn read_client(&mut self) -> Result<(), RelayEnd> {
        match self.client.receive(&mut self.read) {
            Ok(None) => Ok(()),
            Ok(Some(0)) => self.end_client_stream(),
            // Many clients close TLS without `close_notify`.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => self.end_client_stream(),
            Ok(Some(count)) => {
                self.read_at = now();
                self.conversation.push(ClientToServer, &self.read[..count]);
                if let Some(target) = self.conversation.rewriter.tunnel_to.take() {
                    return Err(RelayEnd::Tunnel(target));
                }
                self.update_slot()?;
                self.forward_to_server()
            }
            Err(_) => Err(RelayEnd::Broken),
        }
    }

    fn end_client_stream(&mut self) -> Result<(), RelayEnd> {
        self.ended.0 = true;
        // There was no request, or an incomplete one.
        let server = self.server.as_mut().ok_or(RelayEnd::Finished)?;
        self.server_stopped_reading |= server.end().is_err();
        Ok(())
    }

    /// Tells the slot whether the client waits for a response, and which session it has.
    fn update_slot(&mut self) -> Result<(), RelayEnd> {
        if let Some(name) = self.conversation.rewriter.session_begun.take() {
            self.slot.session_begins(&name);
        }
        if self.conversation.is_opaque() {
            // The tunnel that was used longest ago is the first to lose its slot.
            self.slot.rest();
            return Ok(());
        }
        let is_serving = self.conversation.is_serving();
        if mem::replace(&mut self.is_serving, is_serving) == is_serving {
            return Ok(());
        }
        if !is_serving {
            self.slot.rest();
            return Ok(());
        }
        let seen = &self.conversation.rewriter;
        let names = seen.session_names.iter().map(String::as_str);
        self.slot.begin(names).map_err(|refusal| match seen.is_answering {
            // The response has begun, so there is no place for another one.
            true => RelayEnd::Broken,
            false => RelayEnd::Answered(refusal),
        })
    }

    fn forward_to_server(&mut self) -> Result<(), RelayEnd> {
        self.out.clear();
        self.conversation.take(ClientToServer, &mut self.out);
        if self.out.is_empty() {
            return Ok(());
        }
        self.until = None;
        let (client, local) = self.addresses;
        if self.moves() {
            // All responses of the server before have arrived.
            (self.server, self.track) = (None, None);
        }
        let server = match &mut self.server {
            Some(server) => server,
            none => {
                let made = self.upstream.connect(&self.conversation, local);
                let address = made.as_ref().ok().and_then(|server| server.socket().peer_addr().ok());
                self.connected_to = self.conversation.rewriter.origin.clone();
                if self.upstream.is_recorded(&self.conversation) {
                    // Without a server, the recording shows the proxy as the peer.
                    self.track = Some(self.context.recorder.track(self.read_at, client, address.unwrap_or(local)));
                }
                match made {
                    Ok(server) => none.insert(server),
                    Err(why) => {
                        if let Some(track) = &mut self.track {
                            track.sent(self.read_at, &self.out);
                        }
                        return Err(RelayEnd::Answered(Refusal::new(502, self.with_server_name(&why))));
                    }
                }
            }
        };
        // Recorded before it is sent: the server may react on another connection, and that reaction
        // must come later in the recording.
        if let Some(track) = &mut self.track {
            track.sent(self.read_at, &self.out);
        }
        self.server_stopped_reading |= server.send(&self.out).is_err();
        Ok(())
    }

    /// Whether the client's last request is for another server than the connected one.
    fn moves(&self) -> bool {
        self.server.is_some() && self.conversation.rewriter.origin != self.connected_to
    }

    /// An error message with the server's name.
    fn with_server_name(&self, why: &str) -> String {
        format!("{}: {why}", self.upstream.name(&self.conversation))
    }

    fn read_server(&mut self, reads: bool) -> Result<(), RelayEnd> {
        let Some(server) = &mut self.server else { return Ok(()) };
        self.server_stopped_reading |= server.flush().is_err();
        if !reads {
            return Ok(());
        }
        match server.receive(&mut self.read) {
            Ok(None) => return Ok(()),
            Ok(Some(0)) => self.end_server_stream(),
            Ok(Some(count)) => {
                self.read_at = now();
                self.conversation.push(ServerToClient, &self.read[..count]);
                self.update_slot()?;
            }
            // Many servers close TLS without `close_notify`. This matters only within a response,
            // because the client must not take it for the end of the response.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof && !self.conversation.rewriter.is_answering => {
                self.end_server_stream()
            }
            Err(error) if !self.conversation.was_answered() => {
                let why = format!("the connection broke before a response: {error}");
                return Err(RelayEnd::Answered(Refusal::new(502, self.with_server_name(&why))));
            }
            Err(_) => return Err(RelayEnd::Broken),
        }
        self.forward_to_client()?;
        // The client may have sent more requests, which can be forwarded now.
        self.forward_to_server()
    }

    fn end_server_stream(&mut self) {
        self.ended.1 = true;
        self.conversation.end();
    }

    fn forward_to_client(&mut self) -> Result<(), RelayEnd> {
        self.out.clear();
        self.conversation.take(ServerToClient, &mut self.out);
        if let Some(url) = self.conversation.rewriter.bypass.take() {
            self.context
                .warn(&format!("the server redirects clients to {url}; their traffic to that URL is not recorded"));
        }
        if mem::take(&mut self.conversation.rewriter.asks_login) {
            self.upstream.asked_login();
        }
        if !self.out.is_empty() {
            if let Some(track) = &mut self.track {
                track.received(self.read_at, &self.out);
            }
            self.client.send(&self.out).map_err(|_| RelayEnd::Broken)?;
        }
        if self.ended.1 {
            if !self.conversation.was_answered() && self.conversation.rewriter.unanswered > 0 {
                let why = "it closed the connection without a response";
                return Err(RelayEnd::Answered(Refusal::new(502, self.with_server_name(why))));
            }
            self.client.end().map_err(|_| RelayEnd::Broken)?;
        }
        Ok(())
    }

    /// Checks whether the connection has to end.
    fn check_end(&mut self) -> Result<(), RelayEnd> {
        let is_closed = self.ended.1 && !self.client.has_unsent();
        if let Some(refused) = &self.conversation.rewriter.refused {
            if refused.is_partly_sent {
                // The server has a part of a request whose end is unknown. If its response may
                // already be on its way, the proxy cannot send one of its own.
                let is_mute = self.conversation.rewriter.unanswered == 1
                    && !self.conversation.rewriter.is_answering
                    && !self.client.has_unsent();
                return Err(if is_mute { RelayEnd::Answered(refused.refusal.clone()) } else { RelayEnd::Broken });
            }
            // Responses have to come in the order of the requests.
            if self.conversation.rewriter.unanswered == 0 {
                return Err(RelayEnd::Answered(refused.refusal.clone()));
            }
        }
        if is_closed && (self.ended.0 || self.server_stopped_reading) {
            return Err(RelayEnd::Finished);
        }
        self.check_patience()
    }

    fn check_patience(&mut self) -> Result<(), RelayEnd> {
        let now = Instant::now();
        let is_slow = self.server.is_none() || !self.conversation.unsent().is_empty();
        let patience = match (self.ended.1, is_slow) {
            (true, _) => CLIENT_LINGER,
            (false, _) if self.client_left => self.context.abandoned,
            (false, true) if self.conversation.rewriter.refused.is_none() => self.context.head_timeout,
            _ => {
                self.until = None;
                return Ok(());
            }
        };
        if *self.until.get_or_insert(now + patience) > now {
            return Ok(());
        }
        if self.client_left && !self.ended.1 {
            // Nobody waits for the response. The reset tells the server to give the request up.
            return Err(RelayEnd::Broken);
        }
        if self.ended.1 || self.conversation.unsent().is_empty() || self.conversation.rewriter.unanswered > 0 {
            return Err(RelayEnd::Finished);
        }
        Err(RelayEnd::Answered(Refusal::new(408, "the request took too long to arrive")))
    }

    /// Resets both connections.
    fn break_off(&self) {
        for socket in [Some(&self.client), self.server.as_ref()].into_iter().flatten() {
            // If lingering cannot be set, the socket is closed normally.
            let _ = set_socket_linger(socket.socket(), Some(Duration::ZERO));
        }
    }

    /// Sends a response in place of the server. Bytes of the client that never reached the server
    /// are recorded too.
    fn answer(mut self, refusal: &Refusal) {
        let (client, local) = self.addresses;
        self.context.warn(&format!("a client got status {}: {}", refusal.status, refusal.why));
        let response = refusal.response("mcptap proxy: ");
        let time = now();
        if self.upstream.is_recorded(&self.conversation) {
            let open = || self.context.recorder.track(time, client, local);
            let mut track = self.track.take().unwrap_or_else(open);
            track.sent(time, self.conversation.unsent());
            track.received(time, response.as_bytes());
        }
        drop(self.server.take());
        let socket = self.client.socket();
        let ready = socket.set_nonblocking(false).and_then(|()| socket.set_write_timeout(Some(REFUSAL_TIMEOUT)));
        let sent = ready.and_then(|()| self.client.send(response.as_bytes()));
        if sent.and_then(|()| self.client.end()).is_ok() {
            listen::drain(self.client.socket());
        }
    }
}
