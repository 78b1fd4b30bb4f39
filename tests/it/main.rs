//! Everything that is tested from outside: one binary.

mod corpus;
mod decoded;
mod laws;
mod limits;
mod program;
mod public;
mod replay;
mod rewrite;
mod samples;
mod tidy;
