//! The command line of `mcptap web`.

use clap::Args;

use super::{Decoding, session_number};

/// Arguments of `mcptap web`.
#[derive(Debug, Args)]
pub struct Web {
    /// The sessions to show [default: the latest, and those that are recorded later]
    pub target: Option<String>,
    /// The session to show, if the capture has several
    #[arg(long, value_name = "N", value_parser = session_number)]
    pub session: Option<u32>,
    /// Listen at this port of 127.0.0.1, or at this loopback address and port; port 0 chooses a
    /// free one
    #[arg(long, value_name = "ADDR", default_value = "0")]
    pub listen: String,
    /// Only print the URL, and open no browser
    #[arg(long)]
    pub no_open: bool,
    /// Options for decoding captures.
    #[command(flatten)]
    pub decoding: Decoding,
}
