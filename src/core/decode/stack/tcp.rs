//! TCP as the carrier of a channel: delivered bytes enter the channel's streams, with their
//! packets as origin.

use super::channel::Channel;
use super::context::StackContext;
use super::unit::Unit;
use crate::capture::Origin;
use crate::decode::Piece;
use crate::decode::tcp::Delivery;
use crate::decode::tls::Arrival;

/// Decodes the next piece of one side.
pub(super) fn push(channel: &mut Channel, context: &mut StackContext<'_>, delivery: &Delivery<'_>) {
    let side = delivery.side;
    let stream = channel.stream(context, side);
    match delivery.piece {
        Piece::Data(bytes) => {
            context.bytes.captured += bytes.len() as u64;
            for range in delivery.origin {
                let origin = Origin::Packet { packet: range.packet, offset: range.start };
                context.shared.provenance.append(stream, u64::from(range.len()), origin);
            }
        }
        Piece::Gap(length) => {
            context.bytes.lost = context.bytes.lost.saturating_add(length);
            context.shared.provenance.append(stream, length, Origin::Missing);
        }
        Piece::End(_) => {}
    }
    let arrival = Arrival { packets: delivery.origin, time: delivery.time, acknowledged: delivery.acknowledged };
    channel.push(context, side, delivery.piece, arrival);
    if context.shared.options.store {
        let cleared = channel.cleared(context, side);
        (context.sink)(Unit::Cleared(context.id, side, cleared));
    }
}
