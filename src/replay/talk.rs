//! Recordings written as conversations, for tests: `-> {"id":1,"method":"ping"}`.

use super::Recording;
pub use crate::mcp::talk::{TICK, read};

/// A recording of those messages.
pub fn recording(text: &str) -> Recording {
    let messages = read(text);
    Recording { session: crate::mcp::talk::session(&messages), messages }
}
