//! The peers of UNIX sockets, from the kernel's socket diagnostics (sock_diag(7)).
//!
//! The request and the answers are netlink messages in the byte order of the machine:
//!
//! ```text
//!  0  16  struct nlmsghdr      length, type, flags, sequence, port
//! 16  ..  struct unix_diag_msg family, type, state, pad, inode, cookie: 16 bytes
//! 32  ..  attributes           length, type, value; padded to 4 bytes
//! ```

use std::collections::HashMap;

use anyhow::Context;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, netlink, recv, send, socket};

const HEADER: usize = 16;
const MESSAGE: usize = 16;
/// Values of `linux/netlink.h`, `linux/sock_diag.h` and `linux/unix_diag.h`.
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST_DUMP: u16 = 0x301;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const AF_UNIX: u8 = 1;
const UDIAG_SHOW_PEER: u32 = 4;
const UNIX_DIAG_PEER: u16 = 2;
/// Room for one answer of the kernel, which sends at most 32 KiB at once.
const ANSWER: usize = 64 << 10;

/// The inode of the peer of each connected UNIX socket, by inode.
pub(super) fn peers() -> anyhow::Result<HashMap<u64, u64>> {
    let doing = "cannot ask the kernel for the peers of sockets";
    let socket = socket(AddressFamily::NETLINK, SocketType::RAW, Some(netlink::SOCK_DIAG)).context(doing)?;
    send(&socket, &request(), SendFlags::empty()).context(doing)?;
    let (mut peers, mut buffer) = (HashMap::new(), vec![0; ANSWER]);
    loop {
        let (length, _) = recv(&socket, buffer.as_mut_slice(), RecvFlags::empty()).context(doing)?;
        if length == 0 || read(&buffer[..length], &mut peers) {
            return Ok(peers);
        }
    }
}

/// The request for all UNIX sockets in all states, with their peers.
fn request() -> Vec<u8> {
    let length = HEADER as u32 + 24;
    let mut bytes = Vec::with_capacity(length as usize);
    bytes.extend(length.to_ne_bytes());
    bytes.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes.extend(NLM_F_REQUEST_DUMP.to_ne_bytes());
    bytes.extend([0; 8]);
    // struct unix_diag_req: family, protocol, pad, states, inode, show, cookie.
    bytes.extend([AF_UNIX, 0, 0, 0]);
    bytes.extend(u32::MAX.to_ne_bytes());
    bytes.extend(0u32.to_ne_bytes());
    bytes.extend(UDIAG_SHOW_PEER.to_ne_bytes());
    bytes.extend([0; 8]);
    bytes
}

/// Reads the messages of one answer. Returns whether the last one was among them.
fn read(mut bytes: &[u8], peers: &mut HashMap<u64, u64>) -> bool {
    while let (Some(length), Some(kind)) = (number(bytes, 0), half(bytes, 4)) {
        let Some(message) = bytes.get(..length as usize).filter(|message| message.len() >= HEADER) else { return true };
        match kind {
            NLMSG_DONE | NLMSG_ERROR => return true,
            SOCK_DIAG_BY_FAMILY => {
                if let (Some(inode), Some(peer)) = (number(message, HEADER + 4), peer(message)) {
                    peers.insert(inode.into(), peer.into());
                }
            }
            _ => {}
        }
        bytes = bytes.get(padded(message.len())..).unwrap_or_default();
    }
    false
}

/// The value of the attribute that names the peer.
fn peer(message: &[u8]) -> Option<u32> {
    let mut rest = message.get(HEADER + MESSAGE..)?;
    loop {
        let (length, kind) = (usize::from(half(rest, 0)?), half(rest, 2)?);
        if kind == UNIX_DIAG_PEER {
            return number(rest, 4);
        }
        rest = rest.get(padded(length.max(4))..)?;
    }
}

fn padded(length: usize) -> usize {
    length.next_multiple_of(4)
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}
