//! The session as arrows between host and server, by time. Open calls are bars at the server, with
//! overlapping ones side by side.

use ratatui::layout::Rect;

use super::super::app::App;
use super::super::canvas::{Canvas, bar};
use super::super::data::{MessageLine, NoteLine};
use super::super::screen::Screen;
use super::super::theme::UiElement;
use super::messages::{method, outcome, relative, short_method};
use crate::decode::Direction;
use crate::decode::jsonrpc::Kind;
use crate::view::paint::Tone;
use crate::view::transcript::arrow;
use crate::view::{parties, safe, units};

/// Limit of the calls side by side. Further ones are drawn over the last.
const LANES: usize = 8;

/// Below this width half of them are used, because the arrows need the room.
const NARROW: u16 = 110;

/// Below this width the times and the open calls are left out.
const SMALL: u16 = 60;

/// Width of the bar for the time since the row above.
const GAP: usize = 6;

/// Limit of the length of an arrow: both its ends have to be visible at a glance.
const LONGEST: u16 = 150;

pub fn draw(app: &App, canvas: &mut Canvas<'_>, area: Rect) {
    let Some((total, _)) = app.message_count() else { return canvas.message(area, "…") };
    if total == 0 {
        return canvas.message(area, super::messages::nothing(app));
    }
    let total = app.folds.visible_count(total);
    // On a small screen the arrows get all the room.
    let is_small = area.width < SMALL;
    let zoom = scale(app.zoom).filter(|_| !is_small);
    let left = area.x
        + match zoom {
            _ if is_small => 9,
            Some(_) => 28,
            None => 21,
        };
    let lanes = if area.width < NARROW { LANES / 2 } else { LANES };
    let beside = if is_small { 2 } else { lanes as u16 + 13 };
    let right = area.right().saturating_sub(beside).min(left + LONGEST);
    head(app, canvas, area, left, right, zoom);
    let cursor = *app.cursor(Screen::Messages);
    let window = |line: u16| app.message(cursor.top + usize::from(line));
    let mut lanes = Lanes::new(lanes, (0..area.height - 1).filter_map(window));
    let lifeline = canvas.element(UiElement::Border);
    for line in 0..area.height - 1 {
        let (row, y) = (cursor.top + usize::from(line), area.y + 1 + line);
        if row >= total {
            break;
        }
        canvas.put(left, y, 1, "│", lifeline);
        canvas.put(right, y, 1, "│", lifeline);
        if let Some(note) = app.note(row) {
            note_line(app, canvas, (area.x, y), (left, area.right()), note);
        }
        if let Some(message) = app.message(row) {
            let before = row.checked_sub(1).and_then(|row| app.message(row));
            times(app, canvas, (area.x, y), message, before, zoom);
            arrow_line(canvas, (left, right), y, message);
            let tone = canvas.tone(outcome(message).about.unwrap_or(Tone::Client));
            let signs = lanes.row(message);
            for (lane, sign) in signs.into_iter().filter(|_| !is_small) {
                canvas.put(right + 2 + lane as u16, y, 1, sign, tone);
            }
            if let (Kind::Response | Kind::Error, Some(latency), false) =
                (message.row.kind, message.row.latency, is_small)
            {
                canvas.put_right(right + lanes.open.len() as u16 + 3, y, 9, &units::duration(latency), tone);
            }
        }
        if row == cursor.selected {
            canvas.select(Rect { x: area.x, y, width: area.width, height: 1 }, true);
        }
    }
    canvas.scroll_bar(Rect { y: area.y + 1, height: area.height - 1, ..area }, cursor.top, total);
}

/// Draws a note between the arrows, over the lifelines.
fn note_line(app: &App, canvas: &mut Canvas<'_>, (x, y): (u16, u16), (left, end): (u16, u16), note: &NoteLine) {
    let (dim, tone) = (canvas.tone(Tone::Dim), canvas.tone(note.words.tone));
    if canvas.buffer.area.width >= SMALL {
        canvas.put_right(x + 9, y, 10, &relative(app, note.time), dim);
    }
    let words = [&note.words.what, &note.words.about, &note.words.messages];
    let words: Vec<&str> = words.into_iter().map(String::as_str).filter(|words| !words.is_empty()).collect();
    let text = format!(" {}  {} ", note.words.sign, words.join("  "));
    canvas.put(left + 2, y, end.saturating_sub(left + 2), &text, tone);
}

fn head(app: &App, canvas: &mut Canvas<'_>, area: Rect, left: u16, right: u16, zoom: Option<i64>) {
    let (dim, strong) = (canvas.element(UiElement::Head), canvas.tone(Tone::Strong));
    canvas.put_right(area.x + 1, area.y, 7, "#", dim);
    let is_small = area.width < SMALL;
    canvas.put_right(area.x + 9, area.y, if is_small { 0 } else { 10 }, "time", dim);
    let scale = zoom.map(units::duration).unwrap_or_default();
    canvas.put(area.x + 20, area.y, 8, &scale, dim);
    let row = app.session_row();
    let client = row.and_then(|row| row.session.client.as_ref()).map_or("host", |client| client.name.as_str());
    canvas.put(left, area.y, (right - left) / 2, client, strong);
    let server = row.map(|row| parties::server(&row.session)).unwrap_or_default();
    let room = (right - left) / 2;
    canvas.put_right(right + 1 - room, area.y, room, &server, strong);
    let room = if is_small { 0 } else { area.right().saturating_sub(right + 2) };
    canvas.put(right + 2, area.y, room, "open calls", dim);
}

/// The time for which the bar of time is full.
fn scale(zoom: u8) -> Option<i64> {
    let scales = [None, Some(10_000), Some(1_000), Some(100), Some(10), Some(1)];
    scales.get(usize::from(zoom)).copied().unwrap_or(Some(1)).map(|milliseconds: i64| milliseconds * 1_000_000)
}

fn times(
    app: &App,
    canvas: &mut Canvas<'_>,
    (x, y): (u16, u16),
    message: &MessageLine,
    before: Option<&MessageLine>,
    zoom: Option<i64>,
) {
    let dim = canvas.tone(Tone::Dim);
    let mark = canvas.element(UiElement::Mark);
    if app.is_marked(message.row.number) {
        canvas.put(x, y, 1, "◆", mark);
    }
    canvas.put_right(x + 1, y, 7, &message.row.number.0.to_string(), dim);
    if canvas.buffer.area.width >= SMALL {
        canvas.put_right(x + 9, y, 10, &relative(app, message.row.time), dim);
    }
    if let (Some(full), Some(before)) = (zoom, before) {
        let gone = message.row.time.since(before.row.time).max(0) as u64;
        canvas.put(x + 20, y, GAP as u16, &bar(gone, full as u64, GAP), dim);
    }
}

/// Draws the arrow between two lifelines, without text. Returns its tone. A JSON-RPC error colours
/// the arrow; a tool error colours only the text on it.
pub(super) fn shaft(canvas: &mut Canvas<'_>, (left, right): (u16, u16), y: u16, message: &MessageLine) -> Tone {
    let (_, side) = arrow(message.row.direction, message.row.kind);
    let cancelled = message.row.method.as_deref() == Some("notifications/cancelled");
    let tone = match message.row.kind {
        _ if let Some(tone) = outcome(message).method => tone,
        _ if cancelled => Tone::Warning,
        _ => side,
    };
    let style = canvas.tone(tone);
    let line = if message.row.kind == Kind::Notification { "╌" } else { "─" };
    for x in left + 1..right {
        canvas.put(x, y, 1, line, style);
    }
    match message.row.direction {
        Direction::ClientToServer => canvas.put(right - 1, y, 1, "▶", style),
        Direction::ServerToClient => canvas.put(left + 1, y, 1, "◀", style),
    };
    tone
}

/// Draws an arrow with its text: `├── tools/call get_weather 3 ──▶│`.
fn arrow_line(canvas: &mut Canvas<'_>, (left, right): (u16, u16), y: u16, message: &MessageLine) {
    let tone = shaft(canvas, (left, right), y, message);
    let id = message.row.id.as_deref().map(|id| format!(" ({id})")).unwrap_or_default();
    let room = right.saturating_sub(left + 6);
    let method = if room < 60 { short_method(message) } else { method(message) };
    let text = words(&format!(" {method}{id} {}", message.about), message, room);
    let width = safe::width(&text) as u16;
    // A short text is in the middle of its arrow.
    let x = left + 3 + room.saturating_sub(width) / 2;
    let words = if message.row.kind == Kind::Request { Tone::Strong } else { tone };
    let words = outcome(message).about.unwrap_or(words);
    let style = canvas.tone(if message.row.kind == Kind::Notification { Tone::Dim } else { words });
    canvas.put(x, y, room, &text, style);
}

/// The text on an arrow, ending with the mark of its outcome even if there is little room.
pub(super) fn words(text: &str, message: &MessageLine, room: u16) -> String {
    let mark = outcome(message).mark;
    let mark = if mark.is_empty() { " ".to_owned() } else { format!(" {mark} ") };
    let text = safe::fit(text, usize::from(room).saturating_sub(safe::width(&mark)));
    format!("{text}{mark}")
}

/// The open calls, row by row.
struct Lanes {
    /// The request in each lane, and its answer if there is one.
    open: Vec<Option<(u64, Option<u64>)>>,
}

impl Lanes {
    /// Starts with the calls that were open before the first row: their answers are visible.
    fn new<'m>(count: usize, window: impl Iterator<Item = &'m MessageLine>) -> Lanes {
        let mut lanes = Lanes { open: vec![None; count] };
        let mut first = None;
        for message in window {
            let number = message.row.number.0;
            let first = *first.get_or_insert(number);
            if let Some(request) = message.row.answers.map(|request| request.0).filter(|request| *request < first) {
                lanes.take(request, Some(number));
            }
        }
        lanes
    }

    fn take(&mut self, request: u64, answer: Option<u64>) -> usize {
        let free = self.open.iter().position(Option::is_none).unwrap_or(self.open.len() - 1);
        self.open[free] = Some((request, answer));
        free
    }

    /// The lanes at this message, which may open or close one.
    fn row(&mut self, message: &MessageLine) -> Vec<(usize, &'static str)> {
        let number = message.row.number.0;
        let opened = (message.row.kind == Kind::Request)
            .then(|| self.take(number, message.row.answered_by.map(|answer| answer.0)));
        let sign = |(lane, call): (usize, &Option<(u64, Option<u64>)>)| {
            let (request, answer) = (*call)?;
            let sign = match () {
                () if Some(lane) == opened => "┏",
                () if answer == Some(number) || message.row.answers.is_some_and(|own| own.0 == request) => "┗",
                () => "┃",
            };
            Some((lane, sign))
        };
        let signs: Vec<(usize, &'static str)> = self.open.iter().enumerate().filter_map(sign).collect();
        for (lane, sign) in &signs {
            if *sign == "┗" {
                self.open[*lane] = None;
            }
        }
        signs
    }
}
