//! A JSON text as a tree that is unfolded node by node. Only the unfolded parts are parsed.
//!
//! Nodes are ranges of the text, so each has its bytes and, through them, its packets. Unfolding a
//! node scans its own text once. Nesting never grows the stack. [`Tree::new`] has validated the
//! text, so the scan need not.

#[cfg(test)]
mod tests;

use std::ops::{ControlFlow, Range};

use serde_json::value::RawValue;

use crate::decode::json;

/// Limit of the shown children of one node. A list of a million is searched and exported,
/// not scrolled through.
pub const CHILDREN: usize = 5_000;

/// Rows that are unfolded at first.
const ROWS_AT_FIRST: usize = 400;

/// Levels in which the node of a byte is searched. Below that, the outer node represents it.
const DEPTH: usize = 256;

/// Limit of the nodes that "unfold everything" reaches.
const NODES: usize = 100_000;

/// The type of a JSON value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonKind {
    /// `{…}` with this number of members.
    Object(usize),
    /// `[…]` with this number of elements.
    Array(usize),
    /// `"…"`
    String,
    /// A number, true, false or null.
    Plain,
}

/// The step of a JSONPath that leads from a node to its child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathStep {
    /// The whole text.
    Root,
    /// A member's name, as a range of the text with its quotes.
    Member(Range<usize>),
    /// A position in an array.
    Element(usize),
}

/// A value in the text.
#[derive(Clone, Debug)]
pub struct Node {
    /// The number of nodes above it.
    pub depth: usize,
    pub step: PathStep,
    /// The range of the value in the text.
    pub value: Range<usize>,
    pub kind: JsonKind,
    /// Whether its children are shown.
    pub open: bool,
    parent: Option<usize>,
    /// Its children, once it was unfolded. They are neighbours in `nodes`.
    children: Option<Range<usize>>,
}

impl Node {
    fn new(depth: usize, step: PathStep, parent: Option<usize>, value: Range<usize>, json: &str) -> Node {
        Node { depth, step, kind: kind(json), value, open: false, parent, children: None }
    }

    /// The range of the value together with its name.
    pub fn range(&self) -> Range<usize> {
        match &self.step {
            PathStep::Member(name) => name.start..self.value.end,
            PathStep::Root | PathStep::Element(_) => self.value.clone(),
        }
    }

    /// Whether it has children.
    pub fn has_children(&self) -> bool {
        matches!(self.kind, JsonKind::Object(1..) | JsonKind::Array(1..))
    }
}

/// The tree, as far as it was unfolded.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    nodes: Vec<Node>,
    rows: Vec<usize>,
}

impl Tree {
    /// The tree of a text, unfolded as far as it stays readable. `None` if the text is not JSON.
    pub fn new(text: &[u8]) -> Option<Tree> {
        let json: &RawValue = serde_json::from_slice(text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text)).ok()?;
        // The raw value is a part of the text, without the blanks around it.
        let start = json.get().as_ptr() as usize - text.as_ptr() as usize;
        let root = Node::new(0, PathStep::Root, None, start..start + json.get().len(), json.get());
        let mut tree = Tree { nodes: vec![root], rows: Vec::new() };
        tree.unfold(text, ROWS_AT_FIRST);
        Some(tree)
    }

    /// The number of visible rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is no row, because the text is not JSON.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The node in a row.
    pub fn node(&self, row: usize) -> Option<&Node> {
        self.rows.get(row).map(|index| &self.nodes[*index])
    }

    /// Folds or unfolds the node in a row.
    pub fn set_open(&mut self, text: &[u8], row: usize, open: bool) {
        if let Some(&index) = self.rows.get(row) {
            self.open(text, index, open);
            self.update_rows();
        }
    }

    /// Unfolds nodes, the outer ones first, until there are `most` nodes.
    pub fn unfold(&mut self, text: &[u8], most: usize) {
        let mut next = 0;
        while next < self.nodes.len() && self.nodes.len() < most {
            self.open(text, next, true);
            next += 1;
        }
        self.update_rows();
    }

    /// Unfolds everything, up to 100,000 nodes.
    pub fn unfold_all(&mut self, text: &[u8]) {
        self.unfold(text, NODES);
    }

    /// The row of the parent node.
    pub fn parent(&self, row: usize) -> Option<usize> {
        let parent = self.nodes[*self.rows.get(row)?].parent?;
        self.row_of(parent)
    }

    /// Unfolds everything that hides the innermost node around this byte of the text.
    /// Returns its row.
    pub fn reveal(&mut self, text: &[u8], offset: usize) -> Option<usize> {
        // Without JSON there are no nodes.
        let mut index = self.nodes.first().map(|_| 0)?;
        // Each level is scanned again. Without a limit, a text of brackets would cost the square
        // of its length.
        for _ in 0..DEPTH {
            self.open(text, index, true);
            let children = self.nodes[index].children.clone().unwrap_or_default();
            match children.into_iter().find(|child| self.nodes[*child].range().contains(&offset)) {
                Some(child) => index = child,
                None => break,
            }
        }
        self.update_rows();
        self.row_of(index)
    }

    /// The path of the node in a row, as JSONPath (RFC 9535): `$.params.arguments['a b'][0]`.
    pub fn path(&self, text: &[u8], row: usize) -> String {
        let mut steps = Vec::new();
        let mut next = self.rows.get(row).copied();
        while let Some(index) = next {
            steps.push(&self.nodes[index].step);
            next = self.nodes[index].parent;
        }
        let mut path = String::new();
        for step in steps.into_iter().rev() {
            match step {
                PathStep::Root => path.push('$'),
                PathStep::Element(index) => path.push_str(&format!("[{index}]")),
                PathStep::Member(range) => path.push_str(&member_step(text.get(range.clone()).unwrap_or_default())),
            }
        }
        path
    }

    /// Folds or unfolds a node. Its children are parsed the first time.
    fn open(&mut self, text: &[u8], index: usize, open: bool) {
        let node = &self.nodes[index];
        if !node.has_children() {
            return;
        }
        if open && node.children.is_none() {
            let (kind, depth, start, place) = (node.kind, node.depth + 1, self.nodes.len(), node.value.start);
            let json =
                text.get(node.value.clone()).and_then(|value| std::str::from_utf8(value).ok()).unwrap_or_default();
            let range = |part: &str| {
                let at = place + part.as_ptr() as usize - json.as_ptr() as usize;
                at..at + part.len()
            };
            let mut add = |name: Option<&str>, value: &str| {
                let count = self.nodes.len() - start;
                if count == CHILDREN {
                    return ControlFlow::Break(());
                }
                let name = name.map_or(PathStep::Element(count), |name| PathStep::Member(range(name)));
                self.nodes.push(Node::new(depth, name, Some(index), range(value), value));
                ControlFlow::Continue(())
            };
            match kind {
                JsonKind::Object(_) => json::members(json, &mut |name, value| add(Some(name), value)),
                _ => json::elements(json, &mut |value| add(None, value)),
            };
            self.nodes[index].children = Some(start..self.nodes.len());
        }
        self.nodes[index].open = open;
    }

    /// Computes the rows: each unfolded node is followed by its children.
    fn update_rows(&mut self) {
        self.rows.clear();
        let mut open: Vec<usize> = self.nodes.first().map(|_| 0).into_iter().collect();
        while let Some(index) = open.pop() {
            self.rows.push(index);
            let node = &self.nodes[index];
            if let (true, Some(children)) = (node.open, &node.children) {
                open.extend(children.clone().rev());
            }
        }
    }

    fn row_of(&self, index: usize) -> Option<usize> {
        self.rows.iter().position(|row| *row == index)
    }
}

/// The type of a value. Its members or elements are counted.
fn kind(json: &str) -> JsonKind {
    let mut count = 0;
    let mut one = || {
        count += 1;
        ControlFlow::Continue(())
    };
    match json.as_bytes().first() {
        Some(b'{') => {
            json::members(json, &mut |_, _| one());
            JsonKind::Object(count)
        }
        Some(b'[') => {
            json::elements(json, &mut |_| one());
            JsonKind::Array(count)
        }
        Some(b'"') => JsonKind::String,
        _ => JsonKind::Plain,
    }
}

/// A member's name as a step of a JSONPath: `.name` if it needs no quotes.
fn member_step(quoted: &[u8]) -> String {
    let name: String = serde_json::from_slice(quoted).unwrap_or_else(|_| String::from_utf8_lossy(quoted).into_owned());
    let first = name.chars().next().is_some_and(|c| c.is_alphabetic() || c == '_');
    if first && name.chars().all(|c| c.is_alphanumeric() || c == '_') {
        format!(".{name}")
    } else {
        format!("['{}']", name.replace('\\', "\\\\").replace('\'', "\\'"))
    }
}
