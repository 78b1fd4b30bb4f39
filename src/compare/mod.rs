//! Two recordings of the same conversation, held against each other: what was answered otherwise, and exactly where.
//!
//! Nothing here reads a clock or a file. `replay` pairs answers by its plan, `diff` by [`pairing`]; both make a [`Report`], which
//! [`text`], [`json`] and [`junit`] put into words.
//!
//! ```text
//!  recorded answer ─┐                        ┌─ same
//!                   ├─ Rules ─► differences ─┼─ different: /structuredContent/temperature 21 → 19
//!  new answer ──────┘  (set aside what is    └─ missing, extra, error instead of result, tool error …
//!                       known to vary)
//! ```

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

pub use answer::{Answer, AnswerText, Verdict, judge};
pub use difference::{Change, Difference};
pub use label::Label;
pub use report::{Outcome, Pair, Party, Report};
pub use rules::{Rule, RuleError, Rules};
