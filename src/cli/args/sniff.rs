//! The command line of `mcptap sniff`.

use std::path::PathBuf;

use clap::Args;

use super::{Decoding, RecordingOptions};

/// Arguments of `mcptap sniff`.
#[derive(Debug, Args)]
#[command(mut_arg("threads", |threads| threads.hide(true)))] // Batches would delay messages.
pub struct Sniff {
    /// The interface to capture on; any for all interfaces
    #[arg(short, long, value_name = "IFACE", required_unless_present = "list_interfaces")]
    pub interface: Option<String>,
    /// Decrypt TLS with the secrets of this running process, or of all processes whose command line
    /// contains NAME. Connections that are open already are recorded above TLS (docs/attach.md)
    #[cfg(all(feature = "attach", target_os = "linux"))]
    #[arg(long, value_name = "PID|NAME")]
    pub keys_from: Option<String>,
    /// Capture only packets that match this BPF filter, as for tcpdump
    #[arg(short = 'f', long = "capture-filter", value_name = "BPF")]
    pub capture_filter: Option<String>,
    /// Also write the raw packets to this pcapng file
    #[arg(short, long, value_name = "FILE")]
    pub write: Option<PathBuf>,
    /// List the interfaces and exit
    #[arg(long)]
    pub list_interfaces: bool,
    /// Capture also packets that are not for this machine
    #[arg(long)]
    pub promiscuous: bool,
    /// Size of the kernel buffer in MiB
    #[arg(long, value_name = "MIB", default_value_t = 64)]
    pub buffer: u32,
    /// Stop after this many seconds
    #[arg(long, value_name = "SECONDS")]
    pub duration: Option<f64>,
    /// Stop after this many messages
    #[arg(long, value_name = "N")]
    pub count: Option<u64>,
    /// Options for decoding captures.
    #[command(flatten)]
    pub decoding: Decoding,
    /// What is printed, saved and sent.
    #[command(flatten)]
    pub recording: RecordingOptions,
}
