//! What people see, as plain text: rows, words and numbers, without knowing where they are shown.

pub mod safe;
pub mod text;
