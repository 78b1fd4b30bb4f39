//! TLS on a connection: its records opened, and what they carried recognised anew.

use std::collections::VecDeque;
use std::sync::Arc;

use super::channel::{Channel, direction};
use super::plaintext::Plaintext;
use super::{Layer, Unit};
use crate::capture::{Origin, Span, StreamId};
use crate::decode::exchange::Exchange;
use crate::decode::stream::StreamKind;
use crate::decode::tls::{Arrival, Tls, TlsEvent};
use crate::decode::{Direction, Piece, Side};

#[derive(Debug)]
pub(super) struct TlsStack {
    tls: Tls,
    inner: Inner,
    /// Bytes that it said it holds.
    held: usize,
}

/// What the records carried.
#[derive(Debug)]
struct Inner {
    channel: Channel,
    /// The streams of the records, by direction.
    below: [StreamId; 2],
    /// For each direction, where its latest records ended: in the stream of records, and in the plaintext.
    ends: [Ends; 2],
    /// For a store, by side.
    plaintext: [Plaintext; 2],
    /// Whether anything was carried.
    used: bool,
}

/// Where records ended, for the records of the other direction to say what their sender had seen.
#[derive(Debug, Default)]
struct Ends {
    /// Below the other side's acknowledgments: plaintext up to here was seen.
    seen: u64,
    behind: VecDeque<(u64, u64)>,
}

impl Ends {
    /// Records that wait to be acknowledged: more than a window holds. Beyond, the oldest count as seen: acknowledgments are missing.
    const REMEMBERED: usize = 4_096;

    fn push(&mut self, record: u64, plaintext: u64) {
        if self.behind.len() >= Self::REMEMBERED
            && let Some((_, plaintext)) = self.behind.pop_front()
        {
            self.seen = plaintext;
        }
        self.behind.push_back((record, plaintext));
    }

    /// How much plaintext of this direction whoever acknowledged this much of it has seen.
    fn seen(&mut self, acknowledged: u64) -> u64 {
        while let Some((_, plaintext)) = self.behind.front().filter(|(record, _)| *record <= acknowledged) {
            self.seen = *plaintext;
            self.behind.pop_front();
        }
        self.seen
    }
}

impl TlsStack {
    /// On the streams of both directions, from these offsets on.
    pub(super) fn new(layer: &Layer<'_, '_>, below: [StreamId; 2], begins: [u64; 2]) -> TlsStack {
        let inner = Inner {
            channel: Channel::new(StreamKind::Plaintext),
            below,
            ends: Default::default(),
            plaintext: Default::default(),
            used: false,
        };
        TlsStack { tls: Tls::at_offsets(layer.shared.limits, begins), inner, held: 0 }
    }

    /// The next piece of one direction of the records.
    pub(super) fn push(
        &mut self,
        layer: &mut Layer<'_, '_>,
        direction: Direction,
        piece: Piece<'_>,
        arrival: Arrival<'_>,
    ) {
        let keys = Arc::clone(&layer.shared.keys);
        let TlsStack { tls, inner, .. } = self;
        *tls.search_left() = layer.shared.search_left;
        tls.push(direction, piece, arrival, &keys, &mut |event| inner.event(layer, event));
        layer.shared.search_left = *tls.search_left();
        if tls.held() > layer.shared.limits.sealed_per_connection {
            tls.give_up();
        }
        self.settle(layer);
    }

    /// Secrets came.
    pub(super) fn retry(&mut self, layer: &mut Layer<'_, '_>) {
        let keys = Arc::clone(&layer.shared.keys);
        let TlsStack { tls, inner, .. } = self;
        tls.retry(&keys, &mut |event| inner.event(layer, event));
        self.settle(layer);
    }

    /// Whether records wait for secrets that may still come.
    pub(super) fn waits(&self) -> bool {
        self.tls.waits()
    }

    /// Shows the open exchanges of which a head came since this was last asked.
    pub(super) fn headed(&mut self, show: &mut dyn FnMut(&Exchange)) {
        self.inner.channel.headed(show);
    }

    /// Memory is needed elsewhere.
    pub(super) fn give_up(&mut self, layer: &mut Layer<'_, '_>) {
        self.tls.give_up();
        self.settle(layer);
    }

    /// The lowest offset of the records of a side that may still be asked for: of the record being read, of one that is held, or of that in which
    /// the first plaintext stands that may be asked for.
    pub(super) fn low_water(&self, layer: &Layer<'_, '_>, side: Side) -> u64 {
        let direction = direction(layer, side);
        let own = self.tls.low_water(direction);
        self.inner.floor(layer, side).map_or(own, |floor| floor.min(own))
    }

    /// Says what changed: what TLS agreed on, and how much is held.
    fn settle(&mut self, layer: &mut Layer<'_, '_>) {
        let held = self.tls.held();
        layer.shared.sealed.changed(layer.id, self.held, held);
        self.held = held;
        let (tls, connected) = (&self.tls, &layer.connected);
        let same = connected.server_name.as_deref() == tls.server_name()
            && connected.tls.len() == tls.record_groups().len()
            && connected.secrecy == tls.secrecy();
        if !same {
            self.tell(layer);
            (layer.sink)(Unit::Connected(layer.id, layer.connected));
        }
    }

    fn tell(&self, layer: &mut Layer<'_, '_>) {
        let connected = &mut *layer.connected;
        connected.server_name = self.tls.server_name().map(str::to_owned);
        connected.tls = self.tls.record_groups().to_vec();
        connected.agreed = Some(self.tls.agreed());
        connected.secrecy = self.tls.secrecy();
    }

    /// The connection is over.
    pub(super) fn close(&mut self, layer: &mut Layer<'_, '_>) {
        layer.shared.sealed.changed(layer.id, self.held, 0);
        self.tell(layer);
        if self.inner.used {
            for side in [Side::First, Side::Second] {
                self.inner.save(layer, side, true);
            }
            self.inner.within(layer, Channel::close);
        }
        if layer.shared.options.keep_secrets
            && let Some(random) = self.tls.client_random()
            && let Some(secrets) = layer.shared.keys.get(random)
        {
            (layer.sink)(Unit::Keys(layer.id, secrets.lines(random)));
        }
    }
}

impl Inner {
    fn event(&mut self, layer: &mut Layer<'_, '_>, event: TlsEvent<'_>) {
        match event {
            TlsEvent::Data { direction, bytes, record: (start, end), time, acknowledged } => {
                if bytes.is_empty() {
                    return;
                }
                let side = layer.connected.sender(direction);
                let stream = self.stream(layer, side);
                let from = Span { stream: self.below[direction as usize], start, end };
                let plain = layer.shared.provenance.append(stream, bytes.len() as u64, Origin::Derived(from));
                self.ends[direction as usize].push(end, plain.end);
                let acknowledged = self.ends[direction.reversed() as usize].seen(acknowledged);
                let arrival = Arrival { packets: &[], time, acknowledged };
                if layer.shared.options.store {
                    self.plaintext[side.index()].push(plain.start, bytes);
                }
                self.push(layer, side, Piece::Data(bytes), arrival);
            }
            TlsEvent::Lost { direction, length, time } => {
                let side = layer.connected.sender(direction);
                let stream = self.stream(layer, side);
                self.save(layer, side, true);
                layer.shared.provenance.append(stream, length, Origin::Missing);
                self.push(layer, side, Piece::Gap(length), Arrival { time, ..Arrival::default() });
            }
            // Nobody waits for the end of what carried nothing, and it opens no streams.
            TlsEvent::End { direction, ending, time } if self.used => {
                let side = layer.connected.sender(direction);
                self.push(layer, side, Piece::End(ending), Arrival { time, ..Arrival::default() });
            }
            TlsEvent::End { .. } => {}
            TlsEvent::Reversed => {
                layer.connected.client = Some(layer.connected.sender(Direction::ServerToClient));
                self.below.reverse();
                self.ends.reverse();
                (layer.sink)(Unit::Connected(layer.id, layer.connected));
            }
            TlsEvent::Anomaly { direction, record: (start, end), anomaly } => {
                let span = Span { stream: self.below[direction as usize], start, end };
                layer.anomaly(Some(direction), None, Some(span), anomaly);
            }
        }
    }

    fn stream(&mut self, layer: &mut Layer<'_, '_>, side: Side) -> StreamId {
        self.used = true;
        self.channel.stream(layer, side)
    }

    fn push(&mut self, layer: &mut Layer<'_, '_>, side: Side, piece: Piece<'_>, arrival: Arrival<'_>) {
        self.within(layer, |channel, layer| channel.push(layer, side, piece, arrival));
        self.save(layer, side, false);
    }

    /// Lets the channel work. What it says of secrets is about the plaintext: no packet shows them.
    fn within(&mut self, layer: &mut Layer<'_, '_>, work: impl FnOnce(&mut Channel, &mut Layer<'_, '_>)) {
        let Inner { channel, plaintext, .. } = self;
        let Layer { id, shared, connected, sink } = layer;
        let mut said = |unit: Unit<'_>| match unit {
            Unit::Secret(_, side, range, mask) => plaintext[side.index()].secret(range, mask),
            other => sink(other),
        };
        work(channel, &mut Layer { id: *id, shared, connected, sink: &mut said });
    }

    /// Hands a store what was looked at for secrets; with `all`, the rest, too. Where nothing was recognised, a secret may stand anywhere.
    fn save(&mut self, layer: &mut Layer<'_, '_>, side: Side, all: bool) {
        let Some(stream) = self.channel.known_stream(side).filter(|_| layer.shared.options.store) else { return };
        let unknown = self.channel.is_unknown();
        let cleared = if unknown { 0 } else { self.channel.cleared(layer, side) };
        let keep_secrets = layer.shared.options.keep_secrets;
        if let Some((start, bytes)) = self.plaintext[side.index()].take(cleared, all, keep_secrets) {
            (layer.sink)(Unit::Plaintext(layer.id, stream, start, bytes));
        }
    }

    /// Where the record begins in which the first plaintext of a side stands that may still be asked for.
    fn floor(&self, layer: &Layer<'_, '_>, side: Side) -> Option<u64> {
        if !self.used {
            return None;
        }
        let start = self.channel.floor(layer, side);
        let stream = self.channel.known_stream(side)?;
        let part = layer.shared.provenance.parents(Span { stream, start, end: u64::MAX }).next()?;
        if let Origin::Derived(record) = part.origin { Some(record.start) } else { None }
    }
}
