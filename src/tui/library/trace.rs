//! Where each byte of a text came from, layer by layer down to the packets.

use std::collections::HashMap;
use std::ops::Range;

use anyhow::Result;

use crate::capture::{Origin, PacketNumber, Span, StreamId};
use crate::decode::stream::StreamKind;
use crate::store::{CaptureId, StoreReader, StoredPacket};

/// Runs that are followed: the largest message a screen can point into lies in fewer packets.
const RUNS: usize = 20_000;

/// Packets that are read for one message.
pub(super) const PACKETS: usize = 64;

/// A run of the text's bytes in what lies below.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// In the text.
    pub(super) text: Range<usize>,
    /// Where it stands.
    pub(super) place: Place,
    /// `Some(length)`: made from so many bytes as a whole.
    pub(super) whole: Option<usize>,
}

/// Where a run begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// At this byte of a packet's data.
    Packet(PacketNumber, usize),
    /// At this offset of a stream.
    Stream(StreamId, u64),
}

/// Reads of one capture, each packet once.
pub(super) struct Tracer<'r> {
    reader: &'r StoreReader,
    capture: CaptureId,
    packets: HashMap<PacketNumber, Option<StoredPacket>>,
}

impl<'r> Tracer<'r> {
    pub(super) fn new(reader: &'r StoreReader, capture: CaptureId) -> Tracer<'r> {
        Tracer { reader, capture, packets: HashMap::new() }
    }

    /// A packet, where it was kept and not too many were read before.
    pub(super) fn packet(&mut self, number: PacketNumber) -> Result<Option<&StoredPacket>> {
        if !self.packets.contains_key(&number) {
            if self.packets.len() >= PACKETS {
                return Ok(None);
            }
            let packet = self.reader.packet(self.capture, number)?;
            self.packets.insert(number, packet);
        }
        Ok(self.packets.get(&number).and_then(Option::as_ref))
    }

    /// Every run of `span`'s bytes on all levels below it, the upper ones first.
    pub(super) fn runs(&self, span: Span) -> Result<Vec<Run>> {
        let mut runs = Vec::new();
        let mut open = vec![(0..span.len() as usize, span, None)];
        while let Some((text, span, whole)) = open.pop() {
            let mut below = Vec::new();
            for part in self.reader.parts(self.capture, span)? {
                let start = text.start + (part.start - span.start) as usize;
                let own = if whole.is_some() { text.clone() } else { start..start + (part.end - part.start) as usize };
                let length = (part.end - part.start) as usize;
                // Below something inflated, all of a run stands for all of the text.
                let stands = whole.map(|_| length);
                match part.origin {
                    Origin::Packet { packet, offset } => {
                        runs.push(Run { text: own, place: Place::Packet(packet, offset as usize), whole: stands });
                    }
                    Origin::Copied { stream, offset } => {
                        runs.push(Run { text: own.clone(), place: Place::Stream(stream, offset), whole: stands });
                        let span = Span { stream, start: offset, end: offset + length as u64 };
                        below.push((own, span, whole));
                    }
                    Origin::Derived(from) => {
                        let place = Place::Stream(from.stream, from.start);
                        runs.push(Run { text: own.clone(), place, whole: Some(from.len() as usize) });
                        below.push((own, from, Some(())));
                    }
                    Origin::Missing => {}
                }
            }
            // A stream is made of streams that were there before it: what says otherwise is damaged, and never ends.
            below.retain(|(_, from, _)| from.stream < span.stream);
            open.extend(below.into_iter().rev());
            if runs.len() > RUNS {
                break;
            }
        }
        Ok(runs)
    }

    /// Whether TLS carried a stream.
    pub(super) fn is_plaintext(&self, stream: StreamId) -> Result<bool> {
        let kind = self.reader.stream(self.capture, stream)?.map(|stream| stream.kind);
        Ok(matches!(kind, Some(StreamKind::Plaintext(_))))
    }

    /// The bytes of a span, where packets hold each of them, or TLS carried them; lost ones are zero.
    pub(super) fn bytes(&mut self, span: Span, most: usize) -> Result<Vec<u8>> {
        let span = Span { end: span.end.min(span.start.saturating_add(most as u64)), ..span };
        let mut bytes = vec![0; span.len() as usize];
        let mut spans = vec![(0, span)];
        let runs = self.runs(span)?;
        for run in runs.iter().filter(|run| run.whole.is_none()) {
            if let Place::Stream(stream, start) = run.place {
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
            let (Place::Packet(number, at), None) = (run.place, run.whole) else { continue };
            let Some(packet) = self.packet(number)? else { continue };
            let data = packet.data.get(at..at + run.text.len());
            if let (Some(data), Some(own)) = (data, bytes.get_mut(run.text.clone())) {
                own.copy_from_slice(data);
            }
        }
        Ok(bytes)
    }
}
