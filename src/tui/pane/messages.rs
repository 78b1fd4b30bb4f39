//! The messages of a session. Calls stand out; notifications are dim.

use ratatui::layout::Rect;

use super::super::app::App;
use super::super::canvas::{Canvas, Cell, Column, TableView, duration_bar};
use super::super::data::{MessageLine, NoteLine};
use crate::capture::Time;
use crate::decode::jsonrpc::Kind;
use crate::view::outcome::{Look, look};
use crate::view::paint::Tone;
use crate::view::transcript::{arrow, method_tone, part_of};
use crate::view::units;

const COLUMNS: &[Column] = &[
    Column::new(" ", 1),
    Column::new("#", 3).right(),
    Column::new("time", 10).right().shown_from(60),
    Column::new(" ", 2),
    Column::new("method", 14),
    Column::new("about", 14).grows(5),
    Column::new("id", 5).id().shown_from(60),
    Column::new("status", 10).shown_from(100),
    Column::new("latency", 8).right().shown_from(50),
    Column::new("", BAR as u16).shown_from(110),
    Column::new("size", 7).right().shown_from(90),
    Column::new("", 1),
    Column::new("findings", 12).grows(1).shown_from(130),
];

/// From this width on methods are written in full. Below it only the broken arrow
/// marks a notification.
const WHOLE: u16 = 150;

/// Width of `notifications/initialized`, the longest common method. Those of tasks and resources
/// are slightly longer.
const METHOD: u16 = 25;

/// Width of the latency's bar: from 100 µs to 100 s.
const BAR: usize = 6;

/// The columns: as wide as the visible numbers; methods and ids in full if there is room.
fn columns(app: &App, list: TableView, area: Rect) -> Vec<Column> {
    let rows = list.cursor.top..list.cursor.top + usize::from(area.height);
    let largest = rows.filter_map(|row| app.message(row)).map(|message| message.row.number.0).max().unwrap_or(0);
    let digits = largest.checked_ilog10().unwrap_or(0) as u16 + 1;
    let column = |column: &Column| match column.title() {
        "#" => column.widened_to(digits),
        "method" if area.width >= WHOLE => column.widened_to(METHOD),
        "id" if area.width >= WHOLE => column.widened_to(10),
        _ => *column,
    };
    COLUMNS.iter().map(column).collect()
}

/// Draws the list. `active`: it receives the keys.
pub fn draw(app: &App, canvas: &mut Canvas<'_>, area: Rect, active: bool) {
    let Some((total, _)) = app.message_count() else { return canvas.message(area, "…") };
    if total == 0 {
        return canvas.message(area, nothing(app));
    }
    let list = TableView {
        cursor: *app.cursor(super::super::screen::Screen::Messages),
        total: app.folds.visible_count(total),
        active,
    };
    let narrow = area.width < WHOLE;
    canvas.table(area, &columns(app, list, area), list, |row| {
        if let Some(note) = app.note(row) {
            return Some(note_cells(app, note));
        }
        let message = app.message(row)?;
        let (arrow, side) = arrow(message.row.direction, message.row.kind);
        let method_tone = method_tone(message.row.kind, outcome(message));
        let hidden = app.folds.hidden_count(app.folds.list_row(row));
        let (mark, mark_tone) = mark(message);
        let (latency, latency_tone, bar) = latency(app, message);
        Some(vec![
            if app.is_marked(message.row.number) {
                Cell { text: "◆".to_owned(), tone: None }
            } else {
                Cell::default()
            },
            Cell::new(message.row.number.0.to_string(), Tone::Dim),
            Cell::new(relative(app, message.row.time), Tone::Dim),
            Cell::new(format!("{}{arrow}", batch(message, hidden)), side),
            Cell::new(if narrow { short_method(message) } else { method(message) }, method_tone),
            Cell::new(about(message, hidden), about_tone(message)),
            Cell::new(message.row.id.clone().unwrap_or_default(), Tone::Dim),
            Cell::new(status(message), status_tone(message)),
            Cell::new(latency, latency_tone),
            Cell::new(bar, if latency_tone == Tone::Plain { Tone::Dim } else { latency_tone }),
            Cell::new(units::size(message.row.size), Tone::Dim),
            Cell::new(mark, mark_tone),
            Cell::new(message.rules.join(" "), mark_tone),
        ])
    });
}

/// The cells of a note: its sign stands in the column of the arrows.
fn note_cells(app: &App, note: &NoteLine) -> Vec<Cell> {
    let words = &note.words;
    let about = [words.about.as_str(), &words.messages].into_iter().filter(|words| !words.is_empty());
    vec![
        Cell::default(),
        Cell::default(),
        Cell::new(relative(app, note.time), Tone::Dim),
        Cell::new(format!(" {}", words.sign), words.tone),
        Cell::new(words.what.clone(), words.tone),
        Cell::new(about.collect::<Vec<_>>().join("  "), if words.tone == Tone::Dim { Tone::Dim } else { Tone::Plain }),
    ]
}

/// The reason why no message is listed.
pub fn nothing(app: &App) -> &'static str {
    let complete = app.message_count().is_some_and(|(_, complete)| complete);
    match (app.filter.is_empty(), complete) {
        (true, _) => "no message yet: the first one appears here as soon as it is complete",
        (false, true) => "no message matches the filter: esc clears it, / changes it",
        (false, false) => "searching …",
    }
}

/// The method, or the reason why there is none.
pub fn method(message: &MessageLine) -> String {
    match (&message.row.method, message.row.kind) {
        (Some(method), _) => method.clone(),
        (None, Kind::Invalid) => "not a message".to_owned(),
        (None, _) => "(no request seen)".to_owned(),
    }
}

/// The method for narrow columns. The broken arrow marks a notification, so its prefix is left out.
pub fn short_method(message: &MessageLine) -> String {
    let method = method(message);
    method.strip_prefix("notifications/").map(str::to_owned).unwrap_or(method)
}

/// The look of an answer. A request looks the same whatever its answer is.
pub fn outcome(message: &MessageLine) -> Look {
    look(message.row.status.filter(|_| message.row.kind != Kind::Request))
}

fn about_tone(message: &MessageLine) -> Tone {
    let plain = if message.row.kind == Kind::Notification { Tone::Dim } else { Tone::Plain };
    outcome(message).about.unwrap_or(plain)
}

fn status(message: &MessageLine) -> &'static str {
    match (message.row.status, message.row.kind) {
        (None, Kind::Request) => "waiting",
        (status, _) => look(status).word,
    }
}

fn status_tone(message: &MessageLine) -> Tone {
    match (message.row.status, message.row.kind) {
        (None, Kind::Request) => Tone::Warning,
        (status, _) => look(status).about.unwrap_or(Tone::Dim),
    }
}

/// The latency, and its bar. A call without an answer shows how long it has waited: until now in a
/// live session, else until the session's end.
fn latency(app: &App, message: &MessageLine) -> (String, Tone, String) {
    let session = app.session_row();
    let is_open = message.row.kind == Kind::Request && message.row.answered_by.is_none();
    let latency = match message.row.latency {
        Some(latency) => latency,
        None if is_open => {
            let end = session.map(|row| if row.live { app.now } else { row.session.ended });
            return match end.map(|end| end.since(message.row.time)).filter(|elapsed| *elapsed >= 0) {
                Some(elapsed) => (format!("{}…", units::duration(elapsed)), Tone::Warning, duration_bar(elapsed, BAR)),
                None => ("…".to_owned(), Tone::Warning, String::new()),
            };
        }
        None => return (String::new(), Tone::Plain, String::new()),
    };
    // The request has the latency too, but only the answer gets the bar.
    match message.row.kind {
        Kind::Request => (units::duration(latency), Tone::Dim, String::new()),
        _ => (units::duration(latency), Tone::Plain, duration_bar(latency, BAR)),
    }
}

fn mark(message: &MessageLine) -> (&'static str, Tone) {
    match message.row.severity {
        Some(severity) => ("!", severity.into()),
        None if !outcome(message).mark.is_empty() => (outcome(message).mark, about_tone(message)),
        None if message.row.redelivered => ("↻", Tone::Warning),
        None => ("", Tone::Plain),
    }
}

/// The content of the message and its link to an operation. For a folded group, the number
/// of hidden messages.
fn about(message: &MessageLine, hidden: usize) -> String {
    match hidden {
        0 => part_of(message.row.link.as_ref(), message.about.clone()),
        more => format!(
            "and {more} more {}  {}",
            if message.row.batch.is_some() { "in this batch" } else { "of this operation" },
            message.about
        ),
    }
}

/// A bracket around the members of a batch.
fn batch(message: &MessageLine, hidden: usize) -> &'static str {
    match message.row.batch {
        _ if hidden > 0 => "▸",
        Some((_, 0)) => "┌",
        Some(_) => "│",
        None => " ",
    }
}

/// Seconds since the session began.
pub fn relative(app: &App, time: Time) -> String {
    units::relative(time, app.session_row().map_or(time, |row| row.session.started))
}
