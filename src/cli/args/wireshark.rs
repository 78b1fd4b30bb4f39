//! The command line of `mcptap wireshark`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Arguments of `mcptap wireshark`.
#[derive(Debug, Args)]
pub struct Wireshark {
    /// What to do.
    #[command(subcommand)]
    pub action: WiresharkAction,
}

/// The commands of `mcptap wireshark`.
#[derive(Debug, Subcommand)]
pub enum WiresharkAction {
    /// Add the interfaces of mcptap and the fields mcp.* to Wireshark
    Install(WiresharkFolders),
    /// Remove what install added
    Uninstall(WiresharkFolders),
    /// Be an external capture program of Wireshark (extcap(4)), which calls this
    #[command(hide = true)]
    Extcap(Extcap),
}

/// The folders of Wireshark that are changed.
#[derive(Debug, Args)]
pub struct WiresharkFolders {
    /// Folder of external capture programs [default: as "tshark -G folders" says]
    #[arg(long, value_name = "DIR")]
    pub extcap_dir: Option<PathBuf>,
    /// Folder of Lua plugins [default: as "tshark -G folders" says]
    #[arg(long, value_name = "DIR")]
    pub plugin_dir: Option<PathBuf>,
    /// Only the fields, no interfaces
    #[arg(long, conflicts_with = "extcap_dir")]
    pub only_fields: bool,
}

/// Arguments with which Wireshark calls an external capture program.
#[derive(Debug, Args)]
pub struct Extcap {
    /// List the interfaces.
    #[arg(long)]
    pub extcap_interfaces: bool,
    /// The version of Wireshark.
    #[arg(long)]
    pub extcap_version: Option<String>,
    /// The interface that the other arguments are about.
    #[arg(long)]
    pub extcap_interface: Option<String>,
    /// List the link types of the interface.
    #[arg(long)]
    pub extcap_dlts: bool,
    /// List the options of the interface.
    #[arg(long)]
    pub extcap_config: bool,
    /// Begin a capture.
    #[arg(long)]
    pub capture: bool,
    /// Where to write the packets.
    #[arg(long)]
    pub fifo: Option<PathBuf>,
    /// Capture only packets that match this BPF filter.
    #[arg(long)]
    pub extcap_capture_filter: Option<String>,
    /// An option of the first interface: the network interface to capture on.
    #[arg(long, default_value = "any")]
    pub network: String,
    /// An option of the first interface: also packets of connections without MCP.
    #[arg(long)]
    pub all: bool,
    /// An option of the second interface: the process id of a server or its host, or a part of the
    /// server's command line.
    #[arg(long)]
    pub process: Option<String>,
}
