//! `mcptap read`: captures to lines, as messages are completed.

use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use anyhow::Result;

use super::args::{Colour, Decoding, Read};
use super::printer::Printer;
use crate::capture::Limits;
use crate::engine;
use crate::event::Detail;
use crate::pipeline::{Options, Pipeline};
use crate::source::file::Files;

pub fn run(arguments: Read, colour: Colour) -> Result<ExitCode> {
    let mut source = Files::open(&arguments.files, arguments.follow)?;
    let options = options(&arguments.decoding, arguments.hash, Detail::Messages);
    let mut pipeline = Pipeline::new(options);
    let mut printer = Printer::new(arguments.json, colour);
    let stop = AtomicBool::new(false);
    engine::run(&mut source, &mut pipeline, &mut printer, &stop)?;
    printer.finish(pipeline.counts())?;
    Ok(ExitCode::SUCCESS)
}

/// How the pipeline works for a command.
pub fn options(decoding: &Decoding, hash: bool, detail: Detail) -> Options {
    Options { limits: Limits::default(), detail, hash, keep_secrets: decoding.keep_secrets }
}
