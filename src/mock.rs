//! Plays the server of a recording to a live client.
//!
//! ```text
//!  recording ─► script ──► matching    the server's messages by cause; the recorded   (pure)
//!                  │          │        request that a live one corresponds to
//!                  ▼          ▼
//!               session ─► ledger      the output for one client; counts of use     (pure)
//!                  ▲
//!                  │ texts, times
//!               stdio, http            pipes; Streamable HTTP and HTTP+SSE           (I/O)
//! ```
//!
//! The client gets the recorded text. Only values that belong to the live client are replaced: the
//! ids of its requests and its progress tokens. A client of the other era gets the messages of that
//! era ([`era`]).

pub mod era;
pub mod handshake;
pub mod http;
pub mod ledger;
pub mod matching;
pub mod script;
pub mod session;
pub mod stdio;

pub use ledger::Ledger;
pub use matching::Match;
pub use script::Script;
pub use session::{Pace, Session};
