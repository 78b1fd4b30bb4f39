//! The command line of `mcptap run`.

use std::ffi::OsString;

use clap::Args;

use super::Redact;

/// Arguments of `mcptap run`.
#[derive(Debug, Args)]
pub struct RunClient {
    /// Record secrets as given, not masked
    #[arg(long)]
    pub keep_secrets: bool,
    /// Options that redact values.
    #[command(flatten)]
    pub redact: Redact,
    /// Size of each of the two kernel buffers in MiB, a power of two
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub buffer: u32,
    /// The command of the client, with its arguments. Write it after --, so that its options are
    /// not taken for those of mcptap
    #[arg(required = true, trailing_var_arg = true, value_name = "CLIENT")]
    pub command: Vec<OsString>,
}
