//! Tests of the reassembler: properties of generated conversations, single cases, real captures.

mod beginnings;
mod cases;
mod conversation;
mod laws;
mod tshark;
