//! The command line of `mcptap web`.

use clap::Args;

use super::TargetOptions;

/// Arguments of `mcptap web`.
#[derive(Debug, Args)]
#[command(mut_arg("target", |target| {
    target.help("The sessions [default: the latest, and those that are recorded later]")
}))]
pub struct Web {
    /// Listen at this port of 127.0.0.1, or at this loopback address and port; port 0 chooses a
    /// free one
    #[arg(long, value_name = "ADDR", default_value = "0")]
    pub listen: String,
    /// Only print the URL, and open no browser
    #[arg(long)]
    pub no_open: bool,
    /// The sessions, and how captures are decoded.
    #[command(flatten)]
    pub sessions: TargetOptions,
}
