//! A TCP connection: where the bytes of its two streams came from, and what became of them.

use super::channel::Channel;
use super::{Layer, Unit};
use crate::capture::Origin;
use crate::decode::Piece;
use crate::decode::exchange::Exchange;
use crate::decode::stream::StreamKind;
use crate::decode::tcp::Delivery;
use crate::decode::tls::Arrival;

#[derive(Debug)]
pub(super) struct TcpStack {
    channel: Channel,
}

impl TcpStack {
    pub(super) fn new() -> TcpStack {
        TcpStack { channel: Channel::new(StreamKind::Tcp) }
    }

    /// The next piece of one side.
    pub(super) fn push(&mut self, layer: &mut Layer<'_, '_>, delivery: &Delivery<'_>) {
        let side = delivery.side;
        let stream = self.channel.stream(layer, side);
        match delivery.piece {
            Piece::Data(bytes) => {
                layer.connected.seen[side.index()] += bytes.len() as u64;
                for range in delivery.origin {
                    let origin = Origin::Packet { packet: range.packet, offset: range.start };
                    layer.shared.provenance.append(stream, u64::from(range.len()), origin);
                }
            }
            Piece::Gap(length) => {
                layer.connected.lost[side.index()] += length;
                layer.shared.provenance.append(stream, length, Origin::Missing);
            }
            Piece::End(_) => {}
        }
        let arrival = Arrival { packets: delivery.origin, time: delivery.time, acknowledged: delivery.acknowledged };
        self.channel.push(layer, side, delivery.piece, arrival);
        if layer.shared.options.store {
            let cleared = self.channel.cleared(layer, side);
            (layer.sink)(Unit::Cleared(layer.id, side, cleared));
        }
    }

    /// TLS secrets came.
    pub(super) fn retry(&mut self, layer: &mut Layer<'_, '_>) {
        self.channel.retry(layer);
    }

    /// Whether records wait for TLS secrets that may still come.
    pub(super) fn waits(&self) -> bool {
        self.channel.waits()
    }

    /// Memory is needed elsewhere.
    pub(super) fn give_up(&mut self, layer: &mut Layer<'_, '_>) {
        self.channel.give_up(layer);
    }

    /// Shows the open exchanges of which a head came since this was last asked.
    pub(super) fn headed(&mut self, show: &mut dyn FnMut(&Exchange)) {
        self.channel.headed(show);
    }

    /// The connection is over.
    pub(super) fn close(&mut self, layer: &mut Layer<'_, '_>) {
        self.channel.close(layer);
        (layer.sink)(Unit::Connected(layer.id, layer.connected));
    }
}
