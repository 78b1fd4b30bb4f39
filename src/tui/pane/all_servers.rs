//! The sequence of a host and all its servers, with a lifeline for each. It is heavy while calls
//! are open, with their number if they overlap.

use std::collections::HashMap;

use ratatui::layout::Rect;

use super::super::app::App;
use super::super::canvas::Canvas;
use super::super::data::{HostSessions, MessageLine};
use super::super::screen::Screen;
use super::super::theme::UiElement;
use super::messages::{method, outcome, relative};
use super::sequence::{shaft, words};
use crate::decode::jsonrpc::Kind;
use crate::mcp::SessionNumber;
use crate::view::paint::Tone;
use crate::view::units;

/// Columns before the host: the mark and the time.
const LEFT: u16 = 15;

/// Draws the arrows of all servers.
pub fn draw(app: &App, canvas: &mut Canvas<'_>, area: Rect) {
    let Some(all_servers) = app.session.and_then(|session| app.cache.all_servers.of(session)) else {
        return canvas.message(area, "…");
    };
    let lanes = Lanes::new(area, all_servers);
    head(app, canvas, area, all_servers, &lanes);
    let cursor = *app.cursor(Screen::Sequence);
    let mut open = OpenCalls::default();
    all_servers.lines.iter().take(cursor.top).for_each(|line| open.count(line));
    for line in 0..area.height.saturating_sub(1) {
        let (row, y) = (cursor.top + usize::from(line), area.y + 1 + line);
        let Some(message) = all_servers.lines.get(row) else { break };
        open.count(message);
        lifelines(canvas, y, &lanes, &open);
        times(app, canvas, (area.x, y), message);
        if let Some(server) = lanes.server(message.row.session) {
            arrow_line(canvas, (lanes.host, server), y, message);
        }
        if row == cursor.selected {
            canvas.select(Rect { x: area.x, y, width: area.width, height: 1 }, true);
        }
    }
    let rows = Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area };
    canvas.scroll_bar(rows, cursor.top, all_servers.lines.len());
}

/// The columns of the lifelines.
struct Lanes {
    host: u16,
    servers: Vec<(SessionNumber, u16)>,
}

impl Lanes {
    fn new(area: Rect, all_servers: &HostSessions) -> Lanes {
        let host = area.x + LEFT;
        let room = area.right().saturating_sub(host + 4);
        let count = all_servers.sessions.len().max(1) as u16;
        let place =
            |(at, (session, _)): (usize, &(SessionNumber, String))| (*session, host + room * (at as u16 + 1) / count);
        Lanes { host, servers: all_servers.sessions.iter().enumerate().map(place).collect() }
    }

    fn server(&self, session: SessionNumber) -> Option<u16> {
        self.servers.iter().find(|(own, _)| *own == session).map(|(_, x)| *x)
    }
}

/// The number of unanswered calls of each session.
#[derive(Default)]
struct OpenCalls(HashMap<SessionNumber, usize>);

impl OpenCalls {
    fn count(&mut self, message: &MessageLine) {
        let count = self.0.entry(message.row.session).or_default();
        match message.row.kind {
            // A request that is never answered would stay open for ever.
            Kind::Request => *count += usize::from(message.row.answered_by.is_some()),
            _ => *count = count.saturating_sub(usize::from(message.row.answers.is_some())),
        }
    }
}

fn head(app: &App, canvas: &mut Canvas<'_>, area: Rect, all_servers: &HostSessions, lanes: &Lanes) {
    let (dim, strong) = (canvas.element(UiElement::Head), canvas.tone(Tone::Strong));
    canvas.put_right(area.x + 2, area.y, 10, "time", dim);
    let client = app.session_row().and_then(|row| row.session.client.as_ref());
    let client = client.map_or("host", |client| client.name.as_str());
    let mut from = canvas.put(lanes.host, area.y, 12, client, strong);
    for ((_, name), (_, x)) in all_servers.sessions.iter().zip(&lanes.servers) {
        let room = (x + 2).saturating_sub(from + 1);
        canvas.put_right(from + 1, area.y, room, name, strong);
        from = *x + 2;
    }
    if !all_servers.complete {
        canvas.put_right(area.x, area.bottom().saturating_sub(1), area.width, "not all messages are shown", dim);
    }
}

fn lifelines(canvas: &mut Canvas<'_>, y: u16, lanes: &Lanes, open: &OpenCalls) {
    let (line, busy) = (canvas.element(UiElement::Border), canvas.tone(Tone::Client));
    canvas.put(lanes.host, y, 1, "│", line);
    for (session, x) in &lanes.servers {
        match open.0.get(session).copied().unwrap_or_default() {
            0 => drop(canvas.put(*x, y, 1, "│", line)),
            1 => drop(canvas.put(*x, y, 1, "┃", busy)),
            more => drop(canvas.put(*x, y, 3, &format!("┃{more}"), busy)),
        }
    }
}

fn times(app: &App, canvas: &mut Canvas<'_>, (x, y): (u16, u16), message: &MessageLine) {
    let (dim, mark) = (canvas.tone(Tone::Dim), canvas.element(UiElement::Mark));
    if app.marks.contains(&(message.row.session, message.row.number)) {
        canvas.put(x, y, 1, "◆", mark);
    }
    canvas.put_right(x + 2, y, 10, &relative(app, message.row.time), dim);
}

fn arrow_line(canvas: &mut Canvas<'_>, (host, server): (u16, u16), y: u16, message: &MessageLine) {
    let tone = shaft(canvas, (host, server), y, message);
    let style = canvas.tone(outcome(message).about.unwrap_or(tone));
    let answer = matches!(message.row.kind, Kind::Response | Kind::Error);
    let latency = message.row.latency.filter(|_| answer).map(|latency| format!(" {}", units::duration(latency)));
    let text = format!(" {} {}{}", method(message), message.about, latency.unwrap_or_default());
    let room = server.saturating_sub(host + 6);
    let text = words(&text, message, room);
    canvas.put(host + 3, y, room, &text, if answer { style } else { canvas.tone(Tone::Strong) });
}
