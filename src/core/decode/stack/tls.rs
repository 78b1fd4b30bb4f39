//! TLS on a connection: its records opened, and what they carried recognised anew.

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

#[derive(Debug)]
pub(super) struct TlsStack {
    tls: Tls,
    inner: PlaintextChannel,
    /// Bytes that it said it holds.
    reported_held: usize,
}

/// What the records carried.
#[derive(Debug)]
struct PlaintextChannel {
    channel: Channel,
    /// The streams of the records, by direction.
    below: [StreamId; 2],
    /// For each direction, where its latest records ended: in the stream of records, and in the plaintext.
    acknowledged_plaintext: [AcknowledgedPlaintext; 2],
    /// For a store, by side.
    plaintext: [Plaintext; 2],
    /// Whether anything was carried.
    has_data: bool,
}

/// Where records ended, for the records of the other direction to say what their sender had seen.
#[derive(Debug, Default)]
struct AcknowledgedPlaintext {
    /// Below the other side's acknowledgments: plaintext up to here was seen.
    acknowledged_to: u64,
    unacknowledged: VecDeque<(u64, u64)>,
}

impl AcknowledgedPlaintext {
    /// Records that wait to be acknowledged: more than a window holds. Beyond, the oldest count as seen: acknowledgments are missing.
    const MAX_RECORDS: usize = 4_096;

    fn push(&mut self, record: u64, plaintext: u64) {
        if self.unacknowledged.len() >= Self::MAX_RECORDS
            && let Some((_, plaintext)) = self.unacknowledged.pop_front()
        {
            self.acknowledged_to = plaintext;
        }
        self.unacknowledged.push_back((record, plaintext));
    }

    /// How much plaintext of this direction whoever acknowledged this much of it has seen.
    fn acknowledged_to(&mut self, acknowledged: u64) -> u64 {
        while let Some((_, plaintext)) = self.unacknowledged.front().filter(|(record, _)| *record <= acknowledged) {
            self.acknowledged_to = *plaintext;
            self.unacknowledged.pop_front();
        }
        self.acknowledged_to
    }
}

impl TlsStack {
    /// On the streams of both directions, from these offsets on.
    pub(super) fn new(context: &StackContext<'_, '_>, below: [StreamId; 2], begins: [u64; 2]) -> TlsStack {
        let inner = PlaintextChannel {
            channel: Channel::new(StreamKind::Plaintext),
            below,
            acknowledged_plaintext: Default::default(),
            plaintext: Default::default(),
            has_data: false,
        };
        TlsStack { tls: Tls::behind(context.shared.limits, begins), inner, reported_held: 0 }
    }

    /// The next piece of one direction of the records.
    pub(super) fn push(
        &mut self,
        context: &mut StackContext<'_, '_>,
        direction: Direction,
        piece: Piece<'_>,
        arrival: Arrival<'_>,
    ) {
        let keys = Arc::clone(&context.shared.keys);
        let TlsStack { tls, inner, .. } = self;
        *tls.search_left() = context.shared.search_left;
        tls.push(direction, piece, arrival, &keys, &mut |event| inner.event(context, event));
        context.shared.search_left = *tls.search_left();
        if tls.held() > context.shared.limits.sealed_per_connection {
            tls.give_up();
        }
        self.report_changes(context);
    }

    /// Secrets came.
    pub(super) fn retry(&mut self, context: &mut StackContext<'_, '_>) {
        let keys = Arc::clone(&context.shared.keys);
        let TlsStack { tls, inner, .. } = self;
        tls.retry(&keys, &mut |event| inner.event(context, event));
        self.report_changes(context);
    }

    /// Whether records wait for secrets that may still come.
    pub(super) fn waits_for_secrets(&self) -> bool {
        self.tls.waits()
    }

    /// Shows the open exchanges of which a head came since this was last asked.
    pub(super) fn show_new_heads(&mut self, show: &mut dyn FnMut(&Exchange)) {
        self.inner.channel.show_new_heads(show);
    }

    /// Memory is needed elsewhere.
    pub(super) fn give_up(&mut self, context: &mut StackContext<'_, '_>) {
        self.tls.give_up();
        self.report_changes(context);
    }

    /// The lowest offset of the records of a side that may still be asked for: of the record being read, of one that is held, or of that in which
    /// the first plaintext stands that may be asked for.
    pub(super) fn low_water(&self, context: &StackContext<'_, '_>, side: Side) -> u64 {
        let direction = direction(context, side);
        let own = self.tls.low_water(direction);
        self.inner.needed_from(context, side).map_or(own, |needed_from| needed_from.min(own))
    }

    /// Says what changed: what TLS agreed on, and how much is held.
    fn report_changes(&mut self, context: &mut StackContext<'_, '_>) {
        let held = self.tls.held();
        context.shared.sealed.changed(context.id, self.reported_held, held);
        self.reported_held = held;
        let (tls, connected) = (&self.tls, &context.connected);
        let same = connected.server_name.as_deref() == tls.server_name()
            && connected.tls.len() == tls.steps().len()
            && connected.secrecy == tls.secrecy();
        if !same {
            self.update_connection(context);
            (context.sink)(Unit::Connected(context.id, context.connected));
        }
    }

    fn update_connection(&self, context: &mut StackContext<'_, '_>) {
        let connected = &mut *context.connected;
        connected.server_name = self.tls.server_name().map(str::to_owned);
        connected.tls = self.tls.steps().to_vec();
        connected.agreed = Some(self.tls.agreed());
        connected.secrecy = self.tls.secrecy();
    }

    /// The connection is over.
    pub(super) fn close(&mut self, context: &mut StackContext<'_, '_>) {
        context.shared.sealed.changed(context.id, self.reported_held, 0);
        self.update_connection(context);
        if self.inner.has_data {
            for side in [Side::First, Side::Second] {
                self.inner.save(context, side, true);
            }
            self.inner.with_channel(context, Channel::close);
        }
        if context.shared.options.keep_secrets
            && let Some(random) = self.tls.client_random()
            && let Some(secrets) = context.shared.keys.get(random)
        {
            (context.sink)(Unit::Keys(context.id, secrets.lines(random)));
        }
    }
}

impl PlaintextChannel {
    fn event(&mut self, context: &mut StackContext<'_, '_>, event: TlsEvent<'_>) {
        match event {
            TlsEvent::Data { direction, bytes, record: (start, end), time, acknowledged } => {
                if bytes.is_empty() {
                    return;
                }
                let side = context.connected.sender(direction);
                let stream = self.stream(context, side);
                let from = Span { stream: self.below[direction as usize], start, end };
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
                let side = context.connected.sender(direction);
                let stream = self.stream(context, side);
                self.save(context, side, true);
                context.shared.provenance.append(stream, length, Origin::Missing);
                self.push(context, side, Piece::Gap(length), Arrival { time, ..Arrival::default() });
            }
            // Nobody waits for the end of what carried nothing, and it opens no streams.
            TlsEvent::End { direction, ending, time } if self.has_data => {
                let side = context.connected.sender(direction);
                self.push(context, side, Piece::End(ending), Arrival { time, ..Arrival::default() });
            }
            TlsEvent::End { .. } => {}
            TlsEvent::Reversed => {
                context.connected.client = Some(context.connected.sender(Direction::ServerToClient));
                self.below.reverse();
                self.acknowledged_plaintext.reverse();
                (context.sink)(Unit::Connected(context.id, context.connected));
            }
            TlsEvent::Anomaly { direction, record: (start, end), anomaly } => {
                let span = Span { stream: self.below[direction as usize], start, end };
                context.anomaly(Some(direction), None, Some(span), anomaly);
            }
        }
    }

    fn stream(&mut self, context: &mut StackContext<'_, '_>, side: Side) -> StreamId {
        self.has_data = true;
        self.channel.stream(context, side)
    }

    fn push(&mut self, context: &mut StackContext<'_, '_>, side: Side, piece: Piece<'_>, arrival: Arrival<'_>) {
        self.with_channel(context, |channel, context| channel.push(context, side, piece, arrival));
        self.save(context, side, false);
    }

    /// Lets the channel work. What it says of secrets is about the plaintext: no packet shows them.
    fn with_channel(
        &mut self,
        context: &mut StackContext<'_, '_>,
        work: impl FnOnce(&mut Channel, &mut StackContext<'_, '_>),
    ) {
        let PlaintextChannel { channel, plaintext, .. } = self;
        let StackContext { id, shared, connected, sink } = context;
        let mut redirect = |unit: Unit<'_>| match unit {
            Unit::Secret(_, side, range, mask) => plaintext[side.index()].add_secret(range, mask),
            other => sink(other),
        };
        work(channel, &mut StackContext { id: *id, shared, connected, sink: &mut redirect });
    }

    /// Hands a store what was looked at for secrets; with `all`, the rest, too. Where nothing was recognised, a secret may stand anywhere.
    fn save(&mut self, context: &mut StackContext<'_, '_>, side: Side, all: bool) {
        let Some(stream) = self.channel.opened_stream(side).filter(|_| context.shared.options.store) else { return };
        let is_unrecognised = self.channel.is_unrecognised();
        let cleared = if is_unrecognised { 0 } else { self.channel.cleared(context, side) };
        let keep_secrets = context.shared.options.keep_secrets;
        if let Some((start, bytes)) = self.plaintext[side.index()].take(cleared, all, keep_secrets) {
            (context.sink)(Unit::Plaintext(context.id, stream, start, bytes));
        }
    }

    /// Where the record begins in which the first plaintext of a side stands that may still be asked for.
    fn needed_from(&self, context: &StackContext<'_, '_>, side: Side) -> Option<u64> {
        if !self.has_data {
            return None;
        }
        let start = self.channel.needed_from(context, side);
        let stream = self.channel.opened_stream(side)?;
        let part = context.shared.provenance.parents(Span { stream, start, end: u64::MAX }).next()?;
        if let Origin::Derived(record) = part.origin { Some(record.start) } else { None }
    }
}
