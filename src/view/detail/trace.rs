//! Traces each byte of a text through its layers, down to the packets.

use std::collections::HashMap;
use std::ops::Range;

use anyhow::Result;

use crate::capture::{Origin, PacketNumber, Span, StreamId};
use crate::decode::stream::StreamKind;
use crate::store::{CaptureId, StoreReader, StoredPacket};

/// Limit of the runs that are followed: the largest message that a screen can point into is
/// in fewer packets.
const RUNS: usize = 20_000;

/// Limit of the packets that are read for one message.
pub const PACKETS: usize = 64;

/// A run of the text's bytes in a layer below.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The range in the text.
    pub text: Range<usize>,
    /// Where it begins in that layer.
    pub address: ByteAddress,
    /// `Some(length)`: the text was derived from this many bytes as a whole.
    pub derived_length: Option<usize>,
}

/// The address at which a run begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteAddress {
    /// A byte of a packet's data.
    Packet(PacketNumber, usize),
    /// An offset in a stream.
    Stream(StreamId, u64),
}

/// Reads the origins of bytes in one capture. Each packet is read once.
pub struct Tracer<'r> {
    reader: &'r StoreReader,
    capture: CaptureId,
    packets: HashMap<PacketNumber, Option<StoredPacket>>,
}

impl<'r> Tracer<'r> {
    /// Reads from a capture of this store.
    pub fn new(reader: &'r StoreReader, capture: CaptureId) -> Tracer<'r> {
        Tracer { reader, capture, packets: HashMap::new() }
    }

    /// A packet. `None` if it is not stored, or if the limit of packets is reached.
    pub fn packet(&mut self, number: PacketNumber) -> Result<Option<&StoredPacket>> {
        if !self.packets.contains_key(&number) {
            if self.packets.len() >= PACKETS {
                return Ok(None);
            }
            let packet = self.reader.packet(self.capture, number)?;
            self.packets.insert(number, packet);
        }
        Ok(self.packets.get(&number).and_then(Option::as_ref))
    }

    /// All runs of a span's bytes on all levels below it, the upper levels first.
    pub fn runs(&self, span: Span) -> Result<Vec<Run>> {
        let mut runs = Vec::new();
        let mut open = vec![(0..span.len() as usize, span, None)];
        while let Some((text, span, derived)) = open.pop() {
            let mut below = Vec::new();
            for part in self.reader.parts(self.capture, span)? {
                let start = text.start + (part.start - span.start) as usize;
                let own =
                    if derived.is_some() { text.clone() } else { start..start + (part.end - part.start) as usize };
                let length = (part.end - part.start) as usize;
                // Below a derived run, the whole lower run corresponds to the whole text.
                let length_if_derived = derived.map(|_| length);
                match part.origin {
                    Origin::Packet { packet, offset } => {
                        runs.push(Run {
                            text: own,
                            address: ByteAddress::Packet(packet, offset as usize),
                            derived_length: length_if_derived,
                        });
                    }
                    Origin::Copied { stream, offset } => {
                        runs.push(Run {
                            text: own.clone(),
                            address: ByteAddress::Stream(stream, offset),
                            derived_length: length_if_derived,
                        });
                        let span = Span { stream, start: offset, end: offset + length as u64 };
                        below.push((own, span, derived));
                    }
                    Origin::Derived(from) => {
                        let address = ByteAddress::Stream(from.stream, from.start);
                        runs.push(Run { text: own.clone(), address, derived_length: Some(from.len() as usize) });
                        below.push((own, from, Some(())));
                    }
                    Origin::Missing => {}
                }
            }
            // A stream is made only of streams with lower numbers. Anything else is damage and
            // would never end.
            below.retain(|(_, from, _)| from.stream < span.stream);
            open.extend(below.into_iter().rev());
            if runs.len() > RUNS {
                break;
            }
        }
        Ok(runs)
    }

    /// Whether a stream is the plaintext of TLS.
    pub fn is_plaintext(&self, stream: StreamId) -> Result<bool> {
        let kind = self.reader.stream(self.capture, stream)?.map(|stream| stream.kind);
        Ok(matches!(kind, Some(StreamKind::Plaintext(_))))
    }

    /// The bytes of a span, as far as packets or decrypted TLS contain them. Other bytes are zero.
    pub fn bytes(&mut self, span: Span, most: usize) -> Result<Vec<u8>> {
        let span = Span { end: span.end.min(span.start.saturating_add(most as u64)), ..span };
        let mut bytes = vec![0; span.len() as usize];
        let mut spans = vec![(0, span)];
        let runs = self.runs(span)?;
        for run in runs.iter().filter(|run| run.derived_length.is_none()) {
            if let ByteAddress::Stream(stream, start) = run.address {
                let end = start.saturating_add(run.text.len() as u64);
                spans.push((run.text.start, Span { stream, start, end }));
            }
        }
        for (at, span) in spans {
            for (start, piece) in self.reader.plaintext(self.capture, span)? {
                let from = at + (start - span.start) as usize;
                if let Some(own) = bytes.get_mut(from..from + piece.len()) {
                    own.copy_from_slice(&piece);
                }
            }
        }
        for run in runs {
            let (ByteAddress::Packet(number, at), None) = (run.address, run.derived_length) else { continue };
            let Some(packet) = self.packet(number)? else { continue };
            let data = packet.data.get(at..at + run.text.len());
            if let (Some(data), Some(own)) = (data, bytes.get_mut(run.text.clone())) {
                own.copy_from_slice(data);
            }
        }
        Ok(bytes)
    }
}
