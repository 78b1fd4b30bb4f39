//! The command line of `mcptap proxy`.

use std::path::PathBuf;

use clap::Args;

/// Arguments of `mcptap proxy`.
#[derive(Debug, Args)]
pub struct Proxy {
    /// Listen at this port of the local machine, or at this address and port; port 0 chooses a free
    /// one
    #[arg(long, value_name = "ADDR")]
    pub listen: String,
    /// URL of the server. Clients use the same URL with the proxy's address in place of the
    /// server's
    #[arg(long, value_name = "URL")]
    pub to: String,
    /// Accept this host name in requests, besides localhost and addresses
    #[arg(long, value_name = "NAME")]
    pub allow_host: Vec<String>,
    /// Trust the certificates in this PEM file instead of those of the system
    #[arg(long, value_name = "FILE")]
    pub cacert: Option<PathBuf>,
    /// Accept any certificate of the server
    #[arg(long)]
    pub insecure: bool,
    /// Show and save Authorization, Cookie and similar fields as sent, not masked
    #[arg(long)]
    pub keep_secrets: bool,
    /// Print only messages that match this filter (docs/filter.md)
    #[arg(long, value_name = "EXPR")]
    pub filter: Option<String>,
    /// Print JSON lines instead of text
    #[arg(long)]
    pub json: bool,
    /// Do not save to the database
    #[arg(long)]
    pub no_save: bool,
}
