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
mod context;
mod http;
mod pipe;
mod plaintext;
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
pub use self::unit::{Connected, Process, ServerSent, Text, TextCarrier, Unit};
use super::exchange::Exchange;
use super::stream::StreamKind;
use super::tcp::{Delivery, Facts};
use super::{ConnectionId, Direction, Side, http1, http2};
use crate::capture::{Limits, PacketNumber, Provenance, Time};

/// Connections that may wait for secrets after their end. What they hold of TLS is bounded by [`Limits::sealed_total`], and a store holds
/// [`Limits::undecided`] bytes of packets for each.
pub const LINGERING: usize = 256;

/// The stacks of all open connections.
#[derive(Debug)]
pub struct Stacks {
    shared: Shared,
    connections: FxHashMap<ConnectionId, OpenConnection>,
    /// Connections that are over but for TLS records whose secrets may still come, in order of their ends.
    lingering: VecDeque<(ConnectionId, Option<Facts>)>,
}

#[derive(Debug)]
struct OpenConnection {
    id: ConnectionId,
    connected: Connected,
    stack: Stack,
}

#[derive(Debug)]
enum Stack {
    Tcp(Box<Channel>),
    Pipe(Box<PipeStack>),
}

impl Stacks {
    /// No connection yet.
    pub fn new(limits: Limits, options: StackOptions) -> Stacks {
        let shared = Shared::new(limits, options);
        Stacks { shared, connections: FxHashMap::default(), lingering: VecDeque::new() }
    }

    /// A TCP connection was opened.
    pub fn opened(&mut self, id: ConnectionId, facts: &Facts) {
        let connected = Connected { endpoints: Some(facts.endpoints), protocol: "unknown", ..Connected::default() };
        let stack = Stack::Tcp(Box::new(Channel::new(StreamKind::Tcp)));
        self.connections.insert(id, OpenConnection { id, connected, stack });
    }

    /// The next piece of a TCP connection.
    pub fn delivered(&mut self, delivery: &Delivery<'_>, sink: &mut Sink<'_>) {
        if let Some(connection) = self.connections.get_mut(&delivery.connection) {
            let OpenConnection { id, connected, stack } = connection;
            if let Stack::Tcp(channel) = stack {
                tcp::push(channel, &mut StackContext { id: *id, shared: &mut self.shared, connected, sink }, delivery);
            }
        }
        let mut discarded_any = false;
        while self.shared.sealed.bytes > self.shared.limits.sealed_total
            && let Some(oldest) = self.shared.sealed.holders.first().copied()
        {
            self.with_channel(oldest, sink, Channel::give_up);
            discarded_any = true;
            // Whatever it still holds, the next is asked.
            self.shared.sealed.holders.remove(&oldest);
        }
        if discarded_any {
            self.end_unsealed(sink);
        }
    }

    /// TLS secrets, as lines of a key log: records that waited for them are opened.
    pub fn secrets(&mut self, lines: &[u8], sink: &mut Sink<'_>) {
        if Arc::make_mut(&mut self.shared.keys).add(lines) {
            for waiting in self.shared.sealed.holders.iter().copied().collect::<Vec<_>>() {
                self.with_channel(waiting, sink, Channel::retry);
            }
            self.end_unsealed(sink);
        }
    }

    fn with_channel(
        &mut self,
        id: ConnectionId,
        sink: &mut Sink<'_>,
        action: impl FnOnce(&mut Channel, &mut StackContext<'_, '_>),
    ) {
        if let Some(OpenConnection { id, connected, stack: Stack::Tcp(stack) }) = self.connections.get_mut(&id) {
            action(stack, &mut StackContext { id: *id, shared: &mut self.shared, connected, sink });
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
                process: Some(Process { id: process, start: None, exit: None }),
                client: Some(Side::First),
                protocol: "pipe",
                ..Connected::default()
            };
            let stack = Stack::Pipe(Box::new(PipeStack::new(shared)));
            OpenConnection { id, connected, stack }
        });
        let OpenConnection { id, connected, stack } = connection;
        if let Stack::Pipe(stack) = stack {
            stack.push(&mut StackContext { id: *id, shared, connected, sink }, content, packet);
        }
    }

    /// TCP, or the process, is done with a connection. It ends at once, unless TLS records wait for secrets that may still come: a capture tool may write
    /// them behind the packets. At most [`LINGERING`] such connections wait; beyond, the oldest end without.
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
    fn end_unsealed(&mut self, sink: &mut Sink<'_>) {
        for (id, facts) in std::mem::take(&mut self.lingering) {
            match self.waits_for_secrets(id) {
                true => self.lingering.push_back((id, facts)),
                false => self.end(id, facts, sink),
            }
        }
    }

    /// Whether a connection holds TLS records whose secrets may still come.
    fn waits_for_secrets(&self, id: ConnectionId) -> bool {
        let stack = self.connections.get(&id).map(|connection| &connection.stack);
        matches!(stack, Some(Stack::Tcp(stack)) if stack.waits_for_secrets())
    }

    /// Ends whatever is open on a connection, and forgets it.
    fn end(&mut self, id: ConnectionId, facts: Option<Facts>, sink: &mut Sink<'_>) {
        self.shared.new_heads.remove(&id);
        let Some(OpenConnection { id, mut connected, stack }) = self.connections.remove(&id) else { return };
        let context = &mut StackContext { id, shared: &mut self.shared, connected: &mut connected, sink };
        match stack {
            Stack::Tcp(mut channel) => {
                channel.close(context);
                (context.sink)(Unit::Connected(id, context.connected));
            }
            Stack::Pipe(mut stack) => stack.close(context),
        }
        sink(Unit::Closed(id, &connected, facts));
    }

    /// Shows the open exchanges of which a head came since this was last asked, on the connections that `shows` names.
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
pub fn is_client_start(bytes: &[u8]) -> bool {
    let by_client = Some(Some(Direction::ClientToServer));
    http1::sniff(bytes) == by_client || http2::sniff(bytes) == by_client || super::tls::is_client_hello(bytes)
}
