//! Transports that carry messages to a server and back.

#[cfg(feature = "http")]
pub mod http;
pub mod stdio;

use std::fmt;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, TryRecvError};

/// The interval at which a waiting transport checks whether the replay is to stop.
const STOP_CHECK: Duration = Duration::from_millis(20);

/// A message to be sent.
#[derive(Clone, Debug, Default)]
pub struct Outgoing {
    /// The JSON text without a line end.
    pub text: String,
    /// The id, if the message is a request.
    pub id: Option<u64>,
    /// The id as the text has it, if it is not that number.
    pub written_id: Option<String>,
    /// Whether later messages may rely on its effect. Then none is sent before the server has
    /// accepted this one. True for notifications, because no response reports their effect.
    pub in_order: bool,
    /// Header fields for HTTP, besides those of every request.
    pub fields: Vec<(String, String)>,
}

/// Something that arrived from the server.
#[derive(Debug)]
pub enum Arrival {
    /// A text that should contain a message or a batch, and the time when it was complete.
    Text(Vec<u8>, Instant),
    /// A message was not accepted, or its response broke off. The id is given for a request.
    Failed(Option<u64>, Failure),
    /// The server is gone.
    Closed(Failure),
}

/// The reason why something failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The consequence of the failure.
    pub kind: FailureKind,
    /// The reason in one sentence.
    pub why: String,
}

/// The consequence of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// Only this message failed: by an HTTP status, or because a stream broke.
    Message,
    /// The server lost the session (404). A new one has to be opened.
    Session,
    /// The URL uses another transport (404 or 405 for the first POST).
    Transport,
    /// The server cannot be used: it is gone or refuses connections, TLS failed, or
    /// it answered 401.
    Server,
}

impl Failure {
    /// A failure with this consequence and reason.
    pub fn new(kind: FailureKind, why: impl Into<String>) -> Failure {
        Failure { kind, why: why.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

/// The result of waiting for the server.
#[derive(Debug)]
pub enum Next {
    /// Something arrived from the server.
    Arrived(Arrival),
    /// The time was over.
    TimedOut,
    /// The replay is to stop.
    Stopped,
}

/// A connection to a server. Only [`Transport::next`], [`Transport::wait`] and
/// [`Transport::close`] block.
pub trait Transport {
    /// Sends a message. Its response or failure arrives later.
    fn send(&mut self, message: Outgoing);

    /// The next thing that has arrived, in order.
    fn arrived(&mut self) -> Option<Arrival>;

    /// Sends and receives, at most until a moment and at most for [`STOP_CHECK`].
    fn wait(&mut self, until: Instant);

    /// Waits for the next arrival, until a moment, or until `stop` receives or disconnects.
    fn next(&mut self, until: Instant, stop: &Receiver<()>) -> Next {
        loop {
            if let Some(arrival) = self.arrived() {
                return Next::Arrived(arrival);
            }
            if stop.try_recv() != Err(TryRecvError::Empty) {
                return Next::Stopped;
            }
            if Instant::now() >= until {
                return Next::TimedOut;
            }
            self.wait(until);
        }
    }

    /// Called after the handshake with the revision that is used from now on.
    fn opened(&mut self, _revision: &str) {}

    /// Called when the server has lost the session.
    fn forget_session(&mut self) {}

    /// Closes the connection within a limited time. Returns how a server process ended and its last
    /// lines of stderr, unless it ended normally.
    fn close(self: Box<Self>) -> Option<String>;
}
