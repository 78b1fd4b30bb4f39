//! Everything that is tested from outside: one binary.

mod tidy;
