//! A recorded session, sent again to a server that answers for itself.
//!
//! ```text
//!  recording ─► plan ──────────────┐   what the client says, and what each word waits for      (pure)
//!     │    └──► flow ──────────────┤   which values the new server has to supply               (pure)
//!   texts, as they are needed      │
//!       rounds, translate, safety ─┤   how it is said to this server, and what is not said     (pure)
//!                                  ▼
//!               run ◄──► transport (STDIO, Streamable HTTP, HTTP+SSE) ──► capture ──► store
//!                │
//!                ▼
//!               compare ─► report
//! ```
//!
//! [`job`] orders all of it: the place to begin for a caller.
//!
//! What goes over the wire is recorded like any traffic: as packets, through the one decoder.

pub mod analyzed_recording;
pub mod capture;
pub mod compared;
pub mod edit;
pub mod flow;
pub mod follow;
pub mod job;
pub mod judge;
pub mod load;
pub mod messages;
pub mod new_answers;
pub mod outcome;
pub mod plan;
pub mod recording;
pub mod rounds;
pub mod run;
pub mod safety;
pub mod settings;
pub mod target;
pub mod texts;
pub mod translate;
pub mod transport;

#[cfg(test)]
pub(crate) mod test_recordings;

pub use analyzed_recording::AnalyzedRecording;
pub use compared::ComparedSession;
pub use flow::Flow;
pub use follow::{Follower, Progress};
pub use job::Job;
pub use plan::{Plan, PlannedMessage};
pub use recording::Recording;
