//! A web page that shows sessions: the timeline with search and filters, request and answer side by
//! side, layers down to the packet with their bytes, exchanges, findings, and the likely cause of a
//! problem.
//!
//! ```text
//!  head: policy, style ─► page.html ─► data blocks (see `block`) ─► script
//! ```
//!
//! The page is one file that fetches nothing. Its content security policy allows only its own style
//! and its own script, by their hashes. Text from the network is in data blocks, which no browser
//! runs; `page/dom.js` shows it as text alone. The few words outside of blocks are [`Escaped`].

mod block;
mod columns;
mod details;
mod escaped;
pub mod live;
mod rows;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::io::Write;

use anyhow::Result;

use self::block::{BlockKind, ListBlocks, policy_hash, raw};
use self::details::DetailBlocks;
use self::escaped::Escaped;
use self::rows::{ExchangeText, FindingText, Row, SessionFacts};
use crate::filter::Filter;
use crate::mcp::{Session, SessionNumber};
use crate::store::{Scope, StoreReader};
use crate::view::detail;
use crate::view::layers::StoredSession;
use crate::view::stderr_fold::StderrFold;
use crate::view::text::about;
use crate::view::timeline::{self, TimelinePosition, TimelineRow};
use crate::view::transcript::part_of;
use crate::view::{parties, units};

const STYLE: &str = include_str!("html/page/style.css");
const BODY: &str = include_str!("html/page/page.html");
const SCRIPT: &str = concat!(
    "'use strict';\n",
    include_str!("html/page/dom.js"),
    include_str!("html/page/data.js"),
    include_str!("html/page/list.js"),
    include_str!("html/page/json.js"),
    include_str!("html/page/bytes.js"),
    include_str!("html/page/messages.js"),
    include_str!("html/page/views.js"),
    include_str!("html/page/waterfall.js"),
    include_str!("html/page/app.js"),
);

/// The last lines of the script of a page with its recording inside.
const FROM_BLOCKS: &str = "readBlocks(app.ready);\n";

/// The same for a page that follows a recording.
const FROM_SERVER: &str = include_str!("html/page/live.js");

/// Sessions whose causes a browser without scripts shows.
const WITHOUT_SCRIPT: usize = 20;

/// Writes a page of these sessions. `filter` selects the messages on it. The page shows its text.
pub fn write(
    reader: &StoreReader,
    sessions: &[Session],
    filter: Option<(&Filter, &str)>,
    out: &mut dyn Write,
) -> Result<()> {
    let title = match sessions {
        [one] => format!("Session {}: {}", one.number.0, parties::server(one)),
        some => units::count(some.len() as u64, "session"),
    };
    head(out, &title, &policy(FROM_BLOCKS, ""))?;
    if let Some((_, text)) = filter {
        writeln!(out, "<p class=\"filtered dim\">only messages that match <code>{}</code></p>", Escaped(text))?;
    }
    raw(out, BODY)?;
    for (at, session) in sessions.iter().enumerate() {
        let facts = SessionFacts::read(reader, session)?;
        if at < WITHOUT_SCRIPT {
            without_script(out, session, &facts)?;
        }
        block::write(out, BlockKind::Session, session.number, 0, &facts, &[])?;
        TimelineBlocks::new(session.number).write(reader, session, filter.map(|(filter, _)| filter), out)?;
        exchange_blocks(reader, session, out)?;
        finding_blocks(reader, session, out)?;
    }
    end(out, FROM_BLOCKS)
}

/// Ends the page with its script.
fn end(out: &mut dyn Write, start: &str) -> Result<()> {
    writeln!(out, "<footer class=\"dim\">written by mcptap {}</footer>", env!("CARGO_PKG_VERSION"))?;
    Ok(writeln!(out, "<script>{SCRIPT}{start}</script>\n</body>\n</html>")?)
}

/// The content security policy. It allows the style and the script by their hashes, so that
/// nothing else acts, even if it gets onto the page.
fn policy(start: &str, more: &str) -> String {
    let (style, script) = (policy_hash(STYLE), policy_hash(&[SCRIPT, start].concat()));
    format!(
        "default-src 'none'; style-src {style}; script-src {script}; {more}base-uri 'none'; form-action 'none'; \
         require-trusted-types-for 'script'; trusted-types 'none'"
    )
}

/// Begins the page.
fn head(out: &mut dyn Write, title: &str, policy: &str) -> Result<()> {
    writeln!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n\
         <title>{} - mcptap</title>\n<style>{STYLE}</style>\n</head>\n<body>",
        Escaped(title)
    )?;
    Ok(())
}

/// Writes the main facts of a session for a browser that runs no script, and for programs that
/// read the page as text.
fn without_script(out: &mut dyn Write, session: &Session, facts: &SessionFacts) -> Result<()> {
    let number = session.number.0;
    writeln!(out, "<noscript>\n<h2>Session {number}: {}</h2>", Escaped(&facts.title))?;
    match facts.explanation.causes.first() {
        Some(cause) => writeln!(out, "<p>{}</p>", Escaped(&cause.sentence))?,
        None => writeln!(out, "<p>No problem found.</p>")?,
    }
    Ok(writeln!(
        out,
        "<p>To see its {}, allow this page to run its script.</p>\n</noscript>",
        units::count(session.messages, "message")
    )?)
}

/// The timeline of a session with the details of its messages, as far as it was written.
struct TimelineBlocks {
    rows: ListBlocks,
    details: DetailBlocks,
    end: TimelinePosition,
}

impl TimelineBlocks {
    fn new(session: SessionNumber) -> TimelineBlocks {
        TimelineBlocks {
            rows: ListBlocks::new(BlockKind::Rows, session),
            details: DetailBlocks::new(session),
            end: TimelinePosition::default(),
        }
    }

    /// Writes what follows.
    fn write(
        &mut self,
        reader: &StoreReader,
        session: &Session,
        filter: Option<&Filter>,
        out: &mut dyn Write,
    ) -> Result<()> {
        let Some(capture) = reader.capture_of(session.number)? else { return Ok(()) };
        let stored = StoredSession { reader, capture, session };
        let TimelineBlocks { rows, details, end } = self;
        let mut fold = StderrFold::default();
        let start = session.started;
        *end = timeline::visit(reader, session, filter, *end, &mut |row| match row {
            TimelineRow::Message(message) => {
                for part in fold.end() {
                    rows.push(out, &Row::of_note(&part, start))?;
                }
                let position = rows.position();
                let about = part_of(message.link.as_ref(), about(&message));
                rows.push(out, &Row::of_message(&message, about.clone(), start))?;
                details.push(out, position, &about, detail::of_message(&stored, *message)?)
            }
            TimelineRow::Note(note) => {
                fold.note(note).iter().try_for_each(|part| rows.push(out, &Row::of_note(part, start)))
            }
        })?;
        for part in fold.end() {
            rows.push(out, &Row::of_note(&part, start))?;
        }
        rows.flush(out)?;
        details.flush(out)
    }
}

fn exchange_blocks(reader: &StoreReader, session: &Session, out: &mut dyn Write) -> Result<()> {
    let mut blocks = ListBlocks::new(BlockKind::Exchanges, session.number);
    for exchange in reader.all_exchanges(session.number) {
        blocks.push(out, &ExchangeText::new(exchange?, session.started))?;
    }
    blocks.flush(out)
}

fn finding_blocks(reader: &StoreReader, session: &Session, out: &mut dyn Write) -> Result<()> {
    let mut blocks = ListBlocks::new(BlockKind::Findings, session.number);
    let mut known = HashSet::new();
    for row in reader.all_findings(Scope::Session(session.number)) {
        let row = row?;
        let is_first = known.insert(row.rule.clone());
        blocks.push(out, &FindingText::new(row, is_first))?;
    }
    blocks.flush(out)
}
