//! QUIC, as far as its first packet tells: which server a client asks for, and which protocol (RFC 9000, RFC 9001; version 2: RFC 9369).
//!
//! What follows is not decoded. The Initial packets of a client are encrypted with keys that anybody can derive from the packet itself, which
//! is enough to say that HTTP/3 passed by, and where to.

mod initial;

use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;

use self::initial::{Initial, Keys};
use super::tls;

/// Clients whose hello is being put together at once. It fits into one or two datagrams.
const OPEN: usize = 64;

/// Bytes of a hello that are waited for. With post-quantum keys it has about two kilobytes.
const HELLO: u64 = 16 << 10;

/// Servers that are remembered as told.
const TOLD: usize = 4_096;

/// A server that was asked for over QUIC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The client.
    pub client: SocketAddr,
    /// The server.
    pub server: SocketAddr,
    /// The version of QUIC: 1 or 2.
    pub version: u8,
    /// The server's name (SNI); `None` where the hello names none.
    pub name: Option<String>,
    /// The protocols that the client offers (ALPN): `h3`.
    pub protocols: Vec<String>,
}

/// Watches for QUIC.
#[derive(Debug, Default)]
pub struct Quic {
    open: VecDeque<Hello>,
    told: BTreeSet<SocketAddr>,
}

/// The hello of a client, as far as it came.
#[derive(Debug)]
struct Hello {
    ends: (SocketAddr, SocketAddr),
    /// From the connection id that the client chose for the server at first.
    keys: Keys,
    /// Pieces of the handshake by offset, in no order.
    pieces: Vec<(u64, Vec<u8>)>,
}

/// Whether a datagram begins with an Initial packet of a version that is known.
pub fn sniff(datagram: &[u8]) -> bool {
    Initial::read(datagram).is_some()
}

impl Quic {
    /// A datagram from `client` to `server`, as far as that is known: what it asks for, the first time that somebody asks this server.
    pub fn push(&mut self, client: SocketAddr, server: SocketAddr, datagram: &[u8]) -> Option<Asked> {
        if self.told.contains(&server) || self.told.len() >= TOLD {
            return None;
        }
        let mut rest = datagram;
        // RFC 9000 section 12.2: packets may be coalesced. There are never more than a handful.
        while let Some((initial, behind)) = Initial::read(rest) {
            rest = behind;
            let hello = self.hello((client, server), &initial)?;
            let version = initial.version.number();
            let message = hello.joined();
            if let Some((name, protocols)) = tls::client_hello(&message) {
                self.open.retain(|hello| hello.ends != (client, server));
                self.told.insert(server);
                return Some(Asked { client, server, version, name, protocols });
            }
        }
        None
    }

    /// Takes what an Initial packet holds of the hello between these ends. `None` where it cannot be opened: it was sent by the server, or damaged.
    fn hello(&mut self, ends: (SocketAddr, SocketAddr), initial: &Initial<'_>) -> Option<&mut Hello> {
        let at = self.open.iter().position(|hello| hello.ends == ends);
        let known = at.and_then(|at| Some((at, initial.open(&self.open[at].keys)?)));
        let (at, payload) = match known {
            Some(known) => known,
            None => {
                // RFC 9001 section 5.2: the secret comes from "the Destination Connection ID field from the client's first Initial packet".
                let keys = Keys::of_client(initial.version, initial.destination)?;
                let payload = initial.open(&keys)?;
                self.open.retain(|hello| hello.ends != ends);
                if self.open.len() >= OPEN {
                    self.open.pop_front();
                }
                self.open.push_back(Hello { ends, keys, pieces: Vec::new() });
                (self.open.len() - 1, payload)
            }
        };
        let hello = self.open.get_mut(at)?;
        for (offset, bytes) in initial::crypto(&payload) {
            let held: usize = hello.pieces.iter().map(|(_, piece)| piece.len() + size_of::<(u64, Vec<u8>)>()).sum();
            if offset + bytes.len() as u64 <= HELLO && (held as u64) < HELLO {
                hello.pieces.push((offset, bytes.to_vec()));
            }
        }
        Some(hello)
    }
}

impl Hello {
    /// The handshake from its beginning on, as far as it is there without a hole.
    fn joined(&mut self) -> Vec<u8> {
        self.pieces.sort_by_key(|(offset, _)| *offset);
        let mut joined: Vec<u8> = Vec::new();
        for (offset, piece) in &self.pieces {
            let have = (joined.len() as u64).checked_sub(*offset).and_then(|have| usize::try_from(have).ok());
            match have.map(|have| piece.get(have..)) {
                None => break,
                Some(new) => joined.extend_from_slice(new.unwrap_or_default()),
            }
        }
        joined
    }
}

/// The body of the fuzz target: any datagrams, each behind its length in two bytes, from one client to one server.
///
/// What is held is bounded, and nothing is told twice.
///
/// # Panics
///
/// Where that is not so.
pub fn fuzz_quic(mut data: &[u8]) {
    let ends = [1, 443].map(|port| SocketAddr::from(([192, 0, 2, 1], port)));
    let (mut quic, mut told) = (Quic::default(), 0);
    while let Some((length, rest)) = data.split_first_chunk() {
        let (datagram, behind) = rest.split_at(usize::from(u16::from_be_bytes(*length)).min(rest.len()));
        data = behind;
        told += usize::from(quic.push(ends[0], ends[1], datagram).is_some());
        // The script may be sealed: then it is opened as a client's.
        let sealed = initial::seal(initial::Version::V1, b"\x83\x94\xc8\xf0\x3e\x51\x57\x08", datagram);
        told += usize::from(sealed.and_then(|sealed| quic.push(ends[0], ends[1], &sealed)).is_some());
        assert!(quic.open.len() <= 1 && told <= 1);
        assert!(quic.open.iter().all(|hello| hello.pieces.len() as u64 <= HELLO / 8));
    }
}

#[cfg(test)]
mod tests;
