//! The command line of mcptap. `mcptap --help` is generated from this file.

#[cfg(all(feature = "attach", target_os = "linux"))]
mod attach;
mod check;
mod dataset;
mod delete;
mod examples;
mod explain;
mod export;
mod mcp;
mod mock;
#[cfg(feature = "http")]
mod proxy;
#[cfg(any(feature = "attach", feature = "http", feature = "live"))]
mod recording;
mod redact;
mod replay;
#[cfg(all(feature = "attach", target_os = "linux"))]
mod run;
mod sessions;
#[cfg(feature = "live")]
mod sniff;
mod telemetry;
#[cfg(feature = "http")]
mod web;
#[cfg(feature = "live")]
mod wireshark;

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::decode::redact::Redaction;
use crate::engine;

#[cfg(all(feature = "attach", target_os = "linux"))]
pub use attach::Attach;
pub use check::{Check, FailOn, Findings};
pub use dataset::{DatasetCommand, DatasetOptions, DatasetTarget, Ship};
pub use delete::{Delete, Pin, Prune};
pub use explain::Explain;
pub use export::{Export, Format};
pub use mcp::Mcp;
pub use mock::{Fit, Mock, MockPace};
#[cfg(feature = "http")]
pub use proxy::Proxy;
#[cfg(any(feature = "attach", feature = "http", feature = "live"))]
pub use recording::RecordingOptions;
pub use redact::Redact;
pub use replay::{Comparing, Diff, Replay, ReportFormat, TransportChoice};
#[cfg(all(feature = "attach", target_os = "linux"))]
pub use run::RunClient;
pub use sessions::Sessions;
#[cfg(feature = "live")]
pub use sniff::Sniff;
pub use telemetry::Telemetry;
#[cfg(feature = "http")]
pub use web::Web;
#[cfg(feature = "live")]
pub use wireshark::{Extcap, Wireshark, WiresharkAction, WiresharkFolders};

/// Wireshark for MCP: every Model Context Protocol message on any transport, with proof down
/// to the packet.
#[derive(Debug, Parser)]
#[command(name = "mcptap", version, max_term_width = 100, arg_required_else_help = false)]
#[command(after_help = "First steps:\n  mcptap demo                 see it at work\n  \
    sudo mcptap run -- CLIENT   start a client and record all its servers (Linux)\n  \
    mcptap install CLIENT       record the servers of a client from its next start on\n  \
    mcptap explain              find the cause of a problem in the latest recording\n\n\
    TARGET is a capture file (.pcap, .pcapng, also gzip or zstd; - for standard input), a saved session\n\
    (7, latest) or a database file. Exit status: 0 success, 1 done with a negative result (such as\n\
    findings or differences), 2 an error occurred.")]
pub struct Arguments {
    /// The command. Without one, the terminal UI starts.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Database for saved sessions [default: $MCPTAP_DB, else mcptap/mcptap.db in the XDG data
    /// directory]
    #[arg(long, global = true, value_name = "PATH")]
    pub db: Option<PathBuf>,
    /// When to use colour: on a terminal unless NO_COLOR is set (auto), always, or never
    #[arg(long, global = true, value_enum, default_value_t = Colour::Auto, value_name = "WHEN")]
    pub color: Colour,
}

/// The condition for coloured output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Colour {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Colour in every output.
    Always,
    /// No colour in any output.
    Never,
}

/// The commands of mcptap.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Decode captures: print one line per message as it is completed, then a summary
    #[command(after_help = examples::READ)]
    Read(Read),
    /// Capture live from an interface: print messages as they complete, and save them
    #[cfg(feature = "live")]
    #[command(after_help = examples::SNIFF)]
    Sniff(Sniff),
    /// Run an STDIO server and record its pipes in the database, without disturbing it
    #[command(after_help = examples::WRAP)]
    Wrap(Wrap),
    /// Record STDIO servers that already run, with nothing restarted
    #[cfg(all(feature = "attach", target_os = "linux"))]
    #[command(after_help = examples::ATTACH)]
    Attach(Attach),
    /// Start a client and record all servers that it uses, over STDIO, HTTP and HTTPS
    #[cfg(all(feature = "attach", target_os = "linux"))]
    #[command(after_help = examples::RUN)]
    Run(RunClient),
    /// Forward requests to HTTP servers, and print and save the traffic
    #[cfg(feature = "http")]
    #[command(after_help = examples::PROXY)]
    Proxy(Proxy),
    /// Show how to make clients trust the certificate authority of proxy --intercept
    #[cfg(feature = "http")]
    #[command(after_help = examples::CA)]
    Ca,
    /// Browse a capture file, a saved session or the database, also while it is being recorded
    #[cfg(feature = "tui")]
    #[command(after_help = examples::TUI)]
    Tui(Tui),
    /// List sessions
    #[command(after_help = examples::SESSIONS)]
    Sessions(Sessions),
    /// Delete sessions from the database and give their space back
    #[command(after_help = examples::DELETE)]
    Delete(Delete),
    /// Keep sessions: no deletion removes them
    #[command(after_help = examples::PIN)]
    Pin(Pin),
    /// Make full-text searches of a large database fast; the terminal UI does it by itself
    #[command(after_help = examples::INDEX)]
    Index,
    /// Show a session as a timeline, or one message in full
    #[command(after_help = examples::SHOW)]
    Show(Show),
    /// Show the layers: the steps of a session, or one message from the link up
    #[command(after_help = examples::LAYERS)]
    Layers(Layers),
    /// Write a session in another format
    #[command(after_help = examples::EXPORT)]
    Export(Export),
    /// Send new recordings of the database to a dataset, every few minutes
    #[cfg(feature = "parquet")]
    #[command(after_help = examples::SHIP)]
    Ship(Ship),
    /// Maintain a dataset
    #[cfg(feature = "parquet")]
    #[command(subcommand, after_help = examples::DATASET)]
    Dataset(DatasetCommand),
    /// Divide captures into parts that can be decoded separately: each session stays in one part
    #[command(after_help = examples::SPLIT)]
    Split(Split),
    /// Show sessions in a browser of this machine, and follow them while they are recorded
    #[cfg(feature = "http")]
    #[command(after_help = examples::WEB)]
    Web(Web),
    /// Send a recorded session to a server again, and compare the responses
    #[command(after_help = examples::REPLAY)]
    Replay(Replay),
    /// Play the recorded server to a client, on standard input and output or over HTTP
    #[command(after_help = examples::MOCK)]
    Mock(Mock),
    /// Serve the recordings to agents as an MCP server, on standard input and output or over HTTP
    #[command(after_help = examples::MCP)]
    Mcp(Mcp),
    /// Compare two recordings of the same conversation: which responses differ, and where
    #[command(after_help = examples::DIFF)]
    Diff(Diff),
    /// Report findings, also for continuous integration: exit 1 if one is severe enough
    #[command(after_help = examples::CHECK)]
    Check(Check),
    /// Name the most likely cause of a problem, with its evidence and what to do next: exit 1 if
    /// there is one
    #[command(after_help = examples::EXPLAIN)]
    Explain(Explain),
    /// List all rules, or show the manual of one rule
    #[command(after_help = examples::RULES)]
    Rules(Rules),
    /// Record the servers in a client's configuration from now on, STDIO and HTTP; without a
    /// client, list them
    #[command(after_help = examples::INSTALL)]
    Install(Install),
    /// Undo install, for one client or for all
    #[command(after_help = examples::UNINSTALL)]
    Uninstall(Install),
    /// Show what mcptap can do, with recordings that it contains
    #[command(after_help = examples::DEMO)]
    Demo(Demo),
    /// Mask secrets in saved recordings that earlier versions, or --keep-secrets, left in them
    #[command(after_help = examples::MASK)]
    Mask(Mask),
    /// Test whether saving and each way of recording work here, and explain what to do if they do
    /// not
    #[command(after_help = examples::DOCTOR)]
    Doctor,
    /// Add mcptap to Wireshark: interfaces that capture MCP, and the fields mcp.*
    #[cfg(feature = "live")]
    #[command(after_help = examples::WIRESHARK)]
    Wireshark(Wireshark),
    /// Print a completion script for a shell
    #[command(after_help = examples::COMPLETIONS)]
    Completions(Completions),
}

/// The number of a message.
fn message_number(text: &str) -> Result<u64, &'static str> {
    text.parse().map_err(|_| "a message has a number: the first column of \"mcptap show\"")
}

/// The number of a session.
fn session_number(text: &str) -> Result<u32, &'static str> {
    text.parse().map_err(|_| "a session has a number: the first column of \"mcptap sessions\"")
}

/// Options for decoding captures.
#[derive(Clone, Debug, Default, Args)]
pub struct Decoding {
    /// TLS secrets in NSS key log format, as applications write them to SSLKEYLOGFILE [default:
    /// $SSLKEYLOGFILE]
    #[arg(long, value_name = "FILE")]
    pub keylog: Option<PathBuf>,
    /// Show and save Authorization, Cookie and similar fields as sent, not masked
    #[arg(long)]
    pub keep_secrets: bool,
    /// Threads that decode capture files [default: cores + 1; 1 on one core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub threads: Option<u16>,
    /// Options that redact values.
    #[command(flatten)]
    pub redact: Redact,
}

impl Decoding {
    /// The rules of redaction.
    pub fn redaction(&self) -> anyhow::Result<Option<&'static Redaction>> {
        self.redact.redaction(self.keep_secrets)
    }

    /// The number of threads that decode capture files.
    pub fn threads(&self) -> usize {
        self.threads.map_or_else(engine::default_threads, usize::from)
    }

    /// The key log: the one given as an option, else the one in the environment.
    ///
    /// A file that the environment names may be missing, because the variable is often set for
    /// other programs. A live capture uses it all the same: its applications may still create it.
    pub fn key_log(&self, live: bool) -> Option<PathBuf> {
        let named = std::env::var_os("SSLKEYLOGFILE").filter(|name| !name.is_empty()).map(PathBuf::from);
        self.keylog.clone().or_else(|| named.filter(|path| live || path.is_file()))
    }
}

/// Takes the name of one of these values, and gives the value.
fn one_of<T, const N: usize>(values: [T; N], name: fn(T) -> &'static str) -> impl TypedValueParser<Value = T>
where
    T: Copy + Send + Sync + 'static,
{
    let named = move |word: String| values.into_iter().find(|value| name(*value) == word);
    PossibleValuesParser::new(values.map(name)).try_map(move |word| named(word).ok_or("no such word"))
}

/// The sessions that a command is about.
#[derive(Debug, Args)]
pub struct TargetOptions {
    /// The sessions [default: latest]
    pub target: Option<String>,
    /// The session, if the capture has several
    #[arg(long, value_name = "N", value_parser = session_number)]
    pub session: Option<u32>,
    /// Options for decoding captures.
    #[command(flatten)]
    pub decoding: Decoding,
}

/// Arguments of `mcptap read`.
#[derive(Debug, Default, Args)]
pub struct Read {
    /// Capture files, read as one capture; - for standard input
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Options for decoding captures.
    #[command(flatten)]
    pub decoding: Decoding,
    /// Only messages that match this filter (docs/filter.md)
    #[arg(long, value_name = "EXPR")]
    pub filter: Option<String>,
    /// Also save the sessions in the database
    #[arg(long)]
    pub save: bool,
    /// Print JSON lines instead of text
    #[arg(long)]
    pub json: bool,
    /// Add the SHA-256 of the decoded bodies to each exchange
    #[arg(long, requires = "json")]
    pub hash: bool,
    /// Keep reading while the file grows
    #[arg(long)]
    pub follow: bool,
    /// The dataset to decode into, instead of printing.
    #[command(flatten)]
    pub dataset: DatasetTarget,
}

/// Arguments of `mcptap split`.
#[derive(Debug, Args)]
pub struct Split {
    /// Capture files. A folder host=NAME in a path names the machine that captured
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// The number of parts
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=512))]
    pub into: u16,
    /// The folder for the parts: part-0000, part-0001 and so on
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
}

/// Arguments of `mcptap wrap`.
#[derive(Debug, Args)]
pub struct Wrap {
    /// Name of the server in lists
    #[arg(long)]
    pub name: Option<String>,
    /// Record secrets of the command line (--token, API_KEY=) as given, not masked
    #[arg(long)]
    pub keep_secrets: bool,
    /// Record nothing unless the first line that the program reads is JSON-RPC. For the programs of
    /// mcptap run
    #[arg(long, hide = true)]
    pub if_mcp: bool,
    /// Options that delete earlier recordings.
    #[command(flatten)]
    pub prune: Prune,
    /// The dataset that gets what is saved, while it is recorded.
    #[command(flatten)]
    pub dataset: DatasetTarget,
    /// Options that redact values.
    #[command(flatten)]
    pub redact: Redact,
    /// Options for live telemetry.
    #[command(flatten)]
    pub telemetry: Telemetry,
    /// The command of the server, with its arguments. Write it after --, so that its options are
    /// not taken for those of mcptap
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    pub command: Vec<std::ffi::OsString>,
}

/// Arguments of `mcptap tui`.
#[cfg(feature = "tui")]
#[derive(Debug, Default, Args)]
pub struct Tui {
    /// Target to show; several capture files are read as one [default: the database]
    #[arg(value_name = "TARGET")]
    pub targets: Vec<String>,
    /// Options for decoding captures.
    #[command(flatten)]
    pub decoding: Decoding,
    /// Colour theme: dark, light or mono [default: the one chosen last, or the terminal's]
    #[arg(long, value_name = "NAME")]
    pub theme: Option<String>,
}

/// Arguments of `mcptap install` and `mcptap uninstall`.
#[derive(Debug, Args)]
pub struct Install {
    /// A client (claude-code, claude-desktop, cline, codex, continue, copilot, cursor, gemini,
    /// goose, kiro, lm-studio, opencode, vscode, vscode-insiders, vscodium, windsurf, zed), or the
    /// path of a configuration file
    pub client: Option<String>,
    /// Only these servers [default: all servers of the client]
    #[arg(value_name = "SERVER")]
    pub servers: Vec<String>,
    /// Show what would change, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Instead of the client's own servers: the server "mcptap mcp", with which the client's agent
    /// can read the recordings
    #[arg(long = "self", conflicts_with = "servers")]
    pub own: bool,
}

/// Arguments of `mcptap demo`.
#[derive(Debug, Args)]
pub struct Demo {
    /// Print text instead of opening the terminal UI
    #[arg(long)]
    pub text: bool,
}

/// Arguments of `mcptap show`.
#[derive(Debug, Args)]
pub struct Show {
    /// Show this message in full
    #[arg(long, short, value_name = "N", value_parser = message_number)]
    pub message: Option<u64>,
    /// Show a summary of each session instead of its messages: revision, capabilities, lists and
    /// their cost, timeline
    #[arg(long, conflicts_with_all = ["message", "filter", "follow"])]
    pub summary: bool,
    /// Only messages that match this filter (docs/filter.md)
    #[arg(long, value_name = "EXPR")]
    pub filter: Option<String>,
    /// Print JSON lines instead of text
    #[arg(long)]
    pub json: bool,
    /// Print every line of the server's stderr; the middle of a long run is left out otherwise
    #[arg(long)]
    pub stderr: bool,
    /// Continue printing as messages arrive
    #[arg(long)]
    pub follow: bool,
    /// The sessions, and how captures are decoded.
    #[command(flatten)]
    pub sessions: TargetOptions,
}

/// Arguments of `mcptap layers`.
#[derive(Debug, Args)]
pub struct Layers {
    /// Show this message, from the link up
    #[arg(long, short, value_name = "N", value_parser = message_number)]
    pub message: Option<u64>,
    /// Print JSON lines instead of text
    #[arg(long)]
    pub json: bool,
    /// The sessions, and how captures are decoded.
    #[command(flatten)]
    pub sessions: TargetOptions,
}

/// Arguments of `mcptap rules`.
#[derive(Debug, Args)]
pub struct Rules {
    /// The id of the rule to explain
    pub rule: Option<String>,
}

/// Arguments of `mcptap mask`.
#[derive(Debug, Args)]
#[command(
    long_about = "Mask secrets in saved recordings that earlier versions, or --keep-secrets, left in them. Header \
    fields, URLs, command lines, logs and packets are searched by today's rules. TLS keys are removed. Messages stay as \
    they are. The earlier content is removed from the file too, free pages and the write-ahead log included. Nothing \
    is changed while a recording is being written."
)]
pub struct Mask {
    /// The database [default: that of saved sessions]
    #[arg(value_name = "DATABASE")]
    pub database: Option<PathBuf>,
    /// Mask without asking
    #[arg(long)]
    pub yes: bool,
}

/// Arguments of `mcptap completions`.
#[derive(Debug, Args)]
pub struct Completions {
    /// The shell to complete for
    pub shell: clap_complete::Shell,
}
