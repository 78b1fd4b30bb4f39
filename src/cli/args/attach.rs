//! The command line of `mcptap attach`.

use clap::Args;

use super::{RecordingOptions, Redact};

/// Arguments of `mcptap attach`.
#[derive(Debug, Args)]
pub struct Attach {
    /// Process id of a server or of its host, or a part of the server's command line [default: the
    /// only server]
    #[arg(value_name = "PID|NAME")]
    pub process: Option<String>,
    /// List hosts and their servers, over STDIO and HTTP, and exit
    #[arg(long)]
    pub list: bool,
    /// Name of the server in lists
    #[arg(long)]
    pub name: Option<String>,
    /// Record secrets of the command line (--token, API_KEY=) as given, not masked
    #[arg(long)]
    pub keep_secrets: bool,
    /// Size of the kernel buffer in MiB, a power of two
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub buffer: u32,
    /// What is printed, saved and sent.
    #[command(flatten)]
    pub recording: RecordingOptions,
    /// Options that redact values.
    #[command(flatten)]
    pub redact: Redact,
}
