//! Replay from the screen: a form, a run on a thread of its own, and the answers beside each other.
//!
//! ```text
//!  R, :replay ─► Form ── ctrl-r ─► Order ─► runner thread ── Told ─► Run ─► pane/replay
//!                 ▲                            │  (replay::Job: the one that the command line uses)
//!                 └── what has to be asked ◄───┘
//! ```
//!
//! The state is plain data as that of every other screen: the thread that draws does not wait for the server, and of the recording it reads the one answer
//! that is looked at.

pub mod beside;
pub mod form;
pub mod options;
pub mod run;
pub mod runner;

use std::collections::BTreeMap;

use crate::mcp::{MessageNumber, SessionNumber};
use form::Form;
use run::Run;

/// What the screen knows of replays.
#[derive(Debug, Default)]
pub struct Replays {
    /// The form that is filled in.
    pub form: Option<Form>,
    /// The last replay, or the one under way.
    pub run: Option<Run>,
    /// Where sessions were sent to last: the form begins with it.
    pub targets: BTreeMap<SessionNumber, String>,
    /// Header fields that were given last, as they were written.
    pub fields: String,
    /// Options that were given last, as they were written.
    pub options: String,
    /// The number of the last order: what an earlier one still tells is not listened to.
    pub last: u64,
}

/// What is to be sent again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// Its number.
    pub number: u64,
    /// The session.
    pub session: SessionNumber,
    /// Only this request of it.
    pub call: Option<Call>,
    /// A URL, or a command line.
    pub target: String,
    /// Header fields, one a line: `Name: value`, in which `$NAME` is that variable of the environment.
    pub fields: String,
    /// What else was said, in the words of the command line.
    pub options: String,
    /// What is done about tools that say that they destroy, and about secrets that are missing.
    pub consent: Consent,
}

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Its number in the recording.
    pub message: MessageNumber,
    /// Its `params` as JSON text, where they were changed.
    pub params: Option<String>,
}

/// A person's word on what is not sent without one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Consent {
    /// None yet: ask.
    #[default]
    Ask,
    /// All of it is sent.
    All,
    /// What destroys is left out.
    Harmless,
}

/// What a session and one of its requests say for the form: an answer of the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Draft {
    /// What the session recorded: the server's command line, or its URL.
    pub target: String,
    /// Requests of the session.
    pub requests: u64,
    /// The request that was selected.
    pub call: Option<CallDraft>,
}

/// One request, for the form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallDraft {
    /// Its number.
    pub message: u64,
    /// What it is called: `tools/call get_weather`.
    pub label: String,
    /// The member of `params` that is edited, `arguments`; nothing where it is all of them.
    pub member: Option<&'static str>,
    /// Its `params` as they were recorded.
    pub params: String,
    /// The tool's `inputSchema`, where the session listed it before.
    pub schema: Option<String>,
    /// The revision that was spoken: it says how a schema is read.
    pub revision: String,
}
