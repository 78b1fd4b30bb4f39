//! The JSON of a message as a tree.

use ratatui::layout::Rect;
use ratatui::style::Style;

use super::super::app::{App, focus};
use super::super::canvas::Canvas;
use super::super::data::Detail;
use super::super::json::{JsonKind, Node, PathStep};
use super::super::screen::Focus;
use super::super::theme::UiElement;
use super::packets;
use crate::view::paint::Tone;

/// Limit of the bytes of one value: more than any screen is wide.
const SHOWN: usize = 1_024;

/// The title: `json  $.result.content[0]  in #41`.
pub fn title(app: &App, detail: &Detail) -> String {
    let view = &app.detail;
    if view.tree.is_empty() {
        return "text".to_owned();
    }
    let path = view.tree.path(detail.text(), view.json.selected);
    let carriers = view.text.as_ref().map(|text| detail.packets(text)).unwrap_or_default();
    if carriers.is_empty() { format!("json  {path}") } else { format!("json  {path}  in {}", packets(&carriers)) }
}

/// Draws the tree, or the text if it is not JSON.
pub fn draw(app: &App, canvas: &mut Canvas<'_>, area: Rect, detail: &Detail) {
    let view = &app.detail;
    if view.tree.is_empty() {
        return plain(canvas, area, detail.text());
    }
    for line in 0..area.height {
        let row = view.json.top + usize::from(line);
        let Some(node) = view.tree.node(row) else { break };
        let y = area.y + line;
        let pieces = pieces(canvas, node, detail.text());
        canvas.pieces(area.x, y, area.width, &pieces);
        let place = Rect { y, height: 1, ..area };
        let found = view.search.as_ref().is_some_and(|found| {
            let range = node.range();
            !node.open && found.offsets.iter().any(|at| range.contains(at))
        });
        if found {
            let style = canvas.element(UiElement::Found);
            canvas.apply_style(Rect { width: 1, ..place }, style);
        }
        if row == view.json.selected {
            canvas.select(place, focus(app) == Focus::Json);
        }
    }
    canvas.scroll_bar(area, view.json.top, view.tree.len());
}

fn pieces(canvas: &Canvas<'_>, node: &Node, text: &[u8]) -> Vec<(String, Style)> {
    let fold = match (node.has_children(), node.open) {
        (true, true) => "▾ ",
        (true, false) => "▸ ",
        (false, _) => "  ",
    };
    let dim = canvas.tone(Tone::Dim);
    let mut pieces = vec![(format!(" {:1$}{fold}", "", node.depth * 2), dim)];
    match &node.step {
        PathStep::Root => {}
        PathStep::Member(range) => {
            let name = range.start + 1..range.end.saturating_sub(1);
            pieces.push((format!("{}  ", words(text, name)), canvas.element(UiElement::Name)));
        }
        PathStep::Element(index) => pieces.push((format!("{index}  "), dim)),
    }
    let value = node.value.start..node.value.end.min(node.value.start + SHOWN);
    match node.kind {
        JsonKind::Object(0) => pieces.push(("{}".to_owned(), dim)),
        JsonKind::Array(0) => pieces.push(("[]".to_owned(), dim)),
        JsonKind::Object(members) => pieces.push((format!("{{{members}}}"), dim)),
        JsonKind::Array(elements) => pieces.push((format!("[{elements}]"), dim)),
        JsonKind::String => pieces.push((words(text, value), canvas.element(UiElement::Text))),
        JsonKind::Plain => pieces.push((words(text, value), canvas.element(UiElement::Number))),
    }
    pieces
}

fn words(text: &[u8], range: std::ops::Range<usize>) -> String {
    String::from_utf8_lossy(text.get(range).unwrap_or_default()).into_owned()
}

fn plain(canvas: &mut Canvas<'_>, area: Rect, text: &[u8]) {
    let style = canvas.tone(Tone::Warning);
    let seen = &text[..text.len().min(usize::from(area.width) * usize::from(area.height) * 4)];
    for (line, words) in seen.split(|byte| *byte == b'\n').take(area.height.into()).enumerate() {
        let words = String::from_utf8_lossy(words);
        canvas.put(area.x + 1, area.y + line as u16, area.width.saturating_sub(1), &words, style);
    }
}
