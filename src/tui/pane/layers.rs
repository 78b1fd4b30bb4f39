//! The layers of a message and their fields.

use ratatui::layout::Rect;

use super::super::app::{App, Focus, focus};
use super::super::canvas::Canvas;
use super::super::data::{Detail, LayerNode};
use super::super::theme::UiElement;
use crate::view::paint::Tone;

/// Draws the tree.
pub fn draw(app: &App, canvas: &mut Canvas<'_>, area: Rect, detail: &Detail) {
    let view = &app.detail;
    let carriers = view.text.as_ref().map(|text| detail.packets(text)).unwrap_or_default();
    for line in 0..area.height {
        let row = view.layers.top + usize::from(line);
        let Some(&index) = view.rows.get(row) else { break };
        let node = &detail.nodes[index];
        let y = area.y + line;
        let place = Rect { y, height: 1, ..area };
        let folds = self::node(canvas, place, &detail.nodes, index, |name| view.is_open(name));
        // Highlights packets that carry the field selected in the JSON.
        let packet = node.location.as_ref().and_then(|(source, _)| detail.sources.get(*source)?.packet);
        if folds && node.name.starts_with("packet") && packet.is_some_and(|packet| carriers.contains(&packet)) {
            let style = canvas.element(UiElement::Linked);
            canvas.apply_style(Rect { width: 1, ..place }, style);
        }
        if row == view.layers.selected {
            canvas.select(place, focus(app) == Focus::Layers);
        }
    }
    canvas.scroll_bar(area, view.layers.top, view.rows.len());
}

/// Draws a layer or a field on its line. Returns whether it has children.
pub(super) fn node(
    canvas: &mut Canvas<'_>,
    line: Rect,
    nodes: &[LayerNode],
    index: usize,
    is_open: impl Fn(&str) -> bool,
) -> bool {
    let node = &nodes[index];
    let folds = nodes.get(index + 1).is_some_and(|next| next.depth > node.depth);
    let fold = match (folds, is_open(&node.name)) {
        (true, true) => "▾ ",
        (true, false) => "▸ ",
        (false, _) => "  ",
    };
    let (name, value) = match (folds, node.odd) {
        (_, true) => (Tone::Warning, Tone::Warning),
        (true, _) => (Tone::Strong, Tone::Plain),
        (false, _) => (Tone::Dim, Tone::Plain),
    };
    let pieces = [
        (format!(" {:1$}{fold}", "", node.depth * 2), canvas.tone(Tone::Dim)),
        (format!("{}  ", node.name), canvas.tone(name)),
        (node.value.clone(), canvas.tone(value)),
    ];
    canvas.pieces(line.x, line.y, line.width, &pieces);
    folds
}
