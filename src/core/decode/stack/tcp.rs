//! A TCP connection: its bytes enter the streams of a channel, with the packets that they came from.

use super::channel::Channel;
use super::layer::Layer;
use super::unit::Unit;
use crate::capture::Origin;
use crate::decode::Piece;
use crate::decode::tcp::Delivery;
use crate::decode::tls::Arrival;

/// Takes the next piece of one side.
pub(super) fn push(channel: &mut Channel, layer: &mut Layer<'_, '_>, delivery: &Delivery<'_>) {
    let side = delivery.side;
    let stream = channel.stream(layer, side);
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
    channel.push(layer, side, delivery.piece, arrival);
    if layer.shared.options.store {
        let cleared = channel.cleared(layer, side);
        (layer.sink)(Unit::Cleared(layer.id, side, cleared));
    }
}
