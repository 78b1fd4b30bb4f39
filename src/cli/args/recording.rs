//! Options that the recording commands share.

use clap::Args;

use super::{DatasetTarget, Telemetry};

/// What a recording command prints, saves and sends.
#[derive(Debug, Args)]
pub struct RecordingOptions {
    /// Options for live telemetry.
    #[command(flatten)]
    pub telemetry: Telemetry,
    /// Print only messages that match this filter (docs/filter.md)
    #[arg(long, value_name = "EXPR")]
    pub filter: Option<String>,
    /// Print JSON lines instead of text
    #[arg(long)]
    pub json: bool,
    /// Do not save to the database
    #[arg(long, conflicts_with = "dataset")]
    pub no_save: bool,
    /// The dataset that gets what is saved, while it is recorded.
    #[command(flatten)]
    pub dataset: DatasetTarget,
}
