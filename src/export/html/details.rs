//! The details of messages: layers, and the bytes that they refer to.
//!
//! Messages of a session have nearly the same layers. So the names of the layers are a shape that
//! messages share. The values of one field in all messages of a shape are a [`ValueColumn`].
//! Bytes stand once in a block: a text that lies in a packet is a part of that packet's bytes.
//! A [`Value`] lacks what the page knows from elsewhere.

use std::collections::HashMap;
use std::io::Write;

use anyhow::Result;
use memchr::memmem;
use serde::Serialize;

use super::block::{self, BlockKind};
use super::columns::ValueColumn;
use crate::capture::PacketNumber;
use crate::mcp::{Message, SessionNumber};
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

/// Bytes after which a block is written: a browser opens this many in some ten milliseconds.
const BLOCK: usize = 3 << 19;

/// Messages of a block.
const MESSAGES: usize = 1_200;

/// A layer or a field without its value and its place: depth, name, source of its bytes, odd.
type NodeName = (usize, String, Option<usize>, bool);

/// What messages of one shape share: their layers, and how many sources and runs they have.
type ShapeKey = (Vec<NodeName>, usize, usize);

/// The messages of one shape, column by column.
#[derive(Default, Serialize)]
struct Shape {
    names: Vec<NodeName>,
    values: Vec<ValueColumn>,
    /// Start and length of the bytes in the source.
    starts: Vec<ValueColumn>,
    lengths: Vec<ValueColumn>,
    sources: Vec<SourceColumns>,
    carried: Vec<RunColumns>,
}

/// A source of bytes: title, packet, offset, length, and how many bytes were left out. The offset
/// counts from the first byte of the message in the block. The title of a packet is its number.
#[derive(Default, Serialize)]
struct SourceColumns(ValueColumn, ValueColumn, ValueColumn, ValueColumn, ValueColumn);

/// A run of the text in another source: start, length, source, offset, length if it was derived.
#[derive(Default, Serialize)]
struct RunColumns(ValueColumn, ValueColumn, ValueColumn, ValueColumn, ValueColumn);

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
    #[serde(skip)]
    first: usize,
    #[serde(skip)]
    last: usize,
    #[serde(skip)]
    shape_index: HashMap<ShapeKey, usize>,
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
        let shape = block.shape_of(&detail);
        block.shape.push(shape);
        block.nodes(shape, &detail, about)?;
        let base = block.bytes.len();
        block.sources(shape, detail.sources)?;
        block.sizes.push(block.bytes.len() - base);
        for (columns, run) in block.shapes[shape].carried.iter_mut().zip(detail.carried) {
            columns.0.push(&run.text.start)?;
            columns.1.push(&run.text.len())?;
            columns.2.push(&run.source)?;
            columns.3.push(&run.at)?;
            columns.4.push(&run.derived_length)?;
        }
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
    /// The shape of a message.
    fn shape_of(&mut self, detail: &Detail) -> usize {
        let name = |node: &LayerNode| {
            let source = node.location.as_ref().map(|(source, _)| *source);
            (node.depth, node.name.clone(), source, node.odd)
        };
        let names: Vec<NodeName> = detail.nodes.iter().map(name).collect();
        let key = (names, detail.sources.len(), detail.carried.len());
        let shapes = &mut self.shapes;
        *self.shape_index.entry(key).or_insert_with_key(|(names, sources, runs)| {
            shapes.push(Shape {
                names: names.clone(),
                values: columns(names.len()),
                starts: columns(names.len()),
                lengths: columns(names.len()),
                sources: columns(*sources),
                carried: columns(*runs),
            });
            shapes.len() - 1
        })
    }

    /// Adds the layers of a message.
    fn nodes(&mut self, shape: usize, Detail { message, nodes, sources, .. }: &Detail, about: &str) -> Result<()> {
        let columns = &mut self.shapes[shape];
        let facts = facts(message, sources);
        for (at, LayerNode { value, location, .. }) in nodes.iter().enumerate() {
            let (source, range) = location.clone().map_or((None, 0..0), |(source, range)| (Some(source), range));
            let whole = source.and_then(|at| sources.get(at));
            // Only what the page has can stand for a value.
            let bytes = whole
                .zip(source)
                .and_then(|(Source { bytes, .. }, at)| bytes.get(..most(at)).unwrap_or(bytes).get(range.clone()));
            let packet = whole.and_then(|source| source.packet).map(|packet| ("packet", packet.0));
            let places = [("length", range.len() as u64), ("start", range.start as u64), ("end", range.end as u64)];
            let numbers = packet.into_iter().chain(places.into_iter().filter(|_| source.is_some()));
            let numbers: Vec<_> = numbers.map(|(name, number)| (name, number.to_string())).collect();
            let known: Vec<_> = facts.iter().chain(&numbers).map(|(name, text)| (*name, &text[..])).collect();
            columns.values[at].push(&Value::new(value, bytes, about, &known))?;
            columns.starts[at].push(&range.start)?;
            columns.lengths[at].push(&range.len())?;
        }
        Ok(())
    }

    /// Adds the bytes of a message. The longest source comes first: it often contains others.
    fn sources(&mut self, shape: usize, sources: Vec<Source>) -> Result<()> {
        let base = self.bytes.len();
        let mut order: Vec<usize> = (0..sources.len()).collect();
        order.sort_by_key(|at| std::cmp::Reverse(sources[*at].bytes.len()));
        let mut places = vec![(0, 0); sources.len()];
        for at in order {
            places[at] = self.place(base, &sources[at], most(at));
        }
        let columns = self.shapes[shape].sources.iter_mut();
        for ((columns, Source { title, bytes, packet }), (start, length)) in columns.zip(sources).zip(places) {
            let is_number = packet.is_some_and(|packet| title == format!("packet #{packet}"));
            columns.0.push(&if is_number { "" } else { &title })?;
            columns.1.push(&packet.map(|packet| packet.0))?;
            columns.2.push(&(start as isize - base as isize))?;
            columns.3.push(&length)?;
            columns.4.push(&bytes.len().saturating_sub(length))?;
        }
        Ok(())
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

/// As many empty columns.
fn columns<T: Default>(count: usize) -> Vec<T> {
    (0..count).map(|_| T::default()).collect()
}

/// What the row of a message and its text tell about numbers in values.
fn facts(message: &Message, sources: &[Source]) -> Vec<(&'static str, String)> {
    let partner = message.answers.or(message.answered_by).map(|partner| partner.0);
    let exchange = message.exchange.map(|exchange| exchange.0);
    let size = sources.get(TEXT).map(|text| text.bytes.len() as u64);
    let numbers = [("size", size), ("partner", partner), ("exchange", exchange)];
    let numbers = numbers.into_iter().filter_map(|(name, number)| Some((name, number?.to_string())));
    numbers.chain(message.id.as_ref().map(|id| ("id", id.to_string()))).collect()
}
