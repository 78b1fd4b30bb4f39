//! The pipes of a wrapped process: the lines of both directions, and the start and exit
//! of the process.

use super::context::{Shared, Sink, StackContext};
use super::unit::{StderrLine, TextCarrier, Unit};
use crate::capture::pipe::{self, HEAD, Pipe, PipeEvent};
use crate::capture::{Limits, Origin, PacketNumber, Span, StreamId, Time};
use crate::decode::jsonrpc::{self, JsonRpcText};
use crate::decode::lines::{LineEnd, LineEvent, Lines};
use crate::decode::raw::Raw;
use crate::decode::stream::StreamKind;
use crate::decode::{Anomaly, Direction, Ending, Piece, Side};

/// Longest line of stderr that is emitted whole, in bytes. stderr is for people.
const MAX_STDERR_LINE: usize = 64 << 10;

/// Decodes the pipes of one process.
#[derive(Debug)]
pub(super) struct PipeStack {
    /// The decoders of stdin and stdout.
    pipes: [PipeStream; 2],
    /// The decoder of stderr. Its text is only in the packets. Messages on it
    /// belong on stdout and are reported.
    stderr: Lines,
    /// The last packet. Bytes that the end of the capture cuts off arrived no later.
    last: (PacketNumber, Time),
}

/// Decodes stdin or stdout.
#[derive(Debug)]
struct PipeStream {
    stream: Option<StreamId>,
    lines: Lines,
    ended: bool,
    reported_noise: ReportedNoise,
}

/// The irregularities of framing that were reported. Each is reported once: a program that ends one
/// line in CR LF ends all lines so.
#[derive(Debug, Default)]
struct ReportedNoise {
    carriage_return: bool,
    blank: bool,
    mark: bool,
}

impl ReportedNoise {
    /// The irregularity of a line, if it is the first of its kind.
    fn first_of(&mut self, bytes: &[u8], end: LineEnd) -> Option<&'static str> {
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
        let pipe = |()| PipeStream {
            stream: None,
            lines: Lines::new(shared.limits),
            ended: false,
            reported_noise: ReportedNoise::default(),
        };
        let stderr = Lines::new(Limits { message: shared.limits.message.min(MAX_STDERR_LINE), ..shared.limits });
        PipeStack { pipes: [(); 2].map(pipe), stderr, last: Default::default() }
    }

    /// Handles one packet of the pipes.
    pub(super) fn push(
        &mut self,
        context: &mut StackContext<'_>,
        content: &PipeEvent<'_>,
        packet: (PacketNumber, Time),
    ) {
        self.last = packet;
        match content {
            PipeEvent::Start(start) => {
                if start.already_ran {
                    self.pipes.iter_mut().for_each(|pipe_stream| pipe_stream.lines.begin_midway());
                    self.stderr.begin_midway();
                }
                let mut start = start.clone();
                if let Some(redaction) = context.shared.options.redaction {
                    start.command.iter_mut().for_each(|word| *word = redaction.masked(word).into_owned());
                }
                if let Some(process) = &mut context.connection_mut().process {
                    process.start = Some(start);
                }
                context.connection_changed();
            }
            PipeEvent::Exit(exit) => {
                if let Some(process) = &mut context.connection_mut().process {
                    process.exit = Some(*exit);
                }
                context.connection_changed();
            }
            PipeEvent::Data(pipe, bytes) => self.piece(context, *pipe, Piece::Data(bytes), packet),
            PipeEvent::Lost(pipe, bytes) => self.piece(context, *pipe, Piece::Gap(*bytes), packet),
            PipeEvent::EndOfFile(pipe) => self.piece(context, *pipe, Piece::End(Ending::Finished), packet),
        }
    }

    fn piece(
        &mut self,
        context: &mut StackContext<'_>,
        pipe: Pipe,
        piece: Piece<'_>,
        (packet, time): (PacketNumber, Time),
    ) {
        let (direction, side) = match pipe {
            Pipe::Stdin => (Direction::ClientToServer, Side::First),
            Pipe::Stdout => (Direction::ServerToClient, Side::Second),
            Pipe::Stderr => return self.stderr(context, piece, (packet, time)),
        };
        let pipe_stream = &mut self.pipes[side.index()];
        if pipe_stream.ended {
            return;
        }
        let stream = *pipe_stream.stream.get_or_insert_with(|| context.open(StreamKind::Pipe(pipe as u8)));
        let provenance = &mut context.shared.provenance;
        let piece = match piece {
            Piece::Gap(lost) => Piece::Gap(pipe::gap(provenance.length(stream), lost)),
            piece => piece,
        };
        match piece {
            Piece::Data(bytes) => {
                provenance.append(stream, bytes.len() as u64, Origin::Packet { packet, offset: HEAD as u32 });
                context.bytes.captured += bytes.len() as u64;
            }
            Piece::Gap(length) => {
                provenance.append(stream, length, Origin::Missing);
                context.bytes.lost = context.bytes.lost.saturating_add(length);
            }
            Piece::End(_) => pipe_stream.ended = true,
        }
        let connection = context.id;
        let (lines, reported_noise) = (&mut pipe_stream.lines, &mut pipe_stream.reported_noise);
        let report = |span: Option<Span>, anomaly, sink: &mut Sink<'_>| {
            let (packets, exchange, direction) = (vec![packet], None, Some(direction));
            sink(Unit::Anomaly { connection, exchange, packets, span, direction, anomaly });
        };
        lines.push(piece, &mut |event| match event {
            LineEvent::Line { number, start, bytes, end, whole } => {
                let span = Span { stream, start, end: start + bytes.len() as u64 };
                let carrier = TextCarrier::Line { number, whole };
                if !whole {
                    // Nobody knows what a part of a line contains.
                    let end = context.shared.provenance.length(stream);
                    context.mask_content(direction, start..end);
                }
                context.text(direction, Raw::from(bytes).into_owned(), span, time, carrier);
                let sink = &mut *context.sink;
                let length = span.len();
                if let Some(noise) = reported_noise.first_of(bytes, end) {
                    report(Some(span), Anomaly::FramingNoise { pipe, offset: start, what: noise }, sink);
                }
                if whole && end == LineEnd::Missing && piece == Piece::End(Ending::Finished) {
                    report(Some(span), Anomaly::Unterminated { pipe, offset: start, length }, sink);
                }
            }
            LineEvent::Anomaly(anomaly) => report(None, anomaly, context.sink),
        });
        let before = pipe_stream.lines.low_water();
        context.forget(stream, before);
        if let Piece::Gap(length @ 1..) = piece {
            let offset = context.shared.provenance.length(stream) - length;
            report(None, Anomaly::PipeLost { pipe, offset, length }, context.sink);
        }
        if context.shared.options.store {
            let end = context.shared.provenance.length(stream);
            let is_open = context.shared.options.redaction.is_some() && !matches!(piece, Piece::End(_));
            let cleared = if is_open { before } else { end };
            (context.sink)(Unit::Cleared(context.id, side, cleared));
        }
    }

    /// Emits the lines of stderr, and searches them for messages.
    fn stderr(&mut self, context: &mut StackContext<'_>, piece: Piece<'_>, (packet, time): (PacketNumber, Time)) {
        let (connection, limits) = (context.id, context.shared.limits);
        let redaction = context.shared.options.redaction;
        let sink = &mut *context.sink;
        self.stderr.push(piece, &mut |event| {
            let LineEvent::Line { number, bytes, .. } = event else { return };
            let mut line = bytes.to_vec();
            if let Some(redaction) = redaction {
                redaction.mask(&mut line);
            }
            sink(Unit::Stderr(connection, StderrLine { number, bytes: line, packet, time }));
            // A look at the first byte rules out most lines.
            let may_be = bytes.starts_with(b"{") && memchr::memmem::find(bytes, b"\"jsonrpc\"").is_some();
            let is_message = |envelope: &jsonrpc::Envelope| envelope.kind.is_some() && envelope.jsonrpc.is_some();
            if may_be
                && let JsonRpcText::Single(envelope) = jsonrpc::parse(bytes, limits.json_depth, limits.batch)
                && is_message(&envelope)
            {
                let (packets, direction) = (vec![packet], Some(Direction::ServerToClient));
                let anomaly = Anomaly::MessageOnStderr { line: number };
                sink(Unit::Anomaly { connection, exchange: None, packets, span: None, direction, anomaly });
            }
        });
    }

    /// Ends the pipes at the end of the capture.
    pub(super) fn close(&mut self, context: &mut StackContext<'_>) {
        for pipe in [Pipe::Stdin, Pipe::Stdout] {
            if self.pipes[pipe as usize].stream.is_some() {
                self.piece(context, pipe, Piece::End(Ending::Cut), self.last);
            }
        }
        self.stderr(context, Piece::End(Ending::Cut), self.last);
        for stream in self.pipes.iter().filter_map(|pipe_stream| pipe_stream.stream) {
            context.close(stream);
        }
    }
}
