//! The command line of `mock`.

use clap::{Args, ValueEnum};

use super::Decoding;

/// `mcptap mock`.
#[derive(Debug, Args)]
pub struct Mock {
    /// The recording
    pub target: String,
    /// Serve over HTTP here, instead of on standard input and output: a port, or an address and a port
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<String>,
    /// A name by which the server may be called, besides localhost and addresses
    #[arg(long, value_name = "NAME", requires = "listen")]
    pub allow_host: Vec<String>,
    /// One session of a capture with several
    #[arg(long, value_name = "N")]
    pub session: Option<u32>,
    /// How much of a request has to be as it was recorded
    #[arg(long = "match", value_enum, default_value_t, value_name = "HOW")]
    pub fit: Fit,
    /// With the recorded pauses, or without any
    #[arg(long, value_enum, default_value_t, value_name = "PACE")]
    pub pace: MockPace,
    /// Decoding.
    #[command(flatten)]
    pub decoding: Decoding,
}

/// How requests are matched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Fit {
    /// Method and parameters
    Exact,
    /// Not _meta, nor members that are null
    Loose,
    /// Otherwise the next one of the same tool, prompt, resource or method
    #[default]
    Order,
}

/// How fast answers are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum MockPace {
    /// At once
    #[default]
    Fast,
    /// As in the recording
    Recorded,
}
