//! The cause of a symptom: what went wrong in a session, its evidence, and what to do next.
//!
//! ```text
//!  failures, lists, notes, stderr ─┐
//!  findings                       ─┴► Facts ─► causes, the most likely one first ─► Explanation
//! ```
//!
//! Every sentence rests on a note, a message or a finding. What was not recorded is called unknown.

mod causes;
mod client_limits;
mod facts;

use anyhow::Result;

use super::units::count;
use crate::capture::Time;
use crate::mcp::{MessageNumber, Session};
use crate::store::StoreReader;
use facts::Facts;

mcptap_core::words! {
    /// A symptom that a user sees.
    pub enum Symptom {
        /// A tool is never called.
        NeverCalled = "never-called",
        /// A request waits and is not answered.
        Hangs = "hangs",
        /// The server ends.
        Crash = "crash",
        /// The server, or something before it, refuses requests.
        Refused = "refused",
        /// Calls take long.
        Slow = "slow",
        /// Text that is no message is between the messages.
        Noise = "noise",
        /// Calls fail, although the server answers.
        Fails = "fails",
    }
}

/// A place in the recording that supports a cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// The kind of place, and its number: `message 9`, `stderr 3`.
    pub place: String,
    /// The capture time.
    pub time: Option<Time>,
    /// What stands there. It is not yet safe for a terminal.
    pub text: String,
}

/// A cause, in sentences. They are not yet safe for a terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The symptom that the cause explains.
    pub symptom: Symptom,
    /// What happened. The first sentence names the tool, the status or the text of the error.
    pub sentence: String,
    /// Places in the recording, in order.
    pub evidence: Vec<Evidence>,
    /// What to do.
    pub advice: String,
    /// The message to look at.
    pub message: Option<MessageNumber>,
}

/// The explanation of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The causes, the most likely one first. None: no problem was found.
    pub causes: Vec<Cause>,
    /// Counts of everything else that is worth a look.
    pub also: Vec<String>,
    /// What was looked at.
    pub checked: Vec<String>,
}

/// Explains a session. With a symptom only causes of that symptom count.
pub fn explain(reader: &StoreReader, session: &Session, symptom: Option<Symptom>) -> Result<Explanation> {
    let mut facts = Facts::read(reader, session)?;
    if symptom == Some(Symptom::NeverCalled) {
        facts.read_uncalled(reader, session.number)?;
    }
    let all = causes::causes(&facts, symptom);
    let (causes, others): (Vec<Cause>, Vec<Cause>) =
        all.into_iter().partition(|cause| symptom.is_none_or(|symptom| cause.symptom == symptom));
    let mut also: Vec<String> = others.into_iter().map(|cause| cause.sentence).collect();
    let [infos, warnings, errors] = facts.findings_by_severity();
    let findings = [(errors, "error"), (warnings, "warning"), (infos, "info")];
    also.extend(findings.iter().filter(|(number, _)| *number > 0).map(|(number, noun)| count(*number, noun)));
    Ok(Explanation { causes, also, checked: facts.checked() })
}
