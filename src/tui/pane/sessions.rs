//! All sessions: peers, results, and how much was captured.

use ratatui::layout::Rect;

use super::super::app::App;
use super::super::canvas::{Canvas, Cell, Column};
use super::super::data::worst;
use super::super::layout;
use super::{count_cell, summary, table, welcome};
use crate::mcp::Session;
use crate::view::paint::Tone;
use crate::view::parties::party;
use crate::view::session_list::{self, RecordingState};
use crate::view::units;

const COLUMNS: &[Column] = &[
    Column::new(" ", 1),
    Column::new("#", 2).right(),
    Column::new("server", 12).grows(3),
    Column::new("client", 10).grows(2).shown_from(110),
    Column::new("transport", 15).shown_from(66),
    Column::new("revision", 10).shown_from(100),
    Column::new("calls", 5).right().shown_from(44),
    Column::new("fail", 4).right(),
    Column::new("open", 4).right().shown_from(50),
    Column::new("findings", 10),
    Column::new("captured", 8).right().shown_from(120),
    Column::new("p50", 8).right().shown_from(132),
    Column::new("p95", 8).right().shown_from(90),
    Column::new("started", 11).shown_from(76),
];

/// Draws the list, and the summary of the selected session.
pub fn draw(app: &App, canvas: &mut Canvas<'_>, area: Rect) {
    if app.cache.sessions().is_some_and(<[_]>::is_empty) {
        return welcome::draw(app, canvas, area);
    }
    let own = layout::sessions(area);
    list(app, canvas, own);
    if own.height < area.height {
        canvas.divide(area, own.bottom());
        summary::draw(app, canvas, Rect { y: own.bottom() + 1, height: area.bottom() - own.bottom() - 1, ..area });
    }
}

fn list(app: &App, canvas: &mut Canvas<'_>, area: Rect) {
    let largest = app.cache.sessions().and_then(|rows| rows.iter().map(|row| row.session.number.0).max());
    let digits = largest.and_then(u32::checked_ilog10).unwrap_or(0) as u16 + 1;
    let column = |column: &Column| if column.title() == "#" { column.widened_to(digits) } else { *column };
    let columns: Vec<Column> = COLUMNS.iter().map(column).collect();
    let left_out = app.sessions_left_out();
    // The last line says what is not listed.
    let rows = Rect { height: area.height - u16::from(!left_out.is_empty()), ..area };
    if !left_out.is_empty() {
        let words = format!("not listed: {left_out} (A lists all)");
        canvas.put(area.x + 2, rows.bottom(), area.width.saturating_sub(3), &words, canvas.tone(Tone::Dim));
    }
    let searched = app.cache.sessions_found(&app.sessions.filter);
    let empty = match (app.sessions.filter.is_empty(), searched) {
        (true, _) => "every session folds away: A lists failed replays and empty sessions",
        (false, Some((_, true))) => "no session has a message that matches: esc clears the filter, / changes it",
        (false, _) => "searching …",
    };
    table(app, canvas, rows, &columns, empty, |row| {
        let row = app.listed_session(row)?;
        let session = &row.session;
        let (seen, sent) = session.bytes;
        let seen_tone = if seen < sent { Tone::Warning } else { Tone::Dim };
        let latency =
            |pick: fn((i64, i64)) -> i64| row.latency.map(|both| units::duration(pick(both))).unwrap_or_default();
        let (sign, look) = sign(session_list::state(row, app.now));
        let is_open = if row.live { Tone::Warning } else { Tone::Error };
        Some(vec![
            Cell::new(sign, look),
            Cell::new(session.number.0.to_string(), Tone::Dim),
            Cell::new(session_list::name(row), Tone::Strong),
            Cell::new(party(&session.client).unwrap_or_default(), Tone::Plain),
            Cell::new(session.transport.name(), Tone::Plain),
            Cell::new(session.protocol_version.clone().unwrap_or_default(), Tone::Dim),
            count_cell(session.outcomes.requests(), Tone::Plain),
            count_cell(session.outcomes.failed(), Tone::Error),
            count_cell(session.outcomes.unanswered, is_open),
            findings(row.findings),
            Cell::new(percent(session), seen_tone),
            Cell::new(latency(|both| both.0), Tone::Plain),
            Cell::new(latency(|both| both.1), Tone::Plain),
            Cell::new(clock(session.started).get(5..16).unwrap_or_default(), Tone::Dim),
        ])
    });
}

/// The state of the recording as a sign, and its tone.
fn sign(state: RecordingState) -> (&'static str, Tone) {
    match state {
        RecordingState::Live => ("●", Tone::Good),
        RecordingState::Died => ("■", Tone::Error),
        RecordingState::Cut => ("◌", Tone::Warning),
        RecordingState::Ended => ("", Tone::Plain),
    }
}

/// The number of findings of the highest severity that has some.
fn findings(findings: [u64; 3]) -> Cell {
    match worst(&findings) {
        Some(severity) => {
            let words = units::count(findings[severity as usize], severity.name());
            Cell::new(words, severity.into())
        }
        None => count_cell(0, Tone::Dim),
    }
}

/// The captured share of the bytes. Rounding never makes it 100 %.
fn percent(session: &Session) -> String {
    let (seen, sent) = session.bytes;
    let percent = session.completeness() * 100.0;
    if seen < sent { format!("{:.1} %", percent.min(99.9)) } else { "100 %".to_owned() }
}

/// A time on the wall clock, UTC.
pub fn clock(time: crate::capture::Time) -> String {
    let time = jiff::Timestamp::from_nanosecond(i128::from(time.0));
    time.map(|time| time.strftime("%Y-%m-%d %H:%M:%S").to_string()).unwrap_or_default()
}
