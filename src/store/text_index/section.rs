//! A section: its blocks, and the blocks of each trigram.
//!
//! Postings are in rows of some kilobytes, in order of trigram:
//!
//! ```text
//! entry: step from the trigram before │ blocks × 2 │ steps from block to block
//!                                     │ 1          │ a bit for each block, if that is shorter
//! ```

use super::trigrams::{self, TrigramSet};
use crate::store::codec::{BlobReader, BlobWriter, Damaged};

const WHAT: &str = "the full-text index";

/// Bytes of a row of postings. Four of them fill a page of the database, and a longer row of this
/// kind of table would get a page of its own.
const ROW: usize = 3_800;

/// Blocks that a section can have: the bits of a block's number in [`SectionBuilder::pairs`].
pub(super) const MOST_BLOCKS: usize = 1 << 11;

/// A block: the keys of its first and last message, and whether it has to be searched always.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TextBlock {
    first: i64,
    last: i64,
    is_opaque: bool,
}

/// The blocks of a section.
#[derive(Debug)]
pub(super) struct Blocks(Vec<TextBlock>);

impl Blocks {
    pub(super) fn read(blob: &[u8], first: i64) -> Result<Blocks, Damaged> {
        let mut blob = BlobReader::new(blob, WHAT);
        let (mut blocks, mut at) = (Vec::new(), first);
        while !blob.is_empty() {
            let step = |from: i64, step: u64| {
                i64::try_from(step).ok().and_then(|step| from.checked_add(step)).ok_or(Damaged(WHAT))
            };
            let first = step(at, blob.u64()?)?;
            let length = blob.u64()?;
            let last = step(first, length >> 1)?;
            blocks.push(TextBlock { first, last, is_opaque: length & 1 == 1 });
            at = last;
        }
        if blocks.len() > MOST_BLOCKS {
            return Err(blob.damaged());
        }
        Ok(Blocks(blocks))
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The keys of the blocks of a set, and of those that have to be searched always.
    pub(super) fn ranges(&self, set: &BlockSet) -> impl Iterator<Item = (i64, i64)> {
        let wanted = self.0.iter().enumerate().filter(|(number, block)| block.is_opaque || set.has(*number));
        wanted.map(|(_, block)| (block.first, block.last))
    }
}

/// A set of blocks.
#[derive(Debug)]
pub(super) struct BlockSet(Vec<u64>);

impl BlockSet {
    pub(super) fn all(blocks: usize) -> BlockSet {
        let mut bits = vec![u64::MAX; blocks / 64];
        bits.push((1 << (blocks % 64)) - 1);
        BlockSet(bits)
    }

    fn has(&self, block: usize) -> bool {
        self.0.get(block / 64).is_some_and(|bits| bits >> (block % 64) & 1 == 1)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(|bits| *bits == 0)
    }

    /// Keeps the blocks that have a trigram, given the row with its postings and the first trigram
    /// of the row. Without a row, or an entry in it, no block has the trigram.
    pub(super) fn retain(&mut self, row: Option<(u32, &[u8])>, trigram: u32) -> Result<(), Damaged> {
        let mut bits = vec![0; self.0.len()];
        if let Some((mut at, row)) = row {
            let mut row = BlobReader::new(row, WHAT);
            while !row.is_empty() && at <= trigram {
                at = at.checked_add(row.u32()?).ok_or(row.damaged())?;
                read_postings(&mut row, &mut bits, at == trigram)?;
                if at == trigram {
                    break;
                }
            }
        }
        self.0.iter_mut().zip(bits).for_each(|(own, bits)| *own &= bits);
        Ok(())
    }
}

/// Reads the blocks of an entry, and adds them to `bits` if they are wanted.
fn read_postings(row: &mut BlobReader<'_>, bits: &mut [u64], is_wanted: bool) -> Result<(), Damaged> {
    let head = row.u64()?;
    if head & 1 == 1 {
        let length = usize::try_from(head >> 1).map_err(|_| row.damaged())?;
        let bytes = row.take(length)?;
        if is_wanted {
            for (word, bytes) in bits.iter_mut().zip(bytes.chunks(8)) {
                let mut whole = [0; 8];
                whole[..bytes.len()].copy_from_slice(bytes);
                *word |= u64::from_le_bytes(whole);
            }
        }
        return Ok(());
    }
    let mut block = 0usize;
    for _ in 0..head >> 1 {
        block = block.saturating_add(row.u32()? as usize);
        if is_wanted {
            *bits.get_mut(block / 64).ok_or(row.damaged())? |= 1 << (block % 64);
        }
    }
    Ok(())
}

/// A section that is being made from texts in order of their keys.
pub(super) struct SectionBuilder {
    /// Bytes of text after which a block ends.
    block_size: usize,
    /// See [`SectionSizes::bytes_a_trigram`](super::build::SectionSizes::bytes_a_trigram).
    bytes_a_trigram: usize,
    blocks: Vec<TextBlock>,
    /// Trigram and block, in 24 and 11 bits.
    pairs: Vec<u64>,
    trigrams: TrigramSet,
    /// The block that is being filled, and its bytes.
    open: Option<TextBlock>,
    filled: usize,
    /// Bytes of all texts.
    pub(super) bytes: usize,
}

/// A section as its rows hold it.
pub(super) struct FinishedSection {
    pub(super) first: i64,
    pub(super) last: i64,
    pub(super) blocks: Vec<u8>,
    /// The first trigram of each row, and its postings.
    pub(super) rows: Vec<(u32, Vec<u8>)>,
}

impl SectionBuilder {
    pub(super) fn new(block_size: usize, bytes_a_trigram: usize) -> SectionBuilder {
        SectionBuilder {
            block_size,
            bytes_a_trigram,
            blocks: Vec::new(),
            pairs: Vec::new(),
            trigrams: TrigramSet::new(),
            open: None,
            filled: 0,
            bytes: 0,
        }
    }

    /// The number of blocks, the one that is being filled included.
    pub(super) fn blocks(&self) -> usize {
        self.blocks.len() + usize::from(self.open.is_some())
    }

    pub(super) fn add(&mut self, key: i64, text: &[u8]) {
        let block = self.open.get_or_insert(TextBlock { first: key, last: key, is_opaque: false });
        block.last = key;
        if !block.is_opaque && trigrams::is_indexable(text) {
            self.trigrams.add_text(text);
        } else {
            block.is_opaque = true;
        }
        self.filled += text.len();
        self.bytes += text.len();
        if self.filled >= self.block_size {
            self.end_block();
        }
    }

    fn end_block(&mut self) {
        let Some(mut block) = self.open.take() else { return };
        let members = &self.trigrams.members;
        // Short texts have few repetitions.
        block.is_opaque |= self.filled >= self.block_size && members.len() > self.filled / self.bytes_a_trigram;
        if !block.is_opaque {
            let number = self.blocks.len() as u64;
            self.pairs.extend(members.iter().map(|trigram| u64::from(*trigram) << 11 | number));
        }
        self.trigrams.clear();
        self.filled = 0;
        self.blocks.push(block);
    }

    /// The section; `None` without texts. The builder is empty then.
    pub(super) fn finish(&mut self) -> Option<FinishedSection> {
        self.end_block();
        self.bytes = 0;
        let all = std::mem::take(&mut self.blocks);
        let (first, last) = (all.first()?.first, all.last()?.last);
        let (mut blocks, mut at) = (BlobWriter::default(), first);
        for block in &all {
            blocks.u64((block.first - at) as u64);
            blocks.u64(((block.last - block.first) as u64) << 1 | u64::from(block.is_opaque));
            at = block.last;
        }
        self.pairs.sort_unstable();
        let mut rows: Vec<(u32, Vec<u8>)> = Vec::new();
        let mut before = 0;
        for entry in self.pairs.chunk_by(|one, other| one >> 11 == other >> 11) {
            let trigram = (entry[0] >> 11) as u32;
            let postings = postings(entry, all.len());
            match rows.last_mut().filter(|(_, row)| row.len() + postings.len() + 4 <= ROW) {
                Some((_, row)) => put_entry(row, trigram - before, &postings),
                None => {
                    let mut row = Vec::with_capacity(ROW);
                    put_entry(&mut row, 0, &postings);
                    rows.push((trigram, row));
                }
            }
            before = trigram;
        }
        self.pairs.clear();
        Some(FinishedSection { first, last, blocks: blocks.0, rows })
    }
}

fn put_entry(row: &mut Vec<u8>, step: u32, postings: &[u8]) {
    let mut blob = BlobWriter(std::mem::take(row));
    blob.u64(step.into());
    blob.0.extend_from_slice(postings);
    *row = blob.0;
}

/// The blocks of an entry, in the shorter form.
fn postings(entry: &[u64], blocks: usize) -> Vec<u8> {
    let numbers = entry.iter().map(|pair| (pair & (MOST_BLOCKS as u64 - 1)) as usize);
    let mut blob = BlobWriter::default();
    let length = blocks.div_ceil(8);
    if entry.len() > length {
        blob.u64((length as u64) << 1 | 1);
        let start = blob.0.len();
        blob.0.resize(start + length, 0);
        numbers.for_each(|number| blob.0[start + number / 8] |= 1 << (number % 8));
    } else {
        blob.u64((entry.len() as u64) << 1);
        let mut before = 0;
        for number in numbers {
            blob.u64((number - before) as u64);
            before = number;
        }
    }
    blob.0
}
