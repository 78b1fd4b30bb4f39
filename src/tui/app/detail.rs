//! The three panes of one message. They are linked: moving in one moves the others.
//!
//! ```text
//!   layers ── the bytes of a node ──► bytes ── the node around a byte ──► layers
//!      ▲                               │ ▲
//!      └─ packets that carry it ─ JSON ◄─┘ the field of a byte
//! ```

use std::ops::Range;
use std::sync::Arc;

use super::super::copy;
use super::super::cursor::Goal;
use super::super::data::{Detail, TEXT};
use super::super::json::{JsonKind, Tree};
use super::super::keys::{Command, Motion};
use super::super::layout;
use super::layer_tree::{ByteCursor, LayerTree};
use super::{App, Cursor, Focus, Mode, Screen};
use crate::capture::PacketNumber;
use crate::mcp::{MessageNumber, SessionNumber};
use crate::view::layers::JSON_RPC;
use crate::view::safe;

/// The result of a search in the text of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchHits {
    pub needle: String,
    /// Offsets in the text at which the needle begins.
    pub offsets: Vec<usize>,
    /// Index of the selected hit.
    pub current: usize,
}

/// The state of the panes.
#[derive(Debug, Default)]
pub struct DetailView {
    /// The pane that receives the keys.
    pub focus: Focus,
    /// The JSON tree, as far as it was unfolded.
    pub tree: Tree,
    pub json: Cursor,
    /// The layers: nodes of [`Detail::nodes`].
    pub layers: LayerTree,
    /// The source whose bytes are shown.
    pub source: usize,
    /// The byte under the cursor.
    pub byte: ByteCursor,
    /// Bytes of the source that the other panes point at.
    pub linked: Vec<Range<usize>>,
    /// Bytes of the text that are selected through any pane.
    pub text: Option<Range<usize>>,
    pub search: Option<SearchHits>,
    message: Option<(SessionNumber, MessageNumber)>,
    /// The message that the panes are drawn from. The previous one stays until the next is read.
    drawn: Option<Arc<Detail>>,
    /// Name of the layer that was selected last.
    last_layer: Option<String>,
}

/// The message to draw. It may be the previous one of the same session.
pub fn drawn_detail(app: &App) -> Option<Arc<Detail>> {
    let session = app.selected_message()?.row.session;
    app.detail.drawn.clone().filter(|_| app.detail.message.is_some_and(|(of, _)| of == session))
}

/// The pane that receives the keys. Outside of the detail screen it is the list.
pub fn focus(app: &App) -> Focus {
    if app.screen == Screen::Detail { app.detail.focus } else { Focus::List }
}

/// The details of the selected message, once they were read.
pub fn selected_detail(app: &App) -> Option<Arc<Detail>> {
    let row = &app.selected_message()?.row;
    app.cache.detail(row.session, row.number).cloned()
}

/// The packet that the panes point at: the one whose bytes are shown, or else the first that
/// carries the selected field.
pub(super) fn packet(app: &App) -> Option<PacketNumber> {
    let (detail, view) = (selected_detail(app)?, &app.detail);
    let own = detail.sources.get(view.source).and_then(|source| source.packet);
    own.or_else(|| detail.packets(view.text.as_ref()?).first().copied())
}

/// The bytes of a packet that carry the selected field, and the path of the field.
pub(super) fn field_in(app: &App, packet: PacketNumber) -> Option<(PacketNumber, Vec<Range<usize>>, String)> {
    let (detail, view) = (selected_detail(app)?, &app.detail);
    let source = detail.sources.iter().position(|source| source.packet == Some(packet))?;
    let ranges = detail.ranges_in(view.text.as_ref()?, source);
    let path = view.tree.path(detail.text(), view.json.selected);
    (!ranges.is_empty()).then_some((packet, ranges, path))
}

/// Updates the panes after an input. For another message they start anew.
pub(super) fn update_panes(app: &mut App) {
    let Some(detail) = layout::has_panes(app.size, app.screen).then(|| selected_detail(app)).flatten() else { return };
    let of = Some((detail.message.session, detail.message.number));
    let heights = heights(app);
    let view = &mut app.detail;
    view.drawn = Some(detail.clone());
    if view.message == of {
        view.layers.update(&detail.nodes, heights.layers);
        view.json.keep_visible(view.tree.len(), heights.json);
        return;
    }
    let needle = view.search.take().map(|found| found.needle);
    // The same layer stays selected. The first message begins with its own layer.
    let name = view.last_layer.clone().unwrap_or_else(|| JSON_RPC.to_owned());
    view.message = of;
    view.tree = Tree::new(detail.text()).unwrap_or_default();
    view.json = Cursor::default();
    view.text = None;
    view.layers.replace(&detail.nodes, &[&name, JSON_RPC], heights.layers);
    // The bytes are those of the packet, if the text is in one as it is.
    view.source = (TEXT + 1..detail.sources.len()).find(|source| carries_whole(&detail, *source)).unwrap_or(TEXT);
    follow_layers(app, &detail);
    // A message without that layer does not change the layer to return to.
    app.detail.last_layer = Some(name);
    // Nothing is lit until the user chooses a field.
    if focus(app) == Focus::List {
        app.detail.linked.clear();
        app.detail.text = None;
    }
    if let Some(needle) = needle {
        find_hits(app, &detail, &needle);
    }
}

/// Whether the source is a packet that carries the whole text as it is.
fn carries_whole(detail: &Detail, source: usize) -> bool {
    let is_packet = detail.sources[source].packet.is_some();
    let runs = detail.carried.iter().filter(|run| run.source == source && run.derived_length.is_none());
    is_packet && runs.map(|run| run.text.len()).sum::<usize>() >= detail.text().len()
}

/// Rows of the three panes.
struct Heights {
    layers: usize,
    json: usize,
    bytes: usize,
}

fn heights(app: &App) -> Heights {
    let areas = layout::detail(app.size, app.screen, focus(app));
    let [layers, json, bytes] = [areas.layers, areas.json, areas.bytes].map(|area| usize::from(area.height));
    Heights { layers, json, bytes }
}

/// Bytes in a row of the bytes pane.
fn bytes_per_row(app: &App) -> usize {
    layout::bytes_per_row(layout::detail(app.size, app.screen, focus(app)).bytes)
}

/// Runs a command of these panes.
pub(super) fn run(app: &mut App, command: Command) {
    if let Command::Focus(by) = command {
        app.detail.focus = app.detail.focus.moved(&Focus::DETAIL, by);
        return;
    }
    let Some(detail) = selected_detail(app) else { return };
    match (command, app.detail.focus) {
        (Command::SearchHit(by), _) => step_hit(app, &detail, by),
        (Command::UnfoldAll, Focus::List | Focus::Json | Focus::Bytes) => app.detail.tree.unfold_all(detail.text()),
        (_, Focus::List) => app.detail.focus = Focus::Layers,
        (command, Focus::Layers) => fold_layer(app, &detail, command),
        (command, Focus::Json) => fold_json(app, &detail, command),
        (Command::Left, Focus::Bytes) => select_byte(app, &detail, app.detail.byte.offset.saturating_sub(1)),
        (Command::Right, Focus::Bytes) => select_byte(app, &detail, app.detail.byte.offset + 1),
        (_, Focus::Bytes | Focus::Connections) => {}
    }
}

/// Moves in the pane that receives the keys. Returns false if that is the list.
pub(super) fn go(app: &mut App, to: Goal) -> bool {
    let heights = heights(app);
    let Some(detail) = selected_detail(app) else { return false };
    let view = &mut app.detail;
    match view.focus {
        Focus::List | Focus::Connections => return false,
        Focus::Layers => {
            view.layers.cursor.go(to, view.layers.len(), heights.layers);
            follow_layers(app, &detail);
        }
        Focus::Json => {
            view.json.go(to, view.tree.len(), heights.json);
            follow_json(app, &detail);
        }
        Focus::Bytes => {
            let byte = app.detail.byte.goal(to, (bytes_per_row(app), heights.bytes));
            byte.into_iter().for_each(|byte| select_byte(app, &detail, byte));
        }
    }
    true
}

fn fold_layer(app: &mut App, detail: &Detail, command: Command) {
    let height = heights(app).layers;
    app.detail.layers.fold(&detail.nodes, command, height);
    follow_layers(app, detail);
}

fn fold_json(app: &mut App, detail: &Detail, command: Command) {
    let height = heights(app).json;
    let view = &mut app.detail;
    let row = view.json.selected;
    let Some(node) = view.tree.node(row) else { return };
    let (folds, open) = (node.has_children(), node.open);
    match command {
        Command::Right | Command::Toggle if folds && !open => view.tree.set_open(detail.text(), row, true),
        Command::Left | Command::Toggle if folds && open => view.tree.set_open(detail.text(), row, false),
        Command::Toggle if node.kind == JsonKind::String => {
            app.mode = Mode::Value(0);
            return;
        }
        Command::Right => view.json.selected = row + 1,
        Command::Left => view.json.selected = view.tree.parent(row).unwrap_or(row),
        _ => {}
    }
    view.json.keep_visible(view.tree.len(), height);
    follow_json(app, detail);
}

/// Shows the bytes of the selected layer. If they belong to the text, the JSON pane follows.
fn follow_layers(app: &mut App, detail: &Detail) {
    let view = &mut app.detail;
    let Some(node) = view.layers.selected().and_then(|index| detail.nodes.get(index)) else { return };
    view.last_layer = Some(node.name.clone());
    let Some((source, range)) = node.location.clone() else {
        view.linked.clear();
        return;
    };
    if source == TEXT {
        if let Some(row) = view.tree.reveal(detail.text(), range.start) {
            let height = heights(app).json;
            let view = &mut app.detail;
            view.json.select(row, view.tree.len(), height);
        }
        return point_at(app, detail, range);
    }
    view.source = source;
    view.linked = vec![range.clone()];
    show_byte(app, detail, range.start);
}

/// Marks the bytes of the selected JSON field. They are shown in the current source if
/// it carries them.
fn follow_json(app: &mut App, detail: &Detail) {
    let Some(range) = app.detail.tree.node(app.detail.json.selected).map(|node| node.range()) else { return };
    point_at(app, detail, range);
}

fn point_at(app: &mut App, detail: &Detail, range: Range<usize>) {
    let view = &mut app.detail;
    let was_packet = detail.sources.get(view.source).is_some_and(|source| source.packet.is_some());
    let carries = |source: &usize| !detail.ranges_in(&range, *source).is_empty();
    let packet = |source: &usize| detail.sources[*source].packet.is_some();
    if !carries(&view.source) {
        let other = (TEXT + 1..detail.sources.len()).filter(packet).find(carries).filter(|_| was_packet);
        view.source = other.unwrap_or(TEXT);
    }
    view.linked = detail.ranges_in(&range, view.source);
    view.text = Some(range);
    let first = view.linked.first().map_or(0, |range| range.start);
    show_byte(app, detail, first);
}

/// Puts the cursor on a byte. The layer and the field around it are selected.
fn select_byte(app: &mut App, detail: &Detail, offset: usize) {
    let heights = heights(app);
    let view = &mut app.detail;
    let Some(source) = detail.sources.get(view.source) else { return };
    let offset = offset.min(source.bytes.len().saturating_sub(1));
    // The innermost node around the byte: nodes inside another one come later.
    let own = |place: &(usize, Range<usize>)| place.0 == view.source && place.1.contains(&offset);
    let node = detail.nodes.iter().rposition(|node| node.location.as_ref().is_some_and(own));
    if let Some(index) = node {
        view.layers.select(index, heights.layers);
        view.linked = detail.nodes[index].location.iter().map(|(_, range)| range.clone()).collect();
    }
    if let Some(text) = detail.text_at(view.source, offset)
        && let Some(row) = view.tree.reveal(detail.text(), text)
    {
        view.json.select(row, view.tree.len(), heights.json);
        if let Some(range) = view.tree.node(row).map(|node| node.range()) {
            view.linked = detail.ranges_in(&range, view.source);
            view.text = Some(range);
        }
    }
    show_byte(app, detail, offset);
}

/// Puts the cursor on a byte and makes it visible.
fn show_byte(app: &mut App, detail: &Detail, offset: usize) {
    let window = (bytes_per_row(app), heights(app).bytes);
    let view = &mut app.detail;
    let length = detail.sources.get(view.source).map_or(0, |source| source.bytes.len());
    view.byte.show(offset, length, window);
}

/// Searches the text. The case of ASCII letters is ignored.
pub(super) fn search(app: &mut App, needle: &str) {
    let Some(detail) = selected_detail(app) else { return };
    app.detail.search = None;
    if !needle.is_empty() {
        find_hits(app, &detail, needle);
        match &app.detail.search {
            Some(found) if found.offsets.is_empty() => app.notify_error(format!("\"{needle}\" is not in this message")),
            _ => step_hit(app, &detail, 0),
        }
    }
}

/// Limit of the hits of one search: more than anybody steps through.
const MAX_HITS: usize = 10_000;

fn find_hits(app: &mut App, detail: &Detail, needle: &str) {
    let pattern = regex::bytes::RegexBuilder::new(&regex::escape(needle)).case_insensitive(true).build();
    let offsets = match &pattern {
        Ok(pattern) => pattern.find_iter(detail.text()).take(MAX_HITS).map(|found| found.start()).collect(),
        // A needle of thousands of letters exceeds the limit of the regex engine.
        Err(_) => memchr::memmem::find_iter(detail.text(), needle).take(MAX_HITS).collect(),
    };
    app.detail.search = Some(SearchHits { needle: needle.to_owned(), offsets, current: 0 });
}

fn step_hit(app: &mut App, detail: &Detail, by: i8) {
    let height = heights(app).json;
    let view = &mut app.detail;
    let Some(found) = view.search.as_mut().filter(|found| !found.offsets.is_empty()) else { return };
    found.current = (found.current as isize + by as isize).rem_euclid(found.offsets.len() as isize) as usize;
    let (place, count, at) = (found.offsets[found.current], found.offsets.len(), found.current + 1);
    let range = place..place + found.needle.len();
    if let Some(row) = view.tree.reveal(detail.text(), place) {
        view.json.select(row, view.tree.len(), height);
    }
    point_at(app, detail, range);
    app.notify(format!("{at} of {count}"));
}

/// Limit of the shown bytes of a value. A longer one is copied or exported.
const VALUE: usize = 256 << 10;

/// The lines of the selected value, wrapped to the width of its box, its length in bytes, and
/// whether it was cut.
pub fn value_lines(app: &App) -> (Vec<String>, usize, bool) {
    let text = selected_detail(app).and_then(|detail| copy::value(&detail, &app.detail)).unwrap_or_default();
    let seen = &text[..text.floor_char_boundary(VALUE)];
    let width = usize::from(layout::value(app.size).width.saturating_sub(4)).max(1);
    (seen.lines().flat_map(|line| safe::wrap(line, width)).collect(), text.len(), seen.len() < text.len())
}

/// The first line of the value after a movement.
pub(super) fn value_scrolled(app: &App, top: usize, motion: Motion) -> usize {
    let height = usize::from(layout::value(app.size).height.saturating_sub(2)).max(1);
    motion.scrolled(top, height, value_lines(app).0.len())
}
