//! Messages of a session: calls first, plumbing dim.

use ratatui::layout::Rect;

use super::super::app::App;
use super::super::canvas::{Canvas, Cell, Column, List, bar};
use super::super::data::MessageLine;
use super::super::theme::Part;
use crate::capture::Time;
use crate::decode::Direction;
use crate::decode::jsonrpc::Kind;
use crate::view::outcome::{Look, look};
use crate::view::paint::Tone;
use crate::view::transcript::part_of;
use crate::view::units;

const COLUMNS: &[Column] = &[
    Column::new(" ", 1),
    Column::new("#", 3).right(),
    Column::new("time", 10).right(),
    Column::new(" ", 2),
    Column::new("method", 14),
    Column::new("about", 14).grows(5),
    Column::new("id", 5),
    Column::new("status", 10).from(100),
    Column::new("latency", 8).right(),
    Column::new("", BAR as u16).from(110),
    Column::new("size", 7).right().from(90),
    Column::new("", 1),
    Column::new("findings", 12).grows(1).from(130),
];

/// From this width on methods are written whole; below it the broken arrow alone says that something is a notification.
const WHOLE: u16 = 150;

/// Columns of the longest method of the protocol, `notifications/initialized`; that of tasks and resources is longer by a little.
const METHOD: u16 = 25;

/// Columns of the latency's bar.
const BAR: usize = 8;

/// The columns: numbers as wide as those in view, methods and ids whole where there is room.
fn columns(app: &App, list: List, area: Rect) -> Vec<Column> {
    let rows = list.cursor.top..list.cursor.top + usize::from(area.height);
    let largest = rows.filter_map(|row| app.message(row)).map(|message| message.row.number.0).max().unwrap_or(0);
    let digits = largest.checked_ilog10().unwrap_or(0) as u16 + 1;
    let column = |column: &Column| match column.title() {
        "#" => column.wide(digits),
        "method" if area.width >= WHOLE => column.wide(METHOD),
        "id" if area.width >= WHOLE => column.wide(10),
        _ => *column,
    };
    COLUMNS.iter().map(column).collect()
}

/// Draws the list; `active` where it has the keys.
pub fn draw(app: &App, canvas: &mut Canvas<'_>, area: Rect, active: bool) {
    let Some((total, complete)) = app.message_count() else { return canvas.message(area, "…") };
    if total == 0 {
        let why = match (app.filter.is_empty(), complete) {
            (true, _) => "no messages yet",
            (false, true) => "no message fits the filter: esc drops it",
            (false, false) => "searching …",
        };
        return canvas.message(area, why);
    }
    let list = List { cursor: *app.cursor(super::super::app::Screen::Messages), total: app.folds.seen(total), active };
    let theme = canvas.theme;
    let narrow = area.width < WHOLE;
    canvas.table(area, &columns(app, list, area), list, |row| {
        let message = app.message(row)?;
        let tone = |tone| theme.tone(tone);
        let (arrow, side) = arrow(message);
        let what = what(message);
        let behind = app.folds.behind(app.folds.row(row));
        let (mark, mark_tone) = mark(message);
        let (latency, latency_tone, share) = latency(app, message);
        Some(vec![
            Cell::new(if app.is_marked(message.row.number) { "◆" } else { "" }, theme.part(Part::Mark)),
            Cell::new(message.row.number.0.to_string(), tone(Tone::Dim)),
            Cell::new(relative(app, message.row.time), tone(Tone::Dim)),
            Cell::new(format!("{}{arrow}", batch(message, behind)), tone(side)),
            Cell::new(if narrow { short_method(message) } else { method(message) }, tone(what)),
            Cell::new(about(message, behind), tone(about_tone(message))),
            Cell::new(message.row.id.clone().unwrap_or_default(), tone(Tone::Dim)),
            Cell::new(status(message), tone(status_tone(message))),
            Cell::new(latency, tone(latency_tone)),
            Cell::new(bar(share, 1_000, BAR), tone(if latency_tone == Tone::Plain { Tone::Dim } else { latency_tone })),
            Cell::new(units::size(message.row.size), tone(Tone::Dim)),
            Cell::new(mark, tone(mark_tone)),
            Cell::new(message.rules.join(" "), tone(mark_tone)),
        ])
    });
}

/// The direction, and its tone. Notifications have broken arrows.
pub fn arrow(message: &MessageLine) -> (&'static str, Tone) {
    let (arrow, tone) = direction(message.row.direction);
    match (message.row.direction, message.row.kind) {
        (Direction::ClientToServer, Kind::Notification) => ("⇢", tone),
        (Direction::ServerToClient, Kind::Notification) => ("⇠", tone),
        _ => (arrow, tone),
    }
}

/// The arrow of a direction, and its tone: the client stands on the left.
pub fn direction(direction: Direction) -> (&'static str, Tone) {
    match direction {
        Direction::ClientToServer => ("→", Tone::Client),
        Direction::ServerToClient => ("←", Tone::Server),
    }
}

/// The method, or why there is none.
pub fn method(message: &MessageLine) -> String {
    match (&message.row.method, message.row.kind) {
        (Some(method), _) => method.clone(),
        (None, Kind::Invalid) => "no message".to_owned(),
        (None, _) => "(no request seen)".to_owned(),
    }
}

/// The method where there is little room: the broken arrow says that it is a notification.
pub fn short_method(message: &MessageLine) -> String {
    let method = method(message);
    method.strip_prefix("notifications/").map(str::to_owned).unwrap_or(method)
}

/// How an answer looks; a request looks as before whatever its answer is.
pub fn outcome(message: &MessageLine) -> Look {
    look(message.row.status.filter(|_| message.row.kind != Kind::Request))
}

/// How the method looks: requests stand out, notifications and handshakes stand back.
fn what(message: &MessageLine) -> Tone {
    match message.row.kind {
        _ if let Some(tone) = outcome(message).method => tone,
        Kind::Invalid => Tone::Warning,
        Kind::Request => Tone::Strong,
        Kind::Notification => Tone::Dim,
        Kind::Response | Kind::Error => Tone::Plain,
    }
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

/// The latency, and how long its bar is in thousandths: full for what is as slow as the slowest twentieth of the session. A call that
/// waits shows how long, by the clock while the session lives, else up to its end.
fn latency(app: &App, message: &MessageLine) -> (String, Tone, u64) {
    let session = app.session_row();
    let waits = message.row.kind == Kind::Request && message.row.answered_by.is_none();
    let latency = match message.row.latency {
        Some(latency) => latency,
        None if waits => {
            let end = session.map(|row| if row.live { app.now } else { row.session.ended });
            return match end.map(|end| end.since(message.row.time)).filter(|waited| *waited >= 0) {
                Some(waited) => (format!("{}…", units::duration(waited)), Tone::Warning, 0),
                None => ("…".to_owned(), Tone::Warning, 0),
            };
        }
        None => return (String::new(), Tone::Plain, 0),
    };
    let full = session.and_then(|row| row.latency).map_or(latency, |(_, p95)| p95).max(1);
    let share = (i128::from(latency.max(0)) * 1_000 / i128::from(full)).clamp(0, 1_000) as u64;
    // The request has it too; said once, at the answer.
    let tone = if message.row.kind == Kind::Request { Tone::Dim } else { Tone::Plain };
    (units::duration(latency), tone, if message.row.kind == Kind::Request { 0 } else { share.max(1) })
}

fn mark(message: &MessageLine) -> (&'static str, Tone) {
    match message.row.severity {
        Some(severity) => ("!", severity.into()),
        None if !outcome(message).mark.is_empty() => (outcome(message).mark, about_tone(message)),
        None if message.row.redelivered => ("↻", Tone::Warning),
        None => ("", Tone::Plain),
    }
}

/// What the message is about, and what it goes on with; of a folded group how many stand behind it.
fn about(message: &MessageLine, behind: usize) -> String {
    match behind {
        0 => part_of(message.row.link.as_ref(), message.about.clone()),
        more => format!(
            "and {more} more {}  {}",
            if message.row.batch.is_some() { "in this batch" } else { "of this operation" },
            message.about
        ),
    }
}

/// Members of a batch hang together.
fn batch(message: &MessageLine, behind: usize) -> &'static str {
    match message.row.batch {
        _ if behind > 0 => "▸",
        Some((_, 0)) => "┌",
        Some(_) => "│",
        None => " ",
    }
}

/// Seconds since the session began.
pub fn relative(app: &App, time: Time) -> String {
    units::relative(time, app.session_row().map_or(time, |row| row.session.started))
}
