//! The command line of datasets.

use clap::{Args, Subcommand};

use super::delete::age;

/// Whether this program cannot write datasets. Their options are then hidden.
const WITHOUT_PARQUET: bool = cfg!(not(feature = "parquet"));

/// The heading of the options for datasets in the help of other commands.
const HEADING: &str = "Dataset";

/// The place of a dataset.
fn place(name: &str) -> Result<String, String> {
    match WITHOUT_PARQUET {
        true => Err(crate::cli::lacking("Parquet")),
        false => Ok(name.to_owned()),
    }
}

/// A dataset to write to, and what its rows contain.
#[derive(Clone, Debug, Default, Args)]
pub struct DatasetTarget {
    /// Write to this dataset: a folder, s3://BUCKET/PREFIX, gs://... or az://...
    #[arg(long, help_heading = HEADING, value_name = "DIR|URL", hide = WITHOUT_PARQUET, value_parser = place)]
    pub dataset: Option<String>,
    /// Options for the rows.
    #[command(flatten)]
    pub options: DatasetOptions,
}

/// What the rows of a dataset contain.
#[derive(Clone, Debug, Default, Args)]
pub struct DatasetOptions {
    /// Leave payloads out of a dataset: texts, header fields, queries
    #[arg(long, help_heading = HEADING, requires = "dataset", hide = WITHOUT_PARQUET)]
    pub no_text: bool,
    /// The machine that captured, for the column host [default: NAME of a folder host=NAME in the
    /// path of a capture file; this machine for recordings]
    #[arg(long, help_heading = HEADING, value_name = "NAME", requires = "dataset", hide = WITHOUT_PARQUET)]
    pub host: Option<String>,
    /// The name for the column capture [default: the files, the interface or the command]
    #[arg(long, help_heading = HEADING, value_name = "NAME", requires = "dataset", hide = WITHOUT_PARQUET)]
    pub capture_name: Option<String>,
}

/// Arguments of `mcptap ship`.
#[derive(Debug, Args)]
pub struct Ship {
    /// The dataset: a folder, s3://BUCKET/PREFIX, gs://... or az://...
    #[arg(long, value_name = "DIR|URL")]
    pub dataset: String,
    /// Options for the rows.
    #[command(flatten)]
    pub options: DatasetOptions,
    /// Time between two rounds, such as 30s, 5m or 1h
    #[arg(long, value_name = "TIME", value_parser = age, default_value = "5m")]
    pub every: i64,
    /// Send once, with the messages of the last seconds, and end
    #[arg(long)]
    pub once: bool,
}

/// Commands of `mcptap dataset`.
#[derive(Debug, Subcommand)]
pub enum DatasetCommand {
    /// Merge the small files of days that are over into files of 64 to 256 MB
    Compact {
        /// The dataset: a folder, s3://BUCKET/PREFIX, gs://... or az://...
        #[arg(value_name = "DIR|URL")]
        dataset: String,
    },
}
