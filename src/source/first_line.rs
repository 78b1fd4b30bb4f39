//! Tells an MCP server from other programs by the first line that it reads.

use super::batch::Batch;
use super::{Item, Source};
use crate::capture::Packet;
use crate::capture::pipe::{self, Pipe, PipeEvent};

/// Bytes of a program that are held until its first line is complete. That of MCP has some hundred.
pub const HELD: usize = 256 << 10;

/// The first line that a program reads. Each byte is looked at once, however small the pieces are.
#[derive(Debug, Default)]
pub struct FirstLine {
    /// What was read so far, without blanks before it.
    bytes: Vec<u8>,
    /// Whether it is JSON-RPC; `None` while that cannot be told.
    pub is_json_rpc: Option<bool>,
}

impl FirstLine {
    /// Takes the next packet of the program's pipes.
    pub fn take(&mut self, packet: &Packet<'_>) {
        if let Some((_, PipeEvent::Data(Pipe::Stdin, bytes))) = pipe::decode(packet.data) {
            self.push(bytes);
        }
    }

    /// Whether the program has read nothing but blanks.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    fn push(&mut self, bytes: &[u8]) {
        const NAME: &[u8] = b"\"jsonrpc\"";
        if self.is_json_rpc.is_some() {
            return;
        }
        let bytes = if self.is_empty() { bytes.trim_ascii_start() } else { bytes };
        // The name may have begun in the piece before.
        let from = self.bytes.len().saturating_sub(NAME.len() - 1);
        self.bytes.extend_from_slice(bytes);
        self.is_json_rpc = match self.bytes.first() {
            None => None,
            Some(b'{' | b'[') if memchr::memmem::find(&self.bytes[from..], NAME).is_some() => Some(true),
            Some(b'{' | b'[') if !bytes.contains(&b'\n') => None,
            Some(_) => Some(false),
        };
    }
}

/// The packets of one wrapped program, held until it is known whether it is a server.
#[derive(Debug)]
pub struct HeldStart<S> {
    inner: S,
    held: Batch,
    first_line: FirstLine,
    delivered: usize,
}

impl<S: Source> HeldStart<S> {
    /// Holds nothing yet.
    pub fn new(inner: S) -> HeldStart<S> {
        HeldStart { inner, held: Batch::default(), first_line: FirstLine::default(), delivered: 0 }
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
                    self.first_line.take(&packet);
                    if let Some(is_server) = self.first_line.is_json_rpc {
                        return Ok(is_server);
                    }
                }
                Some(_) => {}
                None => return Ok(otherwise && self.first_line.is_empty()),
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

    /// The answer for an input that arrives in pieces of this length.
    fn is_json_rpc(input: &[u8], length: usize) -> Option<bool> {
        let mut first_line = FirstLine::default();
        input.chunks(length).for_each(|piece| first_line.push(piece));
        first_line.is_json_rpc
    }

    #[test]
    fn a_server_is_known_by_its_first_line() {
        for (input, wanted) in [
            ("", None),
            (" \n", None),
            ("{\"id\":1,\"json", None),
            ("{\"id\":1,\"jsonrpc\":", Some(true)),
            ("\n[{\"jsonrpc\":\"2.0\"", Some(true)),
            ("{\"a\":1}\n", Some(false)),
            ("GET /", Some(false)),
            // The Language Server Protocol.
            ("Content-Length: 10\r\n\r\n{\"jsonrpc\"", Some(false)),
            ("print('\"jsonrpc\"')", Some(false)),
        ] {
            for length in 1..=input.len().max(1) {
                assert_eq!(is_json_rpc(input.as_bytes(), length), wanted, "{input:?} in pieces of {length}");
            }
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
