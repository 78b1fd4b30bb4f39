//! Draws the frame of the screen, and calls the pane inside of it. `layout` shows the parts.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::app::bars;
use super::app::{App, Mode};
use super::canvas::Canvas;
use super::keys::sign;
use super::layout::{self, LEAST};
use super::pane;
use super::screen::Screen;
use super::theme::UiElement;
use crate::view::paint::Tone;
use crate::view::{parties, safe};

/// Draws everything. Returns the position of the terminal's cursor while a text is edited.
pub fn draw(app: &App, buffer: &mut Buffer) -> Option<(u16, u16)> {
    let area = buffer.area;
    let mut canvas = Canvas { buffer, theme: app.palette };
    if area.width < LEAST.0 || area.height < LEAST.1 {
        canvas.message(area, &format!("terminal too small: at least {} × {}", LEAST.0, LEAST.1));
        return None;
    }
    frame(app, &mut canvas, area);
    tabs(app, &mut canvas, area.width - 1);
    let body = layout::body((area.width, area.height));
    match app.screen {
        Screen::Sessions => pane::sessions::draw(app, &mut canvas, body),
        Screen::Messages | Screen::Sequence if !layout::has_panes(app.size, app.screen) => {
            pane::detail::list(app, &mut canvas, body);
        }
        Screen::Layers => pane::steps::draw(app, &mut canvas, body),
        Screen::Findings => pane::findings::draw(app, &mut canvas, body),
        Screen::Statistics => pane::statistics::draw(app, &mut canvas, body),
        Screen::Packets => pane::packets::draw(app, &mut canvas, body),
        Screen::Tools => pane::tools::draw(app, &mut canvas, body),
        Screen::Stderr => pane::stderr::draw(app, &mut canvas, body),
        Screen::Replay => pane::replay::draw(app, &mut canvas, body),
        Screen::Messages | Screen::Sequence | Screen::Detail => pane::detail::draw(app, &mut canvas, body),
    }
    match &app.mode {
        Mode::Browse => None,
        Mode::Help(top) => {
            pane::help::draw(app, &mut canvas, *top);
            None
        }
        Mode::Value(top) => {
            pane::value::draw(app, &mut canvas, *top);
            None
        }
        Mode::Form => pane::replay::form::draw(app, &mut canvas),
        Mode::Prompt(prompt, line) => Some(pane::prompt::draw(app, &mut canvas, *prompt, line)),
    }
}

fn frame(app: &App, canvas: &mut Canvas<'_>, area: Rect) {
    let border = canvas.element(UiElement::Border);
    let right = area.right() - 1;
    canvas.outline(area, border);
    let end = path(app, canvas, area.width - 4);
    let filter = if app.screen == Screen::Sessions { &app.sessions.filter } else { &app.filter };
    if !filter.is_empty() {
        let style = canvas.tone(Tone::Warning);
        let room = (right - 1).saturating_sub(end + 1);
        canvas.put_right(right - 1 - room, 0, room, &format!(" / {filter} "), style);
    }
    footer(app, canvas, area);
}

/// The path in the top line: `capture.pcapng ▸ 1 weather ▸ messages`.
fn path(app: &App, canvas: &mut Canvas<'_>, width: u16) -> u16 {
    let (plain, dim) = (canvas.tone(Tone::Strong), canvas.tone(Tone::Dim));
    let mut pieces = vec![(format!(" {} ", app.title), dim)];
    if app.screen != Screen::Sessions
        && let Some(row) = app.session_row()
    {
        pieces.push(("▸".to_owned(), dim));
        pieces.push((format!(" {} {} ", row.session.number.0, parties::server(&row.session)), plain));
    }
    pieces.push(("▸".to_owned(), dim));
    pieces.push((format!(" {} ", app.screen.name()), plain));
    let taken: usize = pieces.iter().map(|(text, _)| safe::width(text)).sum();
    // If a filter needs the room, the file name is left out first.
    if taken + app.filter.len() > usize::from(width) && pieces.len() > 3 {
        pieces.drain(..2);
    }
    canvas.pieces(2, 0, width, &pieces)
}

/// Draws the tabs. The one that is on has another background, so it is seen without colours too.
fn tabs(app: &App, canvas: &mut Canvas<'_>, end: u16) {
    let (dim, key, here) = (canvas.tone(Tone::Dim), canvas.element(UiElement::Key), canvas.element(UiElement::Tab));
    let current = bars::current_tab(app);
    for tab in bars::tabs(app) {
        let (start, stop) = (tab.columns.start, tab.columns.end.min(end));
        let is_on = tab.screen == current;
        let x =
            canvas.put(start, 1, stop.saturating_sub(start), &tab.number.to_string(), if is_on { here } else { key });
        if tab.is_named {
            let text = format!(" {}", tab.screen.name());
            canvas.put(x, 1, stop.saturating_sub(x), &text, if is_on { here } else { dim });
        }
    }
}

/// Draws the keys of the screen, or the notice about the last key, and the state.
fn footer(app: &App, canvas: &mut Canvas<'_>, area: Rect) {
    let y = area.bottom() - 1;
    if let Some(notice) = &app.notice {
        let style = canvas.tone(if notice.failed { Tone::Error } else { Tone::Good });
        canvas.put(2, y, area.width.saturating_sub(4), &format!(" {} ", notice.text), style);
        return;
    }
    let (words, tone) = bars::state(app);
    let width = bars::state_width(app);
    if width > 0 {
        let style = canvas.tone(tone);
        canvas.put_right(area.right() - 2 - width, y, width, &format!(" {words} "), style);
    }
    let (dim, key) = (canvas.tone(Tone::Dim), canvas.element(UiElement::Key));
    for hint in bars::hints(app) {
        let width = hint.columns.end - hint.columns.start;
        let x = canvas.put(hint.columns.start, y, width, &format!(" {}", sign(hint.binding.keys[0])), key);
        canvas.put(x, y, hint.columns.end.saturating_sub(x), &format!(" {} ", hint.binding.short), dim);
    }
}
