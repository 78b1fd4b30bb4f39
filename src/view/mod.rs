//! Plain text for people: rows, words and numbers, independent of where they are shown.

pub mod command_line;
pub mod detail;
pub mod expectations;
pub mod explain;
pub mod json_tree;
pub mod junit;
pub mod latencies;
pub mod layers;
pub mod notes;
pub mod outcome;
pub mod overview;
pub mod paint;
pub mod parties;
pub mod safe;
pub mod secrets;
pub mod session_list;
pub mod stderr_fold;
pub mod steps;
pub mod text;
pub mod timeline;
pub mod times;
pub mod timing;
pub mod transcript;
pub mod units;
