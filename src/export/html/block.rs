//! Data blocks: the recording inside the page.
//!
//! ```text
//!  <script type="application/octet-stream" data-kind="rows" data-session="7" data-from="0">
//!   base64 of deflated: │ length of the JSON (4 bytes) │ JSON │ bytes that the JSON refers to │
//!  </script>
//! ```
//!
//! A browser runs no script of this type. `page/data.js` opens the blocks: those with rows at
//! once, those with details when a message is shown.

use std::io::{self, Write};

use anyhow::Result;
use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;
use libdeflater::{CompressionLvl, Compressor};
use serde::Serialize;

use super::columns::ItemColumns;
use crate::mcp::SessionNumber;

mcptap_core::words! {
    /// The content of a block.
    pub(super) enum BlockKind {
        /// The facts of a session.
        Session = "session",
        /// Rows of its timeline.
        Rows = "rows",
        /// Layers and bytes of its messages.
        Details = "details",
        /// Its HTTP exchanges.
        Exchanges = "exchanges",
        /// The places where it breaks rules.
        Findings = "findings",
    }
}

/// The lowest level of libdeflate that looks for the shortest coding. The highest one, 12, takes
/// twice the time and saves 1.2 %.
const LEVEL: i32 = 10;

/// Writes a block. `from` is the position of its first row in the timeline.
pub(super) fn write(
    out: &mut dyn Write,
    kind: BlockKind,
    session: SessionNumber,
    from: usize,
    json: &impl Serialize,
    bytes: &[u8],
) -> Result<()> {
    let mut content = vec![0; size_of::<u32>()];
    serde_json::to_writer(&mut content, json)?;
    let length = u32::try_from(content.len() - size_of::<u32>())?;
    content[..size_of::<u32>()].copy_from_slice(&length.to_le_bytes());
    content.extend_from_slice(bytes);
    let mut compressor = Compressor::new(CompressionLvl::new(LEVEL).unwrap_or_default());
    let mut packed = vec![0; compressor.deflate_compress_bound(content.len())];
    let length = compressor.deflate_compress(&content, &mut packed)?;
    packed.truncate(length);
    writeln!(
        out,
        "<script type=\"application/octet-stream\" data-kind=\"{}\" data-session=\"{}\" data-from=\"{from}\">{}</script>",
        kind.name(),
        session.0,
        Base64Display::new(&packed, &STANDARD),
    )?;
    Ok(())
}

/// A list that is written in blocks, so that memory does not grow with the session.
pub(super) struct ListBlocks {
    kind: BlockKind,
    session: SessionNumber,
    items: ItemColumns,
    written: usize,
}

/// Items of a block. The first block has what the first screen needs.
const ITEMS: usize = 1_000;

impl ListBlocks {
    /// An empty list.
    pub(super) fn new(kind: BlockKind, session: SessionNumber) -> ListBlocks {
        ListBlocks { kind, session, items: ItemColumns::default(), written: 0 }
    }

    /// The position of the next item.
    pub(super) fn position(&self) -> usize {
        self.written + self.items.length
    }

    /// Adds an item, and writes a block that is full.
    pub(super) fn push(&mut self, out: &mut dyn Write, item: &impl Serialize) -> Result<()> {
        self.items.push(item)?;
        if self.items.length < ITEMS { Ok(()) } else { self.flush(out) }
    }

    /// Writes the last block.
    pub(super) fn flush(&mut self, out: &mut dyn Write) -> Result<()> {
        let items = std::mem::take(&mut self.items);
        if items.length == 0 {
            return Ok(());
        }
        write(out, self.kind, self.session, self.written, &items, &[])?;
        self.written += items.length;
        Ok(())
    }
}

/// The text for an attribute of the policy: the hash of an element's content.
pub(super) fn policy_hash(content: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, content.as_bytes());
    format!("'sha256-{}'", Base64Display::new(digest.as_ref(), &STANDARD))
}

/// Writes a text outside of blocks.
pub(super) fn raw(out: &mut dyn Write, text: &str) -> io::Result<()> {
    out.write_all(text.as_bytes())
}
