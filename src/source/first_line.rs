//! Tells an MCP server from other programs by the first line that it reads.

use super::batch::Batch;
use super::{Item, Source};
use crate::capture::Packet;
use crate::capture::pipe::{self, Pipe, PipeEvent};

/// Bytes of a program that are held until its first line is complete. That of MCP has some hundred.
pub const HELD: usize = 256 << 10;

/// Whether the first line of an input is JSON-RPC; `None` while it is not complete.
pub fn is_json_rpc(input: &[u8]) -> Option<bool> {
    let input = input.trim_ascii_start();
    match input.first()? {
        b'{' | b'[' if memchr::memmem::find(input, b"\"jsonrpc\"").is_some() => Some(true),
        b'{' | b'[' if !input.contains(&b'\n') => None,
        _ => Some(false),
    }
}

/// The bytes of standard input in pipe packets.
pub fn input_of(packets: &Batch) -> Vec<u8> {
    let mut input = Vec::new();
    for packet in packets.packets() {
        if let Some((_, PipeEvent::Data(Pipe::Stdin, bytes))) = pipe::decode(packet.data) {
            input.extend_from_slice(bytes);
        }
    }
    input
}

/// The packets of one wrapped program, held until it is known whether it is a server.
#[derive(Debug)]
pub struct HeldStart<S> {
    inner: S,
    held: Batch,
    delivered: usize,
}

impl<S: Source> HeldStart<S> {
    /// Holds nothing yet.
    pub fn new(inner: S) -> HeldStart<S> {
        HeldStart { inner, held: Batch::default(), delivered: 0 }
    }

    /// The source of the packets.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    /// Reads until it is known whether the program is a server. `otherwise` is the answer for one
    /// that ends before it has read anything.
    pub fn is_server(&mut self, otherwise: bool) -> anyhow::Result<bool> {
        loop {
            match self.inner.next()? {
                Some(Item::Packet(packet)) => {
                    self.held.push(&packet);
                    if let Some(is_server) = is_json_rpc(&input_of(&self.held)) {
                        return Ok(is_server);
                    }
                }
                Some(_) => {}
                None => return Ok(otherwise && input_of(&self.held).is_empty()),
            }
            if self.held.size() > HELD {
                return Ok(false);
            }
        }
    }
}

impl<S: Source> Source for HeldStart<S> {
    fn next(&mut self) -> anyhow::Result<Option<Item<'_>>> {
        if self.delivered == self.held.len() {
            self.held.clear();
            self.delivered = 0;
            return self.inner.next();
        }
        self.delivered += 1;
        let packet: Option<Packet<'_>> = self.held.get(self.delivered - 1);
        Ok(Some(packet.map_or(Item::Idle, Item::Packet)))
    }

    fn progress(&self) -> (u64, Option<u64>) {
        self.inner.progress()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::{LinkType, PacketNumber, Time};

    #[test]
    fn a_server_is_known_by_its_first_line() {
        assert_eq!(is_json_rpc(b""), None);
        assert_eq!(is_json_rpc(b" \n"), None);
        assert_eq!(is_json_rpc(b"{\"id\":1,\"json"), None);
        assert_eq!(is_json_rpc(b"{\"id\":1,\"jsonrpc\":"), Some(true));
        assert_eq!(is_json_rpc(b"\n[{\"jsonrpc\":\"2.0\""), Some(true));
        // The second is the Language Server Protocol.
        for other in ["{\"a\":1}\n", "Content-Length: 10\r\n\r\n{\"jsonrpc\"", "GET /", "print('\"jsonrpc\"')"] {
            assert_eq!(is_json_rpc(other.as_bytes()), Some(false), "{other}");
        }
    }

    /// A source of these pipe packets.
    struct PipePackets(Batch, usize);

    impl Source for PipePackets {
        fn next(&mut self) -> anyhow::Result<Option<Item<'_>>> {
            self.1 += 1;
            Ok(self.0.get(self.1 - 1).map(Item::Packet))
        }
    }

    fn program(events: &[(Pipe, &[u8])]) -> HeldStart<PipePackets> {
        let mut batch = Batch::default();
        for (number, (pipe, bytes)) in events.iter().enumerate() {
            let event = PipeEvent::Data(*pipe, bytes);
            batch.write(PacketNumber(number as u64), Time(0), LinkType::PIPE, |out| pipe::encode(1, &event, out));
        }
        HeldStart::new(PipePackets(batch, 0))
    }

    #[test]
    fn what_was_held_is_delivered_first_and_nothing_twice() {
        let events: [(Pipe, &[u8]); 4] = [
            (Pipe::Stderr, b"starting\n"),
            (Pipe::Stdin, b"{\"json"),
            (Pipe::Stdin, b"rpc\":\"2.0\"}\n"),
            (Pipe::Stdout, b"{}\n"),
        ];
        let mut held = program(&events);
        assert!(held.is_server(false).unwrap());
        let mut numbers = Vec::new();
        while let Some(Item::Packet(packet)) = held.next().unwrap() {
            numbers.push(packet.number.0);
        }
        assert_eq!(numbers, [0, 1, 2, 3]);
        let large = vec![b'x'; HELD];
        assert!(!program(&[(Pipe::Stdout, &large), (Pipe::Stdin, b"{\"jsonrpc\"")]).is_server(true).unwrap());
        assert!(!program(&[(Pipe::Stdin, b"no JSON\n")]).is_server(true).unwrap());
        assert!(program(&[(Pipe::Stderr, b"bad\n")]).is_server(true).unwrap());
        assert!(!program(&[(Pipe::Stderr, b"bad\n")]).is_server(false).unwrap());
    }
}
