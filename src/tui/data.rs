//! Queries to the store and their answers: the data that screens are drawn from.
//!
//! The drawing thread sends queries and continues to draw what it has. The query thread answers.
//! Lists of any length (messages, packets, steps, lines of stderr) are read in numbered pages; the
//! other answers are bounded by [`ROWS`].

use std::collections::BTreeSet;
use std::ops::Deref;
use std::path::PathBuf;

use super::replay::Draft;
use crate::capture::{PacketNumber, Time};
use crate::decode::{ConnectionId, Side};
use crate::event::{Connection, Segment};
use crate::findings::Severity;
use crate::mcp::{MessageNumber, SessionNumber};
use crate::store::{FindingRow, ListedSession, MessageRow, StderrLine};
pub use crate::view::detail::{Detail, LayerNode, Source, TEXT};
use crate::view::notes::NoteWords;
use crate::view::steps::Step;
use crate::view::timing::Medians;

/// Rows of a page. A screen of 100 rows needs at most two pages.
pub const PAGE: usize = 128;

/// Limit of the rows of an answer without pages: as much as anybody scrolls through.
pub const ROWS: usize = 20_000;

/// Limit of the listed steps of a session: some tens of megabytes of memory. `mcptap layers` has
/// no such limit.
pub const STEPS: usize = 1 << 21;

/// The messages of a session that a filter selects.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MessageList {
    pub session: SessionNumber,
    /// The text of a display filter; the empty one selects all messages.
    pub filter: String,
}

/// A query to the store. Equal queries have equal answers until the store changes. Pages are
/// numbered from 0.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Query {
    Sessions,
    /// The sessions with a message that a filter selects.
    SessionSearch(String),
    /// Findings of captures without a session: they may explain why there is none.
    Unplaced,
    /// A page of messages.
    Messages(MessageList, usize),
    /// What happened between the messages of a session.
    Notes(SessionNumber),
    /// One message with its layers and bytes.
    Detail(SessionNumber, MessageNumber),
    /// A page of the step table.
    Steps(SessionNumber, usize),
    Findings(SessionNumber),
    Statistics(SessionNumber),
    /// The connections of the session's capture. Without a session: of the latest capture. The same
    /// holds for the two queries that follow.
    Connections(Option<SessionNumber>),
    /// A page of packets.
    Packets(Option<SessionNumber>, PacketScope, usize),
    /// One packet, layer by layer.
    Packet(Option<SessionNumber>, PacketNumber),
    /// The contents of `initialize` and of the lists of tools, prompts and resources.
    Capabilities(SessionNumber),
    /// A page of the lines that the wrapped server wrote to stderr.
    Stderr(SessionNumber, usize),
    /// The messages of a session and of the other sessions of the same host at that time.
    AllServers(SessionNumber),
    /// The rows in the same group as a row: a batch or an operation.
    Group(MessageList, usize),
    /// All such groups.
    Groups(MessageList),
    /// The row of a packet: in this scope if it is there, else in a wider one.
    LocatePacket(Option<SessionNumber>, PacketScope, PacketNumber),
    /// The row of a message.
    Locate(MessageList, MessageNumber),
    /// The row of the next message after this row that failed or has findings.
    NextProblem(MessageList, usize),
    /// The initial values of the replay form. The message is the request to send again, or its
    /// answer; `None` for the whole session.
    Draft(SessionNumber, Option<MessageNumber>),
    /// Writes messages to a new file as JSON lines: only these, or all if there are none.
    Export(MessageList, Vec<MessageNumber>, PathBuf),
}

impl Query {
    /// Whether the query is repeated whenever the store changes, instead of once a second. Such
    /// queries take only a few index steps.
    pub fn is_quick(&self) -> bool {
        matches!(self, Query::Messages(..) | Query::Packets(..) | Query::Stderr(..))
    }

    /// The page of a list that it asks for.
    pub fn page(&self) -> Option<usize> {
        match self {
            Query::Messages(_, page) | Query::Packets(.., page) | Query::Stderr(_, page) | Query::Steps(_, page) => {
                Some(*page)
            }
            _ => None,
        }
    }

    /// Whether the query is answered before others, because the user waits for it.
    pub fn is_urgent(&self) -> bool {
        self.is_quick() || matches!(self, Query::Detail(..) | Query::Packet(..))
    }
}

/// The answer to a query.
#[derive(Clone, Debug)]
pub enum Answer {
    /// To [`Query::Sessions`], the newest first for a database.
    Sessions(Rows<SessionRow>),
    /// To [`Query::SessionSearch`]: the sessions found so far, and whether all were searched.
    SessionsFound(BTreeSet<SessionNumber>, bool),
    /// To [`Query::Unplaced`], the first ones.
    Unplaced(Vec<FindingRow>),
    Messages(Rows<MessageLine>),
    /// To [`Query::Notes`], in order.
    Notes(Vec<NoteLine>),
    /// To [`Query::Detail`]; `None` if there is no such message.
    Detail(Option<Box<Detail>>),
    Steps(Rows<Step>),
    Findings(Vec<FindingLine>),
    Statistics(Box<Statistics>),
    Connections(Box<ConnectionList>),
    Packets(Rows<PacketRow>),
    /// To [`Query::Packet`]; `None` if it is not stored.
    Packet(Option<Box<PacketDetail>>),
    Capabilities(Vec<CapabilityRow>),
    Stderr(Rows<StderrLine>),
    AllServers(HostSessions),
    /// To [`Query::Group`] and [`Query::Groups`]: the rows of each group. The first row represents
    /// the group when it is folded.
    Groups(Vec<Vec<usize>>),
    /// To [`Query::LocatePacket`].
    PacketLocated(Option<(PacketScope, usize)>),
    /// To [`Query::Locate`] and [`Query::NextProblem`]: the row.
    Located(Option<usize>),
    Draft(Box<Draft>),
    /// To [`Query::Export`]: the number of written messages.
    Exported(u64),
    /// The query failed, for this reason.
    Failed(String),
}

/// A session in the list.
#[derive(Clone, Debug)]
pub struct SessionRow {
    /// The session, with its number in the database, and the facts of its recording.
    pub listed: ListedSession,
    /// Whether it is still being recorded.
    pub live: bool,
    /// Median and 95th percentile of the latency, in nanoseconds. For a session with many messages
    /// they are exact to 2 percent.
    pub latency: Option<(i64, i64)>,
}

impl Deref for SessionRow {
    type Target = ListedSession;

    fn deref(&self) -> &ListedSession {
        &self.listed
    }
}

/// A page of a list.
#[derive(Clone, Debug)]
pub struct Rows<T> {
    /// [`PAGE`] rows; fewer on the last page.
    pub rows: Vec<T>,
    /// Rows of the whole list, as far as it is known.
    pub total: usize,
    /// Whether the list is complete: a filter was applied to all messages, or all steps were found.
    pub complete: bool,
}

/// A message in the list.
#[derive(Clone, Debug)]
pub struct MessageLine {
    /// The message without its text.
    pub row: MessageRow,
    /// The content of the message in a few words.
    pub about: String,
    /// Ids of the rules that it breaks.
    pub rules: Vec<String>,
}

impl MessageLine {
    /// The message that it answers, or its own answer.
    pub fn partner(&self) -> Option<MessageNumber> {
        self.row.answers.or(self.row.answered_by)
    }
}

/// A note between two messages.
#[derive(Clone, Debug, PartialEq)]
pub struct NoteLine {
    /// The row of the message that it precedes, in the list without a filter.
    pub before: usize,
    pub time: Time,
    pub words: NoteWords,
    /// The place that shows more about it.
    pub target: Option<NoteTarget>,
    /// The first packet that carried it.
    pub packet: Option<PacketNumber>,
}

/// The place that shows more about a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoteTarget {
    Message(MessageNumber),
    /// The screen of stderr.
    Stderr,
}

/// A row of the findings.
#[derive(Clone, Debug)]
pub enum FindingLine {
    /// A rule, above its findings.
    Rule {
        id: String,
        severity: Severity,
        /// The defect in one line.
        title: String,
        /// The number of its findings.
        count: usize,
    },
    Finding(FindingRow),
}

/// The sessions that a host had at the same time, for the sequence of all servers.
#[derive(Clone, Debug, Default)]
pub struct HostSessions {
    /// The sessions, each with the name of its server.
    pub sessions: Vec<(SessionNumber, String)>,
    /// Their messages in order of time.
    pub lines: Vec<MessageLine>,
    /// Whether these are all messages and all sessions.
    pub complete: bool,
}

/// The packets that are listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PacketScope {
    /// All packets of the capture that are stored.
    #[default]
    Capture,
    /// Those of the session's connections.
    Session,
    /// Those of one connection.
    Connection(ConnectionId),
}

/// The connections of a capture.
#[derive(Clone, Debug, Default)]
pub struct ConnectionList {
    /// Those of the session first.
    pub connections: Vec<ConnectionRow>,
    /// Packets that were captured, and that are stored.
    pub packets: (u64, u64),
    /// Stored packets of the session's connections.
    pub session_packets: u64,
}

/// A connection in the list.
#[derive(Clone, Debug)]
pub struct ConnectionRow {
    pub id: ConnectionId,
    /// `None` for packets that belong to no connection.
    pub connection: Option<Connection>,
    /// The number of stored packets.
    pub packets: u64,
    /// Whether the session uses it.
    pub is_own: bool,
}

/// A packet in a list.
#[derive(Clone, Debug)]
pub struct PacketRow {
    pub number: PacketNumber,
    /// Its capture time.
    pub time: Time,
    /// The side that sent it, if known.
    pub from: Option<Side>,
    /// The side that is the client.
    pub client: Side,
    /// The sender and the receiver: addresses with ports, as far as the headers have them.
    pub ends: (String, String),
    /// The innermost protocol that is known.
    pub protocol: String,
    /// Bytes on the wire.
    pub length: u32,
    /// The result of TCP analysis.
    pub segment: Option<Segment>,
    /// The content in words: what the packet carries.
    pub info: String,
    /// The first message of which it carries bytes, and that message's session.
    pub message: Option<(SessionNumber, MessageNumber)>,
}

/// One packet in detail.
#[derive(Clone, Debug)]
pub struct PacketDetail {
    pub number: PacketNumber,
    /// Its headers and their fields; then the messages of which it carries bytes, and
    /// their JSON fields.
    pub nodes: Vec<LayerNode>,
    pub source: Source,
}

/// A row of the capabilities: a heading, or an item under one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapabilityRow {
    /// 0 for a heading.
    pub depth: usize,
    pub name: String,
    pub value: String,
    /// The message that contains it.
    pub message: Option<MessageNumber>,
}

/// Figures of a session.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    /// Messages counted so far.
    pub counted: u64,
    /// Messages of the session.
    pub messages: u64,
    /// Each method, and each tool of `tools/call`. The one with the longest total time comes first.
    pub calls: Vec<CallFigures>,
    /// All latencies by powers of two of microseconds: element n counts those below 2^(n+1) µs.
    pub histogram: Vec<u64>,
    /// Messages in each of the equal parts of the session's time.
    pub rate: Vec<u64>,
    /// Length of one such part in nanoseconds.
    pub part: i64,
    /// Bytes of messages, from the client and from the server.
    pub bytes: [u64; 2],
}

/// Figures of the calls of one method or tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallFigures {
    /// The method and, for a tool, its name.
    pub name: String,
    /// Number of requests.
    pub calls: u64,
    /// Answered by a JSON-RPC error, or refused by the status of the HTTP response.
    pub errors: u64,
    /// Cancelled by the client, and not answered.
    pub cancelled: u64,
    /// Answered by a result with `isError`.
    pub tool_errors: u64,
    /// Answered by a result whose data is negative, such as `"found": false`.
    pub negatives: u64,
    /// Answered so far in any way, refused or cancelled.
    pub settled: u64,
    /// Smallest and largest latency in nanoseconds; `None` without answers.
    pub extremes: Option<[i64; 2]>,
    /// The 50th, 95th and 99th percentile of the latency.
    pub percentiles: [i64; 3],
    /// The sum of the latencies.
    pub total: i64,
    /// Medians of the parts of the latency, from a sample of the calls.
    pub parts: Medians,
}

/// Progress of an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Bytes read, and all bytes if known.
    Reading(u64, Option<u64>),
    Done,
    /// The import stopped, for this reason.
    Failed(String),
}

/// The highest severity that has findings.
pub fn worst(findings: &[u64; 3]) -> Option<Severity> {
    [Severity::Error, Severity::Warning, Severity::Info].into_iter().find(|severity| findings[*severity as usize] > 0)
}
