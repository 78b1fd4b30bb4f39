//! `mcptap sessions`: lists sessions, the latest first.
//!
//! ```text
//!    #  started   server               transport        calls  fail  open  findings
//!   14  14:22:10  weather 1.0 (live)   streamable-http     40     ·     ·  ·
//!   13  14:05:02  replay of 12: files  stdio                5     ·     ·  2 warnings
//! ```
//!
//! The state in brackets is `live`, `died` (the server ended with an error or by a signal), or
//! `cut` (the recorder was killed, so the rest of the session is unknown).

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use anyhow::Result;

use super::args::{Colour, Sessions};
use super::{databases, filter, output, target};
use crate::capture::Time;
use crate::engine::saver;
use crate::export::jsonl;
use crate::filter::Filter;
use crate::findings::Severity;
use crate::mcp::SessionNumber;
use crate::store::{ListedSession, Page, StoreReader};
use crate::view::paint::{Paint, Tone};
use crate::view::safe::{self, Align};
use crate::view::session_list::{self, Fold, RecordingState, SortKey};
use crate::view::{parties, units};

/// Sessions that the table lists without an option: a few screens.
const LISTED: usize = 100;

/// Sessions that are read at once.
const SLICE: usize = 256;

pub fn run(arguments: Sessions, db: Option<PathBuf>, colour: Colour) -> Result<()> {
    let filter = filter::parse(arguments.filter.as_deref())?;
    let opened = target::open(arguments.target.as_deref(), None, &arguments.decoding, db)?;
    if arguments.target.is_none() {
        databases::mention_others(opened.reader.place().path());
    }
    let mut out = output::stdout();
    if arguments.json {
        let limit = arguments.limit.unwrap_or(usize::MAX);
        let mut list = List::read(&opened.reader, opened.session, filter.as_ref(), arguments.sort, true, limit)?;
        if arguments.sort.is_none() {
            list.sessions.reverse();
        }
        let mut line = Vec::new();
        for listed in &list.sessions {
            output::json_line(&mut out, &mut line, |line| jsonl::write_stored_session(line, listed, list.now))?;
        }
    } else {
        let limit = if arguments.all { usize::MAX } else { arguments.limit.unwrap_or(LISTED) };
        let list = List::read(&opened.reader, opened.session, filter.as_ref(), arguments.sort, arguments.all, limit)?;
        let table = Table::new(output::paint(colour), output::width(), list.now, &list.sessions);
        writeln!(out, "{}", table.head())?;
        for listed in &list.sessions {
            writeln!(out, "{}", table.row(listed))?;
        }
        for line in list.remarks(filter.is_some()) {
            writeln!(out, "{}", table.paint.paint(Tone::Dim, &line))?;
        }
    }
    Ok(out.flush()?)
}

/// The sessions to list, in order.
struct List {
    sessions: Vec<ListedSession>,
    /// Numbers of sessions that were left out, by reason.
    folded: BTreeMap<Fold, u64>,
    /// Whether the limit left out further sessions.
    has_more: bool,
    now: Time,
}

impl List {
    /// Reads the latest sessions first, and no more than are listed. Another order needs all
    /// sessions to be read.
    fn read(
        reader: &StoreReader,
        session: Option<SessionNumber>,
        filter: Option<&Filter>,
        sort: Option<SortKey>,
        all: bool,
        limit: usize,
    ) -> Result<List> {
        let mut list = List { sessions: Vec::new(), folded: BTreeMap::new(), has_more: false, now: saver::now() };
        let by_number = sort.is_none_or(|key| key == SortKey::Number);
        let mut page = session.map_or(Page::last(SLICE), |session| Page::back_from(session, 1));
        'slices: loop {
            let slice = reader.listed_sessions(filter, page)?;
            let Some(last) = slice.last().map(|listed| listed.session.number) else { break };
            for listed in slice {
                if by_number && list.sessions.len() >= limit {
                    list.has_more = true;
                    break 'slices;
                }
                match session_list::fold(&listed, list.now).filter(|_| !all && session.is_none()) {
                    Some(fold) => *list.folded.entry(fold).or_default() += 1,
                    None => list.sessions.push(listed),
                }
            }
            if session.is_some() || last.0 <= 1 {
                break;
            }
            page = Page::back_from(SessionNumber(last.0 - 1), SLICE);
        }
        if let Some(key) = sort.filter(|_| !by_number) {
            list.sessions.sort_by(|one, other| key.compare(one, other));
            list.has_more = list.sessions.len() > limit;
            list.sessions.truncate(limit);
        }
        Ok(list)
    }

    /// Lines below the table: what it leaves out.
    fn remarks(&self, filtered: bool) -> Vec<String> {
        let mut remarks = Vec::new();
        if self.sessions.is_empty() && self.folded.is_empty() {
            remarks.push(match filtered {
                true => "no session has a message that matches the filter".to_owned(),
                false => "no sessions: wrap a server with \"mcptap wrap\", or read a capture with --save".to_owned(),
            });
        }
        let mut left_out: Vec<String> =
            self.folded.iter().map(|(fold, number)| units::count(*number, fold.noun())).collect();
        if self.has_more {
            left_out.push("further sessions".to_owned());
        }
        if !left_out.is_empty() {
            remarks.push(format!("not listed: {} (--all lists everything)", left_out.join(", ")));
        }
        remarks
    }
}

/// A column of the table.
#[derive(Clone, Copy)]
struct TableColumn {
    title: &'static str,
    width: usize,
    align: Align,
}

/// Formats sessions as rows. The column of the server takes the width that the others leave.
struct Table {
    paint: Paint,
    now: Time,
    columns: Vec<TableColumn>,
}

/// From this width on the client and the revision are shown too.
const WIDE: usize = 120;

/// The smallest width of the column of the server.
const SERVER: usize = 16;

impl Table {
    fn new(paint: Paint, width: usize, now: Time, sessions: &[ListedSession]) -> Table {
        let column = |title, width, align| TableColumn { title, width, align };
        let longest = |text: &dyn Fn(&ListedSession) -> String, title: &str| {
            sessions.iter().map(|listed| text(listed).len()).max().unwrap_or(0).max(title.len())
        };
        let mut columns = vec![
            column("#", longest(&|listed| listed.session.number.0.to_string(), "#").max(4), Align::Right),
            column("started", 8, Align::Left),
            column("server", 0, Align::Left),
            column(
                "transport",
                longest(&|listed| listed.session.transport.name().to_owned(), "transport"),
                Align::Left,
            ),
            column("calls", longest(&|listed| listed.session.outcomes.requests().to_string(), "calls"), Align::Right),
            column("fail", 4, Align::Right),
            column("open", 4, Align::Right),
            column("findings", longest(&|listed| findings(listed).0, "findings"), Align::Left),
        ];
        if width >= WIDE {
            let others = [column("client", 20, Align::Left), column("revision", 10, Align::Left)];
            columns.splice(3..3, others);
        }
        let others: usize = columns.iter().map(|column| column.width + 2).sum();
        columns[2].width = (width + 2).saturating_sub(others).clamp(SERVER, 48);
        Table { paint, now, columns }
    }

    fn head(&self) -> String {
        let titles = self.columns.iter().map(|column| (column.title.to_owned(), Tone::Dim));
        self.line(titles.collect())
    }

    fn row(&self, listed: &ListedSession) -> String {
        let ListedSession { session, .. } = listed;
        let state = session_list::state(listed, self.now);
        let mut marks: Vec<&str> = vec![state.word()];
        if listed.is_pinned {
            marks.push("pinned");
        }
        marks.retain(|mark| !mark.is_empty());
        let marks = if marks.is_empty() { String::new() } else { format!(" ({})", marks.join(", ")) };
        let room = self.columns[2].width.saturating_sub(marks.len());
        let server = format!("{}{marks}", safe::fit(&session_list::name(listed), room));
        let tone = match state {
            RecordingState::Live => Tone::Good,
            RecordingState::Died => Tone::Error,
            RecordingState::Cut | RecordingState::Ended => Tone::Strong,
        };
        let (found, found_tone) = findings(listed);
        let count = |number: u64, tone| match number {
            0 => ("·".to_owned(), Tone::Dim),
            number => (number.to_string(), tone),
        };
        let mut cells = vec![
            (session.number.0.to_string(), Tone::Plain),
            (units::short_clock(session.started, self.now), Tone::Dim),
            (server, tone),
            (session.transport.name().to_owned(), Tone::Plain),
            count(session.outcomes.requests(), Tone::Plain),
            count(session.outcomes.failed(), Tone::Error),
            count(session.outcomes.unanswered, Tone::Warning),
            (found, found_tone),
        ];
        if self.columns.len() > cells.len() {
            let client = (parties::party(&session.client).unwrap_or_default(), Tone::Plain);
            let revision = (session.protocol_version.clone().unwrap_or_default(), Tone::Dim);
            cells.splice(3..3, [client, revision]);
        }
        self.line(cells)
    }

    fn line(&self, cells: Vec<(String, Tone)>) -> String {
        let padded = cells.into_iter().zip(&self.columns).map(|((text, tone), column)| {
            let text = safe::pad(&text, column.width, column.align);
            (text, tone)
        });
        let mut cells: Vec<(String, Tone)> = padded.collect();
        if let Some((text, _)) = cells.last_mut() {
            text.truncate(text.trim_end().len());
        }
        let painted: Vec<String> = cells.iter().map(|(text, tone)| self.paint.paint(*tone, text)).collect();
        painted.join("  ")
    }
}

/// The findings of the worst severity, in words.
fn findings(listed: &ListedSession) -> (String, Tone) {
    let severities = [Severity::Error, Severity::Warning, Severity::Info];
    let worst = severities.into_iter().find(|severity| listed.findings[*severity as usize] > 0);
    worst.map_or(("·".to_owned(), Tone::Dim), |severity| {
        let tone = if severity == Severity::Info { Tone::Dim } else { Tone::from(severity) };
        (units::count(listed.findings[severity as usize], severity.name()), tone)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Event;
    use crate::mcp::Session;
    use crate::mcp::{Outcomes, Peers, Transport};
    use crate::store::{CaptureInfo, CaptureKind, WriteOptions, Writer};
    use unicode_width::UnicodeWidthStr;

    #[test]
    fn the_table_fits_80_columns() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sessions.db");
        let info =
            CaptureInfo { kind: CaptureKind::Replay, replay_of: Some(SessionNumber(7)), ..CaptureInfo::default() };
        let mut writer = Writer::create(&*path, &info, WriteOptions::default()).unwrap();
        let command = vec!["/usr/bin/\u{1b}[31m天気".repeat(20)];
        let session = Session {
            outcomes: Outcomes { ok: 1, errors: 2_000, unanswered: 3_000, ..Outcomes::default() },
            ..Session::opened(
                SessionNumber(1),
                Transport::StreamableHttp,
                Peers::Process { process: 1, command },
                Time(1),
            )
        };
        writer.event(Event::Session(Box::new(session)));
        writer.finish(&crate::store::Summary::default()).unwrap();
        let reader = StoreReader::open(&*path).unwrap();
        let list = List::read(&reader, None, None, None, true, LISTED).unwrap();
        for width in [80, 119, 120, 200] {
            let table = Table::new(Paint { on: false }, width, list.now, &list.sessions);
            for line in [table.head(), table.row(&list.sessions[0])] {
                assert!(line.width() <= width && !line.contains('\u{1b}'), "{width}: {line}");
            }
            assert!(table.row(&list.sessions[0]).contains("replay of 7: "));
        }
    }
}
