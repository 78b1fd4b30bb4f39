//! Messages to sessions: what belongs together, and which answer belongs to which request.

pub mod message;
pub mod session;

pub use message::{Carrier, Message, MessageNumber, Transport};
pub use session::{Party, Peers, Session, SessionNumber};
