//! Sends the client's messages of a recording to a live server and compares the responses.
//!
//! ```text
//!  recording ─► plan ──────────────┐   the client's messages, and what they wait for       (pure)
//!     │    └──► flow ──────────────┤   values that the new server has to supply            (pure)
//!   texts, read when needed        │
//!       rounds, translate, safety ─┤   the form of the messages, and which are not sent    (pure)
//!                                  ▼
//!               run ◄──► transport (STDIO, Streamable HTTP, HTTP+SSE) ──► capture ──► store
//!                │
//!                ▼
//!               compare ─► report
//! ```
//!
//! Callers begin with [`job`], which combines all parts.
//!
//! The traffic of a replay is recorded like any other: as packets that pass the same decoder.

pub mod analyzed_recording;
pub mod capture;
pub mod compared;
pub mod comparison;
pub mod edit;
pub mod flow;
pub mod follow;
pub mod fuzz;
pub mod job;
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
