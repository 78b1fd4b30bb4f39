//! A session as lines for people.
//!
//! ```text
//!    4  0.013400 →  tools/call   get_weather city=Quito              id 3                   #31
//!    8  0.251300 ←  tools/call   get_weather  tool error             id 3    238 ms  ✗      #52
//! ```

use super::latencies::Latencies;
use super::notes;
use super::outcome::{self, Look, look};
use super::paint::{Paint, Tone};
use super::parties::{self, process_name};
use super::safe::{self, Align};
use super::secrets;
use super::stderr_fold::Folded;
use super::text::about;
use super::units::{count, duration, percent, relative};
use crate::capture::pipe::Exit;
use crate::capture::{PacketNumber, Time};
use crate::decode::Direction;
use crate::decode::jsonrpc::Kind;
use crate::findings::{Finding, Severity};
use crate::mcp::content::{self, Status};
use crate::mcp::link::{Link, Why};
use crate::mcp::note::NoteKind;
use crate::mcp::{Message, Note, Outcomes, Party, Peers, Session};

/// Formats sessions, messages and findings as lines.
#[derive(Clone, Copy, Debug)]
pub struct LineFormatter {
    /// Colour, or none.
    pub paint: Paint,
    /// Columns of the terminal. Without a terminal, [`LineFormatter::WIDTH`].
    pub width: usize,
    /// Time zero: the time of the first message or session shown.
    pub start: Option<Time>,
    /// Whether each line names the session, because several are interleaved.
    pub sessions: bool,
}

impl LineFormatter {
    /// Columns without a terminal: enough for a call and its packets.
    pub const WIDTH: usize = 120;

    /// A session in one line. Facts that are unknown so far are left out.
    pub fn session(&self, session: &Session) -> String {
        let paint = self.paint;
        let party = |party: &Option<Party>, unknown: &str| match party {
            Some(party) => safe::visible(format!("{} {}", party.name, party.version).trim()).into_owned(),
            None => unknown.to_owned(),
        };
        let parties = (session.client.is_some() || session.server.is_some()).then(|| {
            let client = paint.paint(Tone::Client, &party(&session.client, "client"));
            let server = paint.paint(Tone::Server, &party(&session.server, "server"));
            format!("{client} {} {server}", paint.paint(Tone::Dim, "→"))
        });
        let place = match &session.peers {
            Peers::Network { client, server, host: Some(host) } => {
                format!("{} ({})", safe::visible(host), parties::place(*client, *server))
            }
            Peers::Network { client, server, host: None } => parties::place(*client, *server),
            Peers::Process { process, command } => {
                format!("{}  {}", process_name(*process), safe::fit(&command.join(" "), 48).trim_end())
            }
        };
        let id = session.session_id.as_deref().map(|id| format!("id {}", shortened(&safe::visible(id))));
        let failure = session.exit.filter(|exit| exit.code != Some(0)).map(|exit| match exit {
            Exit { signal: Some(signal), .. } => format!("died of signal {signal}"),
            Exit { code, .. } => format!("ended with status {}", code.unwrap_or_default()),
        });
        let parts = [
            Some(paint.paint(Tone::Strong, &format!("session {}", session.number.0))),
            Some(session.transport.name().to_owned()),
            session.protocol_version.as_deref().map(|version| safe::visible(version).into_owned()),
            parties,
            session.name.as_deref().map(|name| safe::visible(name).into_owned()),
            Some(place),
            id.map(|id| paint.paint(Tone::Dim, &id)),
            failure.map(|failure| paint.paint(Tone::Error, &failure)),
        ];
        parts.into_iter().flatten().collect::<Vec<String>>().join("  ")
    }

    /// A message in one line.
    pub fn message(&self, message: &Message) -> String {
        let paint = self.paint;
        let (arrow, side) = arrow(message.direction, message.kind);
        let look = look(content::status(message));
        let tone = method_tone(message.kind, look);
        let method = safe::visible(method(message));
        let session = if self.sessions { format!("{:>3} ", message.session.0) } else { String::new() };
        let id = message.id.as_deref().map(|id| format!("id {}", safe::visible(id))).unwrap_or_default();
        let latency = message.latency.map(duration).unwrap_or_default();
        let mark = match (!look.mark.is_empty(), message.findings.is_empty()) {
            (true, _) => look.mark,
            (false, false) => "!",
            (false, true) if message.redelivered => "↻",
            (false, true) => "",
        };
        // Columns: number 6, time 11, arrow 1, method 25, id 14, latency 9, mark 1, and
        // the blanks between.
        let left = 6 + 2 + 11 + 1 + session.len() + 1 + 2 + 25 + 1;
        let right = 1 + 14 + 1 + 9 + 2 + 1 + 2;
        let packets = packets(&message.packets);
        let room = self.width.saturating_sub(left + right + packets.chars().count().max(8)).clamp(16, 60);
        let rules = if message.findings.is_empty() {
            String::new()
        } else {
            format!("  {}", paint.paint(Tone::Warning, &message.findings.join(" ")))
        };
        let line = format!(
            "{:>6}  {:>11} {session}{}  {} {} {} {:>9}  {}  {}{rules}",
            message.number.0,
            relative(message.time, self.start.unwrap_or(message.time)),
            paint.paint(side, arrow),
            paint.paint(tone, &safe::pad(&method, 25, Align::Left)),
            paint.paint(
                look.about.unwrap_or(Tone::Plain),
                &safe::pad(&part_of(message.link.as_ref(), about(message)), room, Align::Left)
            ),
            paint.paint(Tone::Dim, &safe::pad(&id, 14, Align::Left)),
            latency,
            paint.paint(look.about.unwrap_or(Tone::Warning), &format!("{mark:<1}")),
            paint.paint(Tone::Dim, &packets),
        );
        line.trim_end().to_owned()
    }

    /// A part of a folded run of notes in one line.
    pub fn folded(&self, part: &Folded) -> String {
        match part {
            Folded::Line(note) => self.note(note),
            Folded::Omitted(lines) => {
                let text = format!("{:>19} ┊  … {} of stderr", "", count(*lines, "more line"));
                self.paint.paint(Tone::Dim, &text)
            }
        }
    }

    /// A note in one line. It stands between the messages.
    pub fn note(&self, note: &Note) -> String {
        let paint = self.paint;
        let words = notes::words(&note.kind);
        let session = match note.session {
            Some(session) if self.sessions => format!("{:>3} ", session.0),
            _ if self.sessions => "    ".to_owned(),
            _ => String::new(),
        };
        let packets = packets(&note.packets);
        let is_stderr = matches!(note.kind, NoteKind::Stderr { .. });
        // Columns: number 6, time 11, sign 1, what, and the blanks between.
        let left = 6 + 2 + 11 + 1 + session.len() + 1 + 2;
        let right = if is_stderr { 0 } else { words.messages.chars().count() + packets.chars().count() + 4 };
        let what = safe::pad(&words.what, if is_stderr { 6 } else { 25 }, Align::Left);
        let about = secrets::shown(&words.about);
        let room = self.width.saturating_sub(left + what.chars().count() + 1 + right).max(40);
        let about = if self.width == LineFormatter::WIDTH && is_stderr {
            about.into_owned()
        } else {
            safe::fit(&about, room).trim_end().to_owned()
        };
        let line = format!(
            "{:>6}  {:>11} {session}{}  {} {}  {}  {}",
            "",
            relative(note.time, self.start.unwrap_or(note.time)),
            paint.paint(words.tone, words.sign),
            paint.paint(words.tone, &what),
            paint.paint(if words.tone == Tone::Error { Tone::Error } else { Tone::Plain }, &about),
            paint.paint(Tone::Dim, &words.messages),
            paint.paint(Tone::Dim, &packets),
        );
        line.trim_end().to_owned()
    }

    /// A finding in one line.
    pub fn finding(&self, finding: &Finding) -> String {
        let packets = packets(&finding.packets);
        let gap = if packets.is_empty() { "" } else { "  " };
        format!(
            "        {} {}: {}{gap}{}",
            self.paint.paint(finding.severity.into(), &format!("! {}", finding.rule.severity.name())),
            finding.rule.id,
            safe::visible(&finding.text),
            self.paint.paint(Tone::Dim, &packets),
        )
    }
}

/// An arrow in the direction of a message, and the tone of its sender.
pub fn arrow(direction: Direction, kind: Kind) -> (&'static str, Tone) {
    match (direction, kind) {
        (Direction::ClientToServer, Kind::Notification) => ("⇢", Tone::Client),
        (Direction::ClientToServer, _) => ("→", Tone::Client),
        (Direction::ServerToClient, Kind::Notification) => ("⇠", Tone::Server),
        (Direction::ServerToClient, _) => ("←", Tone::Server),
    }
}

/// The tone of the method: requests stand out, notifications are dim.
pub fn method_tone(kind: Kind, look: Look) -> Tone {
    match kind {
        _ if let Some(tone) = look.method => tone,
        Kind::Invalid => Tone::Warning,
        Kind::Request => Tone::Strong,
        Kind::Notification => Tone::Dim,
        Kind::Response | Kind::Error => Tone::Plain,
    }
}

/// The method of a message, as transmitted, or a text in its place.
pub fn method(message: &Message) -> &str {
    match (&message.method, message.kind) {
        (Some(method), _) => method,
        (None, Kind::Invalid) => "no message",
        (None, _) => "(answers no request seen)",
    }
}

/// Packets in the form for people: `#18 #19`, or `#18 … #44 (27 packets)`.
pub fn packets(packets: &[PacketNumber]) -> String {
    match packets {
        [] => String::new(),
        [one] => format!("#{one}"),
        [one, two] => format!("#{one} #{two}"),
        [one, two, three] => format!("#{one} #{two} #{three}"),
        [first, .., last] => format!("#{first} … #{last} ({} packets)", packets.len()),
    }
}

/// The summary of a message behind the operation that it continues: `↳12 next page  from c2`. A
/// response gets none, as it follows its request.
pub fn part_of(link: Option<&Link>, about: String) -> String {
    match link {
        Some(Link { operation, why, .. }) if *why != Why::Answer => {
            format!("↳{} {}  {about}", operation.0, why.word()).trim_end().to_owned()
        }
        _ => about,
    }
}

/// The beginning and end of a long id.
fn shortened(id: &str) -> String {
    /// Columns of an id that is shown whole, and of one that is not.
    const WHOLE: usize = 13;
    const CUT: usize = 9;
    if safe::width(id) <= WHOLE { id.to_owned() } else { safe::fit_middle(id, CUT) }
}

/// The totals of some sessions, for the last line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Totals {
    /// The number of sessions.
    pub sessions: u64,
    /// The number of messages.
    pub messages: u64,
    /// The requests of the clients by their outcome.
    pub outcomes: Outcomes,
    /// Negative results: their data reports a "no", although the tool did its work.
    pub negatives: u64,
    /// Latencies of responses.
    latencies: Latencies,
    /// Bytes that were captured, and bytes that were sent.
    pub bytes: (u64, u64),
    /// Findings by severity: info, warning, error.
    pub findings: [u64; 3],
}

impl Totals {
    /// Adds a message.
    pub fn message(&mut self, message: &Message) {
        self.messages += 1;
        self.negatives += u64::from(content::status(message) == Some(Status::Negative));
        if let Some(latency) = message.latency {
            self.latencies.add(latency);
        }
    }

    /// Adds a session by its last record.
    pub fn session(&mut self, session: &Session) {
        self.sessions += 1;
        self.outcomes.add(&session.outcomes);
        self.bytes.0 = self.bytes.0.saturating_add(session.bytes.0);
        self.bytes.1 = self.bytes.1.saturating_add(session.bytes.1);
    }

    /// Adds findings of one severity.
    pub fn finding(&mut self, severity: Severity, count: u64) {
        let so_far = &mut self.findings[severity as usize];
        *so_far = so_far.saturating_add(count);
    }

    /// The totals as a line.
    pub fn line(&mut self, paint: Paint) -> String {
        let mut percentile = |percent| self.latencies.percentile(percent).map(duration);
        let latency = match (percentile(50), percentile(95)) {
            (Some(p50), Some(p95)) => format!(" · p50 {p50} p95 {p95}"),
            _ => String::new(),
        };
        let (seen, sent) = self.bytes;
        let complete = percent(if sent == 0 { 1.0 } else { seen as f64 / sent as f64 });
        let findings = self.findings.iter().fold(0u64, |sum, number| sum.saturating_add(*number));
        let errors = match self.findings[Severity::Error as usize] {
            0 => String::new(),
            errors => format!(" ({})", count(errors, "error")),
        };
        let text = format!(
            "{} · {} · {}{latency} · complete {complete} · {}{errors}",
            count(self.sessions, "session"),
            count(self.messages, "message"),
            outcome::calls(&self.outcomes, self.negatives, false),
            count(findings, "finding"),
        );
        paint.paint(Tone::Strong, &text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_messages;

    /// The numbers of a damaged database can be at the end of their range.
    #[test]
    fn totals_of_damaged_sessions_do_not_overflow() {
        let mut session =
            test_messages::session(&test_messages::read(r#"-> {"jsonrpc":"2.0","id":1,"method":"ping"}"#));
        session.bytes = (u64::MAX, u64::MAX);
        let mut totals = Totals::default();
        (0..2).for_each(|_| totals.session(&session));
        (0..2).for_each(|_| totals.finding(Severity::Error, u64::MAX));
        totals.finding(Severity::Info, 1);
        let line = totals.line(Paint { on: false });
        assert!(line.starts_with("2 sessions") && line.contains("18446744073709551615 findings"), "{line}");
    }
}
