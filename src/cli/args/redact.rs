//! The options that redact values of messages.

use std::path::PathBuf;

use clap::Args;

/// The heading of these options in the help.
const HEADING: &str = "Redaction";

/// Options that redact values. Each may be repeated.
#[derive(Clone, Debug, Default, Args)]
pub struct Redact {
    /// Redact members, header fields and parameters of this name, in any case
    #[arg(long, help_heading = HEADING, value_name = "NAME")]
    pub redact_key: Vec<String>,
    /// Redact values at this path of a message, such as $.params.arguments.user or $..email
    #[arg(long, help_heading = HEADING, value_name = "PATH")]
    pub redact_path: Vec<String>,
    /// Redact what matches this regular expression in any text
    #[arg(long, help_heading = HEADING, value_name = "REGEX")]
    pub redact_regex: Vec<String>,
    /// Redact tokens, recognised by their shape, in messages too
    #[arg(long, help_heading = HEADING)]
    pub redact_tokens: bool,
    /// Redact by the rules in this file, one on a line: key NAME, path PATH, regex REGEX, tokens
    /// (docs/redaction.md)
    #[arg(long, help_heading = HEADING, value_name = "FILE")]
    pub redact_file: Vec<PathBuf>,
}
