//! The recorded server, played to a client that is there.
//!
//! ```text
//!  recording ─► script ──► matching     what the server said because of what; which request is which        (pure)
//!                  │          │
//!                  ▼          ▼
//!               session ─► ledger       one client: what is said to it next, and when; what was used         (pure)
//!                  ▲
//!                  │ texts, moments
//!               stdio, http             pipes; Streamable HTTP and HTTP+SSE                                   (input and output)
//! ```
//!
//! What is said is the recorded text, but for what belongs to the client that is there: ids of its requests, its progress tokens. To a client of the
//! other era of the protocol it is said in its words ([`era`]).

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
