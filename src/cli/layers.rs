//! `mcptap layers`: the steps of a session, or one message from the link up.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};

use super::args::{Colour, Layers};
use super::output::{self, Output};
use super::target::{self, Opened};
use crate::export::jsonl;
use crate::mcp::{MessageNumber, Session};
use crate::store::{Key, Page, Scope};
use crate::view::layers::{self, Place};
use crate::view::paint::{Paint, Tone};
use crate::view::safe::{self, Align};
use crate::view::steps::{self, Step, Told};

pub fn run(arguments: Layers, db: Option<PathBuf>, colour: Colour) -> Result<ExitCode> {
    let opened = target::open(Some(&arguments.target), arguments.session, &arguments.decoding, db)?;
    let mut out = output::stdout();
    match arguments.message {
        Some(number) => message(&opened, MessageNumber(number), arguments.json, colour, &mut out)?,
        None => {
            let sessions = opened.sessions()?;
            anyhow::ensure!(!sessions.is_empty(), "no MCP session in it: \"mcptap read\" says what there is");
            for session in sessions {
                table(&opened, &session, arguments.json, colour, &mut out)?;
            }
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn message(opened: &Opened, number: MessageNumber, json: bool, colour: Colour, out: &mut Output) -> Result<()> {
    let session = opened.session.map(|_| opened.one_session()).transpose()?;
    let (session, message) = super::show::find(opened, session, number)?;
    let capture = opened.reader.capture_of(session.number)?.context("the session belongs to no capture")?;
    let place = Place { reader: &opened.reader, capture, session: &session };
    let paint = output::paint(colour);
    let mut line = Vec::new();
    for layer in layers::layers(&place, &message)? {
        if json {
            line.clear();
            jsonl::write_layer(&mut line, &layer);
            out.write_all(&line)?;
        } else {
            let block = layers::block(&layer);
            let (head, rest) = block.split_once('\n').unwrap_or((&block, ""));
            writeln!(out, "{}", paint.paint(Tone::Strong, head))?;
            write!(out, "{rest}")?;
        }
    }
    Ok(())
}

fn table(opened: &Opened, session: &Session, json: bool, colour: Colour, out: &mut Output) -> Result<()> {
    let connections = all(|from| opened.reader.connections(session.number, page(from)), |connection| connection.id)?;
    let exchanges = all(|from| opened.reader.exchanges(session.number, page(from)), |exchange| exchange.number)?;
    let capture = opened.reader.capture_of(session.number)?.context("the session belongs to no capture")?;
    let scope = Scope::Session(session.number);
    let messages =
        all(|from| opened.reader.messages(scope, page(from)), |message| Key::new(capture, message.number.0))?;
    let told = Told { session, connections: &connections, exchanges: &exchanges, messages: &messages };
    let steps = steps::steps(&told);
    if json {
        let mut line = Vec::new();
        for step in &steps {
            line.clear();
            jsonl::write_step(&mut line, step);
            out.write_all(&line)?;
        }
        return Ok(());
    }
    let paint = output::paint(colour);
    let lines = crate::view::transcript::Lines { paint, width: output::width(), start: None, sessions: false };
    writeln!(out, "{}", lines.session(session))?;
    print(&steps, paint, out)
}

/// Where a page begins: at the first row, or behind this one.
fn page<K: Next>(after: Option<K>) -> Page<K> {
    const ROWS: usize = 1_000;
    match after {
        Some(key) => Page::from(key.next(), ROWS),
        None => Page::first(ROWS),
    }
}

/// Every row of a list that is read in pages.
fn all<T, K: Next>(mut read: impl FnMut(Option<K>) -> Result<Vec<T>>, key: impl Fn(&T) -> K) -> Result<Vec<T>> {
    let mut rows: Vec<T> = Vec::new();
    loop {
        let more = read(rows.last().map(&key))?;
        if more.is_empty() {
            return Ok(rows);
        }
        rows.extend(more);
    }
}

/// The key behind a key.
trait Next {
    fn next(self) -> Self;
}

impl Next for crate::decode::ConnectionId {
    fn next(self) -> Self {
        crate::decode::ConnectionId(self.0.saturating_add(1))
    }
}

impl Next for crate::decode::exchange::ExchangeNumber {
    fn next(self) -> Self {
        crate::decode::exchange::ExchangeNumber(self.0 + 1)
    }
}

impl Next for Key {
    fn next(self) -> Self {
        Key::next(self)
    }
}

fn print(steps: &[Step], paint: Paint, out: &mut Output) -> Result<()> {
    let widest = |column: fn(&Step) -> String, least: usize| {
        steps.iter().map(|step| safe::width(&column(step))).max().unwrap_or(0).max(least)
    };
    let packets = |step: &Step| packet_column(&step.packets);
    let (direction_width, packets_width) = (widest(Step::ends, 9), widest(packets, 7).min(48));
    let roles = steps.iter().map(|step| safe::width(&role(step))).max().unwrap_or(0).min(40);
    // On a terminal the details give way; in a file nothing has to.
    let room = output::terminal_width().map_or(usize::MAX, |width| {
        width.saturating_sub(4 + 2 + 5 + 2 + direction_width + 2 + 5 + 2 + packets_width + 2 + 2 + roles)
    });
    let detail_width = widest(|step| step.detail.clone(), 6).min(room.max(24));
    let head = format!(
        "{:>4}  {:<5}  {}  {:>5}  {}  {}  json-rpc",
        "step",
        "layer",
        safe::pad("direction", direction_width, Align::Left),
        "port",
        safe::pad("packets", packets_width, Align::Left),
        safe::pad("detail", detail_width, Align::Left),
    );
    writeln!(out, "{}", paint.paint(Tone::Dim, &head))?;
    for step in steps {
        let role = role(step);
        let tone = match step.layer {
            "L7" => Tone::Plain,
            _ => Tone::Dim,
        };
        let port = step.port.map(|port| port.to_string()).unwrap_or_default();
        let line = format!(
            "{:>4}  {:<5}  {}  {port:>5}  {}  {}  {role}",
            step.number,
            step.layer,
            safe::pad(&step.ends(), direction_width, Align::Left),
            safe::pad(&packets(step), packets_width, Align::Left),
            safe::pad(&step.detail, detail_width, Align::Left),
        );
        writeln!(out, "{}", paint.paint(tone, line.trim_end()))?;
    }
    Ok(())
}

fn role(step: &Step) -> String {
    step.role.map_or("-".to_owned(), |role| format!("{role}: {}", step.about))
}

/// Packets in a column: all of them up to twelve, else the first and last.
fn packet_column(packets: &[crate::capture::PacketNumber]) -> String {
    let words = |packets: &[crate::capture::PacketNumber]| {
        packets.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
    };
    match packets {
        [] => "-".to_owned(),
        few if few.len() <= 12 => words(few),
        [first, .., last] => format!("{first}…{last} ({})", packets.len()),
        [one] => one.to_string(),
    }
}
