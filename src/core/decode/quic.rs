//! QUIC. It is recognised by the first packets of a connection (RFC 9000; version 2: RFC 9369) and
//! not decoded further (`docs/decisions/0029-quic-is-recognised-only.md`).

use std::collections::BTreeSet;
use std::net::SocketAddr;

/// Servers that are remembered, so that each is reported once. More are not reported.
const MAX_REPORTED: usize = 4_096;

/// Finds the servers that speak QUIC.
#[derive(Debug, Default)]
pub struct Quic {
    reported: BTreeSet<SocketAddr>,
}

/// The version of QUIC, 1 or 2, if the datagram begins with an Initial packet.
pub fn version(datagram: &[u8]) -> Option<u8> {
    let (first, rest) = datagram.split_first()?;
    let (version, rest) = rest.split_first_chunk()?;
    // RFC 9000 section 17.2: header form, fixed bit and packet type. The lower four bits are
    // encrypted.
    let version = match (first >> 4, version) {
        (0b1100, [0, 0, 0, 1]) => 1,
        // RFC 9369 sections 3.1 and 3.2.
        (0b1101, [0x6b, 0x33, 0x43, 0xcf]) => 2,
        _ => return None,
    };
    // The connection ids of destination and source follow. Their length "MUST NOT exceed 20 bytes".
    after_connection_id(after_connection_id(rest)?).map(|_| version)
}

/// The bytes after a connection id and its length.
fn after_connection_id(bytes: &[u8]) -> Option<&[u8]> {
    let (length, rest) = bytes.split_first()?;
    rest.get(usize::from(*length)..).filter(|_| *length <= 20)
}

impl Quic {
    /// Takes the addresses of an Initial packet. Returns client and server the first time that
    /// this server appears.
    ///
    /// Both sides send Initial packets, so the side with the lower port counts as the server.
    pub fn push(&mut self, source: SocketAddr, destination: SocketAddr) -> Option<(SocketAddr, SocketAddr)> {
        let (client, server) =
            if source.port() < destination.port() { (destination, source) } else { (source, destination) };
        let is_new = self.reported.len() < MAX_REPORTED && self.reported.insert(server);
        is_new.then_some((client, server))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn initial_packets_are_recognised() {
        let packet = |first: u8, version: [u8; 4], ids: &[u8]| [&[first][..], &version, ids, &[0; 1_200]].concat();
        let ids = [8, 1, 2, 3, 4, 5, 6, 7, 8, 0];
        assert_eq!(version(&packet(0xc3, [0, 0, 0, 1], &ids)), Some(1));
        assert_eq!(version(&packet(0xd0, [0x6b, 0x33, 0x43, 0xcf], &ids)), Some(2));
        assert_eq!(version(&packet(0xe3, [0, 0, 0, 1], &ids)), None, "a Handshake packet");
        assert_eq!(version(&packet(0x43, [0, 0, 0, 1], &ids)), None, "a short header");
        assert_eq!(version(&packet(0xc3, [0; 4], &ids)), None, "Version Negotiation");
        assert_eq!(version(&packet(0xc3, [0, 0, 0, 1], &[21])), None, "no id is that long");
        let whole = [&[0xc3, 0, 0, 0, 1][..], &ids].concat();
        assert!((0..whole.len()).all(|length| version(&whole[..length]).is_none()));
    }

    #[test]
    fn a_server_is_reported_once_whoever_is_seen_first() {
        let [client, other, server] = [50_000, 50_001, 443].map(|port| SocketAddr::from(([192, 0, 2, 1], port)));
        let mut quic = Quic::default();
        assert_eq!(quic.push(server, client), Some((client, server)));
        assert_eq!([quic.push(client, server), quic.push(other, server)], [None; 2]);
    }
}
