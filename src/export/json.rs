//! JSON as it is written here: straight into a buffer, and safe to look at on a terminal.

mod object;
pub(super) mod text;

pub(super) use object::Object;
pub(super) use text::{write_digits, write_string};
