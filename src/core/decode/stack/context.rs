//! The context of a connection's decoders: the state that all connections share, and the
//! sink for units.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::unit::{ByteCounts, ConnectionInfo, ParsedText, Text, TextCarrier, Unit};
use crate::capture::{Limits, Provenance, Span, StreamId, Time};
use crate::decode::exchange::ExchangeNumber;
use crate::decode::http::PlainFields;
use crate::decode::mask::{Mask, MaskKey};
use crate::decode::raw::Raw;
use crate::decode::redact::Redaction;
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
    /// The user's rules for values in messages.
    pub redaction: Option<&'static Redaction>,
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
    /// If values are redacted: the streams of connections, and for each stream with a redacted text
    /// the stream of its texts after redaction.
    pub(super) connection_streams: FxHashSet<StreamId>,
    pub(super) redacted_streams: FxHashMap<StreamId, StreamId>,
    /// If values are redacted: coded bodies and TLS connections whose packets are blanked.
    pub(super) blanked: u64,
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
            connection_streams: FxHashSet::default(),
            redacted_streams: FxHashMap::default(),
            blanked: 0,
            search_left: limits.secrets_tried,
        }
    }
}

/// Receives the units of all connections.
pub(super) type Sink<'s> = dyn FnMut(Unit) + 's;

/// The context in which one connection handles one piece.
pub(super) struct StackContext<'l> {
    pub(super) id: ConnectionId,
    pub(super) shared: &'l mut Shared,
    /// The state of the connection. Units that were emitted hold earlier states of it.
    pub(super) connection: &'l mut Arc<ConnectionInfo>,
    pub(super) bytes: &'l mut ByteCounts,
    pub(super) sink: &'l mut Sink<'l>,
}

impl StackContext<'_> {
    /// The state of the connection, to change it.
    pub(super) fn connection_mut(&mut self) -> &mut ConnectionInfo {
        Arc::make_mut(self.connection)
    }

    /// Reports that the state of the connection changed.
    pub(super) fn connection_changed(&mut self) {
        (self.sink)(Unit::ConnectionChanged(self.id, Arc::clone(self.connection), *self.bytes));
    }

    /// Redacts a text, parses it and emits it.
    pub(super) fn text(
        &mut self,
        direction: Direction,
        raw: Raw<'static>,
        span: Span,
        time: Time,
        carrier: TextCarrier,
    ) {
        let (raw, span) = self.redacted(direction, raw, span);
        self.redacted_text(direction, raw, span, time, carrier);
    }

    /// Parses a text and emits it. It was redacted before.
    pub(super) fn redacted_text(
        &mut self,
        direction: Direction,
        raw: Raw<'static>,
        span: Span,
        time: Time,
        carrier: TextCarrier,
    ) {
        let Shared { provenance, limits, .. } = &*self.shared;
        let Some(parsed) = ParsedText::new(&raw, span, &carrier, provenance, limits) else {
            return (self.sink)(Unit::OtherText(time));
        };
        let (connection, connected) = (self.id, Arc::clone(self.connection));
        let text = Text { connection, connected, direction, raw, parsed, span, time, carrier };
        (self.sink)(Unit::Text(Box::new(text)));
    }

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
        let is_of_connection = matches!(kind, StreamKind::Tcp(_) | StreamKind::Plaintext(_) | StreamKind::Pipe(_));
        if is_of_connection && self.shared.options.redaction.is_some() {
            self.shared.connection_streams.insert(id);
        }
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
        if self.shared.options.redaction.is_some() {
            self.shared.connection_streams.remove(&stream);
            if let Some(redacted) = self.shared.redacted_streams.remove(&stream) {
                self.close(redacted);
            }
        }
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
