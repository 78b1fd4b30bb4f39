//! `mcptap read`: decodes captures and prints messages as they are completed.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;

use super::args::{Colour, Read};
use super::printer::Printer;
use super::{databases, filter, stop, target};
use crate::capture::Limits;
use crate::engine::saver::{self, Saver};
use crate::engine::{self, Both};
use crate::event::Detail;
use crate::pipeline::{Pipeline, PipelineConfig};
use crate::source::keylog::WithKeyLog;
use crate::store::{self, CaptureInfo, DatabaseFile, Writer};

pub fn run(arguments: Read, db: Option<PathBuf>, colour: Colour) -> Result<ExitCode> {
    #[cfg(feature = "parquet")]
    if let Some(place) = &arguments.dataset.dataset {
        return super::dataset::read(&arguments, place);
    }
    let filter = filter::parse(arguments.filter.as_deref())?;
    let redaction = arguments.decoding.redaction()?;
    let files = store::open_files(&arguments.files, arguments.follow)?;
    let kind = target::import_kind(&files);
    let limits = if files.is_live() { Limits::live() } else { Limits::default() };
    // What comes as it is captured is shown at once, so no batches are gathered.
    let threads = if files.is_live() { 1 } else { arguments.decoding.threads() };
    let keys = arguments.decoding.key_log(arguments.follow);
    let mut source = WithKeyLog::new(files, keys.as_deref(), arguments.follow)?;
    let detail = if arguments.save { Detail::Store } else { Detail::Messages };
    let mut pipeline = Pipeline::new(PipelineConfig {
        limits,
        hash: arguments.hash,
        ..target::pipeline_options(arguments.decoding.keep_secrets, detail, redaction)
    });
    let mut printer = Printer::new(arguments.json, colour, filter, arguments.follow);
    let stop = stop::on_signals()?;
    if arguments.save {
        let info = CaptureInfo::begun(kind, target::joined(&arguments.files));
        let place = DatabaseFile::file(target::database(db)?);
        let options = target::store_options(arguments.decoding.keep_secrets, redaction);
        let writer = Writer::create(place, &info, options)?;
        let _listing = databases::remember(writer.place().path());
        let (place, capture) = (writer.place().clone(), writer.capture());
        let mut both = Both(printer, Saver::new(writer, false));
        let run = engine::run_on(threads, &mut source, &mut pipeline, &mut both, &stop);
        let Both(mut printer, saver) = both;
        let saved = saver.finish(saver::summary(&pipeline.counts()));
        run?;
        let saved = saved?;
        printer.finish(&pipeline.counts())?;
        target::note_blanked(&pipeline.counts());
        target::note_unkept(&saved);
        target::note_saved(&place, capture);
    } else {
        engine::run_on(threads, &mut source, &mut pipeline, &mut printer, &stop)?;
        printer.finish(&pipeline.counts())?;
    }
    Ok(ExitCode::SUCCESS)
}
