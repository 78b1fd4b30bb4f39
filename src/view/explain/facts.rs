//! The facts about a session that causes rest on. Of each kind only the first ones are read, so a
//! long session costs no more than a short one.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use super::client_limits::{self, Refusal};
use crate::capture::Time;
use crate::capture::pipe::Exit;
use crate::decode::json::{Object, array};
use crate::mcp::content::body;
use crate::mcp::note::{Failure, HttpNote, NoteKind, WaitEnd};
use crate::mcp::{Message, MessageNumber, Session, SessionNumber};
use crate::store::{FindingRow, Scope, StderrLine as StoredLine, StoreReader};
use crate::view::text::about;
use crate::view::units::count;

/// The number of facts of a kind that are kept. An explanation has room for three.
const KEPT: usize = 8;

/// The number of responses that describe the server which are looked at.
const LISTS: usize = 1_000;

/// The number of tools of a list that are looked at.
const TOOLS: usize = 1_000;

/// The bytes of a tool's name. Clients allow 64 or 128. A longer one is counted, and not compared
/// with the calls.
const NAME: usize = 256;

/// The names of called tools that are read. A client that calls more does not choose from a list.
const CALLED: usize = 10_000;

/// A request that was not answered.
#[derive(Debug)]
pub(super) struct Wait {
    pub time: Time,
    pub request: MessageNumber,
    pub waited: i64,
    pub end: WaitEnd,
    pub is_certain: bool,
}

/// A line of the server's stderr.
#[derive(Clone, Debug)]
pub(super) struct StderrLine {
    pub time: Time,
    pub line: u64,
    pub text: String,
}

/// A message in the words of a cause.
#[derive(Clone, Debug)]
pub(super) struct Named {
    pub number: MessageNumber,
    pub time: Time,
    /// `tools/call add`, or the method alone.
    pub name: String,
    /// The summary, as in the list of messages.
    pub about: String,
}

impl Named {
    fn of(message: &Message) -> Named {
        let method = message.method.as_deref().unwrap_or("no message");
        let name = match message.tool.as_deref() {
            Some(tool) => format!("{method} {tool}"),
            None => method.to_owned(),
        };
        let about = about(message);
        // The name of the tool stands in `name` already.
        let about = message.tool.as_deref().and_then(|tool| about.strip_prefix(tool)).unwrap_or(&about).trim().into();
        Named { number: message.number, time: message.time, name, about }
    }
}

/// The end of the server.
#[derive(Debug)]
pub(super) struct Ended {
    pub time: Time,
    pub exit: Exit,
    pub pending: Vec<MessageNumber>,
}

/// The facts about a session.
#[derive(Debug, Default)]
pub(super) struct Facts {
    pub messages: u64,
    pub requests: u64,
    /// Requests of the client that concern causes, in words.
    named: BTreeMap<MessageNumber, Named>,
    pub failed: Vec<Named>,
    pub failures: u64,
    pub slowest: Option<(i64, MessageNumber)>,
    /// The last response without an error.
    pub last_success: Option<Time>,
    pub refused: Vec<(Time, HttpNote)>,
    pub redirected: Vec<(Time, HttpNote)>,
    pub broken_connections: Vec<(Time, String, Failure)>,
    pub waits: Vec<Wait>,
    pub unanswered: u64,
    pub stderr: Vec<StderrLine>,
    pub stderr_lines: u64,
    pub ended: Option<Ended>,
    /// The first response to `tools/list`, and the number of tools in all of them.
    pub tool_list: Option<MessageNumber>,
    pub tools: u64,
    listed: BTreeSet<String>,
    /// Listed tools that were never called: the first ones and their number, after
    /// [`Facts::read_uncalled`].
    pub uncalled: Vec<String>,
    pub uncalled_tools: u64,
    /// Tools that known clients refuse and that were not called.
    pub refusals: Vec<(MessageNumber, Refusal)>,
    /// Calls of tools.
    pub calls: u64,
    /// Whether the server declared tools, and the message that says so.
    pub declares_tools: Option<(bool, MessageNumber)>,
    pub findings: Vec<FindingRow>,
    severities: [u64; 3],
}

impl Facts {
    pub(super) fn read(reader: &StoreReader, session: &Session) -> Result<Facts> {
        let number = session.number;
        let slowest = reader.slowest_request(session)?;
        let mut facts = Facts {
            messages: session.messages,
            requests: session.outcomes.requests(),
            slowest: slowest.map(|slowest| (slowest.latency, slowest.request)),
            calls: reader.tool_calls(number)?,
            last_success: reader.last_success(number)?,
            ..Facts::default()
        };
        let failed;
        (facts.failures, failed) = reader.failures(number, KEPT)?;
        facts.failed = failed.iter().map(Named::of).collect();
        for message in reader.listings(number, LISTS)? {
            facts.listing(reader, &message)?;
        }
        for note in reader.all_notes(number) {
            let note = note?.note;
            facts.note(note.time, note.kind);
        }
        if let Some(pipes) = reader.pipes(number)? {
            let lines;
            (facts.stderr_lines, lines) = reader.last_stderr(pipes, KEPT)?;
            let first = facts.stderr_lines.saturating_sub(lines.len() as u64) + 1;
            facts.stderr =
                (first..).zip(lines).map(|(line, StoredLine { time, text })| StderrLine { time, line, text }).collect();
        }
        for finding in reader.all_findings(Scope::Session(session.number)) {
            let finding = finding?;
            let sum = &mut facts.severities[finding.severity as usize];
            *sum = sum.saturating_add(finding.repeated.max(1));
            let same = facts.findings.iter().filter(|kept| kept.rule == finding.rule).count();
            if same < KEPT {
                facts.findings.push(finding);
            }
        }
        // A port that speaks another protocol is a finding about a connection, not about a session.
        if facts.last_success.is_none() {
            facts.findings.extend(reader.unplaced_findings(number, &["http-to-tls-port", "tls-to-http-port"], KEPT)?);
        }
        let wanted: Vec<MessageNumber> = facts.requests_of_causes();
        for number in wanted {
            if let Some(message) = reader.message_of(session.number, number)? {
                facts.named.insert(number, Named::of(&message));
            }
        }
        Ok(facts)
    }

    /// Reads which of the listed tools were never called.
    pub(super) fn read_uncalled(&mut self, reader: &StoreReader, session: SessionNumber) -> Result<()> {
        let called = reader.called_tools(session, CALLED)?;
        if called.len() < CALLED {
            let uncalled: Vec<&String> = self.listed.difference(&called).collect();
            self.uncalled_tools = uncalled.len() as u64;
            self.uncalled = uncalled.into_iter().take(KEPT).cloned().collect();
        }
        Ok(())
    }

    /// Takes a text in which the server describes itself.
    fn listing(&mut self, reader: &StoreReader, message: &Message) -> Result<()> {
        if message.method.as_deref() != Some("tools/list") {
            let has_tools = body(message).object("capabilities").get("tools").is_some();
            self.declares_tools = Some((has_tools, message.number));
            return Ok(());
        }
        self.tool_list.get_or_insert(message.number);
        let tools = body(message);
        let tools = array(tools.get("tools").unwrap_or_default(), TOOLS);
        for tool in &tools {
            let name = Object::read(tool).text("name").filter(|name| name.len() <= NAME);
            let is_new = name.is_none_or(|name| self.listed.len() >= TOOLS || self.listed.insert(name.into_owned()));
            self.tools += u64::from(is_new);
        }
        for refusal in tools.into_iter().filter_map(client_limits::refusal) {
            if self.refusals.len() < KEPT && !reader.was_called(message.session, &refusal.tool)? {
                self.refusals.push((message.number, refusal));
            }
        }
        Ok(())
    }

    fn note(&mut self, time: Time, kind: NoteKind) {
        match kind {
            // They are read from the packets.
            NoteKind::Stderr { .. } => {}
            NoteKind::Ended { exit, pending } => {
                self.ended = Some(Ended { time, exit, pending });
            }
            NoteKind::Refused(http) => keep(&mut self.refused, (time, http)),
            NoteKind::Redirected(http) => keep(&mut self.redirected, (time, http)),
            NoteKind::Unanswered { request, waited, end, is_certain } => {
                self.unanswered += 1;
                keep(&mut self.waits, Wait { time, request, waited, end, is_certain });
            }
            NoteKind::Connection { to, failure, .. } => {
                keep(&mut self.broken_connections, (time, to.to_string(), failure));
            }
        }
    }

    fn requests_of_causes(&self) -> Vec<MessageNumber> {
        let http = self.refused.iter().chain(&self.redirected).filter_map(|(_, http)| http.requests.first());
        let pending = self.ended.iter().flat_map(|ended| ended.pending.iter().take(KEPT));
        let found = self.findings.iter().filter_map(|finding| finding.messages.first());
        let waits = self.waits.iter().map(|wait| &wait.request);
        http.chain(pending).chain(found).chain(waits).chain(self.slowest.iter().map(|(_, at)| at)).copied().collect()
    }

    /// A message in words.
    pub(super) fn named(&self, number: MessageNumber) -> Option<&Named> {
        self.named.get(&number)
    }

    /// The findings of a rule.
    pub(super) fn of_rule<'a>(&'a self, rules: &'a [&str]) -> impl Iterator<Item = &'a FindingRow> {
        self.findings.iter().filter(|finding| rules.contains(&&*finding.rule))
    }

    /// Numbers of findings: info, warning, error.
    pub(super) fn findings_by_severity(&self) -> [u64; 3] {
        self.severities
    }

    /// What was looked at, for a session without a problem.
    pub(super) fn checked(&self) -> Vec<String> {
        vec![
            count(self.messages, "message"),
            count(self.requests, "request"),
            format!("{} of stderr", count(self.stderr_lines, "line")),
            "the server's end, HTTP statuses, connections, the rules".to_owned(),
        ]
    }
}

fn keep<T>(list: &mut Vec<T>, item: T) {
    if list.len() < KEPT {
        list.push(item);
    }
}
