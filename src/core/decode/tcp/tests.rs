//! Tests of the reassembler: properties of generated conversations, single cases, real captures.

mod beginnings;
mod cases;
mod laws;
mod talk;
mod tshark;
