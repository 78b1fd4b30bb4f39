//! From JSON-RPC messages to MCP sessions: which session a message belongs to, which request a
//! response answers, and which messages make up one operation.

pub mod capability;
pub mod content;
pub mod contract;
pub mod handshake;
pub mod link;
pub mod message;
pub mod meta;
pub mod method;
pub mod note;
pub mod number_index;
pub mod numbers;
pub mod operations;
pub mod pairing;
pub mod revision;
pub mod session;
pub mod session_index;
pub mod shape;
#[cfg(test)]
#[expect(dead_code, reason = "the tests of the program include this file too and use the rest")]
pub(crate) mod test_messages;
pub mod trace;
pub mod tracker;

pub use message::{Carrier, Message};
pub use method::Method;
pub use note::Note;
pub use numbers::{MessageNumber, SessionNumber};
pub use revision::{Revision, Revisions};
pub use session::{Outcomes, Party, Peers, Session, Transport};
