//! Writes messages to a file, as JSON lines.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, Result};

use crate::export::jsonl;
use crate::filter::Filter;
use crate::mcp::MessageNumber;
use crate::store::StoreReader;
use crate::tui::data::MessageList;

/// Writes the messages that a filter selects, or `only` some of them. Returns their number.
///
/// # Errors
///
/// The file exists already or cannot be written, or the store cannot be read.
pub(super) fn write(reader: &StoreReader, list: &MessageList, only: &[MessageNumber], path: &Path) -> Result<u64> {
    let filter = Filter::parse(&list.filter)?;
    // Only the owner may read captured data.
    let file = File::options().write(true).create_new(true).mode(0o600).open(path);
    let mut file = BufWriter::new(file.with_context(|| format!("cannot create {}", path.display()))?);
    let (mut written, mut line) = (0, Vec::new());
    for message in reader.session_messages(list.session, Some(&filter)) {
        let message = message?;
        if only.is_empty() || only.contains(&message.number) {
            line.clear();
            jsonl::write_message(&mut line, &message);
            file.write_all(&line).with_context(|| format!("cannot write {}", path.display()))?;
            written += 1;
        }
    }
    file.flush().with_context(|| format!("cannot write {}", path.display()))?;
    Ok(written)
}
