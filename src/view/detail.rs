//! One message with its layers: the sources of its bytes, and the positions of its text in them.

mod curl;
mod nodes;
pub mod trace;

use std::collections::BTreeSet;
use std::ops::Range;

use anyhow::Result;

use crate::capture::{PacketNumber, Span, StreamId};
use crate::decode::exchange::{Exchange, Half};
use crate::mcp::{Carrier, Message, MessageNumber, SessionNumber};
use crate::store::{CaptureId, StoreReader};
use crate::view::layers::StoredSession;
use trace::{ByteAddress, PACKETS, Run, Tracer};

/// Limit of the shown bytes of a head or an event.
const SHOWN: usize = 1 << 20;

/// Distance from an event's data within which its other lines are searched, in bytes.
const AROUND: u64 = 4_096;

/// One message, with its layers and bytes.
#[derive(Clone, Debug)]
pub struct Detail {
    /// The message with its text.
    pub message: Message,
    /// Its layers and their fields, from the link up.
    pub nodes: Vec<LayerNode>,
    /// The bytes that nodes refer to. The first source is always the message's own text.
    pub sources: Vec<Source>,
    /// The runs of the text's bytes in the other sources.
    pub carried: Vec<CarriedRun>,
    /// A curl command that sends the message again, if HTTP carried it.
    pub curl: Option<String>,
}

/// Index of the source that is the message's text.
pub const TEXT: usize = 0;

/// A layer or one of its fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerNode {
    /// 0 for a layer, more for its fields.
    pub depth: usize,
    /// The name of the layer or the field.
    pub name: String,
    /// The value of a field, or a summary of a layer.
    pub value: String,
    /// Its bytes: a source and a range of it.
    pub location: Option<(usize, Range<usize>)>,
    /// Whether something is wrong with it.
    pub odd: bool,
}

/// Bytes to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// What the bytes are: `JSON text`, `packet #7`, `HTTP head`.
    pub title: String,
    /// The bytes. Those that were not captured are zero.
    pub bytes: Vec<u8>,
    /// The number of the packet, if the source is one.
    pub packet: Option<PacketNumber>,
}

/// A run of the text's bytes in another source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CarriedRun {
    /// The range in the text.
    pub text: Range<usize>,
    /// The index of the source.
    pub source: usize,
    /// Offset of the run in the source.
    pub at: usize,
    /// `Some(length)`: the text was derived (inflated, decrypted) from this many bytes as a whole,
    /// so no single byte has a position.
    pub derived_length: Option<usize>,
}

impl Detail {
    /// The bytes of the message's text.
    pub fn text(&self) -> &[u8] {
        &self.message.raw
    }

    /// The ranges of a source that carry these bytes of the text.
    pub fn ranges_in(&self, text: &Range<usize>, source: usize) -> Vec<Range<usize>> {
        if source == TEXT {
            return vec![text.clone()];
        }
        let runs = self.carried.iter().filter(|run| run.source == source);
        runs.filter_map(|run| {
            let (start, end) = (run.text.start.max(text.start), run.text.end.min(text.end));
            (start < end).then(|| match run.derived_length {
                Some(length) => run.at..run.at + length,
                None => run.at + start - run.text.start..run.at + end - run.text.start,
            })
        })
        .collect()
    }

    /// The offset in the text of a byte of a source.
    pub fn text_at(&self, source: usize, offset: usize) -> Option<usize> {
        if source == TEXT {
            return Some(offset);
        }
        let run = self.carried.iter().find(|run| {
            let length = run.text.len();
            run.source == source && run.derived_length.is_none() && (run.at..run.at + length).contains(&offset)
        })?;
        Some(run.text.start + offset - run.at)
    }

    /// The packets that carry bytes of the text.
    pub fn packets(&self, text: &Range<usize>) -> Vec<PacketNumber> {
        let carries = |source: &usize| !self.ranges_in(text, *source).is_empty();
        let sources = (TEXT + 1..self.sources.len()).filter(carries);
        sources.filter_map(|source| self.sources[source].packet).collect()
    }
}

/// The material from which the layers are built.
struct Parts<'r> {
    tracer: Tracer<'r>,
    reader: &'r StoreReader,
    capture: CaptureId,
    message: Message,
    exchange: Option<Exchange>,
    sources: Vec<Source>,
    /// Sources that are a run of a stream: TLS records, frames.
    streams: Vec<(Span, usize)>,
    /// The source of the HTTP head, and that of the event.
    head: Option<usize>,
    event: Option<usize>,
}

/// Reads a message with its layers and bytes. `None` if there is no such message.
pub fn read(reader: &StoreReader, session: SessionNumber, number: MessageNumber) -> Result<Option<Box<Detail>>> {
    let (Some(record), Some(capture)) = (reader.session(session)?, reader.capture_of(session)?) else {
        return Ok(None);
    };
    let Some(message) = reader.message_of(session, number)? else { return Ok(None) };
    Ok(Some(Box::new(of_message(&StoredSession { reader, capture, session: &record }, message)?)))
}

/// The layers and bytes of a message that was read from the store.
pub fn of_message(stored: &StoredSession<'_>, message: Message) -> Result<Detail> {
    let StoredSession { reader, capture, session } = *stored;
    let exchange = message.exchange.map(|number| reader.exchange(capture, number)).transpose()?.flatten();
    let text = Source { title: "JSON text".to_owned(), bytes: message.raw.to_vec(), packet: None };
    let mut parts = Parts {
        tracer: Tracer::new(reader, capture),
        reader,
        capture,
        message,
        exchange,
        sources: vec![text],
        streams: Vec::new(),
        head: None,
        event: None,
    };
    let runs = parts.tracer.runs(parts.message.span)?;
    let mut carried = Vec::new();
    parts.add_packets(&runs, &mut carried)?;
    parts.add_head(&runs)?;
    parts.add_event(&runs, &mut carried)?;
    let nodes = nodes::read(&mut parts, session)?;
    parts.link_streams(&runs, &mut carried);
    let curl = parts.exchange.as_ref().and_then(|exchange| curl::line(&parts.message, exchange, session));
    Ok(Detail { message: parts.message, nodes, sources: parts.sources, carried, curl })
}

impl Parts<'_> {
    /// The half of the exchange that carried the message.
    fn half(&self) -> Option<&Half> {
        let exchange = self.exchange.as_ref()?;
        Some(if self.message.carrier == Carrier::RequestBody { &exchange.request } else { &exchange.response })
    }

    /// The source of a packet.
    fn packet_source(&self, packet: PacketNumber) -> Option<usize> {
        self.sources.iter().position(|source| source.packet == Some(packet))
    }

    /// Adds a source for each packet that carried the text.
    fn add_packets(&mut self, runs: &[Run], carried: &mut Vec<CarriedRun>) -> Result<()> {
        for number in self.message.packets.clone().into_iter().take(PACKETS) {
            if let Some(packet) = self.tracer.packet(number)? {
                let masked = if packet.masked { ", secrets masked" } else { "" };
                let title = format!("packet #{number}{masked}");
                let bytes = packet.data.clone();
                self.sources.push(Source { title, bytes, packet: Some(number) });
            }
        }
        for run in runs {
            if let ByteAddress::Packet(number, at) = run.address
                && let Some(source) = self.packet_source(number)
            {
                carried.push(CarriedRun { text: run.text.clone(), source, at, derived_length: run.derived_length });
            }
        }
        Ok(())
    }

    /// Adds a source for a run of a stream.
    fn add_stream(&mut self, title: String, span: Span) -> Result<usize> {
        let bytes = self.tracer.bytes(span, SHOWN)?;
        let source = self.sources.len();
        self.streams.push((Span { end: span.start + bytes.len() as u64, ..span }, source));
        self.sources.push(Source { title, bytes, packet: None });
        Ok(source)
    }

    /// Adds the positions of the text in the sources of streams.
    fn link_streams(&self, runs: &[Run], carried: &mut Vec<CarriedRun>) {
        for (span, source) in &self.streams {
            for run in runs {
                let ByteAddress::Stream(stream, at) = run.address else { continue };
                let length = run.derived_length.unwrap_or(run.text.len());
                if stream == span.stream && at >= span.start && at.saturating_add(length as u64) <= span.end {
                    let at = (at - span.start) as usize;
                    carried.push(CarriedRun {
                        text: run.text.clone(),
                        source: *source,
                        at,
                        derived_length: run.derived_length,
                    });
                }
            }
        }
    }

    /// Adds the HTTP head, read from the stream of the connection.
    fn add_head(&mut self, runs: &[Run]) -> Result<()> {
        let Some((start, end)) = self.half().map(|half| (half.head_start, half.head_end)) else { return Ok(()) };
        let stream = self.lowest(runs)?;
        if let (Some(stream), true) = (stream, start < end) {
            let bytes = self.tracer.bytes(Span { stream, start, end }, SHOWN)?;
            self.head = Some(self.sources.len());
            self.sources.push(Source { title: "HTTP head".to_owned(), bytes, packet: None });
        }
        Ok(())
    }

    /// The stream that contains HTTP heads: the plaintext of TLS, or else the lowest
    /// below the text.
    fn lowest(&self, runs: &[Run]) -> Result<Option<StreamId>> {
        let streams = runs.iter().filter_map(|run| match run.address {
            ByteAddress::Stream(stream, _) => Some(stream),
            ByteAddress::Packet(..) => None,
        });
        let mut known = BTreeSet::new();
        for stream in streams.clone().filter(|stream| known.insert(*stream)) {
            if self.tracer.is_plaintext(stream)? {
                return Ok(Some(stream));
            }
        }
        Ok(streams.min().or_else(|| (!runs.is_empty()).then_some(self.message.span.stream)))
    }

    /// Adds the server-sent event: the lines of its data, and the lines around them up to the blank
    /// ones (HTML, section 9.2.6).
    fn add_event(&mut self, runs: &[Run], carried: &mut Vec<CarriedRun>) -> Result<()> {
        if self.message.carrier != Carrier::SseEvent {
            return Ok(());
        }
        // The first level below the data is the body that contains the event.
        let Some(Run { address: ByteAddress::Stream(body, _), .. }) =
            runs.iter().find(|run| run.derived_length.is_none())
        else {
            return Ok(());
        };
        let own = |run: &&Run| {
            matches!(run.address, ByteAddress::Stream(stream, _) if stream == *body) && run.derived_length.is_none()
        };
        let at = |run: &Run| match run.address {
            ByteAddress::Stream(_, at) => at,
            ByteAddress::Packet(..) => 0,
        };
        let data: Vec<&Run> = runs.iter().filter(own).collect();
        let (Some(first), Some(last)) = (data.first(), data.last()) else { return Ok(()) };
        let (low, high) = (at(first), at(last) + last.text.len() as u64);
        let start = low.saturating_sub(AROUND);
        let bytes = self.tracer.bytes(Span { stream: *body, start, end: high + AROUND }, SHOWN)?;
        let (before, end) = event_bounds(&bytes, (low - start) as usize, (high - start) as usize);
        let source = self.sources.len();
        for run in &data {
            let at = (at(run) - start) as usize - before;
            carried.push(CarriedRun { text: run.text.clone(), source, at, derived_length: None });
        }
        let bytes = bytes.get(before..end).unwrap_or_default().to_vec();
        self.event = Some(source);
        self.sources.push(Source { title: "SSE event".to_owned(), bytes, packet: None });
        Ok(())
    }
}

/// The bounds of the event whose data is at `low..high`: from after the previous blank line to
/// after the next one.
fn event_bounds(bytes: &[u8], low: usize, high: usize) -> (usize, usize) {
    const BLANK: [&[u8]; 3] = [b"\r\n\r\n", b"\n\n", b"\r\r"];
    let (before, after) = (&bytes[..low.min(bytes.len())], bytes.get(high..).unwrap_or_default());
    let start = BLANK.iter().filter_map(|blank| memchr::memmem::rfind(before, blank).map(|at| at + blank.len())).max();
    let end =
        BLANK.iter().filter_map(|blank| memchr::memmem::find(after, blank).map(|at| high + at + blank.len())).min();
    // Bytes that were not captured are zero and are left out.
    let seen = after.iter().take_while(|byte| **byte != 0).count();
    (start.unwrap_or(0), end.unwrap_or(high + seen))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_ends_at_blank_lines() {
        let bytes = b"data: a\r\n\r\nevent: message\r\ndata: {}\r\n\r\ndata: b";
        let low = bytes.iter().position(|byte| *byte == b'{').unwrap();
        let (start, end) = event_bounds(bytes, low, low + 2);
        assert_eq!(&bytes[start..end], b"event: message\r\ndata: {}\r\n\r\n");
        assert_eq!(event_bounds(b"data: {}\0\0", 6, 8), (0, 8));
    }
}
