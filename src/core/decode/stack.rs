//! Joins the decoders: from the bytes of a connection to texts that may be JSON-RPC.
//!
//! ```text
//!  TCP ─── channel ─┬─ http1, http2 ─ content ─ coding ─┬─ whole body ──────► Text
//!             ▲      │     └─ websocket ─ messages ──────┼───────────────────► Text
//!             │      │                                   └─ sse ─ event data ─► Text
//!             └──────┼─ tls (decrypted records; the handshake is described)
//!                    └─ unrecognised (bytes are counted)
//!  pipe ──────────────── lines ───────────────────────────────────────────────► Text
//! ```
//!
//! Protocols are recognised by their bytes, on any port, at the start of a connection or where the
//! capture begins. Only the stack records the origins of streams: each decoder returns offsets in
//! its input, and the stack appends them to [`Provenance`].

mod body;
mod body_hash;
mod channel;
mod context;
mod first_answer;
mod http;
mod pipe;
mod plaintext;
mod redaction;
mod secret_scan;
mod tcp;
#[cfg(test)]
mod tests;
mod tls;
mod unit;
mod websocket;

use std::collections::VecDeque;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use self::channel::Channel;
pub use self::context::StackOptions;
use self::context::{Shared, Sink, StackContext};
use self::pipe::PipeStack;
use self::tls::TlsStack;
pub use self::unit::{
    ByteCounts, ConnectionInfo, ParsedText, Process, ServerSentEvent, StderrLine, Text, TextCarrier, Unit,
};
use super::exchange::Exchange;
use super::stream::StreamKind;
use super::tcp::{Delivery, Facts};
use super::{ConnectionId, Direction, Side, http1, http2};
use crate::capture::{Limits, PacketNumber, Provenance, Time};

/// The most connections that wait for TLS secrets after their end. [`Limits::sealed_total`] bounds
/// their TLS records. A store buffers [`Limits::undecided`] bytes of packets for each.
pub const LINGERING: usize = 256;

/// The decoders of all open connections.
#[derive(Debug)]
pub struct Stacks {
    shared: Shared,
    connections: FxHashMap<ConnectionId, OpenConnection>,
    /// Connections that ended while they hold TLS records whose secrets may still come, in order
    /// of their ends.
    lingering: VecDeque<(ConnectionId, Option<Facts>)>,
}

/// A connection with its decoders.
#[derive(Debug)]
struct OpenConnection {
    id: ConnectionId,
    connection: Arc<ConnectionInfo>,
    bytes: ByteCounts,
    stack: Stack,
}

/// The decoders of a connection: over TCP, or over the pipes of a process.
#[derive(Debug)]
enum Stack {
    Tcp(Box<Channel>),
    Pipe(Box<PipeStack>),
}

impl OpenConnection {
    fn new(id: ConnectionId, connection: ConnectionInfo, stack: Stack) -> OpenConnection {
        OpenConnection { id, connection: Arc::new(connection), bytes: ByteCounts::default(), stack }
    }
}

impl Stacks {
    /// A stack without connections.
    pub fn new(limits: Limits, options: StackOptions) -> Stacks {
        let shared = Shared::new(limits, options);
        Stacks { shared, connections: FxHashMap::default(), lingering: VecDeque::new() }
    }

    /// Adds a TCP connection.
    pub fn opened(&mut self, id: ConnectionId, facts: &Facts) {
        let connection =
            ConnectionInfo { endpoints: Some(facts.endpoints), protocol: "unknown", ..ConnectionInfo::default() };
        let stack = Stack::Tcp(Box::new(Channel::new(StreamKind::Tcp)));
        self.connections.insert(id, OpenConnection::new(id, connection, stack));
    }

    /// Decodes the next piece of a TCP connection.
    ///
    /// If too many TLS records are held over all connections, the oldest
    /// connections discard theirs.
    pub fn delivered(&mut self, delivery: &Delivery<'_>, sink: &mut Sink<'_>) {
        if let Some(connection) = self.connections.get_mut(&delivery.connection) {
            let OpenConnection { id, connection, bytes, stack } = connection;
            if let Stack::Tcp(channel) = stack {
                let shared = &mut self.shared;
                tcp::push(channel, &mut StackContext { id: *id, shared, connection, bytes, sink }, delivery);
            }
        }
        let mut discarded_any = false;
        while self.shared.sealed.bytes > self.shared.limits.sealed_total
            && let Some(oldest) = self.shared.sealed.holders.first().copied()
        {
            self.with_tls(oldest, sink, TlsStack::give_up);
            discarded_any = true;
            // Even if it still holds some, the next connection is asked.
            self.shared.sealed.holders.remove(&oldest);
        }
        if discarded_any {
            self.end_unsealed(sink);
        }
    }

    /// Adds TLS secrets, as lines of a key log, and decrypts the records that waited for them.
    pub fn secrets(&mut self, lines: &[u8], sink: &mut Sink<'_>) {
        if self.shared.unnamed_secrets.add(lines) {
            for waiting in self.shared.sealed.holders.iter().copied().collect::<Vec<_>>() {
                self.with_tls(waiting, sink, TlsStack::prove);
            }
        }
        if Arc::make_mut(&mut self.shared.keys).add(lines) {
            for waiting in self.shared.sealed.holders.iter().copied().collect::<Vec<_>>() {
                self.with_tls(waiting, sink, TlsStack::retry);
            }
            self.end_unsealed(sink);
        }
    }

    /// Runs `action` on the TLS decoder of a connection, if it has one.
    fn with_tls(
        &mut self,
        id: ConnectionId,
        sink: &mut Sink<'_>,
        action: impl FnOnce(&mut TlsStack, &mut StackContext<'_>),
    ) {
        if let Some(OpenConnection { id, connection, bytes, stack: Stack::Tcp(channel) }) =
            self.connections.get_mut(&id)
            && let Some(tls) = channel.tls()
        {
            action(tls, &mut StackContext { id: *id, shared: &mut self.shared, connection, bytes, sink });
        }
    }

    /// Decodes a packet of a process's pipes: a chunk, the start or the exit. The first packet of
    /// `id` opens the connection.
    pub fn pipe_packet(
        &mut self,
        id: ConnectionId,
        process: u32,
        content: &crate::capture::pipe::PipeEvent<'_>,
        packet: (PacketNumber, Time),
        sink: &mut Sink<'_>,
    ) {
        let shared = &mut self.shared;
        let connection = self.connections.entry(id).or_insert_with(|| {
            let connection = ConnectionInfo {
                process: Some(Process { id: process, start: None, exit: None }),
                client: Some(Side::First),
                protocol: "pipe",
                ..ConnectionInfo::default()
            };
            let stack = Stack::Pipe(Box::new(PipeStack::new(shared)));
            OpenConnection::new(id, connection, stack)
        });
        let OpenConnection { id, connection, bytes, stack } = connection;
        if let Stack::Pipe(stack) = stack {
            stack.push(&mut StackContext { id: *id, shared, connection, bytes, sink }, content, packet);
        }
    }

    /// Ends a connection after TCP, or the process, ended.
    ///
    /// It lingers if TLS records wait for secrets, because a capture tool may write those after
    /// the packets. At most [`LINGERING`] connections do. One more ends the oldest, and its
    /// records stay encrypted.
    pub fn closed(&mut self, id: ConnectionId, facts: Option<Facts>, sink: &mut Sink<'_>) {
        if !self.waits_for_secrets(id) {
            return self.end(id, facts, sink);
        }
        self.lingering.push_back((id, facts));
        if self.lingering.len() > LINGERING
            && let Some((oldest, facts)) = self.lingering.pop_front()
        {
            self.end(oldest, facts, sink);
        }
    }

    /// Ends the lingering connections at the end of the capture, when no more secrets can come.
    pub fn finish(&mut self, sink: &mut Sink<'_>) {
        while let Some((id, facts)) = self.lingering.pop_front() {
            self.end(id, facts, sink);
        }
    }

    /// Number of ended connections that wait for TLS secrets.
    pub fn lingering(&self) -> usize {
        self.lingering.len()
    }

    /// Ends the lingering connections that no longer wait. This happens immediately, so that the
    /// result does not depend on the caller's timing.
    fn end_unsealed(&mut self, sink: &mut Sink<'_>) {
        for (id, facts) in std::mem::take(&mut self.lingering) {
            match self.waits_for_secrets(id) {
                true => self.lingering.push_back((id, facts)),
                false => self.end(id, facts, sink),
            }
        }
    }

    /// Whether a connection holds TLS records whose secrets may still come.
    fn waits_for_secrets(&mut self, id: ConnectionId) -> bool {
        let Some(OpenConnection { stack: Stack::Tcp(channel), .. }) = self.connections.get_mut(&id) else {
            return false;
        };
        channel.tls().is_some_and(|tls| tls.waits_for_secrets())
    }

    /// Ends all that is open on a connection, and removes it.
    fn end(&mut self, id: ConnectionId, facts: Option<Facts>, sink: &mut Sink<'_>) {
        self.shared.new_heads.remove(&id);
        let Some(OpenConnection { id, mut connection, mut bytes, stack }) = self.connections.remove(&id) else {
            return;
        };
        let shared = &mut self.shared;
        let context = &mut StackContext { id, shared, connection: &mut connection, bytes: &mut bytes, sink };
        match stack {
            Stack::Tcp(mut channel) => {
                channel.close(context);
                context.connection_changed();
            }
            Stack::Pipe(mut stack) => stack.close(context),
        }
        sink(Unit::Closed(id, bytes, facts.map(Box::new)));
    }

    /// Calls `show` with each open exchange that got a head since the last call. Only connections
    /// that `shows` accepts are visited.
    pub fn show_new_heads(&mut self, shows: impl Fn(ConnectionId) -> bool, show: &mut dyn FnMut(&Exchange)) {
        let connections = &mut self.connections;
        self.shared.new_heads.retain(|id| match connections.get_mut(id) {
            Some(OpenConnection { stack: Stack::Tcp(stack), .. }) if shows(*id) => {
                stack.show_new_heads(show);
                false
            }
            other => other.is_some(),
        });
    }

    /// The open connections: their state, and their bytes so far.
    pub fn open(&self) -> impl Iterator<Item = (ConnectionId, &ConnectionInfo, ByteCounts)> {
        self.connections.values().map(|connection| (connection.id, &*connection.connection, connection.bytes))
    }

    /// If values are redacted: coded bodies and TLS connections whose packets are blanked.
    pub fn blanked(&self) -> u64 {
        self.shared.blanked
    }

    /// The origins of all streams.
    pub fn provenance(&self) -> &Provenance {
        &self.shared.provenance
    }

    /// Retains the latest `most` parts that decoding no longer needs, for queries.
    pub fn retain_parts(&mut self, most: usize) {
        self.shared.provenance.retain(most);
    }
}

/// Whether a client begins a connection with these bytes, in any of the supported protocols.
pub fn is_client_start(bytes: &[u8]) -> bool {
    let by_client = Some(Some(Direction::ClientToServer));
    http1::sniff(bytes) == by_client || http2::sniff(bytes) == by_client || super::tls::is_client_hello(bytes)
}
