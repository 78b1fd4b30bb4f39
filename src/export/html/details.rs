//! The details of messages: layers, and the bytes that they refer to.
//!
//! Messages of a session have nearly the same layers. So the names of the layers are a shape that
//! messages share, and the values of one field in all messages of a shape stand in one column.
//! Bytes stand once in a block: a text that lies in a packet is a part of that packet's bytes, and
//! a value that the page can read from its bytes is left out ([`Value`]).

use std::collections::HashMap;
use std::io::Write;

use anyhow::Result;
use memchr::memmem;
use serde::Serialize;

use super::block::{self, BlockKind};
use crate::capture::PacketNumber;
use crate::mcp::SessionNumber;
use crate::view::detail::{Detail, LayerNode, Source, TEXT};
use value::Value;

mod value;

/// Bytes of a message's text that are in the page. A browser shows more only with a pause.
const MOST_TEXT: usize = 1 << 20;

/// Bytes of another source that are in the page.
const MOST_BYTES: usize = 256 << 10;

/// Bytes of a source that are in the page.
const fn most(source: usize) -> usize {
    if source == TEXT { MOST_TEXT } else { MOST_BYTES }
}

/// Bytes after which a block is written: a browser opens this many in a few milliseconds.
const BLOCK: usize = 512 << 10;

/// Messages of a block.
const MESSAGES: usize = 400;

/// A layer or a field without its value and its place: depth, name, source of its bytes, odd.
type NodeName = (usize, String, Option<usize>, bool);

/// The messages of one shape, column by column.
#[derive(Default, Serialize)]
struct Shape {
    names: Vec<NodeName>,
    values: Vec<Vec<Value>>,
    /// Start and length of the bytes in the source.
    places: Vec<Vec<(usize, usize)>>,
}

/// A source of bytes: title, packet, offset, length, and how many bytes were left out. The offset
/// counts from the first byte of the message in the block. The title of a packet is its number.
type SourcePlace = (String, Option<u64>, isize, usize, usize);

/// A run of the text in another source: start, length, source, offset, length if it was derived.
type RunPlace = (usize, usize, usize, usize, Option<usize>);

/// The block that is being filled: its messages in columns.
#[derive(Default, Serialize)]
struct DetailBlock {
    shapes: Vec<Shape>,
    /// The row of each message, as the distance from the one before.
    rows: Vec<usize>,
    /// The shape of each message. Its index in the columns is the number of earlier ones.
    shape: Vec<usize>,
    /// The size of each message's own bytes in the block.
    sizes: Vec<usize>,
    sources: Vec<Vec<SourcePlace>>,
    carried: Vec<Vec<RunPlace>>,
    #[serde(skip)]
    first: usize,
    #[serde(skip)]
    last: usize,
    #[serde(skip)]
    shape_index: HashMap<Vec<NodeName>, usize>,
    #[serde(skip)]
    packets: HashMap<PacketNumber, (usize, usize)>,
    #[serde(skip)]
    bytes: Vec<u8>,
}

/// Writes the details of a session's messages in blocks.
pub(super) struct DetailBlocks {
    session: SessionNumber,
    block: DetailBlock,
}

impl DetailBlocks {
    /// Blocks for a session.
    pub(super) fn new(session: SessionNumber) -> DetailBlocks {
        DetailBlocks { session, block: DetailBlock::default() }
    }

    /// Adds the message in this row of the timeline, and writes a block that is full. `about` is
    /// the text of the row's column.
    pub(super) fn push(&mut self, out: &mut dyn Write, row: usize, about: &str, detail: Detail) -> Result<()> {
        let block = &mut self.block;
        if block.rows.is_empty() {
            (block.first, block.last) = (row, row);
        }
        block.rows.push(row - block.last);
        block.last = row;
        let shape = block.nodes(detail.nodes, &detail.sources, about);
        block.shape.push(shape);
        let base = block.bytes.len();
        let sources = block.sources(detail.sources);
        block.sources.push(sources);
        block.sizes.push(block.bytes.len() - base);
        let runs = detail.carried.into_iter();
        let runs = runs.map(|run| (run.text.start, run.text.len(), run.source, run.at, run.derived_length));
        block.carried.push(runs.collect());
        if block.bytes.len() >= BLOCK || block.rows.len() >= MESSAGES { self.flush(out) } else { Ok(()) }
    }

    /// Writes the last block.
    pub(super) fn flush(&mut self, out: &mut dyn Write) -> Result<()> {
        let block = std::mem::take(&mut self.block);
        if block.rows.is_empty() {
            return Ok(());
        }
        block::write(out, BlockKind::Details, self.session, block.first, &block, &block.bytes)
    }
}

impl DetailBlock {
    /// Adds the layers of a message. Returns their shape.
    fn nodes(&mut self, nodes: Vec<LayerNode>, sources: &[Source], about: &str) -> usize {
        let mut values = Vec::with_capacity(nodes.len());
        let mut places = Vec::with_capacity(nodes.len());
        let mut names = Vec::with_capacity(nodes.len());
        for LayerNode { depth, name, value, location, odd } in nodes {
            let (source, range) = location.map_or((None, 0..0), |(source, range)| (Some(source), range));
            // Only what the page has can stand for a value.
            let bytes = source.and_then(|at| {
                let whole = &sources.get(at)?.bytes;
                whole.get(..most(at)).unwrap_or(whole).get(range.clone())
            });
            values.push(Value::new(value, bytes, about));
            places.push((range.start, range.len()));
            names.push((depth, name, source, odd));
        }
        let shapes = &mut self.shapes;
        let shape = *self.shape_index.entry(names).or_insert_with_key(|names| {
            let columns = names.len();
            let empty = || (0..columns).map(|_| Vec::new());
            shapes.push(Shape { names: names.clone(), values: empty().collect(), places: vec![Vec::new(); columns] });
            shapes.len() - 1
        });
        let columns = &mut shapes[shape];
        columns.values.iter_mut().zip(values).for_each(|(column, value)| column.push(value));
        columns.places.iter_mut().zip(places).for_each(|(column, place)| column.push(place));
        shape
    }

    /// Adds the bytes of a message. The longest source comes first: it often contains others.
    fn sources(&mut self, sources: Vec<Source>) -> Vec<SourcePlace> {
        let base = self.bytes.len();
        let mut order: Vec<usize> = (0..sources.len()).collect();
        order.sort_by_key(|at| std::cmp::Reverse(sources[*at].bytes.len()));
        let mut places = vec![(0, 0); sources.len()];
        for at in order {
            places[at] = self.place(base, &sources[at], most(at));
        }
        let place = |(Source { title, bytes, packet }, (start, length)): (Source, (usize, usize))| {
            let is_number = packet.is_some_and(|packet| title == format!("packet #{packet}"));
            let title = if is_number { String::new() } else { title };
            let packet = packet.map(|packet| packet.0);
            (title, packet, start as isize - base as isize, length, bytes.len().saturating_sub(length))
        };
        sources.into_iter().zip(places).map(place).collect()
    }

    /// Where bytes stand in the block: those of an earlier source, or new ones.
    fn place(&mut self, base: usize, source: &Source, most: usize) -> (usize, usize) {
        let shown = source.bytes.get(..most).unwrap_or(&source.bytes);
        let earlier = source.packet.and_then(|packet| self.packets.get(&packet).copied());
        let inside = || memmem::find(&self.bytes[base..], shown).map(|at| (base + at, shown.len()));
        let place = earlier.or_else(inside).unwrap_or_else(|| {
            let start = self.bytes.len();
            self.bytes.extend_from_slice(shown);
            (start, shown.len())
        });
        if let Some(packet) = source.packet {
            self.packets.insert(packet, place);
        }
        place
    }
}
