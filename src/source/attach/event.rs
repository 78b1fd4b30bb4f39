//! The events that the part in the kernel puts into its ring. `probe.bpf.c` has the same layout.
//!
//! ```text
//!  0  4  kind
//!  4  4  process       id of the process that caused the event
//!  8  8  time          CLOCK_MONOTONIC, nanoseconds
//! 16  8  subject       the channel; for an exit, the status as of wait(2); of TLS, the `SSL`
//! 24  8  offset        of the first byte in its channel
//! 32  4  length        bytes that follow
//! 36  4  zero
//! 40  …  bytes
//! ```

use std::net::{Ipv6Addr, SocketAddr};

/// The length of the head in bytes.
const HEAD: usize = 40;

/// An event from the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Event<'a> {
    pub kind: Kind,
    pub process: u32,
    pub time: u64,
    pub subject: u64,
    pub offset: u64,
    pub bytes: &'a [u8],
}

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Bytes passed through a channel.
    Data,
    /// A read found the end of a channel.
    EndOfFile,
    /// A process ended.
    Exit,
    /// `EVP_KDF_derive` of OpenSSL returned: a [`Derived`].
    Derived,
    /// BoringSSL logged a secret: a [`Logged`].
    Logged,
    /// Go made a line of a key log: a [`Logged`] with a client random.
    KeyLine,
    /// `SSL_read` gave text above TLS.
    TextRead,
    /// `SSL_write` took text above TLS.
    TextWritten,
    /// A connection whose text was copied was freed. Two numbers follow: bytes read and written.
    Freed,
    /// A watched client started a program with pipes as standard streams: a [`Started`].
    Started,
    /// A watched client has a TCP connection: a [`Connected`].
    Connected,
}

/// Bytes of a value that are copied: as many as the longest hash has.
const VALUE: usize = 64;

/// A key that OpenSSL derived, with the parameters: `out` and its length, then for each parameter
/// 16 bytes of its name, its length, and its value.
#[derive(Clone, Debug)]
pub(super) struct Derived<'a> {
    /// The derived key, if it is not longer than a secret.
    pub out: Option<&'a [u8]>,
    parameters: Vec<(&'a [u8], &'a [u8])>,
}

impl<'a> Derived<'a> {
    pub(super) fn parse(bytes: &'a [u8]) -> Option<Derived<'a>> {
        let (out, mut rest) = bytes.split_at_checked(4 + VALUE)?;
        let mut parameters = Vec::new();
        while let Some((parameter, more)) = rest.split_at_checked(16 + 4 + VALUE) {
            rest = more;
            let name = text(&parameter[..16]);
            if name.is_empty() {
                break;
            }
            parameters.extend(value(&parameter[16..]).map(|value| (name, value)));
        }
        Some(Derived { out: value(out), parameters })
    }

    /// The values of the parameters with this name, in order.
    pub(super) fn find(&self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        self.parameters.iter().filter(move |(of, _)| *of == name.as_bytes()).map(|(_, value)| *value)
    }
}

/// A secret that BoringSSL or Go logged: its length, 32 bytes of its label, its value, and of Go
/// the client random of the connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Logged<'a> {
    pub label: &'a str,
    pub secret: &'a [u8],
    pub random: Option<&'a [u8]>,
}

impl<'a> Logged<'a> {
    pub(super) fn parse(bytes: &'a [u8]) -> Option<Logged<'a>> {
        let length = u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
        let label = std::str::from_utf8(text(bytes.get(4..36)?)).ok()?;
        let secret = bytes.get(36..36 + VALUE)?.get(..length)?;
        let random = bytes.get(36 + VALUE..36 + VALUE + 32);
        label.bytes().all(|byte| matches!(byte, b'A'..=b'Z' | b'0'..=b'9' | b'_')).then_some(Logged {
            label,
            secret,
            random,
        })
    }
}

/// The bytes of text that were read and written through a connection that was freed.
pub(super) fn passed(bytes: &[u8]) -> Option<[u64; 2]> {
    let (read, written) = bytes.split_first_chunk()?;
    Some([u64::from_ne_bytes(*read), u64::from_ne_bytes(*written.first_chunk()?)])
}

/// A program that a watched client started. The subject of the event is its number, from which its
/// channels follow, and the offset is the process id of its parent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Started {
    /// The inodes of standard input, output and error; 0 for a stream that is not recorded.
    pub inodes: [u64; 3],
    /// The command line, cut off after 4 KiB.
    pub command: Vec<String>,
}

impl Started {
    pub(super) fn parse(bytes: &[u8]) -> Option<Started> {
        let (inodes, arguments) = bytes.split_at_checked(24)?;
        let inode = |at: usize| Some(u64::from_ne_bytes(inodes.get(8 * at..8 * at + 8)?.try_into().ok()?));
        let inodes = [inode(0)?, inode(1)?, inode(2)?];
        let arguments = arguments.strip_suffix(b"\0").unwrap_or(arguments);
        let words = arguments.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned());
        Some(Started { inodes, command: words.collect() })
    }
}

/// The two addresses of a TCP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Connected {
    pub local: SocketAddr,
    pub remote: SocketAddr,
}

impl Connected {
    /// `None` if the connection failed before it had addresses.
    pub(super) fn parse(bytes: &[u8]) -> Option<Connected> {
        let address = |at: usize| {
            let address: [u8; 16] = bytes.get(at..at + 16)?.try_into().ok()?;
            Some(Ipv6Addr::from(address).to_canonical())
        };
        let port = |at: usize| bytes.get(at..at + 2)?.try_into().ok();
        let (local, remote) = (u16::from_ne_bytes(port(32)?), u16::from_be_bytes(port(34)?));
        let connected = Connected { local: (address(0)?, local).into(), remote: (address(16)?, remote).into() };
        (local != 0 && remote != 0).then_some(connected)
    }
}

/// The bytes before the first zero.
fn text(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// A value with its length before it. `None` if it was too long to be copied.
fn value(bytes: &[u8]) -> Option<&[u8]> {
    let (length, value) = bytes.split_at_checked(4)?;
    value.get(..u32::from_ne_bytes(length.try_into().ok()?) as usize)
}

impl<'a> Event<'a> {
    /// Parses an event; `None` for one of an unknown kind.
    pub(super) fn parse(bytes: &'a [u8]) -> Option<Event<'a>> {
        let (head, rest) = bytes.split_at_checked(HEAD)?;
        let half = |at: usize| Some(u32::from_ne_bytes(head.get(at..at + 4)?.try_into().ok()?));
        let word = |at: usize| Some(u64::from_ne_bytes(head.get(at..at + 8)?.try_into().ok()?));
        let kind = match half(0)? {
            1 => Kind::Data,
            2 => Kind::EndOfFile,
            3 => Kind::Exit,
            4 => Kind::Derived,
            5 => Kind::Logged,
            6 => Kind::TextRead,
            7 => Kind::TextWritten,
            8 => Kind::Freed,
            9 => Kind::KeyLine,
            16 => Kind::Started,
            17 => Kind::Connected,
            _ => return None,
        };
        let bytes = rest.get(..half(32)? as usize)?;
        Some(Event { kind, process: half(4)?, time: word(8)?, subject: word(16)?, offset: word(24)?, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_parsed_and_anything_else_is_not() {
        let mut bytes = Vec::new();
        bytes.extend(1u32.to_ne_bytes());
        bytes.extend(4711u32.to_ne_bytes());
        [7u64, 2, 100].iter().for_each(|word| bytes.extend(word.to_ne_bytes()));
        bytes.extend(3u32.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes.extend(b"{}\n padding");
        let event = Event { kind: Kind::Data, process: 4711, time: 7, subject: 2, offset: 100, bytes: b"{}\n" };
        assert_eq!(Event::parse(&bytes), Some(event));
        for length in 0..HEAD + 3 {
            assert_eq!(Event::parse(&bytes[..length]), None, "{length}");
        }
        bytes[0] = 99;
        assert_eq!(Event::parse(&bytes), None);
    }

    #[test]
    fn a_start_and_a_connection_are_parsed() {
        let mut bytes: Vec<u8> = [11u64, 12, 0].iter().flat_map(|inode| inode.to_ne_bytes()).collect();
        bytes.extend(b"npx\0-y\0\0server\0");
        let command = ["npx", "-y", "", "server"].map(str::to_owned).to_vec();
        assert_eq!(Started::parse(&bytes), Some(Started { inodes: [11, 12, 0], command }));
        assert_eq!(Started::parse(&bytes[..23]), None);
        let mut bytes = Vec::new();
        bytes.extend(std::net::Ipv4Addr::LOCALHOST.to_ipv6_mapped().octets());
        bytes.extend(Ipv6Addr::LOCALHOST.octets());
        bytes.extend(40_000u16.to_ne_bytes());
        bytes.extend([1, 187, 0, 0, 0, 0]);
        let connected = Connected::parse(&bytes).map(|connected| (connected.local, connected.remote));
        assert_eq!(connected, Some(("127.0.0.1:40000".parse().unwrap(), "[::1]:443".parse().unwrap())));
        bytes[34..36].fill(0);
        assert_eq!(Connected::parse(&bytes), None, "it was refused");
    }
}
