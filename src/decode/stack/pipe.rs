//! The pipes of a wrapped process: lines both ways, and its life.

use super::{Layer, Shared, Text, TextCarrier, Unit};
use crate::capture::pipe::{self, Content, Exit, HEAD, Pipe, Start};
use crate::capture::{Origin, PacketNumber, Span, StreamId, Time};
use crate::decode::lines::{LineEvent, Lines};
use crate::decode::stream::StreamKind;
use crate::decode::{Direction, Ending, Piece, Side};

/// The process at the other end of the pipes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its id.
    pub id: u32,
    /// How it was started, where that was recorded.
    pub start: Option<Start>,
    /// How it ended, once it did.
    pub exit: Option<Exit>,
}

impl Process {
    pub(super) fn new(id: u32) -> Process {
        Process { id, start: None, exit: None }
    }
}

#[derive(Debug)]
pub(super) struct PipeStack {
    /// stdin and stdout; stderr is text for people and stays in its packets.
    pipes: [OnePipe; 2],
    /// The last packet: what the capture's end cuts off was seen no later.
    last: (PacketNumber, Time),
}

#[derive(Debug)]
struct OnePipe {
    stream: Option<StreamId>,
    lines: Lines,
    ended: bool,
}

impl PipeStack {
    pub(super) fn new(shared: &Shared) -> PipeStack {
        let pipes = [(); 2].map(|()| OnePipe { stream: None, lines: Lines::new(shared.limits), ended: false });
        PipeStack { pipes, last: Default::default() }
    }

    /// One observation.
    pub(super) fn push(&mut self, layer: &mut Layer<'_, '_>, content: &Content<'_>, packet: (PacketNumber, Time)) {
        self.last = packet;
        match content {
            Content::Start(start) => {
                if let Some(process) = &mut layer.connected.process {
                    process.start = Some(start.clone());
                }
                (layer.sink)(Unit::Connected(layer.id, layer.connected));
            }
            Content::Exit(exit) => {
                if let Some(process) = &mut layer.connected.process {
                    process.exit = Some(*exit);
                }
                (layer.sink)(Unit::Connected(layer.id, layer.connected));
            }
            Content::Data(pipe, bytes) => self.piece(layer, *pipe, Piece::Data(bytes), packet),
            Content::Lost(pipe, bytes) => self.piece(layer, *pipe, Piece::Gap(*bytes), packet),
            Content::EndOfFile(pipe) => self.piece(layer, *pipe, Piece::End(Ending::Finished), packet),
        }
    }

    fn piece(&mut self, layer: &mut Layer<'_, '_>, pipe: Pipe, piece: Piece<'_>, (packet, time): (PacketNumber, Time)) {
        let (direction, side) = match pipe {
            Pipe::Stdin => (Direction::ClientToServer, Side::First),
            Pipe::Stdout => (Direction::ServerToClient, Side::Second),
            Pipe::Stderr => return,
        };
        let one = &mut self.pipes[side.index()];
        if one.ended {
            return;
        }
        let stream = *one.stream.get_or_insert_with(|| layer.open(StreamKind::Pipe(pipe as u8)));
        let provenance = &mut layer.shared.provenance;
        let piece = match piece {
            Piece::Gap(lost) => Piece::Gap(pipe::gap(provenance.length(stream), lost)),
            piece => piece,
        };
        match piece {
            Piece::Data(bytes) => {
                provenance.append(stream, bytes.len() as u64, Origin::Packet { packet, offset: HEAD as u32 });
                layer.connected.seen[side.index()] += bytes.len() as u64;
            }
            Piece::Gap(length) => {
                provenance.append(stream, length, Origin::Missing);
                layer.connected.lost[side.index()] += length;
            }
            Piece::End(_) => one.ended = true,
        }
        let id = layer.id;
        let (provenance, connected) = (&layer.shared.provenance, &*layer.connected);
        let sink = &mut *layer.sink;
        one.lines.push(piece, &mut |event| match event {
            LineEvent::Line { number, start, bytes, whole, .. } => {
                let span = Span { stream, start, end: start + bytes.len() as u64 };
                let carrier = TextCarrier::Line { number, whole };
                let text = Text { connection: id, direction, bytes: bytes.into(), span, provenance, time, carrier };
                sink(Unit::Text(text, connected));
            }
            LineEvent::Anomaly(anomaly) => {
                let (packets, span, exchange) = (vec![packet], None, None);
                sink(Unit::Anomaly { connection: id, exchange, packets, span, direction: Some(direction), anomaly });
            }
        });
        let before = one.lines.low_water();
        layer.forget(stream, before);
        if layer.shared.options.store {
            let end = layer.shared.provenance.length(stream);
            (layer.sink)(Unit::Cleared(layer.id, side, end));
        }
    }

    /// The capture of the process is over.
    pub(super) fn close(&mut self, layer: &mut Layer<'_, '_>) {
        for pipe in [Pipe::Stdin, Pipe::Stdout] {
            if self.pipes[pipe as usize].stream.is_some() {
                self.piece(layer, pipe, Piece::End(Ending::Cut), self.last);
            }
        }
        for stream in self.pipes.iter().filter_map(|one| one.stream) {
            layer.close(stream);
        }
    }
}
