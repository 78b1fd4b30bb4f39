//! Compares two recordings of the same conversation: which answers differ, and where exactly.
//!
//! This module reads no clock and no file. `replay` pairs requests by its plan, `diff` by
//! [`pairing`]. Both make a [`Report`], which [`text`], [`json`] and [`junit`] write out.
//!
//! ```text
//!  recorded answer ─┐                    ┌─ same
//!                   ├─► differences ─────┼─ different: /structuredContent/temperature 21 → 19
//!  new answer ──────┘   (Rules: without  └─ missing, extra, error instead of result, tool error …
//!                        what varies)
//! ```

pub mod alignment;
pub mod answer;
pub mod difference;
pub mod json;
pub mod junit;
pub mod label;
pub mod pairing;
pub mod report;
pub mod rules;
pub mod text;
pub mod volatile;

pub use answer::{Answer, AnswerText, Verdict, compare_answers};
pub use difference::{Change, Difference};
pub use label::Label;
pub use report::{Outcome, Pair, Party, Replacement, Report};
pub use rules::{Rule, RuleError, Rules};
