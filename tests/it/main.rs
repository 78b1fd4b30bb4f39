//! Everything that is tested from outside: one binary.

mod corpus;
mod decoded;
mod laws;
mod limits;
mod program;
mod public;
mod rewrite;
mod samples;
#[cfg(all(unix, feature = "tui"))]
mod terminal;
mod tidy;
