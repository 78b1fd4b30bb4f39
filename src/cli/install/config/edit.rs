//! Edits of a server's settings. An edit inserts text, or moves the text of a command, so that the
//! opposite edit can remove and return exactly that:
//!
//! ```text
//! "command": "npx",                    "args": [                              "-y", "x"]
//! "command": "/usr/bin/mcptap",        "args": ["wrap", "--", "npx",          "-y", "x"]
//! ```
//!
//! An empty list gets a blank before the first word, which tells it from a list that was not there.

use std::iter;
use std::ops::Range;

use super::servers::{CommandWords, Entry};
use super::tree::{Layout, Map, Member, Node, NodeValue};
use super::{Config, REPLACED, Syntax, Value};

/// A range of the text and its replacement.
pub(super) type Edit = (Range<usize>, String);

/// Inserts words before the command of a server.
pub(super) fn insert_words(config: &Config, entry: &Entry, words: &[String]) -> Option<Vec<Edit>> {
    let (program, arguments) = match entry.start()? {
        CommandWords::Joined(list) => {
            let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
            return Some(vec![at_the_front(config, list, &words)?]);
        }
        CommandWords::Apart { map, program, arguments } => (Added { config, map, program }, arguments),
    };
    let (first, others) = words.split_first()?;
    let place = program.place();
    let command = config.text[place.clone()].to_owned();
    let words: Vec<String> = others.iter().map(|word| quoted(word)).chain([command]).collect();
    let inserted = match arguments {
        Some(list) if list.list().is_some() => at_the_front(config, list, &words)?,
        Some(_) => return None,
        None => (place.end..place.end, format!("{}[{}]", program.before_list(), words.join(", "))),
    };
    Some(vec![(place, quoted(first)), inserted])
}

/// Removes words before the command of a server.
pub(super) fn remove_words(config: &Config, entry: &Entry, count: usize) -> Option<Vec<Edit>> {
    let (program, node) = match entry.start()? {
        CommandWords::Joined(node) => {
            let items = &node.list()?.items;
            return Some(vec![(items.first()?.span.start..items.get(count)?.span.start, String::new())]);
        }
        CommandWords::Apart { map, program, arguments } => (Added { config, map, program }, arguments?),
    };
    let list = node.list()?;
    // The program is the first of the words.
    let (first, command) = (list.items.first()?, list.items.get(count.checked_sub(1)?)?);
    let (place, after) = (program.place(), &config.text[command.span.end..]);
    let removed = match list.items.get(count) {
        Some(next) => (first.span.start..next.span.start, String::new()),
        None if list.layout == Layout::Lines => (first.span.start..command.span.end, "[]".to_owned()),
        None if program.has_added(node, first) => (place.end..node.span.end, String::new()),
        None => {
            // Programs that write the file anew may end a list with a comma.
            let comma = after.trim_start().starts_with(',').then(|| after.find(',')).flatten();
            let end = command.span.end + comma.map_or(0, |at| at + 1);
            (node.span.start + 1..end, String::new())
        }
    };
    let command = &config.text[command.span.clone()];
    let command =
        if list.layout == Layout::Lines { command.strip_prefix('-').unwrap_or(command).trim_start() } else { command };
    Some(vec![(place, command.to_owned()), removed])
}

/// Inserts texts before the items of a list, or before the members of a map.
pub(super) fn at_the_front(config: &Config, node: &Node, texts: &[String]) -> Option<Edit> {
    let (layout, dash, first) = match &node.value {
        NodeValue::Sequence(list) => (list.layout, "- ", list.items.first().map(|item| item.span.start)),
        NodeValue::Map(map) => (map.layout, "", map.members.first().map(|member| member.key.start)),
        NodeValue::Text(_) | NodeValue::Other => return None,
    };
    let Some(start) = first else {
        let start = node.span.start + 1;
        return Some((start..start, format!(" {}", texts.join(", "))));
    };
    let line = line_before(&config.text, start);
    let is_first_on_line = line.trim().is_empty();
    let indentation: String = line.chars().map(|char| if char == '\t' { '\t' } else { ' ' }).collect();
    let end_of_line = config.end_of_line();
    let (before, after) = match layout {
        Layout::Lines => (dash, format!("{end_of_line}{indentation}")),
        Layout::Brackets if is_first_on_line && line.len() < start => ("", format!(",{end_of_line}{indentation}")),
        Layout::Brackets => ("", ", ".to_owned()),
    };
    Some((start..start, texts.iter().map(|text| format!("{before}{text}{after}")).collect()))
}

/// The list of arguments that is added after the program of a server that has none.
struct Added<'a> {
    config: &'a Config,
    map: &'a Map,
    program: &'a Member,
}

impl Added<'_> {
    fn place(&self) -> Range<usize> {
        self.program.value.span.clone()
    }

    /// The text between the program and the added list.
    fn before_list(&self) -> String {
        let line = line_before(&self.config.text, self.program.key.start);
        let end_of_line = self.config.end_of_line();
        let name = match self.config.format {
            Syntax::Json => "\"args\": ",
            Syntax::Toml => "args = ",
            Syntax::Yaml => "args: ",
        };
        match self.map.layout {
            // In TOML the line can begin with other parts of the name.
            Layout::Lines if self.config.format == Syntax::Toml => format!("{end_of_line}{line}{name}"),
            Layout::Lines => format!("{end_of_line}{}{name}", " ".repeat(line.chars().count())),
            Layout::Brackets if line.trim().is_empty() => format!(",{end_of_line}{line}{name}"),
            Layout::Brackets => format!(", {name}"),
        }
    }

    /// Whether a list with this first item is the added one.
    fn has_added(&self, list: &Node, first: &Node) -> bool {
        let before = self.config.text.get(self.place().end..list.span.start);
        before == Some(&self.before_list()) && first.span.start == list.span.start + 1
    }
}

/// Replaces settings with a URL by a command.
pub(super) fn bridge(config: &Config, entry: &Entry, words: &[String]) -> Option<Vec<Edit>> {
    if config.format != Syntax::Json || !entry.is_plain() {
        return None;
    }
    let text = &config.text[entry.node.span.clone()];
    let (command, arguments) = words.split_first()?;
    let environment = Value::from_iter([(REPLACED, text)]);
    let members: Vec<(&str, Value)> = if entry.is_opencode() {
        vec![("type", "local".into()), ("command", words.into()), ("environment", environment)]
    } else {
        let kind = entry.settings.get("type").map(|_| ("type", "stdio".into()));
        let others = [("command", command.as_str().into()), ("args", arguments.into()), ("env", environment)];
        kind.into_iter().chain(others).collect()
    };
    let members: Vec<String> = members.into_iter().map(|(name, value)| format!("\"{name}\": {value}")).collect();
    // As the text before: on one line, or on several.
    let last = text.rfind('\n').map_or("", |at| &text[at..text.len() - 1]);
    let (open, close) = match last.trim_start() {
        "" if last.is_empty() => (" ".to_owned(), " "),
        "" => (format!("{last}  "), last),
        others => (last[..last.len() - others.len()].to_owned(), " "),
    };
    let between = if last.is_empty() { ", ".to_owned() } else { format!(",{open}") };
    Some(vec![(entry.node.span.clone(), format!("{{{open}{}{close}}}", members.join(&between)))])
}

/// Puts the replaced settings back. Members that were added to the command since then come first.
pub(super) fn unbridge(config: &Config, entry: &Entry) -> Option<Vec<Edit>> {
    const OWN: [&str; 5] = ["type", "command", "args", "env", "environment"];
    let replaced = entry.replaced()?;
    let added = entry.settings.members.iter().filter(|member| !OWN.contains(&&*member.name));
    let text = |member: &Member| format!(" {},", &config.text[member.key.start..member.value.span.end]);
    let added: String = added.map(text).collect();
    let inner = replaced.strip_prefix('{')?;
    Some(vec![(entry.node.span.clone(), iter::once("{").chain([&*added, inner]).collect())])
}

impl Config {
    /// The end of a line, as the text has it.
    pub(super) fn end_of_line(&self) -> &'static str {
        if self.text.contains("\r\n") { "\r\n" } else { "\n" }
    }
}

/// The text between the start of a line and a place in it.
pub(super) fn line_before(text: &str, place: usize) -> &str {
    let start = text[..place].rfind('\n').map_or(0, |at| at + 1);
    &text[start..place]
}

/// A word as a text of JSON, which is also one of TOML and of YAML.
pub(super) fn quoted(word: &str) -> String {
    Value::from(word).to_string()
}
