//! `mcptap wrap --prune-older` and `--prune-over`: deletes earlier sessions of the same name.
//!
//! It runs on a thread of its own, so that it delays neither the server nor its recording. If the
//! wrapper ends first, the next deletion goes on.

use std::thread;

use anyhow::Result;

use super::args;
use crate::engine::saver;
use crate::mcp::SessionNumber;
use crate::source::stdio::Receipts;
use crate::store::{DatabaseFile, Fate, Maintenance, Recording, StoreReader};
use crate::view::units;

/// The sessions to delete.
#[derive(Clone, Debug)]
pub struct Pruning {
    name: String,
    older: Option<i64>,
    over: Option<u64>,
}

impl Pruning {
    /// What the options say; `None` without them.
    pub fn new(name: Option<&str>, options: &args::Prune) -> Option<Pruning> {
        let (older, over) = (options.prune_older, options.prune_over);
        let name = name.filter(|_| older.is_some() || over.is_some())?;
        Some(Pruning { name: name.to_owned(), older, over })
    }

    /// Starts to delete. Each deletion is a line on stderr, and so is a failure.
    pub fn start(self, place: DatabaseFile, receipts: Receipts) {
        let run = move || {
            if let Err(error) = self.run(&place, &receipts) {
                receipts.say(&format!("pruning: {error:#}"));
            }
        };
        // If the thread cannot start, nothing is pruned this time.
        let _ = thread::Builder::new().name("pruner".to_owned()).spawn(run);
    }

    fn run(&self, place: &DatabaseFile, receipts: &Receipts) -> Result<()> {
        let chosen = self.choose(&StoreReader::open(place.clone())?)?;
        if chosen.is_empty() {
            return Ok(());
        }
        let mut maintenance = Maintenance::open(place.clone())?;
        maintenance.resume()?;
        maintenance.delete(&chosen, |session, fate| {
            if fate == Fate::Deleted {
                receipts.say(&format!("pruning: session {} of {} was deleted", session.0, self.name));
            }
        })?;
        let space = maintenance.give_back()?;
        if space.given_back > 0 {
            receipts.say(&format!("pruning: {} given back", units::size(space.given_back)));
        }
        Ok(())
    }

    fn choose(&self, reader: &StoreReader) -> Result<Vec<SessionNumber>> {
        let mut own = reader.recordings()?;
        own.retain(|recording| recording.name.as_ref() == Some(&self.name));
        let now = saver::now();
        let is_old = |recording: &Recording| self.older.is_some_and(|age| now.since(recording.last) > age);
        let mut sizes = self.over.map(|_| reader.stored_sizes(own.iter())).transpose()?.unwrap_or_default();
        let mut total: u64 = sizes.values().sum();
        own.sort_by_key(|recording| recording.last);
        own.retain(|recording| {
            let excess = self.over.is_some_and(|limit| total > limit);
            let goes = !recording.is_pinned && !recording.is_live && (excess || is_old(recording));
            if goes {
                total = total.saturating_sub(sizes.remove(&recording.session).unwrap_or_default());
            }
            goes
        });
        Ok(own.into_iter().map(|recording| recording.session).collect())
    }
}
