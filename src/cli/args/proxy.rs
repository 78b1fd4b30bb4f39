//! The command line of `proxy`.

use std::path::PathBuf;

use clap::Args;

/// `mcptap proxy`.
#[derive(Debug, Args)]
pub struct Proxy {
    /// Where clients reach it: a port of this machine alone, or an address and a port; port 0 is one that is free
    #[arg(long, value_name = "ADDR")]
    pub listen: String,
    /// The server's URL. Clients are given the same with the proxy's address in place of the server's
    #[arg(long, value_name = "URL")]
    pub to: String,
    /// A name by which clients may call the proxy, besides localhost and addresses
    #[arg(long, value_name = "NAME")]
    pub allow_host: Vec<String>,
    /// Trust the certificates in this file (PEM) instead of those of the system
    #[arg(long, value_name = "FILE")]
    pub cacert: Option<PathBuf>,
    /// Believe whoever answers, whatever its certificate says
    #[arg(long)]
    pub insecure: bool,
    /// Show and save Authorization, Cookie and the like as sent, not masked
    #[arg(long)]
    pub keep_secrets: bool,
    /// Print only messages that fit this filter (docs/filter.md)
    #[arg(long, value_name = "EXPR")]
    pub filter: Option<String>,
    /// JSON lines instead of text
    #[arg(long)]
    pub json: bool,
    /// Do not save
    #[arg(long)]
    pub no_save: bool,
}
