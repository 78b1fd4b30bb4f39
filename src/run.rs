//! `mcptap run`: starts a client with all that a user would set by hand, and records its servers.
//!
//! ```text
//!   environment.rs   the environment of the user, with a key log for TLS
//!   process.rs       the client itself: its terminal, its signals, its end     no output, no input
//!   connections.rs   which packets belong to the client                       pure
//!   traffic.rs       its STDIO servers and its packets, as one Source
//!   shims.rs         without rights: programs in front of those in PATH
//! ```
//!
//! Only the source has rights, and only until it is open. The client runs as the user.

mod connections;
pub mod environment;
pub mod process;
pub mod shims;
mod traffic;

pub use traffic::ClientTraffic;
