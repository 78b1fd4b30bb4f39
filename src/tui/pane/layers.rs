//! The layers of a message and their fields.

use ratatui::layout::Rect;

use super::super::app::{App, LayerTree, focus};
use super::super::canvas::Canvas;
use super::super::data::{Detail, LayerNode};
use super::super::screen::Focus;
use super::super::theme::UiElement;
use crate::view::paint::Tone;

/// Draws the layers of a message.
pub fn draw(app: &App, canvas: &mut Canvas<'_>, area: Rect, detail: &Detail) {
    let view = &app.detail;
    let carriers = view.text.as_ref().map(|text| detail.packets(text)).unwrap_or_default();
    // Highlights packets that carry the field selected in the JSON.
    let carries = |node: &LayerNode| {
        let packet = node.location.as_ref().and_then(|(source, _)| detail.sources.get(*source)?.packet);
        node.name.starts_with("packet") && packet.is_some_and(|packet| carriers.contains(&packet))
    };
    tree(canvas, area, &detail.nodes, &view.layers, carries, focus(app) == Focus::Layers);
}

/// Draws a tree of layers. Those that `is_linked` selects are highlighted.
pub(super) fn tree(
    canvas: &mut Canvas<'_>,
    area: Rect,
    nodes: &[LayerNode],
    tree: &LayerTree,
    is_linked: impl Fn(&LayerNode) -> bool,
    active: bool,
) {
    for line in 0..area.height {
        let row = tree.cursor.top + usize::from(line);
        let Some((index, node)) = tree.node(row).and_then(|index| Some((index, nodes.get(index)?))) else { break };
        let place = Rect { y: area.y + line, height: 1, ..area };
        let folds = self::node(canvas, place, nodes, index, |name| tree.is_open(name));
        if folds && is_linked(node) {
            let style = canvas.element(UiElement::Linked);
            canvas.apply_style(Rect { width: 1, ..place }, style);
        }
        if row == tree.cursor.selected {
            canvas.select(place, active);
        }
    }
    canvas.scroll_bar(area, tree.cursor.top, tree.len());
}

/// Draws a layer or a field on its line. Returns whether it has children.
fn node(
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
