//! Packets, and the origin of the bytes that decoders make of them.
//!
//! This module knows no protocol, does no input or output and reads no clock. All other modules may
//! use it; it uses none of them.

pub mod above_tls;
pub mod limits;
pub mod loss;
pub mod packet;
pub mod pipe;
pub mod pipe_record;
pub mod provenance;
pub mod ranges;
pub mod steps;

pub use limits::Limits;
pub use loss::{Damage, Dropped};
pub use packet::{LinkType, Packet, PacketNumber, Time};
pub use provenance::{Origin, PacketRange, Provenance, Span, StreamId, StreamPart};
pub use ranges::Ranges;
