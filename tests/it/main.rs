//! Everything that is tested from outside: one binary.

mod corpus;
mod program;
mod samples;
mod tidy;
