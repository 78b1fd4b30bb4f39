//! The command line of `mcptap mock`.

use clap::{Args, ValueEnum};

use super::Decoding;

/// Arguments of `mcptap mock`.
#[derive(Debug, Args)]
pub struct Mock {
    /// The recording to play
    pub target: String,
    /// Serve over HTTP at this port, or address and port [default: standard input and output]
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<String>,
    /// Accept this host name in requests, besides localhost and addresses
    #[arg(long, value_name = "NAME", requires = "listen")]
    pub allow_host: Vec<String>,
    /// The session to play, if the capture has several
    #[arg(long, value_name = "N", value_parser = super::session_number)]
    pub session: Option<u32>,
    /// Required match between a request and the recorded one
    #[arg(long = "match", value_enum, default_value_t, value_name = "HOW")]
    pub fit: Fit,
    /// Speed of the responses
    #[arg(long, value_enum, default_value_t, value_name = "PACE")]
    pub pace: MockPace,
    /// Inject a fault into the responses to some requests: 'tool = x: delay 2s', or error -32603,
    /// drop or cut 10 (docs/cli.md)
    #[arg(long, value_name = "FAULT")]
    pub fault: Vec<String>,
    /// Options for decoding captures.
    #[command(flatten)]
    pub decoding: Decoding,
}

/// Degrees of match between a request and a recorded one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Fit {
    /// Same method and same parameters
    Exact,
    /// The same, but ignore _meta and members that are null
    Loose,
    /// As loose; if none matches, the next one of the same tool, prompt, resource or method
    #[default]
    Order,
}

/// Speeds of the responses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum MockPace {
    /// Respond immediately
    #[default]
    Fast,
    /// Respond with the recorded pauses
    Recorded,
}
