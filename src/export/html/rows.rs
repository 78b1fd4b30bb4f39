//! What the page says about a session, as JSON: its facts, its timeline, its exchanges and its
//! findings. The names of the members are those that the scripts in `page/` read.

use std::collections::BTreeMap;

use anyhow::Result;
use serde::Serialize;

use super::super::json::text::write_time;
use crate::capture::Time;
use crate::decode::exchange::{Exchange, Fields};
use crate::findings;
use crate::mcp::note::NoteKind;
use crate::mcp::{Message, Note, Peers, Session, content};
use crate::store::{FindingRow, StoreReader};
use crate::view::explain::{self, Cause};
use crate::view::overview::{self, SummaryRow};
use crate::view::paint::{Paint, Tone};
use crate::view::stderr_fold::Folded;
use crate::view::times::Times;
use crate::view::transcript::{self, LineFormatter};
use crate::view::{notes, outcome, parties, secrets, units};

/// The facts of a session.
#[derive(Serialize)]
pub(super) struct SessionFacts {
    pub(super) title: String,
    line: String,
    /// Nanoseconds from its first to its last packet.
    length: i64,
    facts: Vec<(&'static str, String)>,
    summary: Vec<SummaryLine>,
    pub(super) explanation: ExplanationText,
}

#[derive(Serialize)]
struct SummaryLine {
    depth: usize,
    name: String,
    value: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<u64>,
}

/// An explanation in sentences, with secrets masked.
#[derive(Serialize)]
pub(super) struct ExplanationText {
    pub(super) causes: Vec<CauseText>,
    also: Vec<String>,
    checked: Vec<String>,
}

#[derive(Serialize)]
pub(super) struct CauseText {
    pub(super) sentence: String,
    evidence: Vec<EvidenceText>,
    advice: String,
    message: Option<u64>,
}

#[derive(Serialize)]
struct EvidenceText {
    place: String,
    at: Option<i64>,
    text: String,
}

impl SessionFacts {
    /// Reads the facts of a session.
    pub(super) fn read(reader: &StoreReader, session: &Session) -> Result<SessionFacts> {
        let summary = overview::read(reader, session)?.lines(session);
        let summary = summary.into_iter().chain(Times::read(reader, session)?.lines());
        let line = |row: SummaryRow| SummaryLine {
            depth: row.depth,
            name: row.name,
            value: row.value,
            message: row.message.map(|message| message.0),
        };
        let format =
            LineFormatter { paint: Paint { on: false }, width: LineFormatter::WIDTH, start: None, sessions: false };
        Ok(SessionFacts {
            title: parties::server(session),
            line: format.session(session),
            length: session.ended.since(session.started),
            facts: facts_of(session),
            summary: summary.map(line).collect(),
            explanation: ExplanationText::read(reader, session)?,
        })
    }
}

impl ExplanationText {
    fn read(reader: &StoreReader, session: &Session) -> Result<ExplanationText> {
        let masked = |text: &str| secrets::masked_text(text).into_owned();
        let cause = |cause: Cause| CauseText {
            sentence: masked(&cause.sentence),
            evidence: cause
                .evidence
                .iter()
                .map(|evidence| EvidenceText {
                    place: evidence.place.clone(),
                    at: evidence.time.map(|time| time.since(session.started)),
                    text: masked(&evidence.text),
                })
                .collect(),
            advice: masked(&cause.advice),
            message: cause.message.map(|message| message.0),
        };
        let explanation = explain::explain(reader, session, None)?;
        Ok(ExplanationText {
            causes: explanation.causes.into_iter().map(cause).collect(),
            also: explanation.also.iter().map(|text| masked(text)).collect(),
            checked: explanation.checked,
        })
    }
}

/// The main facts about a session, as names and values.
fn facts_of(session: &Session) -> Vec<(&'static str, String)> {
    let unknown = || "unknown".to_owned();
    let (place, at) = match &session.peers {
        Peers::Network { client, server, host } => {
            let host = host.as_deref().map(|host| format!("{host} ")).unwrap_or_default();
            ("between", format!("{client} and {host}{server}"))
        }
        Peers::Process { process, command } => ("command", format!("{} (process {process})", command.join(" "))),
    };
    let mut facts = vec![
        ("client", parties::party(&session.client).unwrap_or_else(unknown)),
        ("server", parties::party(&session.server).unwrap_or_else(unknown)),
        ("transport", session.transport.name().to_owned()),
        ("revision", session.protocol_version.clone().unwrap_or_else(unknown)),
        (place, at),
        ("began", moment(session.started)),
        ("lasted", units::duration(session.ended.since(session.started))),
        ("messages", session.messages.to_string()),
        ("calls", outcome::calls(&session.outcomes, 0, false)),
        ("captured", format!("{} of its bytes", units::percent(session.completeness()))),
    ];
    facts.extend(session.session_id.iter().map(|id| ("session id", id.clone())));
    facts
}

/// A time in the form `2026-11-21 01:55:46.342 UTC`.
fn moment(time: Time) -> String {
    let mut text = Vec::new();
    write_time(&mut text, time);
    let text = String::from_utf8_lossy(&text);
    format!("{} {} UTC", &text[..10], &text[11..23])
}

/// A row of the timeline.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Row {
    Message(Box<MessageRow>),
    Note(NoteRow),
}

#[derive(Serialize)]
pub(super) struct MessageRow {
    number: u64,
    /// Nanoseconds since the start of the session.
    at: i64,
    from: &'static str,
    arrow: &'static str,
    kind: &'static str,
    method: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<String>,
    about: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    took: Option<i64>,
    /// The request that it answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    answers: Option<u64>,
    /// The request, or the response.
    #[serde(skip_serializing_if = "Option::is_none")]
    partner: Option<u64>,
    outcome: &'static str,
    mark: &'static str,
    rules: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exchange: Option<u64>,
    packets: String,
    carrier: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<String>,
    redelivered: bool,
}

#[derive(Serialize)]
pub(super) struct NoteRow {
    at: Option<i64>,
    sign: &'static str,
    tone: &'static str,
    what: String,
    about: String,
    messages: String,
    /// The request that stayed without a response.
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<u64>,
}

impl Row {
    /// The row of a message. `about` is its content in a few words.
    pub(super) fn of_message(message: &Message, about: String, start: Time) -> Row {
        let (arrow, side) = transcript::arrow(message.direction, message.kind);
        let look = outcome::look(content::status(message));
        let text = |text: &str| text.to_owned();
        Row::Message(Box::new(MessageRow {
            number: message.number.0,
            at: message.time.since(start),
            from: if side == Tone::Client { "client" } else { "server" },
            arrow,
            kind: message.kind.name(),
            method: text(transcript::method(message)),
            tool: message.tool.as_deref().map(text),
            about,
            id: message.id.as_deref().map(text),
            took: message.latency,
            answers: message.answers.map(|request| request.0),
            partner: message.answers.or(message.answered_by).map(|partner| partner.0),
            outcome: look.word,
            mark: look.mark,
            rules: message.findings.iter().map(|rule| rule.to_string()).collect(),
            exchange: message.exchange.map(|exchange| exchange.0),
            packets: transcript::packets(&message.packets),
            carrier: message.carrier.name(),
            line: message.line,
            event: message.sse_id.as_ref().map(|id| id.to_string()),
            redelivered: message.redelivered,
        }))
    }

    /// The row of a note, or of lines of stderr that are left out.
    pub(super) fn of_note(part: &Folded, start: Time) -> Row {
        Row::Note(match part {
            Folded::Line(note) => note_row(note, start),
            Folded::Omitted(lines) => NoteRow {
                at: None,
                sign: "┊",
                tone: "dim",
                what: "stderr".to_owned(),
                about: format!("… {}", units::count(*lines, "more line")),
                messages: String::new(),
                request: None,
            },
        })
    }
}

fn note_row(note: &Note, start: Time) -> NoteRow {
    let words = notes::words(&note.kind);
    let messages = [words.messages, transcript::packets(&note.packets)].join(" ");
    NoteRow {
        at: Some(note.time.since(start)),
        sign: words.sign,
        tone: match words.tone {
            Tone::Error => "error",
            Tone::Warning => "warning",
            _ => "dim",
        },
        what: words.what,
        about: secrets::shown(&words.about).into_owned(),
        messages: messages.trim().to_owned(),
        request: match note.kind {
            NoteKind::Unanswered { request, .. } => Some(request.0),
            _ => None,
        },
    }
}

/// An HTTP exchange.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ExchangeText {
    number: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<i64>,
    /// Nanoseconds after its start: the end of the request, the start and the end of the response.
    #[serde(skip_serializing_if = "Option::is_none")]
    asked: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    answered: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    took: Option<i64>,
    version: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    explanation: Option<String>,
    sent: u64,
    received: u64,
    request: Vec<(String, String)>,
    response: Vec<(String, String)>,
    request_packets: String,
    response_packets: String,
    request_complete: bool,
    response_complete: bool,
}

impl ExchangeText {
    /// An exchange of a session that began at `start`.
    pub(super) fn new(exchange: Exchange, start: Time) -> ExchangeText {
        let Exchange { request, response, .. } = &exchange;
        let started = request.started.or(response.started);
        let after = |time: Option<Time>| started.zip(time).map(|(from, to)| to.since(from));
        let fields = |fields: &Fields| fields.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        ExchangeText {
            number: exchange.number.0,
            at: started.map(|time| time.since(start)),
            asked: after(request.ended),
            answered: after(response.started),
            took: after(response.ended),
            version: exchange.http_version,
            sent: request.body_bytes,
            received: response.body_bytes,
            request: fields(&request.fields),
            response: fields(&response.fields),
            request_packets: transcript::packets(&request.packets),
            response_packets: transcript::packets(&response.packets),
            request_complete: request.complete,
            response_complete: response.complete,
            method: exchange.method,
            target: exchange.target,
            status: exchange.status,
            reason: exchange.reason,
            explanation: exchange.explanation,
        }
    }
}

/// A finding. The first of a rule brings the manual of the rule.
#[derive(Serialize)]
pub(super) struct FindingText {
    rule: String,
    severity: &'static str,
    level: u8,
    text: String,
    messages: Vec<u64>,
    packets: String,
    repeated: u64,
    spec: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    manual: Option<BTreeMap<&'static str, &'static str>>,
}

impl FindingText {
    /// A finding. `is_first`: no finding of its rule came before.
    pub(super) fn new(row: FindingRow, is_first: bool) -> FindingText {
        let manual = findings::rule(&row.rule).filter(|_| is_first);
        FindingText {
            severity: row.severity.name(),
            level: row.severity as u8,
            text: row.text,
            messages: row.messages.iter().map(|message| message.0).collect(),
            packets: transcript::packets(&row.packets),
            repeated: row.repeated,
            spec: row.spec,
            manual: manual.map(|rule| BTreeMap::from([("why", rule.why), ("remedy", rule.remedy)])),
            rule: row.rule,
        }
    }
}
