//! The command line: `mcptap --help` is made from this file.

mod mock;
#[cfg(feature = "http")]
mod proxy;
mod replay;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub use mock::{Fit, Mock, MockPace};
#[cfg(feature = "http")]
pub use proxy::Proxy;
pub use replay::{Comparing, Diff, Replay, ReportFormat, TransportChoice};

/// Wireshark for MCP: every Model Context Protocol message on any transport, with proof down to the packet.
#[derive(Debug, Parser)]
#[command(name = "mcptap", version, max_term_width = 100, arg_required_else_help = false)]
#[command(after_help = "TARGET is a capture file (.pcap, .pcapng, also gzip or zstd; - for standard input), a saved \
    session (7, latest) or a database file. Exit status: 0 fine, 1 the answer is \"no\", 2 it could not be done.")]
pub struct Arguments {
    /// What to do; without it, the terminal UI.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Where sessions are saved [default: $MCPTAP_DB, else mcptap/mcptap.db in the XDG data directory]
    #[arg(long, global = true, value_name = "PATH")]
    pub db: Option<PathBuf>,
    /// Colour: on a terminal unless NO_COLOR is set, always, or never
    #[arg(long, global = true, value_enum, default_value_t = Colour::Auto, value_name = "WHEN")]
    pub color: Colour,
}

/// When to colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Colour {
    /// On a terminal.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Decode captures: one line per message as it is completed, then a summary
    Read(Read),
    /// Capture live from an interface: print messages as they complete, and save them
    #[cfg(feature = "live")]
    Sniff(Sniff),
    /// Run an STDIO server with its pipes teed into the database, undisturbed
    Wrap(Wrap),
    /// Stand before a server that speaks HTTP: pass on what clients say to it and it to them, print and save it
    #[cfg(feature = "http")]
    Proxy(Proxy),
    /// Browse a capture, a saved session or the database, live or saved
    #[cfg(feature = "tui")]
    Tui(Tui),
    /// List sessions
    Sessions(Sessions),
    /// One session as a timeline, or one message whole
    Show(Show),
    /// Layer by layer: the steps of a session, or one message from the link up
    Layers(Layers),
    /// Write a session in another format
    Export(Export),
    /// Send a recorded session again to a server, and compare the answers
    Replay(Replay),
    /// Play the recorded server to a client: on standard input and output, or over HTTP
    Mock(Mock),
    /// Compare two recordings of the same conversation: which answers differ, and where
    Diff(Diff),
    /// Findings, for people and for continuous integration: exit 1 where one is bad enough
    Check(Check),
    /// Every rule that messages are held to, or the manual of one
    Rules(Rules),
    /// Record the STDIO servers of a client from now on, by its configuration; without a client, list them
    Install(Install),
    /// Undo that, for one client or for all
    Uninstall(Install),
    /// See at once what there is to see, with recordings that mcptap brings along
    Demo(Demo),
    /// Try whether sniffing, wrapping and saving work here, and say what to do where they do not
    Doctor,
    /// Write a completion script for a shell
    Completions(Completions),
}

/// How captures are decoded.
#[derive(Clone, Debug, Default, Args)]
pub struct Decoding {
    /// TLS secrets in NSS key log format, as applications write to SSLKEYLOGFILE [default: $SSLKEYLOGFILE]
    #[arg(long, value_name = "FILE")]
    pub keylog: Option<PathBuf>,
    /// Show and save Authorization, Cookie and the like as sent, not masked
    #[arg(long)]
    pub keep_secrets: bool,
}

impl Decoding {
    /// The key log: what was asked for, else that of the environment where it exists. Whether it may be missing is told by the source: a
    /// variable that is set for other programs is no reason to refuse work.
    pub fn key_log(&self, live: bool) -> Option<PathBuf> {
        let named = std::env::var_os("SSLKEYLOGFILE").filter(|name| !name.is_empty()).map(PathBuf::from);
        self.keylog.clone().or_else(|| named.filter(|path| live || path.is_file()))
    }
}

/// `mcptap read`.
#[derive(Debug, Args)]
pub struct Read {
    /// Capture files, read as one capture; - for standard input
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Decoding.
    #[command(flatten)]
    pub decoding: Decoding,
    /// Only messages that fit this filter (docs/filter.md)
    #[arg(long, value_name = "EXPR")]
    pub filter: Option<String>,
    /// Save the sessions in the database too
    #[arg(long)]
    pub save: bool,
    /// JSON lines instead of text
    #[arg(long)]
    pub json: bool,
    /// Say the SHA-256 of the decoded bodies of each exchange
    #[arg(long, requires = "json")]
    pub hash: bool,
    /// Keep reading while the file grows
    #[arg(long)]
    pub follow: bool,
}

/// `mcptap sniff`.
#[cfg(feature = "live")]
#[derive(Debug, Args)]
pub struct Sniff {
    /// The interface; any for all of them
    #[arg(short, long, value_name = "IFACE", required_unless_present = "list_interfaces")]
    pub interface: Option<String>,
    /// Capture only what fits this BPF filter, as for tcpdump
    #[arg(short = 'f', long = "capture-filter", value_name = "BPF")]
    pub capture_filter: Option<String>,
    /// Write the raw packets to this pcapng file too
    #[arg(short, long, value_name = "FILE")]
    pub write: Option<PathBuf>,
    /// List interfaces and stop
    #[arg(long)]
    pub list_interfaces: bool,
    /// See packets that are not for this machine
    #[arg(long)]
    pub promiscuous: bool,
    /// Kernel buffer in MiB
    #[arg(long, value_name = "MIB", default_value_t = 64)]
    pub buffer: u32,
    /// Stop after so many seconds
    #[arg(long, value_name = "SECONDS")]
    pub duration: Option<f64>,
    /// Stop after so many messages
    #[arg(long, value_name = "N")]
    pub count: Option<u64>,
    /// Decoding.
    #[command(flatten)]
    pub decoding: Decoding,
    /// Print only messages that fit this filter
    #[arg(long, value_name = "EXPR")]
    pub filter: Option<String>,
    /// JSON lines instead of text
    #[arg(long)]
    pub json: bool,
    /// Do not save
    #[arg(long)]
    pub no_save: bool,
}

/// `mcptap wrap`.
#[derive(Debug, Args)]
pub struct Wrap {
    /// A name for the server in lists
    #[arg(long)]
    pub name: Option<String>,
    /// Record --token, API_KEY= and the like of the command line as given, not masked
    #[arg(long)]
    pub keep_secrets: bool,
    /// The server's command and its arguments
    #[arg(required = true, last = true, value_name = "CMD")]
    pub command: Vec<std::ffi::OsString>,
}

/// `mcptap tui`.
#[cfg(feature = "tui")]
#[derive(Debug, Default, Args)]
pub struct Tui {
    /// What to show; several capture files are read as one; without it, the default database
    #[arg(value_name = "TARGET")]
    pub targets: Vec<String>,
    /// Decoding.
    #[command(flatten)]
    pub decoding: Decoding,
    /// Colours: dark, light or mono [default: dark; mono where NO_COLOR is set]
    #[arg(long, value_name = "NAME")]
    pub theme: Option<String>,
}

/// `mcptap install` and `mcptap uninstall`.
#[derive(Debug, Args)]
pub struct Install {
    /// claude-code, claude-desktop, cline, cursor, gemini, lm-studio, vscode, windsurf or zed; or the file of a configuration
    pub client: Option<String>,
    /// Only these servers
    #[arg(value_name = "SERVER")]
    pub servers: Vec<String>,
    /// Say what would change, and change nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// `mcptap demo`.
#[derive(Debug, Args)]
pub struct Demo {
    /// As lines of text, not in the terminal UI
    #[arg(long)]
    pub text: bool,
}

/// `mcptap sessions`.
#[derive(Debug, Args)]
pub struct Sessions {
    /// A capture or database instead of the default database
    pub target: Option<String>,
    /// Decoding.
    #[command(flatten)]
    pub decoding: Decoding,
    /// JSON lines instead of a table
    #[arg(long)]
    pub json: bool,
}

/// `mcptap show`.
#[derive(Debug, Args)]
pub struct Show {
    /// What to show
    pub target: String,
    /// One message whole
    #[arg(long, short, value_name = "N")]
    pub message: Option<u64>,
    /// What each session is, in place of its messages: revision, capabilities, lists and their cost, timeline
    #[arg(long, conflicts_with_all = ["message", "filter", "follow"])]
    pub summary: bool,
    /// One session of a capture with several
    #[arg(long, value_name = "N")]
    pub session: Option<u32>,
    /// Only messages that fit this filter (docs/filter.md)
    #[arg(long, value_name = "EXPR")]
    pub filter: Option<String>,
    /// Decoding.
    #[command(flatten)]
    pub decoding: Decoding,
    /// JSON lines instead of text
    #[arg(long)]
    pub json: bool,
    /// Keep printing as messages arrive
    #[arg(long)]
    pub follow: bool,
}

/// `mcptap layers`.
#[derive(Debug, Args)]
pub struct Layers {
    /// What to show
    pub target: String,
    /// One message from the link up
    #[arg(long, short, value_name = "N")]
    pub message: Option<u64>,
    /// One session of a capture with several
    #[arg(long, value_name = "N")]
    pub session: Option<u32>,
    /// Decoding.
    #[command(flatten)]
    pub decoding: Decoding,
    /// JSON lines instead of text
    #[arg(long)]
    pub json: bool,
}

/// `mcptap export`.
#[derive(Debug, Args)]
pub struct Export {
    /// What to write
    pub target: String,
    /// The format
    #[arg(long, short, value_enum)]
    pub format: Format,
    /// Where to; standard output otherwise
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// One session of a capture with several
    #[arg(long, value_name = "N")]
    pub session: Option<u32>,
    /// Only messages that fit this filter (docs/filter.md); not for pcapng
    #[arg(long, value_name = "EXPR")]
    pub filter: Option<String>,
    /// Decoding.
    #[command(flatten)]
    pub decoding: Decoding,
}

/// Formats of `mcptap export`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// JSON lines: sessions, messages, exchanges, findings
    Jsonl,
    /// HTTP exchanges with their bodies, as browsers and proxies read them (HAR 1.2)
    Har,
    /// A page for a browser, in one file that fetches nothing: timeline, messages, findings
    Html,
    /// Traces for OpenTelemetry: a span for each request with its answer (OTLP/JSON)
    Otlp,
    /// Messages as a table of columns, for DuckDB, pandas and the like
    #[cfg_attr(not(feature = "parquet"), doc = "(this mcptap was built without it)")]
    Parquet,
    /// The packets, as a capture file
    Pcapng,
    /// A sequence diagram that code hosts draw in issues and documents
    Mermaid,
}

/// `mcptap check`.
#[derive(Debug, Args)]
pub struct Check {
    /// What to check
    pub target: String,
    /// One session of a capture with several
    #[arg(long, value_name = "N")]
    pub session: Option<u32>,
    /// How findings are written
    #[arg(long, short, value_enum, default_value_t = Findings::Text)]
    pub format: Findings,
    /// Exit 1 from this severity on [default: error, or what mcptap.toml says]
    #[arg(long, value_enum, value_name = "SEVERITY")]
    pub fail_on: Option<FailOn>,
    /// Only these rules: ids, or beginnings of ids with * behind them
    #[arg(long, value_name = "RULE", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Not these rules
    #[arg(long, value_name = "RULE", value_delimiter = ',')]
    pub ignore: Vec<String>,
    /// Choices of a project [default: mcptap.toml in the working directory, where it is there]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Compare the tools with those that were accepted in this file
    #[arg(long, value_name = "FILE")]
    pub baseline: Option<PathBuf>,
    /// Accept the tools as they are: write them to this file, and check nothing
    #[arg(long, value_name = "FILE", conflicts_with = "baseline")]
    pub write_baseline: Option<PathBuf>,
    /// Decoding.
    #[command(flatten)]
    pub decoding: Decoding,
}

/// How findings are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Findings {
    /// By rule, with the first places
    Text,
    /// JSON lines
    Json,
    /// SARIF 2.1.0
    Sarif,
    /// JUnit XML
    Junit,
}

/// From which severity on `mcptap check` says no.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FailOn {
    /// Errors.
    Error,
    /// Warnings and errors.
    Warning,
    /// Any finding.
    Info,
    /// None: the exit status is 0 whatever is found.
    Never,
}

/// `mcptap rules`.
#[derive(Debug, Args)]
pub struct Rules {
    /// One rule
    pub rule: Option<String>,
}

/// `mcptap completions`.
#[derive(Debug, Args)]
pub struct Completions {
    /// The shell
    pub shell: clap_complete::Shell,
}
