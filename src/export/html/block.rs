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

/// The content of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockKind {
    /// The facts of a session.
    Session,
    /// Rows of its timeline.
    Rows,
    /// Layers and bytes of its messages.
    Details,
    /// Its HTTP exchanges.
    Exchanges,
    /// The places where it breaks rules.
    Findings,
}

impl BlockKind {
    fn name(self) -> &'static str {
        match self {
            BlockKind::Session => "session",
            BlockKind::Rows => "rows",
            BlockKind::Details => "details",
            BlockKind::Exchanges => "exchanges",
            BlockKind::Findings => "findings",
        }
    }
}

/// Writes a block. `from` is the position of its first row in the timeline.
pub(super) fn write(
    out: &mut dyn Write,
    kind: BlockKind,
    session: SessionNumber,
    from: usize,
    json: &impl Serialize,
    bytes: &[u8],
) -> Result<()> {
    let json = serde_json::to_vec(json)?;
    let content = [&u32::try_from(json.len())?.to_le_bytes(), &json[..], bytes].concat();
    let mut compressor = Compressor::new(CompressionLvl::best());
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
pub(super) struct ListBlocks<T> {
    kind: BlockKind,
    session: SessionNumber,
    items: Vec<T>,
    written: usize,
}

/// Items of a block. The first block has what the first screen needs.
const ITEMS: usize = 1_000;

impl<T: Serialize> ListBlocks<T> {
    /// An empty list.
    pub(super) fn new(kind: BlockKind, session: SessionNumber) -> ListBlocks<T> {
        ListBlocks { kind, session, items: Vec::new(), written: 0 }
    }

    /// The position of the next item.
    pub(super) fn position(&self) -> usize {
        self.written + self.items.len()
    }

    /// Adds an item, and writes a block that is full.
    pub(super) fn push(&mut self, out: &mut dyn Write, item: T) -> Result<()> {
        self.items.push(item);
        if self.items.len() < ITEMS { Ok(()) } else { self.flush(out) }
    }

    /// Writes the last block.
    pub(super) fn flush(&mut self, out: &mut dyn Write) -> Result<()> {
        if self.items.is_empty() {
            return Ok(());
        }
        write(out, self.kind, self.session, self.written, &ItemColumns::new(&self.items)?, &[])?;
        self.written += self.items.len();
        self.items.clear();
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
