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
mod kept;
mod pipe;
mod plaintext;
mod suspect;
mod tcp;
#[cfg(test)]
mod tests;
mod tls;
mod unit;
mod websocket;

use std::collections::BTreeSet;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::exchange::{Exchange, ExchangeNumber};
use super::stream::{Stream, StreamKind};
use super::tcp::{Delivery, Facts};
use super::tls::keylog::KeyLog;
use super::{Anomaly, ConnectionId, Direction, Side, http1, http2};
use crate::capture::{Limits, PacketNumber, Provenance, Span, StreamId, Time};

use kept::Kept;
pub use pipe::Process;
use tcp::TcpStack;
pub use unit::{Connected, ServerSent, Text, TextCarrier, Unit};

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
    /// Whether records that waited for secrets were opened or given up since that was last asked.
    released: bool,
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
    /// Connections of whose exchanges a head came that was not said of one that is kept, for a store.
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
    kept: Kept,
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
        Stacks { shared, connections: FxHashMap::default(), released: false }
    }

    /// A TCP connection was opened.
    pub fn opened(&mut self, id: ConnectionId, facts: &Facts) {
        let connected = Connected { endpoints: Some(facts.endpoints), protocol: "unknown", ..Connected::default() };
        let stack = Stack::Tcp(Box::new(TcpStack::new()));
        self.connections.insert(id, Connection { id, connected, kept: Kept::default(), stack });
    }

    /// The next piece of a TCP connection.
    pub fn delivered(&mut self, delivery: &Delivery<'_>, sink: &mut Sink<'_>) {
        if let Some(connection) = self.connections.get_mut(&delivery.connection) {
            let Connection { id, connected, kept, stack } = connection;
            if let Stack::Tcp(stack) = stack {
                stack.push(&mut Layer { id: *id, shared: &mut self.shared, connected, kept, sink }, delivery);
            }
        }
        while self.shared.sealed.bytes > self.shared.limits.sealed_total
            && let Some(oldest) = self.shared.sealed.holders.first().copied()
        {
            self.with(oldest, sink, TcpStack::give_up);
            self.released = true;
            // Whatever it still holds, the next is asked.
            self.shared.sealed.holders.remove(&oldest);
        }
    }

    /// TLS secrets, as lines of a key log: records that waited for them are opened.
    pub fn secrets(&mut self, lines: &[u8], sink: &mut Sink<'_>) {
        if Arc::make_mut(&mut self.shared.keys).add(lines) {
            for waiting in self.shared.sealed.holders.iter().copied().collect::<Vec<_>>() {
                self.with(waiting, sink, TcpStack::retry);
            }
            self.released = true;
        }
    }

    fn with(&mut self, id: ConnectionId, sink: &mut Sink<'_>, act: impl FnOnce(&mut TcpStack, &mut Layer<'_, '_>)) {
        if let Some(Connection { id, connected, kept, stack: Stack::Tcp(stack) }) = self.connections.get_mut(&id) {
            act(stack, &mut Layer { id: *id, shared: &mut self.shared, connected, kept, sink });
        }
    }

    /// A chunk, or the fate, of a process's pipes. `id` names its connection; the first packet opens it.
    pub fn piped(
        &mut self,
        id: ConnectionId,
        process: u32,
        content: &crate::capture::pipe::Content<'_>,
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
            Connection { id, connected, kept: Kept::default(), stack }
        });
        let Connection { id, connected, kept, stack } = connection;
        if let Stack::Pipe(stack) = stack {
            stack.push(&mut Layer { id: *id, shared, connected, kept, sink }, content, packet);
        }
    }

    /// A connection belongs to a session: its streams are said from now on, those so far at once.
    pub fn keep(&mut self, id: ConnectionId, sink: &mut Sink<'_>) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.kept.keep(sink);
        }
    }

    /// Whether a connection holds TLS records whose secrets may still come.
    pub fn waits(&self, id: ConnectionId) -> bool {
        let stack = self.connections.get(&id).map(|connection| &connection.stack);
        matches!(stack, Some(Stack::Tcp(stack)) if stack.waits())
    }

    /// Whether records that waited for secrets were opened or given up since this was last asked.
    pub fn released(&mut self) -> bool {
        std::mem::take(&mut self.released)
    }

    /// A connection is over: whatever is open on it ends. It stays known until it is forgotten, since what ends may be what
    /// tells that it is to be kept.
    pub fn closed(&mut self, id: ConnectionId, sink: &mut Sink<'_>) {
        if let Some(connection) = self.connections.get_mut(&id) {
            let Connection { id, connected, kept, stack } = connection;
            let layer = &mut Layer { id: *id, shared: &mut self.shared, connected, kept, sink };
            match stack {
                Stack::Tcp(stack) => stack.close(layer),
                Stack::Pipe(stack) => stack.close(layer),
            }
        }
    }

    /// Nothing more is asked of a connection that is over.
    pub fn forget(&mut self, id: ConnectionId) {
        self.connections.remove(&id);
        self.shared.headed.remove(&id);
    }

    /// Shows the open exchanges of kept connections of which a head came since this was last asked.
    pub fn headed(&mut self, show: &mut dyn FnMut(&Exchange)) {
        let connections = &mut self.connections;
        self.shared.headed.retain(|id| match connections.get_mut(id) {
            Some(Connection { stack: Stack::Tcp(stack), kept, .. }) if kept.is_kept() => {
                stack.headed(show);
                false
            }
            other => other.is_some(),
        });
    }

    /// What is known of an open connection.
    pub fn connected(&self, id: ConnectionId) -> Option<&Connected> {
        self.connections.get(&id).map(|connection| &connection.connected)
    }

    /// The connections that are open.
    pub fn open(&self) -> impl Iterator<Item = (ConnectionId, &Connected)> {
        self.connections.values().map(|connection| (connection.id, &connection.connected))
    }

    /// Where bytes came from.
    pub fn provenance(&self) -> &Provenance {
        &self.shared.provenance
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
    kept: &'l mut Kept,
    sink: &'l mut Sink<'s>,
}

impl Layer<'_, '_> {
    /// Opens a stream of this connection.
    fn open(&mut self, kind: StreamKind) -> StreamId {
        let id = self.shared.provenance.open();
        if self.shared.options.store {
            self.kept.stream(Stream { id, connection: self.id, kind }, self.sink);
        }
        id
    }

    /// Forgets what stands before `before`, handing it to the store.
    fn forget(&mut self, stream: StreamId, before: u64) {
        let Layer { shared, kept, sink, .. } = self;
        let store = shared.options.store;
        shared.provenance.forget(stream, before, |part| {
            if store {
                kept.part(stream, part, sink);
            }
        });
    }

    /// Closes a stream, handing what is left of it to the store.
    fn close(&mut self, stream: StreamId) {
        let Layer { shared, kept, sink, .. } = self;
        let store = shared.options.store;
        shared.provenance.close(stream, |part| {
            if store {
                kept.part(stream, part, sink);
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
