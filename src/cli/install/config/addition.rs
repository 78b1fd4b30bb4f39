//! Adds a server to a configuration, and removes it again.
//!
//! The server comes before the others of its list. If there is no list, it comes with one. To
//! restore the text exactly, `remove` tries several texts and takes the one to which `add` gives
//! the present text.

use std::ops::Range;
use std::ptr;

use super::edit::{at_the_front, line_before, quoted};
use super::servers::{OPENCODE_LIST, YAML_LIST, listed, top_list};
use super::tree::{Layout, Map, Member, Node, NodeValue};
use super::{Config, Server, Syntax};

/// A server to be added.
#[derive(Clone, Copy, Debug)]
pub struct Addition<'a> {
    /// The name of the server, which no format has to quote.
    pub name: &'a str,
    /// Its program and the arguments.
    pub words: &'a [String],
    /// The name of the list, if the configuration has none.
    pub list: &'a str,
}

impl Config {
    /// The server of this name in the list at the top.
    pub fn server(&self, name: &str) -> Option<Server> {
        let root = self.tree().ok()??;
        let entries = listed(&top_list(&root, self.format)?.value);
        let entry = entries.iter().enumerate().find(|(_, entry)| entry.name == name);
        entry.map(|(at, entry)| Server::new(at, entry))
    }

    /// Adds a server. Returns whether that is possible, and changes nothing else.
    pub fn add(&mut self, addition: &Addition<'_>) -> bool {
        let Some(text) = self.with(addition) else { return false };
        let changed = Config { text, ..*self };
        let is_there =
            changed.server(addition.name).is_some_and(|server| server.words.as_deref() == Some(addition.words));
        let is_whole = is_there && changed.names_without(addition.name) == self.names_without(addition.name);
        if is_whole {
            *self = changed;
        }
        is_whole
    }

    /// Removes a server. Returns whether that is possible, and changes nothing else.
    pub fn remove(&mut self, name: &str) -> bool {
        let text = self.without(name);
        let is_possible = text.is_some();
        self.text = text.unwrap_or_else(|| self.text.clone());
        is_possible
    }

    /// The text without a server.
    fn without(&self, name: &str) -> Option<String> {
        let root = self.tree().ok()??;
        let top = top_list(&root, self.format)?;
        let words = self.server(name)?.words.unwrap_or_default();
        let addition = Addition { name, words: &words, list: &top.name };
        let texts = self.texts_without(&root, top, &addition)?;
        let mut possible: Vec<Config> = texts.into_iter().map(|text| Config { text, ..*self }).collect();
        let last = possible.last()?.text.clone();
        possible.retain(|config| {
            let is_gone = config.tree().is_ok() && config.server(name).is_none();
            is_gone
                && config.names_without(name) == self.names_without(name)
                && config.values_without(name) == self.values_without(name)
        });
        let is_exact = |config: &&Config| config.with(&addition).as_ref() == Some(&self.text);
        let exact = possible.iter().find(is_exact);
        exact.or_else(|| possible.last().filter(|config| config.text == last)).map(|config| config.text.clone())
    }

    /// The names of all other servers.
    fn names_without(&self, name: &str) -> Vec<String> {
        let names = self.servers().into_iter().map(|server| server.name().to_owned());
        names.filter(|other| other != name).collect()
    }

    /// The texts of all values, with their paths, but those of a server.
    fn values_without(&self, name: &str) -> Vec<String> {
        let Ok(Some(root)) = self.tree() else { return Vec::new() };
        let servers = top_list(&root, self.format).map(|top| listed(&top.value)).unwrap_or_default();
        let server = servers.iter().find(|server| server.name == name).map(|server| server.node);
        let mut values = Vec::new();
        self.add_values(&root, server, "", &mut values);
        values
    }

    fn add_values(&self, node: &Node, left_out: Option<&Node>, path: &str, values: &mut Vec<String>) {
        match &node.value {
            _ if left_out.is_some_and(|left_out| ptr::eq(left_out, node)) => {}
            NodeValue::Map(map) => {
                for member in &map.members {
                    self.add_values(&member.value, left_out, &format!("{path}/{}", member.name), values);
                }
            }
            NodeValue::Sequence(list) => {
                list.items.iter().for_each(|item| self.add_values(item, left_out, &format!("{path}/-"), values));
            }
            NodeValue::Text(_) | NodeValue::Other => {
                values.push(format!("{path} {}", self.text.get(node.span.clone()).unwrap_or_default()));
            }
        }
    }

    /// The text with a server more.
    fn with(&self, addition: &Addition<'_>) -> Option<String> {
        let root = self.tree().ok()?;
        let top = root.as_ref().and_then(|root| top_list(root, self.format).or_else(|| root.map()?.get(addition.list)));
        let list = top.map_or(addition.list, |top| &top.name);
        let edit = match (top.map(|top| &top.value), &root, self.format) {
            // A table of TOML may be anywhere.
            (Some(Node { value: NodeValue::Map(Map { layout: Layout::Lines, .. }), .. }), _, Syntax::Toml) => None,
            (Some(node), _, format) => {
                Some(at_the_front(self, node, &[addition.item(list, format, node.list().is_some())])?)
            }
            (None, Some(root), Syntax::Json) => {
                let item = addition.item(list, Syntax::Json, false);
                Some(at_the_front(self, root, &[format!("{}: {{ {item} }}", quoted(list))])?)
            }
            (None, ..) => None,
        };
        let mut text = self.text.clone();
        let (place, inserted) = edit.unwrap_or_else(|| {
            // Always one, so that it is known which one to remove.
            let before = if text.is_empty() { "" } else { self.end_of_line() };
            (text.len()..text.len(), before.to_owned() + &addition.with_list(self, list))
        });
        text.replace_range(place, &inserted);
        Some(text)
    }

    /// Texts that may be the one without a server. The last one leaves most as it is.
    fn texts_without(&self, root: &Node, top: &Member, addition: &Addition<'_>) -> Option<Vec<String>> {
        let of = |(range, instead): (Range<usize>, &str)| {
            Some([self.text.get(..range.start)?, instead, self.text.get(range.end.max(range.start)..)?].concat())
        };
        let added = addition.with_list(self, &top.name);
        let before = self.text.strip_suffix(&added);
        let before = before.map(|text| text.strip_suffix(self.end_of_line()).unwrap_or(text));
        let mut texts: Vec<String> = before.map(str::to_owned).into_iter().collect();
        let servers = listed(&top.value);
        let node = servers.iter().find(|server| server.name == addition.name)?.node;
        if let (Syntax::Toml, Some(Map { layout: Layout::Lines, .. })) = (self.format, node.map()) {
            let start = node.span.start;
            // A table of dotted names has no header.
            let has_header = self.text[start..].starts_with('[') && !node.span.is_empty();
            texts.push(of((has_header.then_some(start)?..end_of_line_after(&self.text, end_of(node)), ""))?);
            return Some(texts);
        }
        if self.format == Syntax::Json && servers.len() == 1 {
            let at = root.map()?.members.iter().position(|member| member.name == top.name)?;
            texts.push(of(self.place_of_item(root, at)?)?);
        }
        let at = items(&top.value)?.1.iter().position(|item| item.end == end_of(node))?;
        texts.push(of(self.place_of_item(&top.value, at)?)?);
        Some(texts)
    }

    /// The place of an item with what separates it from others, and the text instead.
    fn place_of_item(&self, node: &Node, at: usize) -> Option<(Range<usize>, &'static str)> {
        let (layout, items) = items(node)?;
        let own = items.get(at)?.clone();
        let previous = at.checked_sub(1).and_then(|at| items.get(at));
        Some(match (items.get(at + 1), previous, layout) {
            (Some(next), ..) => (own.start..next.start, ""),
            (None, Some(previous), Layout::Brackets) => (previous.end..own.end, ""),
            (None, Some(_), Layout::Lines) => {
                let start = own.start - line_before(&self.text, own.start).len();
                (start..end_of_line_after(&self.text, own.end), "")
            }
            (None, None, Layout::Brackets) => {
                let after = &self.text[own.end..];
                let comma = after.trim_start().starts_with(',').then(|| after.find(',')).flatten();
                (node.span.start + 1..own.end + comma.map_or(0, |comma| comma + 1), "")
            }
            (None, None, Layout::Lines) => (own, if node.list().is_some() { "[]" } else { "{}" }),
        })
    }
}

impl Addition<'_> {
    /// The server as an item of a list.
    fn item(&self, list: &str, format: Syntax, is_sequence: bool) -> String {
        let settings: Vec<String> = self
            .settings(list, is_sequence)
            .into_iter()
            .map(|(name, value)| match format {
                Syntax::Toml => format!("{name} = {value}"),
                Syntax::Json | Syntax::Yaml => format!("{}: {value}", quoted(name)),
            })
            .collect();
        let settings = format!("{{ {} }}", settings.join(", "));
        match format {
            _ if is_sequence => settings,
            Syntax::Json => format!("{}: {settings}", quoted(self.name)),
            Syntax::Toml => format!("{} = {settings}", self.name),
            Syntax::Yaml => format!("{}: {settings}", self.name),
        }
    }

    /// The names and values of the settings, as the client of the list expects them.
    fn settings(&self, list: &str, is_sequence: bool) -> Vec<(&'static str, String)> {
        let listed = |words: &[String]| {
            let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
            format!("[{}]", words.join(", "))
        };
        let (program, arguments) = self.words.split_at(1.min(self.words.len()));
        let program = quoted(program.first().map_or("", String::as_str));
        match list {
            OPENCODE_LIST => vec![("type", quoted("local")), ("command", listed(self.words))],
            YAML_LIST => vec![
                ("name", quoted(self.name)),
                ("type", quoted("stdio")),
                ("cmd", program),
                ("args", listed(arguments)),
                ("enabled", "true".to_owned()),
                ("timeout", "300".to_owned()),
            ],
            _ => {
                let name = is_sequence.then(|| ("name", quoted(self.name)));
                name.into_iter().chain([("command", program), ("args", listed(arguments))]).collect()
            }
        }
    }

    /// The server with a list of its own, as lines.
    fn with_list(&self, config: &Config, list: &str) -> String {
        let is_sequence = config.format == Syntax::Yaml && list != YAML_LIST;
        let item = self.item(list, config.format, is_sequence);
        let lines = match config.format {
            Syntax::Json => format!("{{\n  {}: {{\n    {item}\n  }}\n}}\n", quoted(list)),
            Syntax::Yaml if is_sequence => format!("{list}:\n  - {item}\n"),
            Syntax::Yaml => format!("{list}:\n  {item}\n"),
            Syntax::Toml => {
                let settings = self.settings(list, false).into_iter();
                let settings: String = settings.map(|(name, value)| format!("{name} = {value}\n")).collect();
                format!("[{list}.{}]\n{settings}", self.name)
            }
        };
        lines.replace('\n', config.end_of_line())
    }
}

/// The places of the items of a list, or of the members of a map.
fn items(node: &Node) -> Option<(Layout, Vec<Range<usize>>)> {
    match &node.value {
        NodeValue::Sequence(list) => {
            Some((list.layout, list.items.iter().map(|item| item.span.start..end_of(item)).collect()))
        }
        NodeValue::Map(map) => {
            Some((map.layout, map.members.iter().map(|member| member.key.start..end_of(&member.value)).collect()))
        }
        NodeValue::Text(_) | NodeValue::Other => None,
    }
}

/// The position after the line with this one.
fn end_of_line_after(text: &str, at: usize) -> usize {
    text[at..].find('\n').map_or(text.len(), |end| at + end + 1)
}

/// The end of a value. In lines, that is the end of its last part: the place of a table of TOML is
/// its header, and that of a block of YAML includes comments behind it.
fn end_of(node: &Node) -> usize {
    match &node.value {
        NodeValue::Sequence(list) if list.layout == Layout::Lines => list.items.iter().map(end_of).max(),
        NodeValue::Map(map) if map.layout == Layout::Lines => {
            map.members.iter().map(|member| end_of(&member.value)).max()
        }
        _ => None,
    }
    .unwrap_or(node.span.end)
}
