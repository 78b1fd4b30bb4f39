//! The command line of `mcptap proxy`.

use std::path::PathBuf;

use clap::Args;

use super::{RecordingOptions, Redact};

/// Arguments of `mcptap proxy`.
#[derive(Debug, Args)]
#[command(
    override_usage = "mcptap proxy --listen ADDR --to URL [OPTIONS]\n       mcptap proxy --intercept HOST [OPTIONS]\n       mcptap proxy --stdio --to URL [OPTIONS]"
)]
pub struct Proxy {
    /// Listen at this port of the local machine, or at this address and port; port 0 chooses a
    /// free one [default with --intercept: 8877]
    #[arg(long, value_name = "ADDR", required_unless_present_any = ["intercept", "stdio"])]
    pub listen: Option<String>,
    /// URL of the server. Clients use the same URL with the proxy's address in place of the
    /// server's
    #[arg(long, value_name = "URL", required_unless_present_any = ["intercept", "stdio"])]
    pub to: Option<String>,
    /// Be the proxy of clients (HTTPS_PROXY), open the TLS of this host and record its traffic. May
    /// be repeated; *.example.com and * are patterns. "mcptap ca" says how clients trust the proxy
    #[arg(long, value_name = "HOST", value_delimiter = ',', conflicts_with_all = ["to", "allow_host"])]
    pub intercept: Vec<String>,
    /// Name of the server in lists
    #[arg(long)]
    pub name: Option<String>,
    /// Be an STDIO server that passes messages between its client and the server at the URL.
    /// "mcptap install" puts this command in the place of a URL
    #[arg(long, conflicts_with_all = ["intercept", "listen", "allow_host", "json", "filter"])]
    pub stdio: bool,
    /// With --stdio: add this header field to every request, as "Name: value"
    #[arg(long, value_name = "FIELD", requires = "stdio")]
    pub header: Vec<String>,
    /// With --stdio: send "Authorization: Bearer" with the value of this environment variable
    #[arg(long, value_name = "VAR", requires = "stdio")]
    pub bearer_env: Option<String>,
    /// Accept this host name in requests, besides localhost and addresses
    #[arg(long, value_name = "NAME")]
    pub allow_host: Vec<String>,
    /// Trust the certificates in this PEM file instead of those of the system; with --intercept in
    /// addition to them
    #[arg(long, value_name = "FILE")]
    pub cacert: Option<PathBuf>,
    /// Accept any certificate of the servers
    #[arg(long)]
    pub insecure: bool,
    /// Show and save Authorization, Cookie and similar fields as sent, not masked
    #[arg(long)]
    pub keep_secrets: bool,
    /// What is printed, saved and sent.
    #[command(flatten)]
    pub recording: RecordingOptions,
    /// Options that redact values.
    #[command(flatten)]
    pub redact: Redact,
}
