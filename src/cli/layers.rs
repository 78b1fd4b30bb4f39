//! `mcptap layers`: the steps of a session, or one message from the link up.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result};

use super::args::{Colour, Layers};
use super::output::{self, Output};
use super::target::{self, Opened};
use crate::capture::PacketNumber;
use crate::export::jsonl;
use crate::mcp::{MessageNumber, Session};
use crate::view::layers::{self, StoredSession};
use crate::view::paint::Tone;
use crate::view::safe::{self, Align};
use crate::view::steps::{Step, StepTable};

/// Number of steps read at once.
const ROWS: usize = 1_000;

pub fn run(arguments: Layers, db: Option<PathBuf>, colour: Colour) -> Result<()> {
    let opened = target::open_or_latest(&arguments.sessions, db)?;
    let mut out = output::stdout();
    match arguments.message {
        Some(number) => message(&opened, MessageNumber(number), arguments.json, colour, &mut out)?,
        None => {
            let sessions = opened.sessions()?;
            anyhow::ensure!(
                !sessions.is_empty(),
                "no MCP session found: \"mcptap read\" shows what the capture contains"
            );
            for session in sessions {
                table(&opened, &session, arguments.json, colour, &mut out)?;
            }
        }
    }
    Ok(out.flush()?)
}

fn message(opened: &Opened, number: MessageNumber, json: bool, colour: Colour, out: &mut Output) -> Result<()> {
    let (session, message) = super::show::find(opened, number)?;
    let capture = opened.reader.capture_of(session.number)?.context("the session belongs to no capture")?;
    let stored = StoredSession { reader: &opened.reader, capture, session: &session };
    let paint = output::paint(colour);
    let mut line = Vec::new();
    for layer in layers::layers(&stored, &message)? {
        if json {
            output::json_line(out, &mut line, |line| jsonl::write_layer(line, &layer))?;
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
    let mut index = StepTable::new(session.number, usize::MAX);
    index.grow(&opened.reader, &|| false)?;
    let pages = (0..index.total()).step_by(ROWS).map(|first| index.steps(&opened.reader, first, ROWS));
    if json {
        let mut line = Vec::new();
        for steps in pages {
            for step in &steps? {
                output::json_line(out, &mut line, |line| jsonl::write_step(line, step))?;
            }
        }
        return Ok(());
    }
    let format = output::format(colour);
    let paint = format.paint;
    writeln!(out, "{}", format.session(session))?;
    let mut columns: Option<Columns> = None;
    for steps in pages {
        let steps = steps?;
        let columns = match &mut columns {
            Some(columns) => columns,
            none => {
                let fitting = Columns::fitting(&steps);
                writeln!(out, "{}", paint.paint(Tone::Dim, &fitting.head()))?;
                none.insert(fitting)
            }
        };
        for step in &steps {
            let tone = if step.layer == "L7" { Tone::Plain } else { Tone::Dim };
            writeln!(out, "{}", paint.paint(tone, columns.line(step).trim_end()))?;
        }
    }
    Ok(())
}

/// Widths of the columns. They fit the first page of steps, which is mostly the only one.
struct Columns {
    ends: usize,
    packets: usize,
    /// Maximum number of packets of a step that are listed one by one.
    listed: usize,
    detail: usize,
}

/// Columns of a terminal from which on up to [`LISTED`] packets of a step are listed one by one.
const WIDE: usize = 160;
/// Maximum number of packets of a step that are listed on a wide terminal or in a file.
const LISTED: usize = 12;
/// The same on a narrower terminal, where the details need the room.
const LISTED_NARROW: usize = 3;

impl Columns {
    fn fitting(steps: &[Step]) -> Columns {
        let widest = |column: &dyn Fn(&Step) -> String, least: usize| {
            steps.iter().map(|step| safe::width(&column(step))).max().unwrap_or(0).max(least)
        };
        let terminal = output::terminal_width();
        let listed = if terminal.is_some_and(|width| width < WIDE) { LISTED_NARROW } else { LISTED };
        let (ends, packets) = (widest(&Step::ends, 9), widest(&|step| packets(&step.packets, listed), 7).min(48));
        let roles = widest(&role, 0).min(40);
        // On a terminal the details are cut. In a file nothing is cut.
        let room = terminal.map_or(usize::MAX, |width| {
            width.saturating_sub(4 + 2 + 5 + 2 + ends + 2 + 5 + 2 + packets + 2 + 2 + roles)
        });
        let detail = widest(&|step| step.detail.clone(), 6).min(room.max(24));
        Columns { ends, packets, listed, detail }
    }

    fn head(&self) -> String {
        format!(
            "{:>4}  {:<5}  {}  {:>5}  {}  {}  json-rpc",
            "step",
            "layer",
            safe::pad("direction", self.ends, Align::Left),
            "port",
            safe::pad("packets", self.packets, Align::Left),
            safe::pad("detail", self.detail, Align::Left),
        )
    }

    fn line(&self, step: &Step) -> String {
        let port = step.port.map(|port| port.to_string()).unwrap_or_default();
        format!(
            "{:>4}  {:<5}  {}  {port:>5}  {}  {}  {}",
            step.number,
            step.layer,
            safe::pad(&step.ends(), self.ends, Align::Left),
            safe::pad(&packets(&step.packets, self.listed), self.packets, Align::Left),
            safe::pad(&step.detail, self.detail, Align::Left),
            role(step),
        )
    }
}

fn role(step: &Step) -> String {
    step.role.map_or("-".to_owned(), |role| format!("{role}: {}", step.about))
}

/// The packets in a column: all of them up to `listed`, else the first and the last.
fn packets(packets: &[PacketNumber], listed: usize) -> String {
    match packets {
        [] => "-".to_owned(),
        few if few.len() <= listed => few.iter().map(ToString::to_string).collect::<Vec<_>>().join(","),
        [first, .., last] => format!("{first}…{last} ({})", packets.len()),
        [one] => one.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_narrow_terminal_names_the_first_and_the_last_of_many_packets() {
        let shown = |last, listed| packets(&(1..=last).map(PacketNumber).collect::<Vec<_>>(), listed);
        assert_eq!([shown(0, 3), shown(1, 3), shown(3, 3), shown(4, 3)], ["-", "1", "1,2,3", "1…4 (4)"]);
        assert_eq!([shown(4, 12), shown(13, 12)], ["1,2,3,4", "1…13 (13)"]);
    }
}
