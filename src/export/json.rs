//! A JSON writer. It writes into a buffer, and its output is safe to look at on a terminal.

mod object;
pub(super) mod text;

pub(super) use object::Object;
pub(super) use text::{write_digits, write_string};
