//! The command line of `mcptap check`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::TargetOptions;

/// Arguments of `mcptap check`.
#[derive(Debug, Args)]
pub struct Check {
    /// Format of the report
    #[arg(long, short, value_enum, default_value_t = Findings::Text)]
    pub format: Findings,
    /// Exit with status 1 if there is a finding of this severity or worse [default: error, or
    /// fail-on in mcptap.toml]
    #[arg(long, value_enum, value_name = "SEVERITY")]
    pub fail_on: Option<FailOn>,
    /// Also exit with status 1 unless the sessions satisfy this, for example 'some tool = add',
    /// 'no status = tool-error', 'p95 latency < 2s where tool = add' (docs/ci.md)
    #[arg(long, value_name = "EXPECTATION")]
    pub expect: Vec<String>,
    /// Expectations of a file: one on a line; a line that begins with # is a comment
    #[arg(long, value_name = "FILE")]
    pub expect_file: Vec<PathBuf>,
    /// Only these rules: an id, or the beginning of an id followed by *
    #[arg(long, value_name = "RULE", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Ignore these rules, written as for --only
    #[arg(long, value_name = "RULE", value_delimiter = ',')]
    pub ignore: Vec<String>,
    /// Configuration of the project [default: mcptap.toml in the working directory, if it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Compare the tools with those accepted in this file
    #[arg(long, value_name = "FILE")]
    pub baseline: Option<PathBuf>,
    /// Accept the current tools: write them to this file, and check nothing
    #[arg(long, value_name = "FILE", conflicts_with = "baseline")]
    pub write_baseline: Option<PathBuf>,
    /// The sessions, and how captures are decoded.
    #[command(flatten)]
    pub sessions: TargetOptions,
}

/// Formats of findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Findings {
    /// Text, sorted by rule, with the first places of each
    Text,
    /// JSON lines
    Json,
    /// SARIF 2.1.0
    Sarif,
    /// JUnit XML
    Junit,
}

/// The least severity with which `mcptap check` exits with status 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FailOn {
    /// Only errors
    Error,
    /// Warnings and errors
    Warning,
    /// Any finding
    Info,
    /// None: the exit status is 0 with any findings
    Never,
}

impl FailOn {
    /// The severity of this name, as on the command line.
    pub fn named(name: &str) -> Option<FailOn> {
        FailOn::from_str(name, false).ok()
    }
}
