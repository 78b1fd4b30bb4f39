//! The command line of `mcptap sessions`.

use clap::Args;

use super::{Decoding, one_of};
use crate::view::session_list::SortKey;

/// Arguments of `mcptap sessions`.
#[derive(Debug, Args)]
pub struct Sessions {
    /// A capture file or a database to list instead of the default database
    pub target: Option<String>,
    /// Options for decoding captures.
    #[command(flatten)]
    pub decoding: Decoding,
    /// Only sessions with a message that matches this filter (docs/filter.md)
    #[arg(long, value_name = "EXPR")]
    pub filter: Option<String>,
    /// Sort by this column: number, started, server, calls, fail, open or findings
    #[arg(long, value_name = "COLUMN", value_parser = one_of(SortKey::ALL, SortKey::name))]
    pub sort: Option<SortKey>,
    /// List at most this many sessions [default: 100 in the table]
    #[arg(long, short = 'n', value_name = "N")]
    pub limit: Option<usize>,
    /// List all sessions, failed replays and empty sessions too
    #[arg(long, conflicts_with = "limit")]
    pub all: bool,
    /// Print JSON lines of all sessions instead of a table
    #[arg(long)]
    pub json: bool,
}
