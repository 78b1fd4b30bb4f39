//! The TCP sockets of this machine. /proc/PID/net/tcp lists those of a network namespace (proc(5)).
//!
//! ```text
//!   sl local_address rem_address   st tx_queue:rx_queue tr:tm->when retrnsmt uid timeout inode
//!   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000   0       0 4711 ...
//! ```

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::processes::path;

/// A TCP socket that listens, or is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpSocket {
    /// Its own address.
    pub local: SocketAddr,
    /// The address that it is connected to; `None` if it listens.
    pub remote: Option<SocketAddr>,
    /// The inode of its network namespace.
    pub namespace: u64,
}

/// The sockets of these processes' network namespaces, by inode. One process of each namespace
/// suffices to list them.
pub(super) fn tcp_sockets(processes: impl Iterator<Item = u32>) -> HashMap<u64, TcpSocket> {
    let namespaces = processes.filter_map(|process| Some((namespace(process)?, process)));
    let mut sockets = HashMap::new();
    for (namespace, process) in namespaces.collect::<BTreeMap<u64, u32>>() {
        for file in ["net/tcp", "net/tcp6"] {
            let text = fs::read_to_string(path(process, file)).unwrap_or_default();
            sockets.extend(text.lines().filter_map(|line| socket(line, namespace)));
        }
    }
    sockets
}

/// The inode of a process's network namespace; `None` if it may not be read.
pub(super) fn namespace(process: u32) -> Option<u64> {
    let target = fs::read_link(path(process, "ns/net")).ok()?;
    target.to_str()?.strip_prefix("net:[")?.strip_suffix(']')?.parse().ok()
}

/// The inode and the socket of a line; `None` if it neither listens nor is connected.
fn socket(line: &str, namespace: u64) -> Option<(u64, TcpSocket)> {
    let mut words = line.split_ascii_whitespace().skip(1);
    let (local, remote) = (address(words.next()?)?, address(words.next()?)?);
    // The states of include/net/tcp_states.h.
    let remote = match words.next()? {
        "01" => Some(remote),
        "0A" => None,
        _ => return None,
    };
    let inode = words.nth(5)?.parse().ok()?;
    Some((inode, TcpSocket { local, remote, namespace }))
}

/// Parses an address and a port. The address consists of words of 32 bits, each printed as a number
/// of this machine's byte order.
fn address(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let bytes = |digits: &str| Some(u32::from_str_radix(digits, 16).ok()?.to_ne_bytes());
    let ip = match address.len() {
        8 => IpAddr::V4(Ipv4Addr::from(bytes(address)?)),
        32 => {
            let mut octets = [0; 16];
            for (index, word) in octets.chunks_mut(4).enumerate() {
                word.copy_from_slice(&bytes(address.get(8 * index..8 * index + 8)?)?);
            }
            Ipv6Addr::from(octets).to_canonical()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn lines_that_are_no_sockets_are_passed_over() {
        for line in
            ["", "  sl  local_address rem_address   st", "0: 0100007F:1F90 zz:0000 0A 0 0 0 0 0 1", "0: é:1 é:1 01"]
        {
            assert_eq!(socket(line, 1), None, "{line}");
        }
        let closing = "0: 0100007F:1F90 0100007F:0001 06 0:0 0:0 0 0 0 4711";
        assert_eq!(socket(closing, 1), None);
        assert_eq!(socket(&closing.replace(" 06 ", " 01 "), 1).map(|(inode, _)| inode), Some(4711));
    }

    #[test]
    fn the_sockets_of_this_process_are_listed_with_their_addresses() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let server = listener.accept().unwrap().0;
            let sockets = tcp_sockets(std::iter::once(std::process::id()));
            let of = |socket: &dyn AsFd| sockets[&rustix::fs::fstat(socket.as_fd()).unwrap().st_ino];
            let namespace = namespace(std::process::id()).unwrap();
            let local = listener.local_addr().unwrap();
            assert_eq!(of(&listener), TcpSocket { local, remote: None, namespace });
            let remote = Some(client.local_addr().unwrap());
            assert_eq!(of(&server), TcpSocket { local, remote, namespace });
            assert_eq!(of(&client).remote, Some(local));
        }
    }
}
