//! The command line of `mcptap delete` and `mcptap pin`, and ages and sizes as people write them.

use clap::Args;

use crate::filter;

/// Arguments of `mcptap delete`.
#[derive(Debug, Args)]
#[command(
    override_usage = "mcptap delete <SESSION>... [OPTIONS]\n       mcptap delete [--before <AGE>] [--larger <SIZE>] [OPTIONS]"
)]
pub struct Delete {
    /// Sessions to delete: numbers, or latest
    #[arg(value_name = "SESSION", required_unless_present_any = ["before", "larger"])]
    pub sessions: Vec<String>,
    /// Sessions whose last message is older than this, such as 12h, 30d or 2w
    #[arg(long, value_name = "AGE", value_parser = age, conflicts_with = "sessions")]
    pub before: Option<i64>,
    /// Sessions that take more space than this, such as 500M or 1G; with --before, those that match
    /// both
    #[arg(long, value_name = "SIZE", value_parser = size, conflicts_with = "sessions")]
    pub larger: Option<u64>,
    /// Delete without asking
    #[arg(long, short)]
    pub yes: bool,
}

/// Arguments of `mcptap pin`.
#[derive(Debug, Args)]
pub struct Pin {
    /// Sessions that no deletion removes: numbers, or latest
    #[arg(required = true, value_name = "SESSION")]
    pub sessions: Vec<String>,
    /// Let deletions remove them again
    #[arg(long)]
    pub unpin: bool,
}

/// Options of `mcptap wrap` that delete earlier recordings.
#[derive(Debug, Args)]
pub struct Prune {
    /// At the start, delete finished sessions of this --name that are older, such as 12h, 30d or 2w
    #[arg(long, value_name = "AGE", value_parser = age, requires = "name")]
    pub prune_older: Option<i64>,
    /// At the start, delete the oldest finished sessions of this --name, until all of them take no
    /// more space than this, such as 500M or 2G
    #[arg(long, value_name = "SIZE", value_parser = size, requires = "name")]
    pub prune_over: Option<u64>,
}

/// An age in nanoseconds.
pub(super) fn age(text: &str) -> Result<i64, String> {
    filter::duration(text).filter(|age| *age >= 0).ok_or_else(|| "not an age such as 12h, 30d or 2w".to_owned())
}

/// A size in bytes.
fn size(text: &str) -> Result<u64, String> {
    let size = filter::size(text).and_then(|size| u64::try_from(size).ok());
    size.ok_or_else(|| "not a size such as 500M, 1G or 2GiB".to_owned())
}
