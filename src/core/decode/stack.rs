//! What follows what: from the bytes of a connection to texts that may be JSON-RPC.
//!
//! ```text
//!  TCP ─── channel ─┬─ http1, http2 ─ content ─ coding ─┬─ whole body ──────► Text
//!             ▲      │     └─ websocket ─ messages ──────┼───────────────────► Text
//!             │      │                                   └─ sse ─ event data ─► Text
//!             └──────┼─ tls (records that open; the others are explained)
//!                    └─ nothing known (bytes are counted)
//!  pipe ──────────────── lines ───────────────────────────────────────────────► Text
//! ```
//!
//! Protocols are found by their bytes, on any port, at the start of a connection or wherever a capture begins. This is the only
//! place that records where streams come from: each decoder gives back offsets in its input, the stack appends them to [`Provenance`].

mod body;
mod channel;
mod http;
mod pipe;
mod plaintext;
mod suspect;
mod tcp;
#[cfg(test)]
mod tests;
mod tls;
mod unit;
mod websocket;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::exchange::{Exchange, ExchangeNumber};
use super::stream::{Stream, StreamKind};
use super::tcp::{Delivery, Facts};
use super::tls::keylog::KeyLog;
use super::{Anomaly, ConnectionId, Direction, Side, http1, http2};
use crate::capture::{Limits, PacketNumber, Provenance, Span, StreamId, Time};

pub use pipe::Process;
use tcp::TcpStack;
pub use unit::{Connected, ServerSent, Text, TextCarrier, Unit};

/// Connections that may wait for secrets after their end. What they hold of TLS is bounded by [`Limits::sealed_total`], and a store holds
/// [`Limits::undecided`] bytes of packets for each.
pub const LINGERING: usize = 256;

/// How much the stack does.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Hash the decoded bodies of every exchange.
    pub hash: bool,
    /// Say what a store needs: secrets, streams and their parts.
    pub store: bool,
    /// Leave secret header values as they are.
    pub keep_secrets: bool,
}

/// The stacks of all open connections.
#[derive(Debug)]
pub struct Stacks {
    shared: Shared,
    connections: FxHashMap<ConnectionId, Connection>,
    /// Connections that are over but for TLS records whose secrets may still come, in order of their ends.
    lingering: VecDeque<(ConnectionId, Option<Facts>)>,
}

/// What the stacks of all connections have in common.
#[derive(Debug)]
struct Shared {
    limits: Limits,
    options: Options,
    provenance: Provenance,
    exchanges: u64,
    /// Bytes of messages being collected, over all connections.
    collected: usize,
    /// Connections with open exchanges of which a head came since they were last shown, for a store.
    headed: FxHashSet<ConnectionId>,
    /// Bytes of bodies in which secrets may stand, over all connections: not of the others, or a store would be told of other limits than a printer.
    suspected: usize,
    /// TLS secrets.
    keys: Arc<KeyLog>,
    sealed: Sealed,
    /// What may still be spent on finding the TLS sessions whose ClientHello was not captured.
    search_left: u64,
}

/// Connections that hold TLS records, waiting for secrets or for the rest of a record.
#[derive(Debug, Default)]
struct Sealed {
    holders: BTreeSet<ConnectionId>,
    /// Bytes that they hold.
    bytes: usize,
}

impl Sealed {
    /// A connection holds so many bytes now.
    fn changed(&mut self, connection: ConnectionId, before: usize, now: usize) {
        self.bytes = self.bytes - before + now;
        match (before, now) {
            (0, 0) => {}
            (_, 0) => {
                self.holders.remove(&connection);
            }
            (0, _) => {
                self.holders.insert(connection);
            }
            _ => {}
        }
    }
}

#[derive(Debug)]
struct Connection {
    id: ConnectionId,
    connected: Connected,
    stack: Stack,
}

#[derive(Debug)]
enum Stack {
    Tcp(Box<TcpStack>),
    Pipe(Box<pipe::PipeStack>),
}

/// Where units go.
type Sink<'s> = dyn FnMut(Unit<'_>) + 's;

impl Stacks {
    /// No connection yet.
    pub fn new(limits: Limits, options: Options) -> Stacks {
        let shared = Shared {
            limits,
            options,
            provenance: Provenance::default(),
            exchanges: 0,
            collected: 0,
            headed: FxHashSet::default(),
            suspected: 0,
            keys: Arc::default(),
            sealed: Sealed::default(),
            search_left: limits.secrets_tried,
        };
        Stacks { shared, connections: FxHashMap::default(), lingering: VecDeque::new() }
    }

    /// A TCP connection was opened.
    pub fn opened(&mut self, id: ConnectionId, facts: &Facts) {
        let connected = Connected { endpoints: Some(facts.endpoints), protocol: "unknown", ..Connected::default() };
        let stack = Stack::Tcp(Box::new(TcpStack::new()));
        self.connections.insert(id, Connection { id, connected, stack });
    }

    /// The next piece of a TCP connection.
    pub fn delivered(&mut self, delivery: &Delivery<'_>, sink: &mut Sink<'_>) {
        if let Some(connection) = self.connections.get_mut(&delivery.connection) {
            let Connection { id, connected, stack } = connection;
            if let Stack::Tcp(stack) = stack {
                stack.push(&mut Layer { id: *id, shared: &mut self.shared, connected, sink }, delivery);
            }
        }
        let mut gave_up = false;
        while self.shared.sealed.bytes > self.shared.limits.sealed_total
            && let Some(oldest) = self.shared.sealed.holders.first().copied()
        {
            self.with(oldest, sink, TcpStack::give_up);
            gave_up = true;
            // Whatever it still holds, the next is asked.
            self.shared.sealed.holders.remove(&oldest);
        }
        if gave_up {
            self.settle(sink);
        }
    }

    /// TLS secrets, as lines of a key log: records that waited for them are opened.
    pub fn secrets(&mut self, lines: &[u8], sink: &mut Sink<'_>) {
        if Arc::make_mut(&mut self.shared.keys).add(lines) {
            for waiting in self.shared.sealed.holders.iter().copied().collect::<Vec<_>>() {
                self.with(waiting, sink, TcpStack::retry);
            }
            self.settle(sink);
        }
    }

    fn with(&mut self, id: ConnectionId, sink: &mut Sink<'_>, act: impl FnOnce(&mut TcpStack, &mut Layer<'_, '_>)) {
        if let Some(Connection { id, connected, stack: Stack::Tcp(stack) }) = self.connections.get_mut(&id) {
            act(stack, &mut Layer { id: *id, shared: &mut self.shared, connected, sink });
        }
    }

    /// A chunk, or the fate, of a process's pipes. `id` names its connection; the first packet opens it.
    pub fn piped(
        &mut self,
        id: ConnectionId,
        process: u32,
        content: &crate::capture::pipe::PipeEvent<'_>,
        packet: (PacketNumber, Time),
        sink: &mut Sink<'_>,
    ) {
        let shared = &mut self.shared;
        let connection = self.connections.entry(id).or_insert_with(|| {
            let connected = Connected {
                process: Some(Process::new(process)),
                client: Some(Side::First),
                protocol: "pipe",
                ..Connected::default()
            };
            let stack = Stack::Pipe(Box::new(pipe::PipeStack::new(shared)));
            Connection { id, connected, stack }
        });
        let Connection { id, connected, stack } = connection;
        if let Stack::Pipe(stack) = stack {
            stack.push(&mut Layer { id: *id, shared, connected, sink }, content, packet);
        }
    }

    /// TCP, or the process, is done with a connection. It ends at once, unless TLS records wait for secrets that may still come: a capture tool may write
    /// them behind the packets. At most [`LINGERING`] such connections wait; beyond, the oldest end without.
    pub fn closed(&mut self, id: ConnectionId, facts: Option<Facts>, sink: &mut Sink<'_>) {
        if !self.waits(id) {
            return self.end(id, facts, sink);
        }
        self.lingering.push_back((id, facts));
        if self.lingering.len() > LINGERING
            && let Some((oldest, facts)) = self.lingering.pop_front()
        {
            self.end(oldest, facts, sink);
        }
    }

    /// The capture is over: no secrets come any more.
    pub fn finish(&mut self, sink: &mut Sink<'_>) {
        while let Some((id, facts)) = self.lingering.pop_front() {
            self.end(id, facts, sink);
        }
    }

    /// Connections that wait for secrets after their end.
    pub fn lingering(&self) -> usize {
        self.lingering.len()
    }

    /// Ends the lingering connections that wait no longer. At once, so that it does not matter when there was time to look.
    fn settle(&mut self, sink: &mut Sink<'_>) {
        for (id, facts) in std::mem::take(&mut self.lingering) {
            match self.waits(id) {
                true => self.lingering.push_back((id, facts)),
                false => self.end(id, facts, sink),
            }
        }
    }

    /// Whether a connection holds TLS records whose secrets may still come.
    fn waits(&self, id: ConnectionId) -> bool {
        let stack = self.connections.get(&id).map(|connection| &connection.stack);
        matches!(stack, Some(Stack::Tcp(stack)) if stack.waits())
    }

    /// Ends whatever is open on a connection, and forgets it.
    fn end(&mut self, id: ConnectionId, facts: Option<Facts>, sink: &mut Sink<'_>) {
        self.shared.headed.remove(&id);
        let Some(Connection { id, mut connected, stack }) = self.connections.remove(&id) else { return };
        let layer = &mut Layer { id, shared: &mut self.shared, connected: &mut connected, sink };
        match stack {
            Stack::Tcp(mut stack) => stack.close(layer),
            Stack::Pipe(mut stack) => stack.close(layer),
        }
        sink(Unit::Closed(id, &connected, facts));
    }

    /// Shows the open exchanges of which a head came since this was last asked, on the connections that `shows` names.
    pub fn headed(&mut self, shows: impl Fn(ConnectionId) -> bool, show: &mut dyn FnMut(&Exchange)) {
        let connections = &mut self.connections;
        self.shared.headed.retain(|id| match connections.get_mut(id) {
            Some(Connection { stack: Stack::Tcp(stack), .. }) if shows(*id) => {
                stack.headed(show);
                false
            }
            other => other.is_some(),
        });
    }

    /// The connections that are open.
    pub fn open(&self) -> impl Iterator<Item = (ConnectionId, &Connected)> {
        self.connections.values().map(|connection| (connection.id, &connection.connected))
    }

    /// Where bytes came from.
    pub fn provenance(&self) -> &Provenance {
        &self.shared.provenance
    }

    /// Retains this many of the latest parts that decoding needs no longer, for queries.
    pub fn retain_parts(&mut self, most: usize) {
        self.shared.provenance.retain(most);
    }
}

/// Whether bytes are what a client begins a connection with, in any of the protocols that are looked for.
pub fn opens(bytes: &[u8]) -> bool {
    let by_client = Some(Some(Direction::ClientToServer));
    http1::sniff(bytes) == by_client || http2::sniff(bytes) == by_client || super::tls::is_client_hello(bytes)
}

/// What a stack works with while it handles one piece.
struct Layer<'l, 's> {
    id: ConnectionId,
    shared: &'l mut Shared,
    connected: &'l mut Connected,
    sink: &'l mut Sink<'s>,
}

impl Layer<'_, '_> {
    /// Opens a stream of this connection.
    fn open(&mut self, kind: StreamKind) -> StreamId {
        let id = self.shared.provenance.open();
        if self.shared.options.store {
            (self.sink)(Unit::Stream(Stream { id, connection: self.id, kind }));
        }
        id
    }

    /// Forgets what stands before `before`, handing it to the store.
    fn forget(&mut self, stream: StreamId, before: u64) {
        let Layer { id, shared, sink, .. } = self;
        let store = shared.options.store;
        shared.provenance.forget(stream, before, |part| {
            if store {
                sink(Unit::Part(*id, stream, part));
            }
        });
    }

    /// Closes a stream, handing what is left of it to the store.
    fn close(&mut self, stream: StreamId) {
        let Layer { id, shared, sink, .. } = self;
        let store = shared.options.store;
        shared.provenance.close(stream, |part| {
            if store {
                sink(Unit::Part(*id, stream, part));
            }
        });
    }

    fn anomaly(
        &mut self,
        direction: Option<Direction>,
        exchange: Option<ExchangeNumber>,
        span: Option<Span>,
        anomaly: Anomaly,
    ) {
        let packets = span.map(|span| self.shared.provenance.packets(span)).unwrap_or_default();
        (self.sink)(Unit::Anomaly { connection: self.id, exchange, packets, span, direction, anomaly });
    }
}
