//! The command line of `mcptap export`.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::TargetOptions;

/// Arguments of `mcptap export`.
#[derive(Debug, Args)]
pub struct Export {
    /// The format to write [default: that of the ending of the output file]
    #[arg(long, short, value_enum)]
    pub format: Option<Format>,
    /// The file to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Only messages that match this filter (docs/filter.md); not for pcapng
    #[arg(long, value_name = "EXPR")]
    pub filter: Option<String>,
    /// The dataset to write to, instead of a file.
    #[command(flatten)]
    pub dataset: super::DatasetTarget,
    /// The sessions, and how captures are decoded.
    #[command(flatten)]
    pub sessions: TargetOptions,
}

/// Formats of `mcptap export`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// JSON lines: sessions, messages, exchanges, findings
    Jsonl,
    /// HTTP exchanges with their bodies, as browsers and proxies read them (HAR 1.2)
    Har,
    /// A web page in one file that fetches nothing: timeline, messages, findings
    Html,
    /// Traces for OpenTelemetry: a span for each request with its response (OTLP/JSON)
    Otlp,
    /// Messages as a table of columns, for DuckDB, pandas and similar programs
    #[cfg_attr(not(feature = "parquet"), doc = "(this mcptap was built without it)")]
    Parquet,
    /// The packets, as a capture file
    Pcapng,
    /// A sequence diagram that code hosts draw in issues and documents
    Mermaid,
}

impl Format {
    /// The format of a file with this name.
    pub fn of_file(name: &Path) -> Option<Format> {
        Some(match name.extension()?.to_str()? {
            "jsonl" | "ndjson" => Format::Jsonl,
            "har" => Format::Har,
            "html" | "htm" => Format::Html,
            "parquet" => Format::Parquet,
            "pcapng" | "pcap" => Format::Pcapng,
            "mmd" | "mermaid" => Format::Mermaid,
            _ => return None,
        })
    }
}
