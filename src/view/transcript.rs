//! A session as lines for people: the call first, the plumbing second.
//!
//! ```text
//!    4  0.013400 →  tools/call   get_weather city=Quito              id 3                   #31
//!    8  0.251300 ←  tools/call   get_weather  tool error             id 3    238 ms  ✗      #52
//! ```

use super::latencies::Latencies;
use super::outcome::look;
use super::paint::{Paint, Tone};
use super::safe::{self, Align};
use super::text::about;
use super::units::{count, duration, relative};
use crate::capture::pipe::Exit;
use crate::capture::{PacketNumber, Time};
use crate::decode::Direction;
use crate::decode::jsonrpc::Kind;
use crate::findings::{Finding, Severity};
use crate::mcp::content::{self, Status};
use crate::mcp::link::{Link, Why};
use crate::mcp::{Message, Party, Peers, Session};

/// How lines are drawn.
#[derive(Clone, Copy, Debug)]
pub struct Lines {
    /// Colour or none.
    pub paint: Paint,
    /// Columns of the terminal; where there is none, [`Lines::WIDTH`].
    pub width: usize,
    /// Time zero: that of the first thing shown.
    pub start: Option<Time>,
    /// Name the session on each line: several are interleaved.
    pub sessions: bool,
}

impl Lines {
    /// Columns where no terminal says: wide enough for a call and its packets.
    pub const WIDTH: usize = 120;

    /// What a session is, in one line: what is not known (yet) is left out.
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
            Peers::Network { server, host: Some(host), .. } => format!("{} ({server})", safe::visible(host)),
            Peers::Network { server, .. } => server.to_string(),
            Peers::Process { process, command, name } => {
                let command = safe::fit(&command.join(" "), 48);
                let name = name.as_deref().map(|name| format!("{}  ", safe::visible(name))).unwrap_or_default();
                format!("{name}pid {process}  {}", command.trim_end())
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
            Some(place),
            id.map(|id| paint.paint(Tone::Dim, &id)),
            failure.map(|failure| paint.paint(Tone::Error, &failure)),
        ];
        parts.into_iter().flatten().collect::<Vec<String>>().join("  ")
    }

    /// A message in one line.
    pub fn message(&self, message: &Message) -> String {
        let paint = self.paint;
        let (arrow, side) = arrow(message);
        let look = look(content::status(message));
        let tone = match message.kind {
            _ if let Some(tone) = look.method => tone,
            Kind::Invalid => Tone::Warning,
            Kind::Request => Tone::Strong,
            Kind::Notification => Tone::Dim,
            Kind::Response | Kind::Error => Tone::Plain,
        };
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
        // Fixed columns: number 6, time 11, arrow 1, method 25, id 14, latency 9, mark 1, and the blanks between.
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
                &safe::pad(&part_of(message.link.as_ref(), about(message, message.tool.as_deref())), room, Align::Left)
            ),
            paint.paint(Tone::Dim, &safe::pad(&id, 14, Align::Left)),
            latency,
            paint.paint(look.about.unwrap_or(Tone::Warning), &format!("{mark:<1}")),
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

/// Which way a message goes, and the tone of its sender.
pub fn arrow(message: &Message) -> (&'static str, Tone) {
    match (message.direction, message.kind) {
        (Direction::ClientToServer, Kind::Notification) => ("⇢", Tone::Client),
        (Direction::ClientToServer, _) => ("→", Tone::Client),
        (Direction::ServerToClient, Kind::Notification) => ("⇠", Tone::Server),
        (Direction::ServerToClient, _) => ("←", Tone::Server),
    }
}

/// Its method, as transmitted, or what it is without one.
pub fn method(message: &Message) -> &str {
    match (&message.method, message.kind) {
        (Some(method), _) => method,
        (None, Kind::Invalid) => "no message",
        (None, _) => "(answers no request seen)",
    }
}

/// Packets as people name them: `#18 #19`, `#18 … #44 (27 packets)`.
pub fn packets(packets: &[PacketNumber]) -> String {
    match packets {
        [] => String::new(),
        [one] => format!("#{one}"),
        [one, two] => format!("#{one} #{two}"),
        [one, two, three] => format!("#{one} #{two} #{three}"),
        [first, .., last] => format!("#{first} … #{last} ({} packets)", packets.len()),
    }
}

/// What a message is about, behind the operation that it goes on with: `↳12 next page  from c2`. An answer follows its request.
pub fn part_of(link: Option<&Link>, about: String) -> String {
    match link {
        Some(Link { operation, why, .. }) if *why != Why::Answer => {
            format!("↳{} {}  {about}", operation.0, why.word()).trim_end().to_owned()
        }
        _ => about,
    }
}

/// The head and tail of a long id.
fn shortened(id: &str) -> String {
    let length = id.chars().count();
    if length <= 13 {
        return id.to_owned();
    }
    let head: String = id.chars().take(4).collect();
    let tail: String = id.chars().skip(length - 4).collect();
    format!("{head}…{tail}")
}

/// The figures of some sessions, for the last line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Totals {
    /// Sessions.
    pub sessions: u64,
    /// Messages.
    pub messages: u64,
    /// Answers with a result.
    pub responses: u64,
    /// Answers with an error.
    pub errors: u64,
    /// Results that say that the tool failed.
    pub tool_errors: u64,
    /// Results whose data says no.
    pub negatives: u64,
    /// Requests without an answer.
    pub unanswered: u64,
    /// Latencies of answers.
    latencies: Latencies,
    /// Bytes seen and sent.
    pub bytes: (u64, u64),
    /// Findings, by severity: info, warning, error.
    pub findings: [u64; 3],
}

impl Totals {
    /// One more message.
    pub fn message(&mut self, message: &Message) {
        self.messages += 1;
        self.responses += u64::from(message.kind == Kind::Response);
        self.errors += u64::from(message.kind == Kind::Error);
        match content::status(message) {
            Some(Status::ToolError) => self.tool_errors += 1,
            Some(Status::Negative) => self.negatives += 1,
            Some(Status::Ok | Status::Error) | None => {}
        }
        if let Some(latency) = message.latency {
            self.latencies.add(latency);
        }
    }

    /// The last record of a session.
    pub fn session(&mut self, session: &Session) {
        self.sessions += 1;
        self.unanswered += session.unanswered;
        self.bytes.0 += session.bytes.0;
        self.bytes.1 += session.bytes.1;
    }

    /// One more finding.
    pub fn finding(&mut self, severity: Severity, count: u64) {
        let so_far = &mut self.findings[severity as usize];
        *so_far = so_far.saturating_add(count);
    }

    /// The last line.
    pub fn line(&mut self, paint: Paint) -> String {
        let mut percentile = |percent| self.latencies.percentile(percent).map(duration);
        let latency = match (percentile(50), percentile(95)) {
            (Some(p50), Some(p95)) => format!(" · p50 {p50} p95 {p95}"),
            _ => String::new(),
        };
        let (seen, sent) = self.bytes;
        let complete = if sent == 0 { 100.0 } else { seen as f64 * 100.0 / sent as f64 };
        // Never claim wholeness by rounding.
        let complete = if seen < sent { complete.min(99.9) } else { complete };
        let findings: u64 = self.findings.iter().sum();
        let errors = match self.findings[Severity::Error as usize] {
            0 => String::new(),
            errors => format!(" ({})", count(errors, "error")),
        };
        let some = |number: u64, words: String| if number == 0 { String::new() } else { format!(", {words}") };
        let text = format!(
            "{} · {} · {} ({} ok, {}{}{}, {} unanswered){latency} · complete {complete:.1} % · {}{errors}",
            count(self.sessions, "session"),
            count(self.messages, "message"),
            count(self.responses + self.errors + self.unanswered, "call"),
            self.responses.saturating_sub(self.tool_errors + self.negatives),
            count(self.errors, "error"),
            some(self.tool_errors, count(self.tool_errors, "tool error")),
            some(self.negatives, format!("{} saying no", self.negatives)),
            self.unanswered,
            count(findings, "finding"),
        );
        paint.paint(Tone::Strong, &text)
    }
}
