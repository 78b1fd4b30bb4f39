//! Levels of log messages (server/utilities/logging "Log Levels"; RFC 5424 section 6.2.1).

words! {
    /// A level, the least severe first.
    pub enum LogLevel {
        Debug = "debug",
        Info = "info",
        Notice = "notice",
        Warning = "warning",
        Error = "error",
        Critical = "critical",
        Alert = "alert",
        Emergency = "emergency",
    }
}
