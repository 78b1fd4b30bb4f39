//! Messages to a file, as JSON lines.

use std::fs::OpenOptions;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result};

use super::filtered::Matches;
use crate::export::jsonl;
use crate::mcp::{MessageNumber, SessionNumber};
use crate::store::{Key, Page, Reader, Scope};

/// Writes the messages that a filter lets through, or `only` some of them; says how many.
///
/// # Errors
/// The file is there already, or cannot be written; the store cannot be read.
pub(super) fn write(
    reader: &Reader,
    session: SessionNumber,
    filter: &str,
    only: &[MessageNumber],
    path: &Path,
) -> Result<u64> {
    let mut matches = Matches::new(session, filter)?;
    while !matches.is_complete() {
        matches.search_on(reader, &mut [])?;
    }
    let file = OpenOptions::new().write(true).create_new(true).open(path);
    let mut file = BufWriter::new(file.with_context(|| format!("cannot create {}", path.display()))?);
    let Some(capture) = reader.capture_of(session)? else { return Ok(0) };
    let (mut written, mut row, mut line) = (0, 0, Vec::new());
    loop {
        let positions = matches.page_from(row);
        if positions.is_empty() {
            break;
        }
        row += positions.len();
        for position in positions {
            let number = reader.message_rows_at(session, position, 1)?.first().map(|row| row.number.0);
            let number = number.filter(|number| only.is_empty() || only.contains(&MessageNumber(*number)));
            let page = number.map(|number| Page::from(Key::new(capture, number), 1));
            let Some(page) = page else { continue };
            for message in reader.messages(Scope::Capture(capture), page)? {
                line.clear();
                jsonl::write_message(&mut line, &message);
                file.write_all(&line).with_context(|| format!("cannot write {}", path.display()))?;
                written += 1;
            }
        }
    }
    file.flush().with_context(|| format!("cannot write {}", path.display()))?;
    Ok(written)
}
