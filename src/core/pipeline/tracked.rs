//! The output of the second stage, in order: events, and what the rules have to judge. It owns its
//! data, so that the third stage can run on another thread.

use std::sync::Arc;

use crate::capture::Time;
use crate::decode::exchange::Exchange;
use crate::decode::stack::ServerSentEvent;
use crate::decode::tcp::Facts;
use crate::decode::{ConnectionId, Direction};
use crate::event::Event;
use crate::findings::{Finding, ProcessChange};
use crate::mcp::pairing::Pending;
use crate::mcp::tracker::Oddity;
use crate::mcp::{Message, SessionNumber, Transport};

/// The transport of a session, and whether its beginning was captured. `None` if it has ended.
pub type Opened = Option<(Transport, bool)>;

/// An item of the traffic whose session and number are known.
#[derive(Debug)]
pub enum Tracked {
    /// An event that no rule judges.
    Event(Event),
    /// The head of a request or response. The session is `None` while it is not known.
    Head(Arc<Exchange>, Direction, Option<SessionNumber>),
    /// A server-sent event, after the message that it carries.
    ServerSentEvent(Box<ServerSentEvent>, Option<SessionNumber>, Opened),
    /// A message with its number.
    Message {
        /// The message, not judged yet.
        message: Box<Message>,
        /// The irregularities of the message.
        oddities: Vec<Oddity>,
        /// Whether the beginning of its session was captured.
        has_beginning: bool,
        /// Whether a message that was sent before it may be emitted after it.
        is_order_doubtful: bool,
    },
    /// An exchange that ended.
    Exchange(Box<Exchange>),
    /// A packet of the pipes of a session's process.
    Process(SessionNumber, Option<ProcessChange>, Time, Opened),
    /// A connection ended.
    ConnectionClosed(ConnectionId, Box<Facts>),
    /// Messages of a session may be missing.
    MessagesMissing(SessionNumber, Opened),
    /// A decoder found something about a connection, a packet or the capture.
    DecoderFinding(Box<Finding>),
    /// A session ended, or its capture: its requests without a response.
    SessionEnded(SessionNumber, Vec<Pending>),
    /// The capture ended.
    End,
}

impl From<Event> for Tracked {
    fn from(event: Event) -> Tracked {
        Tracked::Event(event)
    }
}

/// Receives tracked items in order.
pub type TrackedSink<'s> = dyn FnMut(Tracked) + 's;
