//! An HTML page that shows sessions in a browser: the parties, every message with its text, the
//! findings, and the exchanges.
//!
//! The page is one file that fetches nothing and runs nothing: its content security policy allows
//! only its own style. Text from the network is written through [`Escaped`] alone, so that it
//! cannot become markup.

mod escaped;
mod note;

use std::io::{self, Write};
use std::iter;

use anyhow::Result;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::digest;

use super::json::text::write_time;
use crate::capture::Time;
use crate::decode::exchange::Exchange;
use crate::findings::{self, Severity};
use crate::mcp::{Message, MessageNumber, Peers, Session, SessionNumber, content};
use crate::store::{FindingRow, Scope, StoreReader};
use crate::view::outcome;
use crate::view::outcome::look;
use crate::view::overview::{self, SummaryRow};
use crate::view::paint::Tone;
use crate::view::text::about;
use crate::view::times::Times;
use crate::view::transcript::{self, part_of};
use crate::view::{json_tree, parties, units};

use escaped::Escaped;

/// Number of messages that a browser shows without a noticeable pause.
pub const SHOWN: u64 = 20_000;

/// Bytes of a message's text that are shown. A page with many longer texts would be too much
/// for a browser.
const TEXT: usize = 64 << 10;

/// Number of findings up to which the list is unfolded.
const UNFOLDED: u64 = 20;

/// The width of a latency bar in units of its SVG.
const BAR: f64 = 60.0;

/// The only style that the page's policy allows.
const STYLE: &str = include_str!("html/style.css");

/// Writes a page.
pub struct Html<'a> {
    out: &'a mut dyn Write,
    reader: &'a StoreReader,
    /// Whether only some messages are on the page, so that links to messages may lead nowhere.
    is_filtered: bool,
    start: Time,
}

impl<'a> Html<'a> {
    /// Begins a page for these sessions. `filter` is the text of the filter that selects the
    /// messages on it.
    ///
    /// # Errors
    /// The output fails. The same holds for the functions below.
    pub fn new(
        reader: &'a StoreReader,
        out: &'a mut dyn Write,
        sessions: &[Session],
        filter: Option<&str>,
    ) -> io::Result<Html<'a>> {
        let title = match sessions {
            [one] => format!("Session {}: {}", one.number.0, parties::server(one)),
            some => units::count(some.len() as u64, "session"),
        };
        // The policy allows the style by its hash, so that injected markup cannot add another one.
        let hash = STANDARD.encode(digest::digest(&digest::SHA256, STYLE.as_bytes()));
        writeln!(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">")?;
        writeln!(
            out,
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'\">"
        )?;
        writeln!(out, "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">")?;
        writeln!(out, "<meta name=\"referrer\" content=\"no-referrer\">")?;
        writeln!(out, "<title>{} - mcptap</title>\n<style>{STYLE}</style>\n</head>\n<body>", Escaped(&title))?;
        writeln!(out, "<header><h1>{}</h1>", Escaped(&title))?;
        if let Some(filter) = filter {
            writeln!(out, "<p class=\"dim\">only messages that match <code>{}</code></p>", Escaped(filter))?;
        }
        if sessions.len() > 1 {
            writeln!(out, "<nav><ul>")?;
            for session in sessions {
                let (number, server) = (session.number.0, parties::server(session));
                let messages = units::count(session.messages, "message");
                writeln!(
                    out,
                    "<li><a href=\"#s{number}\">Session {number}</a> {} <span class=\"dim\">{messages}</span></li>",
                    Escaped(&server)
                )?;
            }
            writeln!(out, "</ul></nav>")?;
        }
        writeln!(out, "</header>")?;
        Ok(Html { out, reader, is_filtered: filter.is_some(), start: Time::default() })
    }

    /// Ends the page.
    pub fn finish(self) -> io::Result<()> {
        writeln!(
            self.out,
            "<footer class=\"dim\">written by mcptap {}</footer>\n</body>\n</html>",
            env!("CARGO_PKG_VERSION")
        )
    }

    /// Begins a session with its facts and findings. Its messages follow, then
    /// [`Html::end_session`].
    ///
    /// # Errors
    /// The output fails, or the store cannot be read.
    pub fn session(&mut self, session: &Session) -> Result<()> {
        let overview = overview::read(self.reader, session)?;
        let times = Times::read(self.reader, session)?;
        self.start = session.started;
        let number = session.number.0;
        writeln!(self.out, "<section id=\"s{number}\">\n<h2>Session {number}</h2>\n<dl>")?;
        for (name, value) in facts_of(session) {
            writeln!(self.out, "<div><dt>{name}</dt><dd>{}</dd></div>", Escaped(&value))?;
        }
        writeln!(self.out, "</dl>\n<details class=\"more\"><summary>Summary</summary>\n<table>")?;
        for line in overview.lines(session).into_iter().chain(times.lines()) {
            self.line(session.number, &line)?;
        }
        writeln!(self.out, "</table>\n</details>")?;
        self.findings(session)?;
        Ok(writeln!(self.out, "<h3>Messages</h3>\n<div class=\"timeline\">")?)
    }

    /// Writes a row of the summary.
    fn line(&mut self, session: SessionNumber, line: &SummaryRow) -> io::Result<()> {
        let class = if line.depth == 0 { " class=\"head\"" } else { "" };
        write!(self.out, "<tr{class}><th>{}</th><td>{}", Escaped(&line.name), Escaped(&line.value))?;
        self.links(session, line.message.as_slice())?;
        writeln!(self.out, "</td></tr>")
    }

    /// Writes the number of a message as a link to it.
    fn link(&mut self, session: SessionNumber, message: MessageNumber) -> io::Result<()> {
        match (self.is_filtered, session.0, message.0) {
            (true, _, number) => write!(self.out, "{number}"),
            (false, session, number) => write!(self.out, "<a href=\"#m{session}-{number}\">{number}</a>"),
        }
    }

    /// Writes links to several messages.
    fn links(&mut self, session: SessionNumber, messages: &[MessageNumber]) -> io::Result<()> {
        for (message, before) in messages.iter().zip(iter::once(" · message ").chain(iter::repeat(", "))) {
            write!(self.out, "{before}")?;
            self.link(session, *message)?;
        }
        Ok(())
    }

    /// Writes the findings. The list is folded if it is long.
    fn findings(&mut self, session: &Session) -> Result<()> {
        let scope = Scope::Session(session.number);
        let counts = self.reader.finding_counts(scope)?;
        let all: u64 = counts.iter().map(|(_, count)| count).sum();
        if all == 0 {
            return Ok(writeln!(self.out, "<p class=\"dim\">No rule was broken.</p>")?);
        }
        let counted = counts.iter().rev().map(|(severity, count)| match severity {
            Severity::Info => format!("{count} info"),
            Severity::Warning | Severity::Error => units::count(*count, severity.name()),
        });
        let open = if all <= UNFOLDED { " open" } else { "" };
        let counted = counted.collect::<Vec<_>>().join(", ");
        writeln!(self.out, "<details class=\"findings\"{open}><summary><h3>Findings: {counted}</h3></summary>")?;
        for row in self.reader.all_findings(scope) {
            self.finding(session.number, &row?)?;
        }
        Ok(writeln!(self.out, "</details>")?)
    }

    /// Writes a finding with the manual of its rule.
    fn finding(&mut self, session: SessionNumber, row: &FindingRow) -> io::Result<()> {
        let severity = row.severity.name();
        write!(
            self.out,
            "<details class=\"{severity}\"><summary><b>{severity}</b> <code>{}</code> {}",
            Escaped(&row.rule),
            Escaped(&row.text)
        )?;
        self.links(session, &row.messages)?;
        let packets = transcript::packets(&row.packets);
        let repeated = if row.repeated > 1 { format!("{} times", row.repeated) } else { String::new() };
        writeln!(self.out, " <span class=\"dim\">{packets} {repeated}</span></summary>")?;
        if let Some(rule) = findings::rule(&row.rule) {
            writeln!(self.out, "<p>{}</p>\n<p>{}</p>", Escaped(rule.why), Escaped(rule.remedy))?;
        }
        writeln!(self.out, "<p class=\"dim\">{}</p></details>", Escaped(&row.spec))
    }

    /// Writes a message: one line, which unfolds to its text.
    ///
    /// # Errors
    /// The output fails.
    pub fn message(&mut self, message: &Message) -> io::Result<()> {
        write_message(self.out, message, self.start)?;
        let details = [
            Some(message.carrier.name().to_owned()),
            Some(units::size(message.raw.len() as u64)),
            Some(transcript::packets(&message.packets)).filter(|packets| !packets.is_empty()),
            message.sse_id.as_ref().map(|id| format!("event id {id}")),
            message.line.map(|line| format!("line {line}")),
        ];
        let details: Vec<String> = details.into_iter().flatten().collect();
        write!(self.out, "<p class=\"dim\">{}", Escaped(&details.join(" · ")))?;
        if let Some(exchange) = message.exchange {
            write!(self.out, " · <a href=\"#x{}-{1}\">exchange {1}</a>", message.session.0, exchange.0)?;
        }
        for (words, partner) in [("answers", message.answers), ("answered by", message.answered_by)] {
            if let Some(partner) = partner {
                write!(self.out, " · {words} ")?;
                self.link(message.session, partner)?;
            }
        }
        writeln!(self.out, "</p>")?;
        write_text(self.out, message)?;
        writeln!(self.out, "</div></details>")
    }

    /// Ends a session with its HTTP exchanges.
    ///
    /// # Errors
    /// The output fails, or the store cannot be read.
    pub fn end_session(&mut self, session: &Session) -> Result<()> {
        writeln!(self.out, "</div>")?;
        let mut is_first = true;
        for exchange in self.reader.all_exchanges(session.number) {
            if std::mem::take(&mut is_first) {
                writeln!(self.out, "<h3>HTTP exchanges</h3>\n<div class=\"wide\"><table>")?;
                writeln!(
                    self.out,
                    "<tr class=\"head\"><th>#</th><th>at</th><th>request</th><th>status</th><th>sent</th><th>received</th><th>took</th></tr>"
                )?;
            }
            self.exchange(session, &exchange?)?;
        }
        if !is_first {
            writeln!(self.out, "</table></div>")?;
        }
        Ok(writeln!(self.out, "</section>")?)
    }

    fn exchange(&mut self, session: &Session, exchange: &Exchange) -> io::Result<()> {
        let Exchange { request, response, .. } = exchange;
        let started = request.started.or(response.started);
        let at = started.map(|time| units::relative(time, session.started)).unwrap_or_default();
        let took = started.zip(response.ended).map(|(from, to)| units::duration(to.since(from))).unwrap_or_default();
        let words = [exchange.method.as_deref(), exchange.target.as_deref()];
        let request_line = words.map(|word| word.unwrap_or("?")).join(" ");
        let status = match (exchange.status, &exchange.reason) {
            (Some(status), Some(reason)) => format!("{status} {reason}"),
            (Some(status), None) => status.to_string(),
            (None, _) => "no response".to_owned(),
        };
        let incomplete =
            if request.complete && response.complete { "" } else { " <span class=\"warning\">incomplete</span>" };
        writeln!(
            self.out,
            "<tr id=\"x{}-{number}\"><td>{number}</td><td>{at}</td><td><code>{}</code></td><td>{}{incomplete}</td><td>{}</td><td>{}</td><td>{took}</td></tr>",
            session.number.0,
            Escaped(&request_line),
            Escaped(&status),
            units::size(request.body_bytes),
            units::size(response.body_bytes),
            number = exchange.number.0,
        )
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
        Peers::Process { process, command, .. } => ("command", format!("{} (process {process})", command.join(" "))),
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

/// Begins a message with its line. The caller writes its text and ends it.
fn write_message(out: &mut dyn Write, message: &Message, start: Time) -> io::Result<()> {
    let (arrow, side) = transcript::arrow(message);
    let side = if side == Tone::Client { "client" } else { "server" };
    let look = look(content::status(message));
    let outcome = match look.about {
        Some(Tone::Error) => " error",
        Some(_) => " warning",
        None => "",
    };
    let id = message.id.as_deref().map(|id| format!("id {id}")).unwrap_or_default();
    writeln!(out, "<details><summary class=\"{side}{outcome}\"><span class=\"n\">{}</span>", message.number.0)?;
    writeln!(
        out,
        "<span class=\"at\">{}</span><span class=\"arrow\">{arrow}</span>",
        units::relative(message.time, start)
    )?;
    write!(out, "<span class=\"method\">{}</span>", Escaped(transcript::method(message)))?;
    let words = part_of(message.link.as_ref(), about(message));
    write!(out, "<span class=\"about\">{}", Escaped(&words))?;
    for rule in &message.findings {
        write!(out, " <code class=\"warning\">{rule}</code>")?;
    }
    writeln!(out, "</span><span class=\"id\">{}</span>", Escaped(&id))?;
    let latency = message.latency.filter(|_| message.answers.is_some());
    write!(out, "<span class=\"took\">")?;
    if let Some(latency) = latency {
        // The bar covers 0.1 ms to 100 s, with the same width for each decade.
        let width = (((latency.max(1) as f64).log10() - 5.0) / 6.0).clamp(0.0, 1.0) * BAR;
        write!(
            out,
            "{}<svg viewBox=\"0 0 {BAR} 3\"><rect width=\"{width:.0}\" height=\"3\"></rect></svg>",
            units::duration(latency)
        )?;
    }
    let repeated = if message.redelivered { "↻" } else { "" };
    writeln!(out, "</span><span class=\"mark\">{}{repeated}</span></summary>", look.mark)?;
    writeln!(out, "<div class=\"text\" id=\"m{}-{}\">", message.session.0, message.number.0)
}

/// Writes the text of a message, indented if it is JSON.
fn write_text(out: &mut dyn Write, message: &Message) -> io::Result<()> {
    let raw: &[u8] = &message.raw;
    let shown = raw.get(..TEXT).unwrap_or(raw);
    match (shown.len() == raw.len()).then(|| json_tree::shown(raw)).flatten() {
        Some(pretty) => {
            write!(out, "<pre>")?;
            pretty.lines().try_for_each(|line| writeln!(out, "{}", Escaped(line)))?;
        }
        None => write!(out, "<pre>{}", Escaped(&String::from_utf8_lossy(shown)))?,
    }
    writeln!(out, "</pre>")?;
    if shown.len() < raw.len() {
        let more = units::size((raw.len() - shown.len()) as u64);
        writeln!(out, "<p class=\"dim\">and {more} more: mcptap show TARGET --message {}</p>", message.number.0)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
