//! The command line of `mcptap mcp`.

use clap::Args;

/// Arguments of `mcptap mcp`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  claude mcp add mcptap -- mcptap mcp\n  mcptap install --self cursor\n  \
    MCPTAP_TOKEN=... mcptap mcp --listen 8765\n\nWith --listen each request needs the token of $MCPTAP_TOKEN, or the \
    one that mcptap prints.")]
pub struct Mcp {
    /// Serve Streamable HTTP at this port of 127.0.0.1, or at this loopback address and port
    /// [default: standard input and output]
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<String>,
}
