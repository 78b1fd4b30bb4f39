//! The form of a replay, over the screen.
//!
//! ```text
//! ┌ send again ────────────────────────────────────────────────┐
//! │      send  ◂ this request: #7 tools/call get_weather ▸     │
//! │        to  python server.py                                │
//! │   options  --calibrate                                     │
//! │ arguments  {                                               │
//! │              "city": "Quito"                               │
//! │            }                                               │
//! │            matches the tool's schema                       │
//! └ ctrl-r send · tab next field · esc close ──────────────────┘
//! ```

use ratatui::layout::Rect;

use super::super::super::app::App;
use super::super::super::canvas::Canvas;
use super::super::super::replay::form::{Form, FormField, Remark};
use super::super::super::replay::options::HINT;
use super::super::super::theme::UiElement;
use crate::view::paint::Tone;
use crate::view::{safe, units};

/// Width of the names of the fields.
const NAMES: u16 = 11;

/// Width of the box. On screens narrower than `WHOLE` it fills the screen.
const WIDTH: u16 = 110;
const WHOLE: u16 = 130;

/// Rows of the header fields.
const HEADER_ROWS: u16 = 2;

/// Draws the form. Returns the position of the cursor.
pub fn draw(app: &App, canvas: &mut Canvas<'_>) -> Option<(u16, u16)> {
    let form = app.replays.form.as_ref()?;
    let screen = canvas.buffer.area;
    // On a narrow screen the little beside the box is covered too.
    let width = if screen.width < WHOLE { screen.width.saturating_sub(2) } else { WIDTH };
    let arguments = form.arguments.text().lines().count().clamp(3, 24) as u16;
    let wanted = 6 + if form.one_call { arguments + 1 } else { 0 } + if form.is_url() { HEADER_ROWS + 1 } else { 0 };
    let asks = form.questions.len().min(6) as u16;
    let height = wanted.max(asks + 5).min(screen.height.saturating_sub(3));
    let area = Rect { x: (screen.width - width) / 2, y: 2, width, height };
    if form.questions.is_empty() {
        canvas.draw_box(area, "send again", "ctrl-r send · tab next field · esc close");
        fields(form, canvas, area)
    } else {
        questions(form, canvas, area);
        None
    }
    .map(|(x, y)| (x.min(area.right() - 2), y.min(area.bottom() - 2)))
}

/// Draws the questions that need an answer before anything is sent.
fn questions(form: &Form, canvas: &mut Canvas<'_>, area: Rect) {
    canvas.draw_box(area, "send anyway?", "y send everything · n skip destructive tools · esc back");
    let (warning, dim) = (canvas.tone(Tone::Warning), canvas.tone(Tone::Dim));
    let room = area.width.saturating_sub(4);
    for (line, ask) in form.questions.iter().take(6).enumerate() {
        canvas.put(area.x + 2, area.y + 1 + line as u16, room, ask, warning);
    }
    let y = area.y + 2 + form.questions.len().min(6) as u16;
    let more = form.questions.len().saturating_sub(6);
    let more = if more > 0 { format!("… and {more} more. ") } else { String::new() };
    canvas.put(area.x + 2, y, room, &format!("{more}Nothing has been sent yet."), dim);
}

fn fields(form: &Form, canvas: &mut Canvas<'_>, area: Rect) -> Option<(u16, u16)> {
    let (plain, dim, strong) = (canvas.tone(Tone::Plain), canvas.tone(Tone::Dim), canvas.tone(Tone::Strong));
    let (x, mut y) = (area.x + 2 + NAMES + 1, area.y + 1);
    let room = area.width.saturating_sub(NAMES + 5);
    let mut cursor = None;
    for field in form.visible_fields() {
        let is_here = field == form.field;
        let name = if is_here { canvas.element(UiElement::Tab) } else { dim };
        canvas.put_right(area.x + 2, y, NAMES - 1, &field.to_string(), name);
        match field {
            FormField::Scope => {
                canvas.put(x, y, room, &scope_label(form), if is_here { strong } else { plain });
                y += 1;
            }
            FormField::Target | FormField::Options => {
                let (line, hint) = match field {
                    FormField::Target => (&form.target, "a URL, or the command line of a server"),
                    _ => (&form.options, HINT),
                };
                let column = line.position().1;
                let hidden = column.saturating_sub(usize::from(room) - 1);
                let text: String = line.text().chars().skip(hidden).collect();
                if text.is_empty() {
                    canvas.put(x, y, room, hint, dim);
                } else {
                    canvas.put(x, y, room, &text, plain);
                }
                if is_here {
                    cursor = Some((x + (column - hidden) as u16, y));
                }
                y += 1;
            }
            FormField::Headers => {
                if form.headers.text().is_empty() {
                    canvas.put(x, y, room, "Name: value, one per line; $NAME is an environment variable", dim);
                }
                cursor =
                    text(canvas, &form.headers, Rect { x, y, width: room, height: HEADER_ROWS }, is_here).or(cursor);
                y += HEADER_ROWS;
            }
            FormField::Arguments => {
                let height = area.bottom().saturating_sub(y + 2);
                cursor = text(canvas, &form.arguments, Rect { x, y, width: room, height }, is_here).or(cursor);
                remark(form, canvas, Rect { x, y: area.bottom() - 2, width: room, height: 1 });
                y += height;
            }
        }
        y += u16::from(field == FormField::Options && area.height > 9);
    }
    cursor
}

fn scope_label(form: &Form) -> String {
    let call = form.draft.call.as_ref().filter(|_| form.one_call);
    let what = match call {
        Some(call) => format!("this request: {} {}", call.message, call.label),
        None => format!("the whole session: {}", units::count(form.draft.requests, "request")),
    };
    format!("◂ {what} ▸")
}

/// Draws a text of several lines, scrolled to its cursor.
fn text(
    canvas: &mut Canvas<'_>,
    editor: &super::super::super::editor::Editor,
    area: Rect,
    is_here: bool,
) -> Option<(u16, u16)> {
    let plain = canvas.tone(Tone::Plain);
    let (line, column) = editor.position();
    let top = (line + 1).saturating_sub(usize::from(area.height));
    let hidden = column.saturating_sub(usize::from(area.width.saturating_sub(1)));
    for (row, text) in editor.text().lines().skip(top).take(area.height.into()).enumerate() {
        let text: String = safe::visible(text).chars().skip(hidden).collect();
        canvas.put(area.x, area.y + row as u16, area.width, &text, plain);
    }
    is_here.then_some((area.x + (column - hidden) as u16, area.y + (line - top) as u16))
}

fn remark(form: &Form, canvas: &mut Canvas<'_>, area: Rect) {
    let (sentence_text, tone) = match &form.remark {
        Remark::None => return,
        Remark::Matches => ("matches the tool's schema", Tone::Good),
        Remark::Warning(sentence_text) => (sentence_text.as_str(), Tone::Warning),
        Remark::Invalid(why) => (why.as_str(), Tone::Error),
    };
    let style = canvas.tone(tone);
    canvas.put(area.x, area.y, area.width, sentence_text, style);
}
