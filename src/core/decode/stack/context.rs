//! What the stack of one connection works with: what all connections share, and where units go.

use std::collections::BTreeSet;
use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::unit::{Connected, Unit};
use crate::capture::{Limits, Provenance, Span, StreamId};
use crate::decode::exchange::ExchangeNumber;
use crate::decode::stream::{Stream, StreamKind};
use crate::decode::tls::keylog::KeyLog;
use crate::decode::{Anomaly, ConnectionId, Direction};

/// How much the stack does.
#[derive(Clone, Copy, Debug, Default)]
pub struct StackOptions {
    /// Hash the decoded bodies of every exchange.
    pub hash: bool,
    /// Say what a store needs: secrets, streams and their parts.
    pub store: bool,
    /// Leave secret header values as they are.
    pub keep_secrets: bool,
}

/// What the stacks of all connections have in common.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) limits: Limits,
    pub(super) options: StackOptions,
    pub(super) provenance: Provenance,
    pub(super) exchanges: u64,
    /// Bytes of messages being collected, over all connections.
    pub(super) collected: usize,
    /// Connections with open exchanges of which a head came since they were last shown, for a store.
    pub(super) new_heads: FxHashSet<ConnectionId>,
    /// Bytes of bodies in which secrets may stand, over all connections: not of the others, or a store would be told of other limits than a printer.
    pub(super) scanned_bytes: usize,
    /// TLS secrets.
    pub(super) keys: Arc<KeyLog>,
    pub(super) sealed: Sealed,
    /// What may still be spent on finding the TLS sessions whose ClientHello was not captured.
    pub(super) search_left: u64,
}

/// Connections that hold TLS records, waiting for secrets or for the rest of a record.
#[derive(Debug, Default)]
pub(super) struct Sealed {
    pub(super) holders: BTreeSet<ConnectionId>,
    /// Bytes that they hold.
    pub(super) bytes: usize,
}

impl Sealed {
    /// A connection holds so many bytes now.
    pub(super) fn changed(&mut self, connection: ConnectionId, before: usize, now: usize) {
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

impl Shared {
    pub(super) fn new(limits: Limits, options: StackOptions) -> Shared {
        Shared {
            limits,
            options,
            provenance: Provenance::default(),
            exchanges: 0,
            collected: 0,
            new_heads: FxHashSet::default(),
            scanned_bytes: 0,
            keys: Arc::default(),
            sealed: Sealed::default(),
            search_left: limits.secrets_tried,
        }
    }
}

/// Where units go.
pub(super) type Sink<'s> = dyn FnMut(Unit<'_>) + 's;

/// What a stack works with while it handles one piece.
pub(super) struct StackContext<'l, 's> {
    pub(super) id: ConnectionId,
    pub(super) shared: &'l mut Shared,
    pub(super) connected: &'l mut Connected,
    pub(super) sink: &'l mut Sink<'s>,
}

impl StackContext<'_, '_> {
    /// Opens a stream of this connection.
    pub(super) fn open(&mut self, kind: StreamKind) -> StreamId {
        let id = self.shared.provenance.open();
        if self.shared.options.store {
            (self.sink)(Unit::Stream(Stream { id, connection: self.id, kind }));
        }
        id
    }

    /// Forgets what stands before `before`, handing it to the store.
    pub(super) fn forget(&mut self, stream: StreamId, before: u64) {
        let StackContext { id, shared, sink, .. } = self;
        let store = shared.options.store;
        shared.provenance.forget(stream, before, |part| {
            if store {
                sink(Unit::Part(*id, stream, part));
            }
        });
    }

    /// Closes a stream, handing what is left of it to the store.
    pub(super) fn close(&mut self, stream: StreamId) {
        let StackContext { id, shared, sink, .. } = self;
        let store = shared.options.store;
        shared.provenance.close(stream, |part| {
            if store {
                sink(Unit::Part(*id, stream, part));
            }
        });
    }

    pub(super) fn anomaly(
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
