//! Questions to the store and its answers: what screens are drawn from.
//!
//! The drawing thread asks and goes on drawing what it has; the reader thread answers. Lists that can be longer than memory is wide
//! (messages, packets, lines of stderr) come in numbered pages; the other answers are bounded by [`ROWS`].

use std::ops::Range;
use std::path::PathBuf;

use super::replay::Draft;
use crate::capture::{PacketNumber, Time};
use crate::decode::{ConnectionId, Side};
use crate::event::{Connection, Segment};
use crate::findings::Severity;
use crate::mcp::{Message, MessageNumber, Session, SessionNumber};
use crate::store::{FindingRow, MessageRow};
use crate::view::steps::Step;
use crate::view::timing::Medians;

/// Rows of a page: a screen of 100 rows lies in two of them.
pub const PAGE: usize = 128;

/// Rows of an answer that is given whole: as much as anybody scrolls through.
pub const ROWS: usize = 20_000;

/// Steps of a session that are listed: some tens of megabytes of memory. `mcptap layers` has no such bound.
pub const STEPS: usize = 1 << 21;

/// A question. Equal questions have equal answers as long as nobody wrote to the store.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Request {
    /// All sessions.
    Sessions,
    /// What was found where there is no session: it may say why there is none.
    Unplaced,
    /// Page `page` of the messages of a session that a filter lets through (empty: all of them).
    Messages {
        /// The session.
        session: SessionNumber,
        /// The filter's text.
        filter: String,
        /// From 0.
        page: usize,
    },
    /// One message with everything below and in it.
    Detail(SessionNumber, MessageNumber),
    /// Page `page` of the step table.
    Steps {
        /// The session.
        session: SessionNumber,
        /// From 0.
        page: usize,
    },
    /// Findings.
    Findings(SessionNumber),
    /// Figures.
    Statistics(SessionNumber),
    /// Its connections.
    Connections(SessionNumber),
    /// Page `page` of the packets of one of its connections.
    Packets {
        /// The session.
        session: SessionNumber,
        /// The connection.
        connection: ConnectionId,
        /// From 0.
        page: usize,
    },
    /// One packet, layer by layer.
    Packet(SessionNumber, PacketNumber),
    /// What initialize and the lists of tools, prompts and resources said.
    Capabilities(SessionNumber),
    /// Page `page` of what the wrapped server wrote to stderr.
    Stderr {
        /// The session.
        session: SessionNumber,
        /// From 0.
        page: usize,
    },
    /// The messages of a session and of the others that its host had meanwhile.
    Together(SessionNumber),
    /// The rows that hang together with a row of a filtered list: a batch.
    Group {
        /// The session.
        session: SessionNumber,
        /// The filter's text.
        filter: String,
        /// The row.
        row: usize,
    },
    /// All such groups of a filtered list.
    Groups {
        /// The session.
        session: SessionNumber,
        /// The filter's text.
        filter: String,
    },
    /// The position of a packet's connection among those of the session, and its row among the packets of that.
    LocatePacket(SessionNumber, PacketNumber),
    /// The row of a message in a filtered list.
    Locate {
        /// The session.
        session: SessionNumber,
        /// The filter's text.
        filter: String,
        /// The message.
        message: MessageNumber,
    },
    /// The row of the next message after a row that failed or has findings.
    NextOdd {
        /// The session.
        session: SessionNumber,
        /// The filter's text.
        filter: String,
        /// Rows after this one.
        after: usize,
    },
    /// What the form of a replay begins with.
    Draft {
        /// The session.
        session: SessionNumber,
        /// The request to be sent again, or the answer to it; nothing for the whole session.
        message: Option<MessageNumber>,
    },
    /// Writes the messages as JSON lines.
    Export {
        /// The session.
        session: SessionNumber,
        /// The filter's text.
        filter: String,
        /// Only these messages; empty: all that the filter lets through.
        only: Vec<MessageNumber>,
        /// The new file.
        path: PathBuf,
    },
}

impl Request {
    /// Whether the answer is found again each time somebody writes (a fraction of a second apart), and not once a second: it
    /// takes a few index steps.
    pub fn is_quick(&self) -> bool {
        matches!(self, Request::Messages { .. } | Request::Packets { .. } | Request::Stderr { .. })
    }

    /// Whether it is answered before others: what a person who presses keys waits for.
    pub fn is_urgent(&self) -> bool {
        self.is_quick() || matches!(self, Request::Detail(..) | Request::Packet(..))
    }
}

/// An answer.
#[derive(Clone, Debug)]
pub enum Answer {
    /// To [`Request::Sessions`], the newest first.
    Sessions(Vec<SessionRow>),
    /// To [`Request::Unplaced`], the first ones.
    Unplaced(Vec<FindingRow>),
    /// To [`Request::Messages`].
    Messages(Rows<MessageLine>),
    /// To [`Request::Detail`]; nothing where there is no such message.
    Detail(Option<Box<Detail>>),
    /// To [`Request::Steps`].
    Steps(Rows<Step>),
    /// To [`Request::Findings`].
    Findings(Vec<FindingLine>),
    /// To [`Request::Statistics`].
    Statistics(Box<Statistics>),
    /// To [`Request::Connections`].
    Connections(Vec<Connection>),
    /// To [`Request::Packets`].
    Packets(Rows<PacketRow>),
    /// To [`Request::Packet`]; nothing where it was not kept.
    Packet(Option<Box<PacketDetail>>),
    /// To [`Request::Capabilities`].
    Capabilities(Vec<CapabilityRow>),
    /// To [`Request::Stderr`].
    Stderr(Rows<StderrLine>),
    /// To [`Request::Together`].
    Together(Together),
    /// To [`Request::Group`] and [`Request::Groups`]: rows of each group, its first one stands for it.
    Groups(Vec<Vec<usize>>),
    /// To [`Request::LocatePacket`].
    PacketLocated(Option<(usize, usize)>),
    /// To [`Request::Locate`] and [`Request::NextOdd`].
    Located(Option<usize>),
    /// To [`Request::Draft`].
    Draft(Box<Draft>),
    /// To [`Request::Export`]: so many messages were written.
    Exported(u64),
    /// It could not be found out.
    Failed(String),
}

/// A session in the list.
#[derive(Clone, Debug)]
pub struct SessionRow {
    /// The session, numbered in the database.
    pub session: Session,
    /// Whether it is still being recorded.
    pub live: bool,
    /// Findings: info, warning, error.
    pub findings: [u64; 3],
    /// Median and 95th percentile of latency, in nanoseconds.
    pub latency: Option<(i64, i64)>,
}

/// A page of a list.
#[derive(Clone, Debug)]
pub struct Rows<T> {
    /// Its rows: [`PAGE`] of them, on the last page fewer.
    pub rows: Vec<T>,
    /// Rows of the whole list, as far as it is known.
    pub total: usize,
    /// Whether that is all of it: a filter went through all messages, nothing was cut.
    pub complete: bool,
}

/// A message in the list.
#[derive(Clone, Debug)]
pub struct MessageLine {
    /// The message without its text.
    pub row: MessageRow,
    /// What it is about, for people.
    pub about: String,
    /// Rules that it breaks.
    pub rules: Vec<String>,
}

impl MessageLine {
    /// The message it answers, or that answers it.
    pub fn partner(&self) -> Option<MessageNumber> {
        self.row.answers.or(self.row.answered_by)
    }
}

/// One message, with everything below and in it.
#[derive(Clone, Debug)]
pub struct Detail {
    /// The message.
    pub message: Message,
    /// Its layers and their fields, from the link up.
    pub nodes: Vec<LayerNode>,
    /// The bytes that nodes stand in. The first is always the message's own text.
    pub sources: Vec<Source>,
    /// Where the bytes of the text stand in the other sources.
    pub carried: Vec<Carried>,
    /// A command line that sends it again, where HTTP carried it.
    pub curl: Option<String>,
}

/// The source that is the message's text.
pub const TEXT: usize = 0;

/// A layer or one of its fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerNode {
    /// 0 for a layer, more for what stands in it.
    pub depth: usize,
    /// The layer's or field's name.
    pub name: String,
    /// Its value, or the layer in a few words.
    pub value: String,
    /// Its bytes: a source and a range of it.
    pub place: Option<(usize, Range<usize>)>,
    /// Whether something is wrong with it.
    pub odd: bool,
}

/// Bytes to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// What they are.
    pub title: String,
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The packet, where they are one.
    pub packet: Option<PacketNumber>,
}

/// A run of the text's bytes in another source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Carried {
    /// In the text.
    pub text: Range<usize>,
    /// The source.
    pub source: usize,
    /// Where the run begins in it.
    pub at: usize,
    /// `Some(length)`: made from these bytes as a whole (inflated), no byte has a place of its own.
    pub whole: Option<usize>,
}

impl Detail {
    /// The text.
    pub fn text(&self) -> &[u8] {
        &self.message.raw
    }

    /// Where bytes of the text stand in a source.
    pub fn places(&self, text: &Range<usize>, source: usize) -> Vec<Range<usize>> {
        if source == TEXT {
            return vec![text.clone()];
        }
        let runs = self.carried.iter().filter(|run| run.source == source);
        runs.filter_map(|run| {
            let (start, end) = (run.text.start.max(text.start), run.text.end.min(text.end));
            (start < end).then(|| match run.whole {
                Some(length) => run.at..run.at + length,
                None => run.at + start - run.text.start..run.at + end - run.text.start,
            })
        })
        .collect()
    }

    /// The byte of the text that stands at a byte of a source.
    pub fn text_at(&self, source: usize, offset: usize) -> Option<usize> {
        if source == TEXT {
            return Some(offset);
        }
        let run = self.carried.iter().find(|run| {
            let length = run.text.len();
            run.source == source && run.whole.is_none() && (run.at..run.at + length).contains(&offset)
        })?;
        Some(run.text.start + offset - run.at)
    }

    /// The packets that carry bytes of the text.
    pub fn packets(&self, text: &Range<usize>) -> Vec<PacketNumber> {
        let carries = |source: &usize| !self.places(text, *source).is_empty();
        let sources = (TEXT + 1..self.sources.len()).filter(carries);
        sources.filter_map(|source| self.sources[source].packet).collect()
    }
}

/// A line of the findings.
#[derive(Clone, Debug)]
pub enum FindingLine {
    /// A rule, above its findings.
    Rule {
        /// Its id.
        id: String,
        /// Its severity.
        severity: Severity,
        /// What is wrong, in one line.
        title: String,
        /// How many there are.
        count: usize,
    },
    /// One finding.
    Finding(FindingRow),
}

/// What a host did with all its servers at a time.
#[derive(Clone, Debug, Default)]
pub struct Together {
    /// The sessions, each with the name of its server.
    pub sessions: Vec<(SessionNumber, String)>,
    /// Their messages in order of time.
    pub lines: Vec<MessageLine>,
    /// Whether these are all.
    pub complete: bool,
}

/// A packet of a connection.
#[derive(Clone, Debug)]
pub struct PacketRow {
    /// Its number.
    pub number: PacketNumber,
    /// When it was captured.
    pub time: Time,
    /// The connection.
    pub connection: ConnectionId,
    /// From the client, where known.
    pub from: Option<Side>,
    /// Which side the client is.
    pub client: Side,
    /// Bytes on the wire.
    pub length: u32,
    /// What TCP says of it.
    pub segment: Option<Segment>,
    /// In words, where it is no TCP segment.
    pub words: String,
    /// The first message it carries bytes of.
    pub message: Option<MessageNumber>,
}

/// A packet by itself.
#[derive(Clone, Debug)]
pub struct PacketDetail {
    /// Its number.
    pub number: PacketNumber,
    /// Its headers and their fields.
    pub nodes: Vec<LayerNode>,
    /// Its bytes.
    pub source: Source,
}

/// A line of the capabilities: a heading, or an item under one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapabilityRow {
    /// 0 for a heading.
    pub depth: usize,
    /// What it is.
    pub name: String,
    /// What it says.
    pub value: String,
    /// The message that said it.
    pub message: Option<MessageNumber>,
}

/// A line a server wrote to stderr.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StderrLine {
    /// When its first byte was seen.
    pub time: Time,
    /// The line.
    pub text: String,
}

/// Figures of a session.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    /// Messages that were counted so far.
    pub counted: u64,
    /// Messages there are.
    pub messages: u64,
    /// Each method, and each tool of tools/call: the one with most time first.
    pub calls: Vec<CallFigures>,
    /// All latencies by power of two of microseconds: count of those below 2^(n+1).
    pub histogram: Vec<u64>,
    /// Messages in each of the equal parts of the session's time.
    pub rate: Vec<u64>,
    /// Length of one such part in nanoseconds.
    pub part: i64,
    /// Bytes of messages, from client and from server.
    pub bytes: [u64; 2],
}

/// Figures of calls of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallFigures {
    /// The method, and the tool.
    pub name: String,
    /// Requests.
    pub calls: u64,
    /// Answered by an error of the protocol.
    pub errors: u64,
    /// Answered by a result that says that the tool failed.
    pub tool_errors: u64,
    /// Answered by a result whose data says no.
    pub negatives: u64,
    /// Answered so far.
    pub answered: u64,
    /// Smallest and largest latency in nanoseconds; nothing where none was answered.
    pub extremes: Option<[i64; 2]>,
    /// Its 50th, 95th and 99th percentile.
    pub percentiles: [i64; 3],
    /// The sum of them.
    pub total: i64,
    /// Where the time went, of a sample of them.
    pub parts: Medians,
}

/// How far an import is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// So many bytes were read, of so many.
    Reading(u64, Option<u64>),
    /// All was read.
    Done,
    /// It stopped for this reason.
    Failed(String),
}

/// The worst severity with any findings.
pub fn worst(findings: &[u64; 3]) -> Option<Severity> {
    [Severity::Error, Severity::Warning, Severity::Info].into_iter().find(|severity| findings[*severity as usize] > 0)
}
