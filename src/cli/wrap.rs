//! `mcptap wrap`: an STDIO server with its pipes teed into the database.

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use anyhow::Result;

use super::args::Wrap;
use super::target;
use crate::engine;
use crate::engine::saver::{self, Recorder};
use crate::event::Detail;
use crate::pipeline::{Options, Pipeline};
use crate::source::stdio::{self, Observations, Server};
use crate::store::{self, CaptureInfo, CaptureKind, DatabaseFile};
use crate::view::command_line;

pub fn run(arguments: Wrap, db: Option<PathBuf>) -> Result<ExitCode> {
    let recorded = if arguments.keep_secrets {
        arguments.command.iter().map(|word| word.to_string_lossy().into_owned()).collect()
    } else {
        command_line::masked(&arguments.command)
    };
    let source = recorded.join(" ");
    let server = Server { command: arguments.command, recorded, name: arguments.name };
    let place = target::database(db).map(DatabaseFile::file);
    // Observations wait beside the database, which has to find room there too. Where that cannot be, the recorder will say why.
    let folder = place.as_ref().ok().and_then(|place| place.create_folder().ok());
    let folder = folder.unwrap_or_else(env::temp_dir);
    let code = stdio::wrap(&server, &folder, move |observations| record(observations, source, place?));
    Ok(ExitCode::from(code))
}

/// Decodes and saves what is observed until the server has ended. Nothing here can reach the server.
fn record(mut observations: Observations, source: String, place: DatabaseFile) -> Result<()> {
    let (process, started) = (std::process::id(), saver::now());
    let info = CaptureInfo { kind: CaptureKind::Wrap, source, process, started };
    let writer = target::create_patiently(&place, &info, store::WriteOptions::default(), |_| true)?;
    let mut pipeline = Pipeline::new(Options { detail: Detail::Store, ..Options::default() });
    let mut recorder = Recorder::new(writer);
    engine::run(&mut observations, &mut pipeline, &mut recorder, &AtomicBool::new(false))?;
    recorder.finish(&target::summary(pipeline.counts()))
}
