//! The command line of `replay` and `diff`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::Decoding;

/// How answers are compared.
#[derive(Clone, Debug, Default, Args)]
pub struct Comparing {
    /// Set aside what stands here: /pointer/into/result, * any step, ** any number; METHOD:/… or TOOL:/… for some answers
    #[arg(long, value_name = "PATH")]
    pub ignore: Vec<String>,
    /// The order of the array that stands here means nothing
    #[arg(long, value_name = "PATH")]
    pub unordered: Vec<String>,
    /// How the comparison is written
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    pub format: ReportFormat,
    /// Old and new beside each other instead of below
    #[arg(long)]
    pub side_by_side: bool,
    /// List what is the same too
    #[arg(long, short)]
    pub all: bool,
}

/// Formats of a comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// For people
    #[default]
    Text,
    /// One JSON object
    Json,
    /// JUnit XML: a test case for each request
    Junit,
}

/// `mcptap replay`.
#[derive(Debug, Args)]
pub struct Replay {
    /// The recording
    pub target: String,
    /// The server's URL
    #[arg(long, value_name = "URL", required_unless_present_any = ["command", "dry_run"], conflicts_with = "command")]
    pub to: Option<String>,
    /// One session of a capture with several
    #[arg(long, value_name = "N")]
    pub session: Option<u32>,
    /// Show what would be sent, and send nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Send only requests that fit this filter (docs/filter.md); the handshake always
    #[arg(long, value_name = "EXPR")]
    pub only: Option<String>,
    /// Run twice first: what differs between those runs varies by itself, and is set aside
    #[arg(long)]
    pub calibrate: bool,
    /// How fast: fast, recorded, or xN for N times as fast as recorded
    #[arg(long, default_value = "fast", value_name = "PACE")]
    pub pace: String,
    /// How long an answer may take
    #[arg(long, default_value_t = 30.0, value_name = "SECONDS")]
    pub timeout: f64,
    /// How often
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub repeat: u64,
    /// How many sessions at once, as load
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000))]
    pub parallel: u64,
    /// The protocol revision to speak, instead of negotiating it
    #[arg(long, value_name = "DATE")]
    pub revision: Option<String>,
    /// Leave out tools of unknown effect too, not only those that say that they destroy
    #[arg(long)]
    pub safe: bool,
    /// Send the calls of this tool although it destroys, or may
    #[arg(long, value_name = "TOOL")]
    pub allow: Vec<String>,
    /// Send everything
    #[arg(long)]
    pub allow_destructive: bool,
    /// A header field for every HTTP request, as "Name: value"
    #[arg(long, value_name = "FIELD", requires = "to")]
    pub header: Vec<String>,
    /// Send "Authorization: Bearer" with the value of this environment variable
    #[arg(long, value_name = "VAR", requires = "to")]
    pub bearer_env: Option<String>,
    /// Trust the certificates in this PEM file, and no others
    #[arg(long, value_name = "FILE", requires = "to")]
    pub cacert: Option<PathBuf>,
    /// Trust every certificate
    #[arg(long, requires = "to")]
    pub insecure: bool,
    /// How HTTP is spoken
    #[arg(long, value_enum, default_value_t, value_name = "TRANSPORT")]
    pub transport: TransportChoice,
    /// Do not save what is said
    #[arg(long)]
    pub no_save: bool,
    /// Comparing.
    #[command(flatten)]
    pub comparing: Comparing,
    /// Decoding.
    #[command(flatten)]
    pub decoding: Decoding,
    /// The server's command and its arguments
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<std::ffi::OsString>,
}

/// Ways of speaking HTTP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum TransportChoice {
    /// Streamable HTTP, or HTTP+SSE where the server does not know that
    #[default]
    Auto,
    /// Streamable HTTP (2025-03-26 and later)
    Streamable,
    /// HTTP+SSE (2024-11-05)
    Sse,
}

/// `mcptap diff`.
#[derive(Debug, Args)]
pub struct Diff {
    /// The first recording
    #[arg(value_name = "OLD")]
    pub old: String,
    /// The second recording
    #[arg(value_name = "NEW")]
    pub new: String,
    /// One session of a capture with several, in both
    #[arg(long, value_name = "N")]
    pub session: Option<u32>,
    /// The session of the second recording, where it has another number
    #[arg(long, value_name = "N")]
    pub other_session: Option<u32>,
    /// Comparing.
    #[command(flatten)]
    pub comparing: Comparing,
    /// Decoding.
    #[command(flatten)]
    pub decoding: Decoding,
}
