//! The ground state: what was observed, and where bytes came from.
//!
//! No protocol, no input or output, no clock lives here. Everything else in the program may use this module; it uses
//! nothing of the program.

pub mod limits;
pub mod loss;
pub mod packet;
pub mod pipe;
pub mod provenance;
pub mod ranges;

pub use limits::Limits;
pub use loss::{Damage, Dropped};
pub use packet::{LinkType, Packet, PacketNumber, Time};
pub use provenance::{Origin, PacketRange, Part, Provenance, Span, StreamId};
pub use ranges::Ranges;
