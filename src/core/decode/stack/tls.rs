//! TLS on a connection. Its records are decrypted, and a protocol is recognised in their content.

use std::collections::VecDeque;
use std::sync::Arc;

use super::channel::{Channel, direction};
use super::context::StackContext;
use super::plaintext::Plaintext;
use super::unit::Unit;
use crate::capture::{Origin, Span, StreamId};
use crate::decode::exchange::Exchange;
use crate::decode::stream::StreamKind;
use crate::decode::tls::{Arrival, Tls, TlsEvent};
use crate::decode::{Direction, Piece, Side};

/// Decodes TLS on one channel.
#[derive(Debug)]
pub(super) struct TlsStack {
    tls: Tls,
    inner: PlaintextChannel,
    /// The offset at which each direction begins.
    begins: [u64; 2],
    /// Number of held bytes that was last reported to [`super::context::Sealed`].
    reported_held: usize,
}

/// The channel of the decrypted bytes.
#[derive(Debug)]
struct PlaintextChannel {
    channel: Channel,
    /// For each direction, the stream of the records.
    record_streams: [StreamId; 2],
    /// For each direction, the plaintext that the receiver acknowledged.
    acknowledged_plaintext: [AcknowledgedPlaintext; 2],
    /// For a store: the plaintext of each side.
    plaintext: [Plaintext; 2],
    /// Whether anything was decrypted.
    has_data: bool,
}

/// Converts TCP acknowledgments of record bytes to acknowledgments of plaintext.
#[derive(Debug, Default)]
struct AcknowledgedPlaintext {
    /// Offset up to which plaintext is acknowledged.
    acknowledged_to: u64,
    /// The end of each later record, in the stream of records and in the plaintext. Oldest first.
    unacknowledged: VecDeque<(u64, u64)>,
}

impl AcknowledgedPlaintext {
    /// The most records that wait for their acknowledgment; a TCP window holds fewer. Beyond, the
    /// oldest count as acknowledged, because acknowledgments must be missing.
    const MAX_RECORDS: usize = 4_096;

    fn push(&mut self, record: u64, plaintext: u64) {
        if self.unacknowledged.len() >= Self::MAX_RECORDS
            && let Some((_, plaintext)) = self.unacknowledged.pop_front()
        {
            self.acknowledged_to = plaintext;
        }
        self.unacknowledged.push_back((record, plaintext));
    }

    /// The offset up to which plaintext is acknowledged, if records are acknowledged
    /// up to `acknowledged`.
    fn acknowledged_to(&mut self, acknowledged: u64) -> u64 {
        while let Some((_, plaintext)) = self.unacknowledged.front().filter(|(record, _)| *record <= acknowledged) {
            self.acknowledged_to = *plaintext;
            self.unacknowledged.pop_front();
        }
        self.acknowledged_to
    }
}

impl TlsStack {
    /// A decoder for the streams of both directions. Each begins at its offset in `begins`.
    pub(super) fn new(context: &StackContext<'_>, record_streams: [StreamId; 2], begins: [u64; 2]) -> TlsStack {
        let inner = PlaintextChannel {
            channel: Channel::new(StreamKind::Plaintext),
            record_streams,
            acknowledged_plaintext: Default::default(),
            plaintext: Default::default(),
            has_data: false,
        };
        TlsStack { tls: Tls::at_offsets(context.shared.limits, begins), inner, begins, reported_held: 0 }
    }

    /// Decodes the next piece of one direction.
    pub(super) fn push(
        &mut self,
        context: &mut StackContext<'_>,
        direction: Direction,
        piece: Piece<'_>,
        arrival: Arrival<'_>,
    ) {
        // Whoever gets the keys could decrypt the records.
        let end = context.shared.provenance.length(self.inner.record_streams[direction as usize]);
        context.mask_content(direction, self.begins[direction as usize]..end);
        let keys = Arc::clone(&context.shared.keys);
        let TlsStack { tls, inner, .. } = self;
        *tls.search_left() = context.shared.search_left;
        tls.push(direction, piece, arrival, &keys, &mut |event| inner.event(context, event));
        context.shared.search_left = *tls.search_left();
        if tls.held() > context.shared.limits.sealed_per_connection {
            tls.give_up();
        }
        self.report_changes(context);
        if !context.shared.unnamed_secrets.is_empty() {
            self.prove(context);
        }
    }

    /// Assigns secrets whose session is not known, as far as records that wait here prove it, and
    /// decrypts these records.
    pub(super) fn prove(&mut self, context: &mut StackContext<'_>) {
        let proved = self.tls.prove(&context.shared.unnamed_secrets);
        for (label, random, secret) in &proved {
            Arc::make_mut(&mut context.shared.keys).insert(*label, *random, *secret);
            context.shared.unnamed_secrets.remove(*label, *secret);
        }
        if !proved.is_empty() {
            self.retry(context);
        }
    }

    /// Decrypts held records after new secrets arrived.
    pub(super) fn retry(&mut self, context: &mut StackContext<'_>) {
        let keys = Arc::clone(&context.shared.keys);
        let TlsStack { tls, inner, .. } = self;
        tls.retry(&keys, &mut |event| inner.event(context, event));
        self.report_changes(context);
    }

    /// Whether records wait for secrets that may still come.
    pub(super) fn waits_for_secrets(&self) -> bool {
        self.tls.waits()
    }

    /// Calls `show` with each open exchange that got a head since the last call.
    pub(super) fn show_new_heads(&mut self, show: &mut dyn FnMut(&Exchange)) {
        self.inner.channel.show_new_heads(show);
    }

    /// Discards held records, because their memory is needed elsewhere.
    pub(super) fn give_up(&mut self, context: &mut StackContext<'_>) {
        self.tls.give_up();
        self.report_changes(context);
    }

    /// Offset of the first record byte of a side that may still be queried: of the current record,
    /// of a held record, or of the record with the first plaintext that is still needed.
    pub(super) fn low_water(&self, context: &StackContext<'_>, side: Side) -> u64 {
        let direction = direction(context, side);
        let own = self.tls.low_water(direction);
        self.inner.needed_from(context, side).map_or(own, |needed_from| needed_from.min(own))
    }

    /// Reports changes of the negotiated parameters and of the number of held bytes.
    fn report_changes(&mut self, context: &mut StackContext<'_>) {
        let held = self.tls.held();
        context.shared.sealed.changed(context.id, self.reported_held, held);
        self.reported_held = held;
        let (tls, connection) = (&self.tls, &context.connection);
        let same = connection.server_name.as_deref() == tls.server_name()
            && connection.tls.len() == tls.record_groups().len()
            && connection.secrecy == tls.secrecy();
        if !same {
            self.update_connection(context);
            context.connection_changed();
        }
    }

    /// Copies what is known of TLS to the connection.
    fn update_connection(&self, context: &mut StackContext<'_>) {
        let connection = context.connection_mut();
        connection.server_name = self.tls.server_name().map(str::to_owned);
        connection.tls = self.tls.record_groups().to_vec();
        connection.agreed = Some(self.tls.agreed());
        connection.secrecy = self.tls.secrecy();
    }

    /// Ends the channel inside, and emits the keys if the user asked to keep secrets.
    pub(super) fn close(&mut self, context: &mut StackContext<'_>) {
        context.shared.sealed.changed(context.id, self.reported_held, 0);
        context.shared.blanked += u64::from(context.shared.options.redaction.is_some());
        self.update_connection(context);
        if self.inner.has_data {
            for side in [Side::First, Side::Second] {
                self.inner.save(context, side, true);
            }
            self.inner.with_channel(context, Channel::close);
        }
        if context.shared.options.keep_secrets {
            let lines = |random| context.shared.keys.get(random).map(|secrets| secrets.lines(random));
            let lines: String = self.tls.client_randoms().filter_map(lines).collect();
            if !lines.is_empty() {
                (context.sink)(Unit::Keys(context.id, lines));
            }
        }
    }
}

impl PlaintextChannel {
    fn event(&mut self, context: &mut StackContext<'_>, event: TlsEvent<'_>) {
        match event {
            TlsEvent::Data { direction, bytes, record: (start, end), time, acknowledged } => {
                if bytes.is_empty() {
                    return;
                }
                let side = context.connection.sender(direction);
                let stream = self.stream(context, side);
                let from = Span { stream: self.record_streams[direction as usize], start, end };
                let plain = context.shared.provenance.append(stream, bytes.len() as u64, Origin::Derived(from));
                self.acknowledged_plaintext[direction as usize].push(end, plain.end);
                let acknowledged =
                    self.acknowledged_plaintext[direction.reversed() as usize].acknowledged_to(acknowledged);
                let arrival = Arrival { packets: &[], time, acknowledged };
                if context.shared.options.store {
                    self.plaintext[side.index()].push(plain.start, bytes);
                }
                self.push(context, side, Piece::Data(bytes), arrival);
            }
            TlsEvent::Lost { direction, length, time } => {
                let side = context.connection.sender(direction);
                let stream = self.stream(context, side);
                self.save(context, side, true);
                context.shared.provenance.append(stream, length, Origin::Missing);
                self.push(context, side, Piece::Gap(length), Arrival { time, ..Arrival::default() });
            }
            // Without data nobody waits for the end, and no stream needs to be opened.
            TlsEvent::End { direction, ending, time } if self.has_data => {
                let side = context.connection.sender(direction);
                self.push(context, side, Piece::End(ending), Arrival { time, ..Arrival::default() });
            }
            TlsEvent::End { .. } => {}
            TlsEvent::Reversed => {
                let client = context.connection.sender(Direction::ServerToClient);
                context.connection_mut().client = Some(client);
                self.record_streams.reverse();
                self.acknowledged_plaintext.reverse();
                context.connection_changed();
            }
            TlsEvent::Anomaly { direction, record: (start, end), anomaly } => {
                let span = Span { stream: self.record_streams[direction as usize], start, end };
                context.anomaly(Some(direction), None, Some(span), anomaly);
            }
        }
    }

    fn stream(&mut self, context: &mut StackContext<'_>, side: Side) -> StreamId {
        self.has_data = true;
        self.channel.stream(context, side)
    }

    fn push(&mut self, context: &mut StackContext<'_>, side: Side, piece: Piece<'_>, arrival: Arrival<'_>) {
        self.with_channel(context, |channel, context| channel.push(context, side, piece, arrival));
        self.save(context, side, false);
    }

    /// Runs `work` on the channel. Secrets that it reports are in the plaintext, not in packets, so
    /// they are masked there.
    fn with_channel(&mut self, context: &mut StackContext<'_>, work: impl FnOnce(&mut Channel, &mut StackContext<'_>)) {
        let PlaintextChannel { channel, plaintext, .. } = self;
        let StackContext { id, shared, connection, bytes, sink } = context;
        let mut redirect = |unit: Unit| match unit {
            Unit::Secret(_, side, range, mask) => plaintext[side.index()].add_secret(range, mask),
            other => sink(other),
        };
        work(channel, &mut StackContext { id: *id, shared, connection, bytes, sink: &mut redirect });
    }

    /// Passes plaintext that was searched for secrets to the store; with `all`, also the rest. In
    /// an unrecognised protocol any byte may be a secret.
    fn save(&mut self, context: &mut StackContext<'_>, side: Side, all: bool) {
        let Some(stream) = self.channel.opened_stream(side).filter(|_| context.shared.options.store) else { return };
        let is_unrecognised = self.channel.is_unrecognised();
        let cleared = if is_unrecognised { 0 } else { self.channel.cleared(context, side) };
        let keep_secrets = context.shared.options.keep_secrets;
        if let Some((start, bytes)) = self.plaintext[side.index()].take(cleared, all, keep_secrets) {
            (context.sink)(Unit::Plaintext(context.id, stream, start, bytes));
        }
    }

    /// Offset of the record with the first plaintext of a side that is still needed.
    fn needed_from(&self, context: &StackContext<'_>, side: Side) -> Option<u64> {
        if !self.has_data {
            return None;
        }
        let start = self.channel.needed_from(context, side);
        let stream = self.channel.opened_stream(side)?;
        let part = context.shared.provenance.parents(Span { stream, start, end: u64::MAX }).next()?;
        if let Origin::Derived(record) = part.origin { Some(record.start) } else { None }
    }
}
