//! The context of a connection's decoders: the state that all connections share, and the
//! sink for units.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::unit::{ConnectionInfo, Unit};
use crate::capture::{Limits, Provenance, Span, StreamId};
use crate::decode::exchange::ExchangeNumber;
use crate::decode::http::PlainFields;
use crate::decode::mask::{Mask, MaskKey};
use crate::decode::stream::{Stream, StreamKind};
use crate::decode::tls::keylog::KeyLog;
use crate::decode::tls::unnamed::UnnamedSecrets;
use crate::decode::{Anomaly, ConnectionId, Direction, Side};

/// Options of the stack.
#[derive(Clone, Copy, Debug, Default)]
pub struct StackOptions {
    /// Compute a hash of the decoded body of every exchange.
    pub hash: bool,
    /// Emit the units that a store needs: secrets, streams and their parts.
    pub store: bool,
    /// Do not mask secrets, and emit the TLS keys of connections.
    pub keep_secrets: bool,
    /// The key of the tags of masked secrets. Without one there are no tags.
    pub mask_key: Option<MaskKey>,
}

/// The state that all connections share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) limits: Limits,
    pub(super) options: StackOptions,
    pub(super) provenance: Provenance,
    /// Number of exchanges so far, over all connections.
    pub(super) exchanges: u64,
    /// Bytes of incomplete messages, over all connections.
    pub(super) collected: usize,
    /// For a store: connections whose open exchanges got a head that was not shown yet.
    pub(super) new_heads: FxHashSet<ConnectionId>,
    /// Memory of bodies that are scanned for secrets, in bytes, over all connections.
    ///
    /// It is not part of `collected`: otherwise limits would be reached earlier with a store
    /// than without one.
    pub(super) scanned_bytes: usize,
    /// Header fields without secrets, in which none have to be looked for again.
    pub(super) plain_fields: PlainFields,
    /// The TLS secrets of the capture.
    pub(super) keys: Arc<KeyLog>,
    /// Secrets whose session is not known yet.
    pub(super) unnamed_secrets: UnnamedSecrets,
    pub(super) sealed: Sealed,
    /// Work that may still be spent on searching secrets for TLS sessions whose ClientHello
    /// was not captured.
    pub(super) search_left: u64,
}

/// The connections that hold TLS records: encrypted ones, or the start of an incomplete one.
#[derive(Debug, Default)]
pub(super) struct Sealed {
    pub(super) holders: BTreeSet<ConnectionId>,
    /// Total number of bytes that they hold.
    pub(super) bytes: usize,
}

impl Sealed {
    /// Records that a connection holds `now` bytes, after `before` bytes.
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
            plain_fields: PlainFields::default(),
            keys: Arc::default(),
            unnamed_secrets: UnnamedSecrets::default(),
            sealed: Sealed::default(),
            search_left: limits.secrets_tried,
        }
    }
}

/// Receives the units of all connections.
pub(super) type Sink<'s> = dyn FnMut(Unit<'_>) + 's;

/// The context in which one connection handles one piece.
pub(super) struct StackContext<'l> {
    pub(super) id: ConnectionId,
    pub(super) shared: &'l mut Shared,
    pub(super) connection: &'l mut ConnectionInfo,
    pub(super) sink: &'l mut Sink<'l>,
}

impl StackContext<'_> {
    /// Emits a secret of one side, for the store to mask, unless secrets are kept. `mask` replaces
    /// the bytes of `range`.
    pub(super) fn secret(&mut self, side: Side, range: Range<u64>, mask: Mask) {
        if self.shared.options.store && !self.shared.options.keep_secrets {
            (self.sink)(Unit::Secret(self.id, side, range, mask));
        }
    }

    /// Opens a stream of this connection.
    pub(super) fn open(&mut self, kind: StreamKind) -> StreamId {
        let id = self.shared.provenance.open();
        if self.shared.options.store {
            (self.sink)(Unit::Stream(Stream { id, connection: self.id, kind }));
        }
        id
    }

    /// Discards the origins of bytes before offset `before`, after passing them to the store.
    pub(super) fn forget(&mut self, stream: StreamId, before: u64) {
        let StackContext { id, shared, sink, .. } = self;
        let store = shared.options.store;
        shared.provenance.forget(stream, before, |part| {
            if store {
                sink(Unit::Part(*id, stream, part));
            }
        });
    }

    /// Closes a stream, after passing its remaining parts to the store.
    pub(super) fn close(&mut self, stream: StreamId) {
        let StackContext { id, shared, sink, .. } = self;
        let store = shared.options.store;
        shared.provenance.close(stream, |part| {
            if store {
                sink(Unit::Part(*id, stream, part));
            }
        });
    }

    /// Emits an anomaly, with the packets of `span`.
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
