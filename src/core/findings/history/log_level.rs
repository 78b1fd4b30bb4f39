//! Levels of log messages (server/utilities/logging "Log Levels"; RFC 5424 section 6.2.1).

/// A level, the least severe first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogLevel(usize);

/// The names of the levels, the least severe first.
const NAMES: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

impl LogLevel {
    /// The level of this name.
    pub fn named(name: &str) -> Option<LogLevel> {
        NAMES.iter().position(|known| *known == name).map(LogLevel)
    }

    pub fn name(self) -> &'static str {
        NAMES[self.0]
    }
}
