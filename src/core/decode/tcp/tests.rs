//! Tests: laws over generated conversations, cases that read as conversations, real captures.

mod beginnings;
mod cases;
mod laws;
mod talk;
mod tshark;
