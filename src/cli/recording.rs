//! The database of a live recording, and the dataset beside it.

use std::env;
use std::path::PathBuf;

use anyhow::Result;

use super::args::RecordingOptions;
use super::output::note;
use super::ship;
use crate::engine::saver::Saver;
use crate::event::Detail;
use crate::store::{CaptureId, Counts, DatabaseFile, Writer};
#[cfg(feature = "live")]
use crate::store::{CaptureInfo, WriteOptions};

/// The database of a recording, unless nothing is saved, and the folder for traffic that waits for
/// the decoder. It is the folder of the database, where free space is needed anyway.
pub fn place(
    options: &RecordingOptions,
    database: impl FnOnce() -> Result<PathBuf>,
) -> Result<(Option<DatabaseFile>, PathBuf)> {
    let place = if options.no_save { None } else { Some(DatabaseFile::file(database()?)) };
    let folder = place.as_ref().and_then(|place| place.create_folder().ok());
    Ok((place, folder.unwrap_or_else(env::temp_dir)))
}

/// A recording that is saved, and sent to a dataset if one is given.
pub struct SavedRecording {
    /// The database, and the capture in it; `None` if nothing is saved.
    pub saved_in: Option<(DatabaseFile, CaptureId)>,
    /// What the pipeline emits for it.
    pub detail: Detail,
    shipper: Option<ship::Shipper>,
}

impl SavedRecording {
    /// Begins a recording in a database, if there is one. Returns also what saves it.
    #[cfg(feature = "live")]
    pub fn begin(
        options: &RecordingOptions,
        place: Option<DatabaseFile>,
        info: &CaptureInfo,
        write_options: WriteOptions,
    ) -> Result<(SavedRecording, Option<Saver>)> {
        let writer = place.map(|place| Writer::create(place, info, write_options)).transpose()?;
        writer.iter().for_each(|writer| drop(super::databases::remember(writer.place().path())));
        Ok(SavedRecording::of(writer, options))
    }

    /// The recording that a writer has begun, and what saves it.
    pub fn of(writer: Option<Writer>, options: &RecordingOptions) -> (SavedRecording, Option<Saver>) {
        let saved_in = writer.as_ref().map(|writer| (writer.place().clone(), writer.capture()));
        let detail = if writer.is_some() { Detail::Store } else { Detail::Messages };
        let path = saved_in.as_ref().map(|(place, _)| place.path());
        let shipper = path.and_then(|path| ship::beside(&options.dataset, path, ship::say));
        (SavedRecording { saved_in, detail, shipper }, writer.map(|writer| Saver::new(writer, true)))
    }

    /// Sends the rest.
    pub fn end(self) {
        ship::end(self.shipper).iter().for_each(|line| note!("{line}"));
    }
}

/// Prints the number of records that were not saved.
pub fn note_lost(counts: &Counts) {
    if counts.lost > 0 {
        note!("{} records could not be saved", counts.lost);
    }
}
