//! The pipes of a wrapped process: lines both ways, and its life.

use super::{Layer, Shared, Text, TextCarrier, Unit};
use crate::capture::pipe::{self, Exit, HEAD, Pipe, PipeEvent, Start};
use crate::capture::{Limits, Origin, PacketNumber, Span, StreamId, Time};
use crate::decode::jsonrpc::{self, Parsed};
use crate::decode::lines::{LineEnd, LineEvent, Lines};
use crate::decode::stream::StreamKind;
use crate::decode::{Anomaly, Direction, Ending, Piece, Side};

/// Longest line of stderr that is looked at for a message: it is text for people, and messages on it are mistakes.
const STDERR_LINE: usize = 64 << 10;

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
    /// stdin and stdout.
    pipes: [OnePipe; 2],
    /// stderr is text for people and stays in its packets; it is looked at for what should stand on stdout.
    stderr: Lines,
    /// The last packet: what the capture's end cuts off was seen no later.
    last: (PacketNumber, Time),
}

#[derive(Debug)]
struct OnePipe {
    stream: Option<StreamId>,
    lines: Lines,
    ended: bool,
    noises: Noises,
}

/// What of the framing was remarked on: each once, since who ends one line in CR LF ends all so.
#[derive(Debug, Default)]
struct Noises {
    carriage_return: bool,
    blank: bool,
    mark: bool,
}

impl Noises {
    /// What is new about a line and its end.
    fn of(&mut self, bytes: &[u8], end: LineEnd) -> Option<&'static str> {
        let is_blank = bytes.iter().all(u8::is_ascii_whitespace);
        if end == LineEnd::CarriageReturn && !std::mem::replace(&mut self.carriage_return, true) {
            Some("CR LF ends a line")
        } else if is_blank && end != LineEnd::Missing && !std::mem::replace(&mut self.blank, true) {
            Some("a line is blank")
        } else if bytes.starts_with(b"\xef\xbb\xbf") && !std::mem::replace(&mut self.mark, true) {
            Some("a line begins with a byte order mark")
        } else {
            None
        }
    }
}

impl PipeStack {
    pub(super) fn new(shared: &Shared) -> PipeStack {
        let pipe =
            |()| OnePipe { stream: None, lines: Lines::new(shared.limits), ended: false, noises: Noises::default() };
        let stderr = Lines::new(Limits { message: shared.limits.message.min(STDERR_LINE), ..shared.limits });
        PipeStack { pipes: [(); 2].map(pipe), stderr, last: Default::default() }
    }

    /// One observation.
    pub(super) fn push(&mut self, layer: &mut Layer<'_, '_>, content: &PipeEvent<'_>, packet: (PacketNumber, Time)) {
        self.last = packet;
        match content {
            PipeEvent::Start(start) => {
                if let Some(process) = &mut layer.connected.process {
                    process.start = Some(start.clone());
                }
                (layer.sink)(Unit::Connected(layer.id, layer.connected));
            }
            PipeEvent::Exit(exit) => {
                if let Some(process) = &mut layer.connected.process {
                    process.exit = Some(*exit);
                }
                (layer.sink)(Unit::Connected(layer.id, layer.connected));
            }
            PipeEvent::Data(pipe, bytes) => self.piece(layer, *pipe, Piece::Data(bytes), packet),
            PipeEvent::Lost(pipe, bytes) => self.piece(layer, *pipe, Piece::Gap(*bytes), packet),
            PipeEvent::EndOfFile(pipe) => self.piece(layer, *pipe, Piece::End(Ending::Finished), packet),
        }
    }

    fn piece(&mut self, layer: &mut Layer<'_, '_>, pipe: Pipe, piece: Piece<'_>, (packet, time): (PacketNumber, Time)) {
        let (direction, side) = match pipe {
            Pipe::Stdin => (Direction::ClientToServer, Side::First),
            Pipe::Stdout => (Direction::ServerToClient, Side::Second),
            Pipe::Stderr => return self.stderr(layer, piece, packet),
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
        let (lines, noises) = (&mut one.lines, &mut one.noises);
        let odd = |span: Option<Span>, anomaly, sink: &mut super::Sink<'_>| {
            let (packets, exchange, direction) = (vec![packet], None, Some(direction));
            sink(Unit::Anomaly { connection: id, exchange, packets, span, direction, anomaly });
        };
        lines.push(piece, &mut |event| match event {
            LineEvent::Line { number, start, bytes, end, whole } => {
                let span = Span { stream, start, end: start + bytes.len() as u64 };
                let carrier = TextCarrier::Line { number, whole };
                let text = Text { connection: id, direction, raw: bytes.into(), span, provenance, time, carrier };
                sink(Unit::Text(text, connected));
                let length = span.len();
                if let Some(what) = noises.of(bytes, end) {
                    odd(Some(span), Anomaly::FramingNoise { pipe, offset: start, what }, sink);
                }
                if whole && end == LineEnd::Missing && piece == Piece::End(Ending::Finished) {
                    odd(Some(span), Anomaly::Unterminated { pipe, offset: start, length }, sink);
                }
            }
            LineEvent::Anomaly(anomaly) => odd(None, anomaly, sink),
        });
        let before = one.lines.low_water();
        layer.forget(stream, before);
        if layer.shared.options.store {
            let end = layer.shared.provenance.length(stream);
            (layer.sink)(Unit::Cleared(layer.id, side, end));
        }
    }

    /// Text for people, or messages that went astray.
    fn stderr(&mut self, layer: &mut Layer<'_, '_>, piece: Piece<'_>, packet: PacketNumber) {
        let (connection, limits) = (layer.id, layer.shared.limits);
        let sink = &mut *layer.sink;
        self.stderr.push(piece, &mut |event| {
            let LineEvent::Line { number, bytes, whole: true, .. } = event else { return };
            // Most lines are told from messages by their first byte.
            let may_be = bytes.starts_with(b"{") && memchr::memmem::find(bytes, b"\"jsonrpc\"").is_some();
            let is_message = |envelope: &jsonrpc::Envelope| envelope.kind.is_some() && envelope.jsonrpc.is_some();
            if may_be
                && let Parsed::Single(envelope) = jsonrpc::parse(bytes, limits.json_depth, limits.batch)
                && is_message(&envelope)
            {
                let (packets, direction) = (vec![packet], Some(Direction::ServerToClient));
                let anomaly = Anomaly::MessageOnStderr { line: number };
                sink(Unit::Anomaly { connection, exchange: None, packets, span: None, direction, anomaly });
            }
        });
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
