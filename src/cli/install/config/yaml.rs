//! YAML.

use std::ops::Range;

use anyhow::{Result, anyhow, ensure};
use saphyr_parser::{Event, Parser, ScalarStyle, Span};

use super::tree::{Layout, Map, Member, Node, NodeValue, Sequence};

/// Maximum depth of a value. Configurations have about five levels.
const DEPTH: usize = 100;

/// Parses the first document of the text. An empty text gives nothing.
///
/// # Errors
/// It is not YAML, or its values are too deep.
pub(super) fn read(text: &str) -> Result<Option<Node>> {
    let places: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
    let mut builder = TreeBuilder { text, places, open: Vec::new() };
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| anyhow!("{error}"))?;
        if let Some(root) = builder.next(event, span) {
            return Ok(Some(root));
        }
        ensure!(builder.open.len() <= DEPTH, "the values are nested too deep");
    }
    Ok(None)
}

struct TreeBuilder<'a> {
    text: &'a str,
    /// The place in the text of each character: the parser counts characters.
    places: Vec<usize>,
    open: Vec<Open>,
}

/// A list or a map whose end was not read yet. The nodes of a map are names and values in turn.
struct Open {
    start: usize,
    is_map: bool,
    is_shared: bool,
    nodes: Vec<Node>,
}

impl TreeBuilder<'_> {
    /// Takes an event. Returns the value of the document when it is complete.
    fn next(&mut self, event: Event, span: Span) -> Option<Node> {
        let range = self.place(span);
        let node = match event {
            Event::Scalar(text, style, anchor, tag) => {
                // Without quotes, a text can be a number or a boolean: no words of a command.
                let is_text = style != ScalarStyle::Plain || is_plain_text(&text);
                let is_own = anchor == 0 && tag.is_none();
                let end = range.start + scalar_length(&self.text[range.clone()], style);
                let value = if is_text && is_own { NodeValue::Text(text.into_owned()) } else { NodeValue::Other };
                Node { span: range.start..end, value }
            }
            Event::Alias(_) => Node { span: range, value: NodeValue::Other },
            Event::SequenceStart(anchor, _) | Event::MappingStart(anchor, _) => {
                let is_map = matches!(event, Event::MappingStart(..));
                self.open.push(Open { start: range.start, is_map, is_shared: anchor != 0, nodes: Vec::new() });
                return None;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let open = self.open.pop()?;
                self.close(open, range)
            }
            _ => return None,
        };
        match self.open.last_mut() {
            Some(open) => open.nodes.push(node),
            None => return Some(node),
        }
        None
    }

    fn place(&self, span: Span) -> Range<usize> {
        let place = |at: usize| self.places.get(at).copied().unwrap_or(self.text.len());
        let start = place(span.start.index());
        start..place(span.end.index()).max(start)
    }

    fn close(&self, open: Open, end: Range<usize>) -> Node {
        let bracket = if open.is_map { '{' } else { '[' };
        let layout = if self.text[open.start..].starts_with(bracket) { Layout::Brackets } else { Layout::Lines };
        // After a closing bracket the parser counts the comment that follows.
        let end = if layout == Layout::Brackets { (end.start + 1).min(self.text.len()) } else { end.end };
        let value = match open.is_map {
            // Other places of the text refer to a shared value, so it is not changed.
            _ if open.is_shared => NodeValue::Other,
            true => NodeValue::Map(Map { layout, members: members(open.nodes) }),
            false if layout == Layout::Lines => NodeValue::Sequence(self.with_dashes(open.nodes)),
            false => NodeValue::Sequence(Sequence { layout, items: open.nodes }),
        };
        Node { span: open.start..end, value }
    }

    /// The items of a block, each from its dash on. An anchor or a tag in between changes an item.
    fn with_dashes(&self, items: Vec<Node>) -> Sequence {
        let with_dash = |item: Node| match self.text[..item.span.start].trim_end().strip_suffix('-') {
            Some(before) => Node { span: before.len()..item.span.end, value: item.value },
            None => Node { value: NodeValue::Other, ..item },
        };
        Sequence { layout: Layout::Lines, items: items.into_iter().map(with_dash).collect() }
    }
}

/// The length of a text with its quotes. The parser also counts a comment behind them.
fn scalar_length(text: &str, style: ScalarStyle) -> usize {
    let inner = text.get(1..).unwrap_or_default();
    let end = match style {
        ScalarStyle::DoubleQuoted => {
            let mut is_escaped = false;
            inner.find(|char| {
                let is_end = char == '"' && !is_escaped;
                is_escaped = char == '\\' && !is_escaped;
                is_end
            })
        }
        // Two quotes are one quote of the text.
        ScalarStyle::SingleQuoted => inner.replace("''", "  ").find('\''),
        _ => None,
    };
    end.map_or(text.trim_end().len(), |end| end + 2)
}

fn members(nodes: Vec<Node>) -> Vec<Member> {
    let mut nodes = nodes.into_iter();
    let mut members = Vec::new();
    while let (Some(key), Some(value)) = (nodes.next(), nodes.next()) {
        if let NodeValue::Text(name) = key.value {
            members.push(Member { name, key: key.span, value });
        }
    }
    members
}

/// Whether text without quotes is a text, by the core schema of YAML 1.2 and by YAML 1.1.
fn is_plain_text(text: &str) -> bool {
    const WORDS: [&str; 11] = ["", "~", "null", "true", "false", "yes", "no", "on", "off", ".nan", ".inf"];
    let lower = text.to_lowercase();
    let number = lower.trim_start_matches(['-', '+']);
    let is_number = number.starts_with("0x") || number.starts_with("0o") || number.parse::<f64>().is_ok();
    !is_number && !WORDS.contains(&number) && !WORDS.contains(&lower.as_str())
}
