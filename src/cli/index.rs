//! `mcptap index`: makes the full-text index of a database at once.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Result;

use super::{output, target};
use crate::store::{DatabaseFile, TextIndexer};
use crate::view::units;

pub fn run(db: Option<PathBuf>) -> Result<()> {
    let place = DatabaseFile::file(target::existing(target::database(db)?)?);
    let mut indexer = TextIndexer::open(place)?;
    let mut bytes = 0;
    while let Some(indexed) = indexer.step()? {
        bytes += indexed;
    }
    let mut out = output::stdout();
    match bytes {
        0 => writeln!(
            out,
            "nothing to index: without an index, a search through the remaining texts takes milliseconds"
        )?,
        _ => writeln!(out, "{} of messages indexed", units::size(bytes))?,
    }
    Ok(out.flush()?)
}
