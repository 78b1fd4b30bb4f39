//! `mcptap wrap`: runs an STDIO server and records its pipes in the database.

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use anyhow::Result;

use super::args::Wrap;
use super::target;
use crate::engine;
use crate::engine::saver::DirectSaver;
use crate::event::Detail;
use crate::pipeline::{Pipeline, PipelineConfig};
use crate::source::stdio::{self, Observations, Server};
use crate::store::{self, CaptureKind, DatabaseFile};
use crate::view::{command_line, safe};

pub fn run(arguments: Wrap, db: Option<PathBuf>) -> Result<ExitCode> {
    let recorded = if arguments.keep_secrets {
        arguments.command.iter().map(|word| word.to_string_lossy().into_owned()).collect()
    } else {
        command_line::masked(&arguments.command)
    };
    let source = recorded.join(" ");
    let server = Server { command: arguments.command, recorded, name: arguments.name };
    let place = target::database(db).map(DatabaseFile::file);
    // Observations wait beside the database, because that place needs free space anyway. If the
    // folder cannot be created, the recorder reports the reason.
    let folder = place.as_ref().ok().and_then(|place| place.create_folder().ok());
    let folder = folder.unwrap_or_else(env::temp_dir);
    let code = stdio::wrap(&server, &folder, safe::visible, move |observations| record(observations, source, place?));
    Ok(ExitCode::from(code))
}

/// Decodes and saves observations until the server has ended. Nothing here can affect the server.
fn record(mut observations: Observations, source: String, place: DatabaseFile) -> Result<()> {
    let info = target::capture_info(CaptureKind::Wrap, source);
    let writer = target::create_patiently(&place, &info, store::WriteOptions::default(), |_| true)?;
    let mut pipeline = Pipeline::new(PipelineConfig { detail: Detail::Store, ..PipelineConfig::default() });
    let mut recorder = DirectSaver::new(writer);
    engine::run(&mut observations, &mut pipeline, &mut recorder, &AtomicBool::new(false))?;
    recorder.finish(&target::summary(pipeline.counts()))
}
