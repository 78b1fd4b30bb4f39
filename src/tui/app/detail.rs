//! The three panes of one message. They are linked: moving in one moves the others.
//!
//! ```text
//!   layers ── the bytes of a node ──► bytes ── the node around a byte ──► layers
//!      ▲                               │ ▲
//!      └─ packets that carry it ─ JSON ◄─┘ the field of a byte
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use ratatui::layout::Rect;

use super::super::data::{Detail, LayerNode, TEXT};
use super::super::json::{JsonKind, Tree};
use super::super::keys::{Command, Motion};
use super::super::{layout, pane};
use super::{App, Cursor, Mode, Screen};
use crate::capture::PacketNumber;
use crate::mcp::{MessageNumber, SessionNumber};
use crate::view::layers::JSON_RPC;

/// The pane that receives the keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Focus {
    /// The list of messages above the panes.
    #[default]
    List,
    Layers,
    Json,
    Bytes,
}

impl Focus {
    const ALL: [Focus; 4] = [Focus::List, Focus::Layers, Focus::Json, Focus::Bytes];
}

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
    /// The visible rows of the layers: positions in [`Detail::nodes`].
    pub rows: Vec<usize>,
    pub layers: Cursor,
    /// The source whose bytes are shown.
    pub source: usize,
    /// The byte under the cursor.
    pub offset: usize,
    /// The first visible row of bytes.
    pub top: usize,
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
    /// Layers that the user unfolded (true) or folded (false), by name. The choice applies
    /// to all messages.
    user_folds: BTreeMap<String, bool>,
    /// Layers that are unfolded by default: as many as there is room for.
    unfolded: BTreeSet<String>,
}

impl DetailView {
    /// Whether the fields of a layer are shown.
    pub fn is_open(&self, name: &str) -> bool {
        self.user_folds.get(name).copied().unwrap_or_else(|| self.unfolded.contains(name))
    }
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

/// Names of the layers that can be unfolded in `rows` rows. The upper layers come
/// first, findings last.
pub fn unfoldable_layers(nodes: &[LayerNode], rows: usize) -> BTreeSet<String> {
    let mut layers: Vec<&[LayerNode]> = nodes.chunk_by(|_, next| next.depth > 0).collect();
    layers.sort_by_key(|layer| !layer[0].name.starts_with('!'));
    let mut taken = layers.len();
    let fits = |layer: &&&[LayerNode]| {
        taken += layer.len() - 1;
        taken <= rows
    };
    layers.iter().rev().take_while(fits).flat_map(|layer| layer.iter().map(|node| node.name.clone())).collect()
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

/// Updates the panes after an input. For another message they start anew.
pub(super) fn update_panes(app: &mut App) {
    let Some(detail) = layout::has_panes(app.size, app.screen).then(|| selected_detail(app)).flatten() else { return };
    let of = Some((detail.message.session, detail.message.number));
    let heights = heights(app.size, app.screen);
    let view = &mut app.detail;
    view.unfolded = unfoldable_layers(&detail.nodes, heights.layers);
    view.drawn = Some(detail.clone());
    if view.message == of {
        // More room may unfold more layers. The selection stays on its layer.
        let selected = view.rows.get(view.layers.selected).copied();
        update_rows(view, &detail);
        let row = selected.and_then(|node| view.rows.iter().rposition(|row| *row <= node));
        view.layers.selected = row.unwrap_or_default();
        view.layers.keep_visible(view.rows.len(), heights.layers);
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
    update_rows(view, &detail);
    let row = view.rows.iter().position(|node| detail.nodes[*node].name == name);
    let row = row.or_else(|| view.rows.iter().position(|node| detail.nodes[*node].name == JSON_RPC));
    view.layers = Cursor::default();
    view.layers.select(row.unwrap_or_default(), view.rows.len(), heights.layers);
    follow_layers(app, &detail);
    // A message without that layer does not change the layer to return to.
    app.detail.last_layer = Some(name);
    if let Some(needle) = needle {
        find_hits(app, &detail, &needle);
    }
}

/// Rows of the three panes.
struct Heights {
    layers: usize,
    json: usize,
    bytes: usize,
}

fn heights(size: (u16, u16), screen: Screen) -> Heights {
    let areas = layout::detail(size, screen);
    let [layers, json, bytes] = [areas.layers, areas.json, areas.bytes].map(|area| usize::from(area.height));
    Heights { layers, json, bytes }
}

/// Runs a command of these panes.
pub(super) fn run(app: &mut App, command: Command) {
    if let Command::Focus(by) = command {
        let at = app.detail.focus as isize;
        app.detail.focus = Focus::ALL[(at + by as isize).rem_euclid(Focus::ALL.len() as isize) as usize];
        return;
    }
    let Some(detail) = selected_detail(app) else { return };
    match (command, app.detail.focus) {
        (Command::SearchHit(by), _) => step_hit(app, &detail, by),
        (Command::UnfoldAll, Focus::Layers) => {
            app.detail.user_folds.extend(detail.nodes.iter().map(|node| (node.name.clone(), true)));
        }
        (Command::UnfoldAll, _) => app.detail.tree.unfold_all(detail.text()),
        (_, Focus::List) => app.detail.focus = Focus::Layers,
        (command, Focus::Layers) => fold_layer(app, &detail, command),
        (command, Focus::Json) => fold_json(app, &detail, command),
        (Command::Left, Focus::Bytes) => move_bytes(app, &detail, -1),
        (Command::Right, Focus::Bytes) => move_bytes(app, &detail, 1),
        (_, Focus::Bytes) => {}
    }
}

/// Selects the row or the byte at a position of the pane that receives the keys.
pub(super) fn click(app: &mut App, area: Rect, x: u16, y: u16) {
    let heights = heights(app.size, app.screen);
    let Some(detail) = selected_detail(app) else { return };
    let line = usize::from(y - area.y);
    let view = &mut app.detail;
    match view.focus {
        Focus::List => {}
        Focus::Layers => {
            view.layers.select(view.layers.top + line, view.rows.len(), heights.layers);
            follow_layers(app, &detail);
        }
        Focus::Json => {
            view.json.select(view.json.top + line, view.tree.len(), heights.json);
            follow_json(app, &detail);
        }
        Focus::Bytes => {
            let row = layout::bytes_per_row(app.size);
            let Some(column) = pane::bytes::column_at(x - area.x, row) else { return };
            let (at, to) = (view.offset as isize, ((view.top + line) * row + column) as isize);
            move_bytes(app, &detail, to - at);
        }
    }
}

/// Moves in the pane that receives the keys. Returns false if that is the list.
pub(super) fn move_cursor(app: &mut App, motion: Motion) -> bool {
    let heights = heights(app.size, app.screen);
    let Some(detail) = selected_detail(app) else { return false };
    let view = &mut app.detail;
    match view.focus {
        Focus::List => return false,
        Focus::Layers => {
            view.layers.move_by(motion, view.rows.len(), heights.layers);
            follow_layers(app, &detail);
        }
        Focus::Json => {
            view.json.move_by(motion, view.tree.len(), heights.json);
            follow_json(app, &detail);
        }
        Focus::Bytes => {
            let row = layout::bytes_per_row(app.size) as isize;
            let page = row * heights.bytes.saturating_sub(1).max(1) as isize;
            let by = match motion {
                Motion::Up => -row,
                Motion::Down => row,
                Motion::PageUp => -page,
                Motion::PageDown => page,
                Motion::Home => isize::MIN / 2,
                Motion::End => isize::MAX / 2,
            };
            move_bytes(app, &detail, by);
        }
    }
    true
}

/// Computes the visible rows of the layers: without the nodes below folded ones.
fn update_rows(view: &mut DetailView, detail: &Detail) {
    view.rows.clear();
    let mut hidden_below = None;
    for (index, node) in detail.nodes.iter().enumerate() {
        if hidden_below.is_some_and(|depth| node.depth > depth) {
            continue;
        }
        view.rows.push(index);
        hidden_below = (!view.is_open(&node.name)).then_some(node.depth);
    }
}

fn fold_layer(app: &mut App, detail: &Detail, command: Command) {
    let view = &mut app.detail;
    let Some(&index) = view.rows.get(view.layers.selected) else { return };
    let node = &detail.nodes[index];
    let folds = detail.nodes.get(index + 1).is_some_and(|next| next.depth > node.depth);
    let open = view.is_open(&node.name);
    match command {
        Command::Right | Command::Toggle if folds && !open => {
            view.user_folds.insert(node.name.clone(), true);
        }
        Command::Left | Command::Toggle if folds && open => {
            view.user_folds.insert(node.name.clone(), false);
        }
        Command::Right => view.layers.selected += 1,
        Command::Left => {
            let above = view.rows[..view.layers.selected].iter().rposition(|row| detail.nodes[*row].depth < node.depth);
            view.layers.selected = above.unwrap_or(view.layers.selected);
        }
        _ => {}
    }
    update_rows(view, detail);
    view.layers.keep_visible(view.rows.len(), heights(app.size, app.screen).layers);
    follow_layers(app, detail);
}

fn fold_json(app: &mut App, detail: &Detail, command: Command) {
    let height = heights(app.size, app.screen).json;
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
    let Some(node) = view.rows.get(view.layers.selected).and_then(|index| detail.nodes.get(*index)) else { return };
    view.last_layer = Some(node.name.clone());
    let Some((source, range)) = node.location.clone() else {
        view.linked.clear();
        return;
    };
    view.source = source;
    view.linked = vec![range.clone()];
    if source == TEXT {
        view.text = Some(range.clone());
        if let Some(row) = view.tree.reveal(detail.text(), range.start) {
            let height = heights(app.size, app.screen).json;
            let view = &mut app.detail;
            view.json.select(row, view.tree.len(), height);
        }
    }
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

fn move_bytes(app: &mut App, detail: &Detail, by: isize) {
    let view = &mut app.detail;
    let Some(source) = detail.sources.get(view.source) else { return };
    let last = source.bytes.len().saturating_sub(1);
    let offset = view.offset.saturating_add_signed(by).min(last);
    // The innermost node around the byte: nodes inside another one come later.
    let own = |place: &(usize, Range<usize>)| place.0 == view.source && place.1.contains(&offset);
    let node = detail.nodes.iter().rposition(|node| node.location.as_ref().is_some_and(own));
    if let Some(index) = node {
        let seen = view.rows.iter().rposition(|row| *row <= index);
        let heights = heights(app.size, app.screen);
        view.layers.select(seen.unwrap_or_default(), view.rows.len(), heights.layers);
        view.linked = detail.nodes[index].location.iter().map(|(_, range)| range.clone()).collect();
    }
    if let Some(text) = detail.text_at(view.source, offset)
        && let Some(row) = view.tree.reveal(detail.text(), text)
    {
        let heights = heights(app.size, app.screen);
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
    let (row, height) = (layout::bytes_per_row(app.size), heights(app.size, app.screen).bytes.max(1));
    let view = &mut app.detail;
    let length = detail.sources.get(view.source).map_or(0, |source| source.bytes.len());
    view.offset = offset.min(length.saturating_sub(1));
    let mut cursor = Cursor { selected: view.offset / row, top: view.top };
    cursor.select(view.offset / row, length.div_ceil(row), height);
    view.top = cursor.top;
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
    let height = heights(app.size, app.screen).json;
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
