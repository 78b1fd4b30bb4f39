//! How messages reach a server: one small trait, and what stands behind it.

#[cfg(feature = "http")]
pub mod http;
pub mod stdio;

use std::fmt;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, TryRecvError};

/// How often it is looked, while nothing comes, whether somebody ends the replay.
const STOP_CHECK: Duration = Duration::from_millis(20);

/// A message on its way to the server.
#[derive(Clone, Debug, Default)]
pub struct Outgoing {
    /// Its text, without a line end.
    pub text: String,
    /// For a request: the id that its answer will have.
    pub id: Option<u64>,
    /// Whether what follows may rely on it: then nothing is sent before the server took it. True of notifications, whose effect nobody reports.
    pub in_order: bool,
    /// Header fields for HTTP beside those that every message has.
    pub fields: Vec<(String, String)>,
}

/// What comes from the server.
#[derive(Debug)]
pub enum Arrival {
    /// A text that should be a message or a batch of them, and when its last byte was here.
    Text(Vec<u8>, Instant),
    /// What was sent was not taken, or the way of its answer broke. The id is that of a request.
    Failed(Option<u64>, Failure),
    /// Nothing more can come.
    Closed(Failure),
}

/// Why something did not work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What kind.
    pub kind: FailureKind,
    /// In a sentence.
    pub why: String,
}

/// What a failure means for what comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// This message only: an HTTP status, a stream that broke.
    Message,
    /// The server does not know the session (404): a new one has to be opened.
    Session,
    /// The address speaks another transport (404 or 405 to the first POST).
    Transport,
    /// The whole server: gone, refused, TLS, 401. There is no sense in going on.
    Server,
}

impl Failure {
    /// A failure of this kind.
    pub fn new(kind: FailureKind, why: impl Into<String>) -> Failure {
        Failure { kind, why: why.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

/// What waiting for the server came to.
#[derive(Debug)]
pub enum Next {
    /// Something came.
    Arrived(Arrival),
    /// The moment came.
    TimedOut,
    /// It is to end.
    Stopped,
}

/// A connection to a server, whatever carries it. Only [`Transport::next`], [`Transport::wait`] and [`Transport::close`] wait for the server.
pub trait Transport {
    /// Sends a message. What becomes of it arrives.
    fn send(&mut self, message: Outgoing);

    /// The next thing that came from the server, in order.
    fn arrived(&mut self) -> Option<Arrival>;

    /// Writes what the server takes and reads what it sends, until a moment or for [`STOP_CHECK`] at most.
    fn wait(&mut self, until: Instant);

    /// Waits for the next thing that comes from the server: until a moment, or until `stop` says something or ends.
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

    /// The handshake is over: this revision is spoken from now on.
    fn opened(&mut self, _revision: &str) {}

    /// The server forgot the session.
    fn forget_session(&mut self) {}

    /// Ends it, within bounds. Says how the server ended and its last words, where there are any.
    fn close(self: Box<Self>) -> Option<String>;
}
