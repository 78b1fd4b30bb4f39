//! The layers of a message, or the headers of a packet, as a tree that folds; and a cursor among
//! bytes.

use std::collections::{BTreeMap, BTreeSet};

use super::super::cursor::Goal;
use super::super::layout;
use super::Cursor;
use crate::tui::data::LayerNode;
use crate::tui::keys::Command;

/// The state of a tree of layers.
#[derive(Debug, Default)]
pub struct LayerTree {
    /// The visible rows: positions among the nodes.
    rows: Vec<usize>,
    pub cursor: Cursor,
    /// Layers that the user unfolded (true) or folded (false), by name. The choice applies
    /// to all messages.
    user_folds: BTreeMap<String, bool>,
    /// Layers that are unfolded by default: as many as there is room for.
    unfolded: BTreeSet<String>,
}

impl LayerTree {
    /// Whether the fields of a layer are shown.
    pub fn is_open(&self, name: &str) -> bool {
        self.user_folds.get(name).copied().unwrap_or_else(|| self.unfolded.contains(name))
    }

    /// The node in a visible row.
    pub fn node(&self, row: usize) -> Option<usize> {
        self.rows.get(row).copied()
    }

    /// The selected node.
    pub fn selected(&self) -> Option<usize> {
        self.node(self.cursor.selected)
    }

    /// The number of visible rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Shows these nodes in `height` rows. More room may unfold more layers. The selection stays
    /// on its node.
    pub fn update(&mut self, nodes: &[LayerNode], height: usize) {
        let selected = self.selected();
        self.show(nodes, height);
        if let Some(node) = selected {
            self.cursor.selected = self.row_of(node);
        }
        self.cursor.keep_visible(self.rows.len(), height);
    }

    /// Shows the nodes of another message or packet. The first layer with one of these
    /// names is selected.
    pub fn replace(&mut self, nodes: &[LayerNode], names: &[&str], height: usize) {
        self.show(nodes, height);
        let find = |name: &&str| self.rows.iter().position(|node| nodes[*node].name == *name);
        let row = names.iter().find_map(find).unwrap_or_default();
        self.cursor = Cursor::default();
        self.cursor.select(row, self.rows.len(), height);
    }

    /// Selects a node, or the visible one above it.
    pub fn select(&mut self, node: usize, height: usize) {
        let row = self.row_of(node);
        self.cursor.select(row, self.rows.len(), height);
    }

    /// Folds, unfolds, or goes to the layer above or the first field below.
    pub fn fold(&mut self, nodes: &[LayerNode], command: Command, height: usize) {
        let Some(index) = self.selected() else { return };
        let node = &nodes[index];
        let folds = nodes.get(index + 1).is_some_and(|next| next.depth > node.depth);
        let open = self.is_open(&node.name);
        match command {
            Command::Right | Command::Toggle if folds && !open => {
                self.user_folds.insert(node.name.clone(), true);
            }
            Command::Left | Command::Toggle if folds && open => {
                self.user_folds.insert(node.name.clone(), false);
            }
            Command::UnfoldAll => self.user_folds.extend(nodes.iter().map(|node| (node.name.clone(), true))),
            Command::Right => self.cursor.selected += 1,
            Command::Left => {
                let before = &self.rows[..self.cursor.selected];
                let above = before.iter().rposition(|row| nodes[*row].depth < node.depth);
                self.cursor.selected = above.unwrap_or(self.cursor.selected);
            }
            _ => {}
        }
        self.list_rows(nodes);
        self.cursor.keep_visible(self.rows.len(), height);
    }

    fn show(&mut self, nodes: &[LayerNode], height: usize) {
        self.unfolded = unfoldable_layers(nodes, height);
        self.list_rows(nodes);
    }

    /// Computes the visible rows: without the nodes below folded ones.
    fn list_rows(&mut self, nodes: &[LayerNode]) {
        let mut rows = Vec::new();
        let mut hidden_below = None;
        for (index, node) in nodes.iter().enumerate() {
            if hidden_below.is_some_and(|depth| node.depth > depth) {
                continue;
            }
            rows.push(index);
            hidden_below = (!self.is_open(&node.name)).then_some(node.depth);
        }
        self.rows = rows;
    }

    fn row_of(&self, node: usize) -> usize {
        self.rows.iter().rposition(|row| *row <= node).unwrap_or_default()
    }
}

/// Names of the layers that can be unfolded in `rows` rows. The upper layers come
/// first, findings last.
fn unfoldable_layers(nodes: &[LayerNode], rows: usize) -> BTreeSet<String> {
    let mut layers: Vec<&[LayerNode]> = nodes.chunk_by(|_, next| next.depth > 0).collect();
    layers.sort_by_key(|layer| !layer[0].name.starts_with('!'));
    let mut taken = layers.len();
    let fits = |layer: &&&[LayerNode]| {
        taken += layer.len() - 1;
        taken <= rows
    };
    let fitting = layers.iter().rev().take_while(fits).flat_map(|layer| layer.iter().map(|node| node.name.clone()));
    let mut unfolded: BTreeSet<String> = fitting.collect();
    // The fields of a message are what one looks for in its packet.
    unfolded.extend(layers.iter().map(|layer| &layer[0].name).filter(|name| name.starts_with("message ")).cloned());
    unfolded
}

/// A cursor among bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByteCursor {
    /// The byte under the cursor.
    pub offset: usize,
    /// The first visible row.
    pub top: usize,
}

impl ByteCursor {
    /// Puts the cursor on a byte of `length`, and makes it visible in `height` rows of `row` bytes.
    pub fn show(&mut self, offset: usize, length: usize, (row, height): (usize, usize)) {
        self.offset = offset.min(length.saturating_sub(1));
        let mut cursor = Cursor { selected: self.offset / row, top: self.top };
        cursor.select(self.offset / row, length.div_ceil(row), height.max(1));
        self.top = cursor.top;
    }

    /// The byte that a key or a click goes to, in `height` rows of `row` bytes.
    pub fn goal(self, to: Goal, (row, height): (usize, usize)) -> Option<usize> {
        match to {
            Goal::Key(motion) => {
                Some(self.offset.saturating_add_signed(motion.rows(height).saturating_mul(row as isize)))
            }
            Goal::Click(x, line) => layout::byte_at(x, row).map(|column| (self.top + line) * row + column),
        }
    }
}
