//! Messages to sessions: what belongs together, and which answer belongs to which request.

pub mod capability;
pub mod contract;
pub mod facts;
pub mod handshake;
pub mod link;
pub mod message;
pub mod meta;
pub mod method;
pub mod numbers;
pub mod operations;
pub mod pairing;
pub mod places;
pub mod revision;
pub mod session;
pub mod shape;
#[cfg(test)]
#[expect(dead_code, reason = "the tests of the program include this file too and use the rest")]
pub(crate) mod talk;
pub mod trace;
pub mod tracker;

pub use message::{Carrier, Message};
pub use numbers::{MessageNumber, SessionNumber};
pub use revision::Revision;
pub use session::{Party, Peers, Session, Transport};
