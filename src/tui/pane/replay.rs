//! A replay: its progress, its requests, and both answers to the selected one, side by side.
//!
//! ```text
//! │ tools/call get_weather  →  python server.py            2025-11-25        │
//! │ 2 requests: 1 same, 1 different                                          │
//! │     #  request                         outcome      latency   recorded   │
//! │     1  initialize                      same          41 ms      38 ms    │
//! │▌    5  tools/call get_weather          different    1.2 ms     1.1 ms    │
//! ├ recorded: result ───────────────────┬ now: result ───────────────────────┤
//! │   structuredContent:                │   structuredContent:               │
//! │ ≠   degrees: 21                     │ ≠   degrees: 19                    │
//! ```

pub mod form;

use ratatui::layout::Rect;
use ratatui::style::Style;

use super::super::app::App;
use super::super::canvas::{Canvas, Cell, Column, TableView};
use super::super::layout;
use super::super::replay::run::{RequestState, Run, Stage};
use super::super::replay::side_by_side::{AlignedRow, RowMatch};
use super::super::screen::Screen;
use super::super::theme::UiElement;
use crate::compare::{Answer, Outcome, text};
use crate::view::paint::Tone;
use crate::view::{safe, units};

const COLUMNS: &[Column] = &[
    Column::new("#", 6).right(),
    Column::new("request", 16).grows(3),
    Column::new("outcome", 12).grows(2),
    Column::new("latency", 8).right(),
    Column::new("recorded", 8).right(),
];

pub fn draw(app: &App, canvas: &mut Canvas<'_>, area: Rect) {
    let Some(run) = &app.replays.run else {
        return canvas.message(
            area,
            "nothing was replayed yet\nR sends the selected request, or the whole session, to a server again",
        );
    };
    let areas = layout::replay(area);
    status(run, canvas, areas.status);
    let list = TableView { cursor: *app.cursor(Screen::Replay), total: run.rows.len(), active: !run.answers_focused };
    if let Stage::Failed(why) = &run.stage {
        sentence(canvas, areas.list, why, Tone::Error);
    } else {
        requests(run, canvas, areas.list, list);
    }
    answers(app, run, canvas, area, areas);
}

fn status(run: &Run, canvas: &mut Canvas<'_>, area: Rect) {
    let (strong, dim) = (canvas.tone(Tone::Strong), canvas.tone(Tone::Dim));
    let (what, target) = match &run.submission {
        Some(submission) => {
            let what = match &submission.call {
                Some(call) => format!("request {} of session {}", call.message.0, submission.session.0),
                None => format!("session {}", submission.session.0),
            };
            let edited = submission.call.as_ref().is_some_and(|call| call.params.is_some());
            (format!("{what}{}", if edited { ", edited" } else { "" }), submission.target.as_str())
        }
        None => (String::new(), ""),
    };
    let revision = run.revision.as_ref().map(|revision| format!("   {revision}")).unwrap_or_default();
    let pieces = [(what, strong), ("  →  ".to_owned(), dim), (target.to_owned(), strong), (revision, dim)];
    canvas.pieces(area.x + 1, area.y, area.width.saturating_sub(2), &pieces);
    let (sentence_text, tone) = status_sentence(run);
    let style = canvas.tone(tone);
    canvas.put(area.x + 1, area.y + 1, area.width.saturating_sub(2), &sentence_text, style);
}

/// The state of the replay in a sentence.
fn status_sentence(run: &Run) -> (String, Tone) {
    match &run.stage {
        Stage::Reading => ("reading the recording …".to_owned(), Tone::Warning),
        Stage::Running => {
            let sent = run.rows.iter().filter(|row| row.state == RequestState::Sent).count();
            let over =
                run.rows.iter().filter(|row| !matches!(row.state, RequestState::Waiting | RequestState::Sent)).count();
            (format!("{over} of {} done, {sent} in flight: esc stops the replay", run.rows.len()), Tone::Warning)
        }
        Stage::Stopping => ("stopping …".to_owned(), Tone::Warning),
        Stage::Failed(_) => ("the replay failed".to_owned(), Tone::Error),
        Stage::Finished => {
            let Some(report) = run.report() else { return (String::new(), Tone::Plain) };
            let (slower, stopped) =
                (report.slower().count() as u64, run.finished.as_ref().is_some_and(|it| it.stopped));
            let slower = if slower > 0 { format!(", {slower} slower") } else { String::new() };
            let stopped = if stopped { "stopped early: " } else { "" };
            let note = report.notes.first().map(|note| format!("   {note}")).unwrap_or_default();
            let summary = summary(run);
            (format!("{stopped}{summary}{slower}{note}"), if report.is_same() { Tone::Good } else { Tone::Error })
        }
    }
}

/// The counts of outcomes among the listed requests.
fn summary(run: &Run) -> String {
    let outcome = |row: &RequestState| match row {
        RequestState::Compared(outcome, _) => Some(*outcome),
        RequestState::Skipped(_) => Some(Outcome::Skipped),
        _ => None,
    };
    let count = |wanted| run.rows.iter().filter(|row| outcome(&row.state) == Some(wanted)).count();
    let counts = Outcome::ALL.into_iter().map(|outcome| (outcome, count(outcome))).filter(|(_, count)| *count > 0);
    let counts: Vec<String> = counts.map(|(outcome, count)| format!("{count} {}", text::words(outcome))).collect();
    format!("{}: {}", units::count(run.rows.len() as u64, "request"), counts.join(", "))
}

fn requests(run: &Run, canvas: &mut Canvas<'_>, area: Rect, list: TableView) {
    canvas.table(area, COLUMNS, list, |row| {
        let row = run.rows.get(row)?;
        let latency = match row.state {
            RequestState::Answered(latency) | RequestState::Compared(_, latency) => latency,
            _ => None,
        };
        let (words, own) = match &row.state {
            RequestState::Waiting => ("waiting".to_owned(), Tone::Dim),
            RequestState::Sent => ("sent …".to_owned(), Tone::Warning),
            RequestState::Answered(Some(_)) => ("answered".to_owned(), Tone::Plain),
            RequestState::Answered(None) => ("no answer".to_owned(), Tone::Error),
            RequestState::Skipped(why) => (format!("not sent: {why}"), Tone::Dim),
            RequestState::Compared(outcome, _) => (text::words(*outcome).to_owned(), outcome_tone(*outcome)),
        };
        let duration = |latency: Option<i64>| latency.map(units::duration).unwrap_or_default();
        Some(vec![
            Cell::new(row.number.0.to_string(), Tone::Dim),
            Cell::new(row.label.clone(), Tone::Strong),
            Cell::new(words, own),
            Cell::new(duration(latency), Tone::Plain),
            Cell::new(duration(row.recorded), Tone::Dim),
        ])
    });
}

fn outcome_tone(outcome: Outcome) -> Tone {
    match outcome {
        Outcome::Same => Tone::Good,
        Outcome::Skipped => Tone::Dim,
        Outcome::Different | Outcome::Extra => Tone::Warning,
        Outcome::Missing | Outcome::Error | Outcome::Result | Outcome::ToolError => Tone::Error,
    }
}

/// Draws the two answers, or the reason why there are none.
fn answers(app: &App, run: &Run, canvas: &mut Canvas<'_>, body: Rect, areas: layout::ReplayAreas) {
    let (old, new) = (areas.old, areas.new);
    let y = old.y - 1;
    canvas.divide(body, y);
    let border = canvas.element(UiElement::Border);
    canvas.put(old.right(), y, 1, "┬", border);
    canvas.vertical_line(old.right(), old, border);
    let selected = app.cursor(Screen::Replay).selected;
    let style = if run.answers_focused { canvas.element(UiElement::Tab) } else { canvas.tone(Tone::Dim) };
    let mut title = |area: Rect, text: &str| {
        let x = canvas.put(area.x + 1, y, 1, " ", style);
        let x = canvas.put(x, y, area.width.saturating_sub(4), text, style);
        canvas.put(x, y, 1, " ", style);
    };
    let Some((recorded, now)) = run.answers() else {
        title(old, "recorded");
        title(new, "now");
        let why = run.pair(selected).and_then(|pair| pair.why.clone()).unwrap_or_default();
        return sentence(canvas, new, &why, Tone::Dim);
    };
    title(old, &format!("recorded: {}", kind(recorded)));
    title(new, &format!("now: {}", kind(now)));
    let mut y = old.y;
    for row in run.aligned_rows().iter().skip(run.top(old.height.into())) {
        if y >= old.bottom() {
            break;
        }
        y += draw_row(
            canvas,
            row,
            Rect { y, height: old.bottom() - y, ..old },
            Rect { y, height: old.bottom() - y, ..new },
        );
    }
}

/// The kind of an answer. A failed tool differs from a failed request.
fn kind(answer: &Answer) -> &'static str {
    match answer {
        Answer::Result(_) => "result",
        Answer::ToolError(_) => "tool error",
        Answer::Error(_) => "protocol error",
        Answer::Unreadable(_) => "too deep to be read",
        Answer::Nothing(_) => "nothing",
    }
}

fn sentence(canvas: &mut Canvas<'_>, area: Rect, text: &str, tone: Tone) {
    let style = canvas.tone(tone);
    let width = area.width.saturating_sub(4);
    for (y, line) in (area.y..area.bottom()).zip(safe::wrap(text, usize::from(width).max(1))) {
        canvas.put(area.x + 2, y, width, &line, style);
    }
}

/// Draws a row of both sides, with long lines wrapped. Returns the number of lines used.
fn draw_row(canvas: &mut Canvas<'_>, row: &AlignedRow, old: Rect, new: Rect) -> u16 {
    let (left, right) = match row.matching {
        RowMatch::Same => (canvas.tone(Tone::Plain), canvas.tone(Tone::Plain)),
        RowMatch::Tolerated => (canvas.tone(Tone::Dim), canvas.tone(Tone::Dim)),
        RowMatch::Differs => (canvas.tone(Tone::Error), canvas.tone(Tone::Good)),
    };
    let sign = match (row.matching, &row.old, &row.new) {
        (RowMatch::Same, ..) => " ",
        (RowMatch::Tolerated, ..) => "~",
        (RowMatch::Differs, Some(_), None) => "-",
        (RowMatch::Differs, None, Some(_)) => "+",
        (RowMatch::Differs, ..) => "≠",
    };
    let height =
        side(canvas, old, row.old.as_deref(), sign, left).max(side(canvas, new, row.new.as_deref(), sign, right));
    height.max(1)
}

fn side(canvas: &mut Canvas<'_>, area: Rect, text: Option<&str>, sign: &str, style: Style) -> u16 {
    let Some(text) = text else { return 0 };
    let room = usize::from(area.width.saturating_sub(4)).max(8);
    // Wrapped lines keep the indentation of their text.
    let indent = (text.len() - text.trim_start().len()).min(room / 2);
    let lines = safe::wrap(text.trim_start(), room - indent);
    canvas.put(area.x + 1, area.y, 1, sign, style);
    for (line, text) in lines.iter().take(area.height.into()).enumerate() {
        canvas.put(area.x + 3 + indent as u16, area.y + line as u16, area.width.saturating_sub(4), text, style);
    }
    lines.len().min(area.height.into()) as u16
}
