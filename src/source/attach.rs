//! Attaching to processes that already run: the STDIO of MCP servers, and the TLS secrets of
//! clients. Linux only.
//!
//! ```text
//!   processes.rs    what /proc says: commands, parents, open pipes and sockets     Snapshot
//!   unix_peers.rs   which socket is connected to which (sock_diag)
//!   pairs.rs        hosts and their servers, from a snapshot                       Pair
//!   probe.bpf.c     the part in the kernel: copies what passes                     probe.bpf.o
//!   tls.bpf.h       its part for TLS libraries
//!   probe.rs        loads it, and reads its ring of events                         Probe
//!   event.rs        the events                                                     Event
//!   channel.rs      the bytes of one pipe in order, with gaps of known length
//!   tcp_sockets.rs  the TCP sockets of each network namespace                      TcpSocket
//!   http_pairs.rs   clients and their servers over HTTP, by evidence               HttpPair
//!   visibility.rs   what cannot be seen, and why
//!   recording.rs    all of that as a Source of pipe packets
//!   client.rs       a client that mcptap starts: its servers, as pipe packets, and its connections
//!   libraries.rs    the TLS libraries of a process
//!   boringssl.rs    finds the function of BoringSSL that logs secrets
//!   secrets.rs      TLS secrets as lines of a key log
//!   text.rs         text above TLS, of connections whose handshakes were over before
//! ```
//!
//! Nothing is restarted, and no descriptor number is trusted: a pipe is known by its inode, and a
//! socket by its peer. The kernel unloads everything when this process ends, however it ends.

mod boringssl;
mod channel;
mod client;
mod event;
pub mod http_pairs;
pub mod libraries;
pub mod pairs;
mod probe;
pub mod processes;
mod recording;
mod secrets;
mod tcp_sockets;
mod text;
mod unix_peers;
pub mod visibility;

pub use client::{ClientConnection, Taken, WatchedClient, own_streams};
pub use http_pairs::HttpPair;
pub use pairs::Pair;
pub use probe::CAPABILITIES;
pub use processes::Snapshot;
pub use recording::{Attached, Counts};
pub use secrets::{SecretTap, WithSecrets};
