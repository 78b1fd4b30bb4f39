//! A configuration as a tree whose values know their places in the text. It is the same for every
//! format.

use std::ops::Range;

/// A value and its place.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) span: Range<usize>,
    pub(super) value: NodeValue,
}

/// The values that matter here.
#[derive(Debug)]
pub(super) enum NodeValue {
    Text(String),
    Sequence(Sequence),
    Map(Map),
    /// A number, a boolean, nothing, or a value that the text takes from another place.
    Other,
}

/// The way in which a list or a map is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// Between brackets or braces, with commas.
    Brackets,
    /// One line for each item: a table of TOML, a block of YAML.
    Lines,
}

/// Values one after the other.
#[derive(Debug)]
pub(super) struct Sequence {
    pub(super) layout: Layout,
    pub(super) items: Vec<Node>,
}

/// Named values, in order.
#[derive(Debug)]
pub(super) struct Map {
    pub(super) layout: Layout,
    pub(super) members: Vec<Member>,
}

/// A named value.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) name: String,
    /// The place of the name. Of a dotted name in TOML it is the last part.
    pub(super) key: Range<usize>,
    pub(super) value: Node,
}

impl Map {
    /// The only member of this name. Programs disagree about a name that occurs twice.
    pub(super) fn get(&self, name: &str) -> Option<&Member> {
        let mut members = self.members.iter().filter(|member| member.name == name);
        members.next().filter(|_| members.next().is_none())
    }

    /// The text of the only member of this name.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.get(name)?.value.text()
    }
}

impl Node {
    pub(super) fn text(&self) -> Option<&str> {
        if let NodeValue::Text(text) = &self.value { Some(text) } else { None }
    }

    pub(super) fn list(&self) -> Option<&Sequence> {
        if let NodeValue::Sequence(list) = &self.value { Some(list) } else { None }
    }

    pub(super) fn map(&self) -> Option<&Map> {
        if let NodeValue::Map(map) = &self.value { Some(map) } else { None }
    }

    /// The texts of a list of texts.
    pub(super) fn words(&self) -> Option<Vec<String>> {
        self.list()?.items.iter().map(|item| item.text().map(str::to_owned)).collect()
    }
}
