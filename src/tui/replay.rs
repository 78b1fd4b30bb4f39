//! Replays from the screen: a form, a run on its own thread, and both answers side by side.
//!
//! ```text
//!  R, :replay ─► Form ─ ctrl-r ─► Submission ─► replay thread ─ ReplayUpdate ─► Run ─► pane/replay
//!                 ▲                                  │  (a replay::Job, as on the command line)
//!                 └────── questions for consent ─────┘
//! ```
//!
//! The state is plain data, as on every other screen. The drawing thread does not wait for the
//! server. Only the answers that are shown are read from the recording.

pub mod form;
pub mod options;
pub mod run;
pub mod runner;
pub mod side_by_side;

use std::collections::BTreeMap;

use crate::mcp::{MessageNumber, SessionNumber};
use form::Form;
use run::Run;

/// The state of replays.
#[derive(Debug, Default)]
pub struct Replays {
    /// The open form.
    pub form: Option<Form>,
    /// The last replay, or the running one.
    pub run: Option<Run>,
    /// The last target of each session: the form begins with it.
    pub targets: BTreeMap<SessionNumber, String>,
    /// The last header fields, as the user wrote them.
    pub headers: String,
    /// The last options, as the user wrote them.
    pub options: String,
    /// The number of the last submission. Updates of earlier ones are ignored.
    pub last_number: u64,
}

/// The values of a submitted form: a session or a request to send again, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submission {
    pub number: u64,
    pub session: SessionNumber,
    /// Only this request of the session, if there is one.
    pub call: Option<Call>,
    /// A URL, or a command line.
    pub target: String,
    /// Header fields, one per line: `Name: value`. A word `$NAME` is an environment variable.
    pub headers: String,
    /// Further options, in the syntax of the command line.
    pub options: String,
    /// The user's decision about destructive tools and missing secrets.
    pub consent: Consent,
}

/// One request to send again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Its number in the recording.
    pub message: MessageNumber,
    /// Its edited `params` as JSON text; `None` if they were not changed.
    pub params: Option<String>,
}

/// The user's decision about requests that need consent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Consent {
    /// No decision yet: ask.
    #[default]
    Ask,
    /// Everything is sent.
    SendAll,
    /// Destructive tools are skipped.
    SkipDestructive,
}

/// The initial values of the form, read from the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Draft {
    /// The recorded server: its command line or its URL.
    pub target: String,
    /// Number of requests of the session.
    pub requests: u64,
    /// The selected request.
    pub call: Option<CallDraft>,
}

/// The selected request, for the form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallDraft {
    pub message: u64,
    /// Its name in the list: `tools/call get_weather`.
    pub label: String,
    /// The edited member of `params`, `arguments`; `None` if all of them are edited.
    pub member: Option<&'static str>,
    /// The recorded `params`.
    pub params: String,
    /// The tool's `inputSchema`, if the session listed it.
    pub schema: Option<String>,
    /// The MCP revision of the session: it determines how a schema is read.
    pub revision: String,
}
