//! The command line of `mcptap mcp`.

use clap::Args;

/// Arguments of `mcptap mcp`.
#[derive(Debug, Args)]
pub struct Mcp {
    /// Serve Streamable HTTP at this port of 127.0.0.1, or at this loopback address and port
    /// [default: standard input and output]
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<String>,
}
