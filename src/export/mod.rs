//! Records to the formats that other tools read.

pub mod jsonl;
