//! The entries of a tape, as bytes in a batch. An entry begins with the number of its connection
//! and the kind of its event, in five bytes. All numbers are little-endian.

use std::net::SocketAddr;

use super::TapeConnection;

/// Bytes before the content.
const HEAD: usize = 5;

/// The most bytes of an entry besides those that were sent or received: two IPv6 addresses as text.
const MAX_HEAD: usize = 192;

/// Something that happened on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TapeEvent<'b> {
    /// It was opened, from the client to the server.
    Open(SocketAddr, SocketAddr),
    Sent(&'b [u8]),
    Received(&'b [u8]),
    /// Numbers of bytes that the client sent and received without being recorded.
    Lost([u64; 2]),
    Close,
}

impl<'b> TapeEvent<'b> {
    /// The bytes that the client sent or received.
    pub(super) fn bytes(&self) -> &'b [u8] {
        match self {
            TapeEvent::Sent(bytes) | TapeEvent::Received(bytes) => bytes,
            _ => &[],
        }
    }

    /// An upper bound for the length of the entry.
    pub(super) fn most_bytes(&self) -> usize {
        MAX_HEAD + self.bytes().len()
    }
}

/// Appends an entry.
pub(super) fn encode(connection: TapeConnection, event: &TapeEvent<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(&connection.0.to_le_bytes());
    out.push(match event {
        TapeEvent::Open(..) => 0,
        TapeEvent::Sent(_) => 1,
        TapeEvent::Received(_) => 2,
        TapeEvent::Lost(_) => 3,
        TapeEvent::Close => 4,
    });
    match event {
        TapeEvent::Open(client, server) => out.extend_from_slice(format!("{client} {server}").as_bytes()),
        TapeEvent::Sent(bytes) | TapeEvent::Received(bytes) => out.extend_from_slice(bytes),
        TapeEvent::Lost(lost) => lost.iter().for_each(|bytes| out.extend_from_slice(&bytes.to_le_bytes())),
        TapeEvent::Close => {}
    }
}

/// Parses an entry; `None` if it is none.
pub(super) fn decode(entry: &[u8]) -> Option<(TapeConnection, TapeEvent<'_>)> {
    let (head, content) = entry.split_first_chunk::<HEAD>()?;
    let [connection @ .., kind] = *head;
    let event = match kind {
        0 => {
            let (client, server) = str::from_utf8(content).ok()?.split_once(' ')?;
            TapeEvent::Open(client.parse().ok()?, server.parse().ok()?)
        }
        1 => TapeEvent::Sent(content),
        2 => TapeEvent::Received(content),
        3 => {
            let (sent, received) = content.split_first_chunk()?;
            TapeEvent::Lost([u64::from_le_bytes(*sent), u64::from_le_bytes(received.try_into().ok()?)])
        }
        4 => TapeEvent::Close,
        _ => return None,
    };
    Some((TapeConnection(u32::from_le_bytes(connection)), event))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_survives_the_round_trip() {
        let addresses = ("[fe80::1%3]:80".parse().unwrap(), "127.0.0.1:443".parse().unwrap());
        for event in [
            TapeEvent::Open(addresses.0, addresses.1),
            TapeEvent::Sent(b"GET"),
            TapeEvent::Received(b""),
            TapeEvent::Lost([1 << 40, 7]),
            TapeEvent::Close,
        ] {
            let mut entry = Vec::new();
            encode(TapeConnection(258), &event, &mut entry);
            assert!(entry.len() <= event.most_bytes());
            assert_eq!(decode(&entry), Some((TapeConnection(258), event)));
            assert_eq!(decode(&entry[..4]), None);
        }
    }
}
