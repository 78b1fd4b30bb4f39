//! The command line of `mcptap replay` and `mcptap diff`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::Decoding;

/// Options for comparing responses.
#[derive(Clone, Debug, Default, Args)]
pub struct Comparing {
    /// Ignore differences at this path: /pointer/into/result, with * for one step and ** for any
    /// number; METHOD:/… or TOOL:/… limits it to some responses
    #[arg(long, value_name = "PATH")]
    pub ignore: Vec<String>,
    /// Ignore the order of the array at this path
    #[arg(long, value_name = "PATH")]
    pub unordered: Vec<String>,
    /// Format of the report
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    pub format: ReportFormat,
    /// Show old and new values side by side
    #[arg(long)]
    pub side_by_side: bool,
    /// Also list what is the same
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

/// Arguments of `mcptap replay`.
#[derive(Debug, Args)]
pub struct Replay {
    /// The recording to send
    pub target: String,
    /// URL of the server [default: on a terminal, mcptap offers the recorded server]
    #[arg(long, value_name = "URL", conflicts_with = "command")]
    pub to: Option<String>,
    /// The session to send, if the capture has several
    #[arg(long, value_name = "N", value_parser = super::session_number)]
    pub session: Option<u32>,
    /// Show what would be sent, and send nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Send only requests that match this filter (docs/filter.md); the handshake is always sent
    #[arg(long, value_name = "EXPR")]
    pub only: Option<String>,
    /// Send this value in place of the recorded one, as where it was redacted: number of the
    /// message, path in its params and value, such as 6/arguments/user=ann
    #[arg(long, value_name = "N/PATH=VALUE")]
    pub set: Vec<String>,
    /// Run twice first: ignore what differs between these two runs, because it varies by itself
    #[arg(long)]
    pub calibrate: bool,
    /// Speed: fast, recorded, or xN for N times the recorded speed
    #[arg(long, default_value = "fast", value_name = "PACE")]
    pub pace: String,
    /// Seconds to wait for each response
    #[arg(long, default_value_t = 30.0, value_name = "SECONDS")]
    pub timeout: f64,
    /// Number of runs, one after the other
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub repeat: u64,
    /// Number of sessions at the same time, as a load test
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000))]
    pub parallel: u64,
    /// Use this protocol revision instead of negotiating it
    #[arg(long, value_name = "DATE")]
    pub revision: Option<String>,
    /// Skip tools of unknown effect too, not only those declared as destructive
    #[arg(long)]
    pub safe: bool,
    /// Call this tool although it is destructive, or may be
    #[arg(long, value_name = "TOOL")]
    pub allow: Vec<String>,
    /// Call all tools, destructive ones too
    #[arg(long)]
    pub allow_destructive: bool,
    /// Add this header field to every HTTP request, as "Name: value"
    #[arg(long, value_name = "FIELD", requires = "to")]
    pub header: Vec<String>,
    /// Send "Authorization: Bearer" with the value of this environment variable
    #[arg(long, value_name = "VAR", requires = "to")]
    pub bearer_env: Option<String>,
    /// Trust only the certificates in this PEM file
    #[arg(long, value_name = "FILE", requires = "to")]
    pub cacert: Option<PathBuf>,
    /// Accept any certificate
    #[arg(long, requires = "to")]
    pub insecure: bool,
    /// Transport over HTTP
    #[arg(long, value_enum, default_value_t, value_name = "TRANSPORT")]
    pub transport: TransportChoice,
    /// Do not save the replay to the database
    #[arg(long)]
    pub no_save: bool,
    /// Options for comparing responses.
    #[command(flatten)]
    pub comparing: Comparing,
    /// Options for decoding captures.
    #[command(flatten)]
    pub decoding: Decoding,
    /// The command of the server, with its arguments
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<std::ffi::OsString>,
}

/// Transports over HTTP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum TransportChoice {
    /// Streamable HTTP, or HTTP+SSE if the server does not support it
    #[default]
    Auto,
    /// Streamable HTTP (2025-03-26 and later)
    Streamable,
    /// HTTP+SSE (2024-11-05)
    Sse,
}

/// Arguments of `mcptap diff`.
#[derive(Debug, Args)]
pub struct Diff {
    /// The first recording
    #[arg(value_name = "OLD")]
    pub old: String,
    /// The second recording
    #[arg(value_name = "NEW")]
    pub new: String,
    /// The session to compare, if the captures have several
    #[arg(long, value_name = "N", value_parser = super::session_number)]
    pub session: Option<u32>,
    /// The session of the second recording, if its number differs
    #[arg(long, value_name = "N")]
    pub other_session: Option<u32>,
    /// Options for comparing responses.
    #[command(flatten)]
    pub comparing: Comparing,
    /// Options for decoding captures.
    #[command(flatten)]
    pub decoding: Decoding,
}
