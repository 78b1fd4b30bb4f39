//! `mcptap wrap`: runs an STDIO server and records its pipes in the database.

use std::env;
use std::ffi::OsStr;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Result, bail};

use super::args::Wrap;
use super::prune::Pruning;
use super::{databases, ship, target, telemetry};
use crate::capture::Packet;
use crate::decode::redact::Redaction;
use crate::engine::saver::{self, DirectSaver};
use crate::engine::{self, Both, Listener};
use crate::event::{Detail, Event};
use crate::pipeline::Pipeline;
use crate::source::Source;
use crate::source::command::names_mcp;
use crate::source::first_line::HeldStart;
use crate::source::stdio::{self, Observations, Receipts, Server};
use crate::store::{CaptureInfo, CaptureKind, DatabaseFile, Saved, WriteOptions};
use crate::view::secrets;

/// The time for which a transaction waits for other writers before the recording goes on in a file
/// beside the database. A writer of live traffic locks it for milliseconds. The host waits for the
/// end of the recording, one second at most.
const BUSY: Duration = Duration::from_millis(250);

/// The time that a collector has at the end for what was not sent yet. The host waits meanwhile.
const TELEMETRY_END: Duration = Duration::from_secs(1);

pub fn run(arguments: Wrap, db: Option<PathBuf>) -> Result<ExitCode> {
    if let [first, rest @ ..] = arguments.command.as_slice()
        && rest.iter().any(|word| word == "--")
        && !is_program(first)
    {
        let first = first.display();
        bail!("{first} is not a program: write the command of the server behind --, and its name as --name {first}");
    }
    let redaction = arguments.redact.redaction(arguments.keep_secrets)?;
    let recorded = target::recorded_command(&arguments.command, arguments.keep_secrets, redaction);
    let (source, names_mcp) = (recorded.join(" "), names_mcp(&recorded));
    let pruning = Pruning::new(arguments.name.as_deref(), &arguments.prune);
    let server = Server { command: arguments.command, recorded, name: arguments.name, seals: redaction.is_some() };
    let place = target::database(db).map(DatabaseFile::file);
    // Observations wait beside the database, because that place needs free space anyway. If the
    // folder cannot be created, the recorder reports the reason.
    let folder = place.as_ref().ok().and_then(|place| place.create_folder().ok());
    let folder = folder.unwrap_or_else(env::temp_dir);
    let (keep_secrets, if_mcp) = (arguments.keep_secrets, arguments.if_mcp);
    let dataset = arguments.dataset;
    let wanted = telemetry::wanted(&arguments.telemetry)?;
    let code = stdio::wrap(&server, &folder, secrets::shown, move |observations| {
        let mut observations = HeldStart::new(observations);
        // A server that ends at once is what somebody looks for.
        if if_mcp && !observations.is_server(names_mcp)? {
            while observations.next()?.is_some() {}
            observations.inner().receipts().confirm();
            return Ok(());
        }
        let (place, receipts) = (place?, observations.inner().receipts());
        let notes = observations.inner().receipts();
        let shipper = ship::beside(&dataset, place.path(), move |line| _ = notes.say(line));
        record(observations, source, place, (keep_secrets, redaction), pruning, wanted)?;
        ship::end(shipper).iter().for_each(|line| _ = receipts.say(line));
        Ok(())
    });
    Ok(ExitCode::from(code))
}

/// Whether a shell would find a program with this name.
fn is_program(name: &OsStr) -> bool {
    let folders = env::var_os("PATH").unwrap_or_default();
    match Path::new(name).components().count() {
        1 => env::split_paths(&folders).any(|folder| folder.join(name).is_file()),
        _ => Path::new(name).is_file(),
    }
}

/// Decodes and saves observations until the server has ended. Nothing here can affect the server.
fn record(
    mut observations: HeldStart<Observations>,
    source: String,
    place: DatabaseFile,
    (keep_secrets, redaction): (bool, Option<&'static Redaction>),
    pruning: Option<Pruning>,
    wanted: telemetry::Wanted,
) -> Result<()> {
    let info = CaptureInfo::begun(CaptureKind::Wrap, source);
    let options =
        WriteOptions { busy_timeout: BUSY, may_spill: true, ..target::store_options(keep_secrets, redaction) };
    let writer = target::create_patiently(&place, &info, options, |_| true)?;
    let _listing = databases::remember(place.path());
    if let Some(pruning) = pruning {
        pruning.start(place.clone(), observations.inner().receipts());
    }
    let mut pipeline = Pipeline::new(target::pipeline_options(false, Detail::Store, redaction));
    let (receipts, begun) = (observations.inner().receipts(), Vec::new());
    let saver = DirectSaver::new(writer);
    let telemetry = telemetry::start_if_possible(wanted, |line| _ = receipts.say(line));
    let recorder = Recorder { saver, receipts, info, begun, session: None, options };
    let mut listeners = Both(telemetry, recorder);
    engine::run(&mut observations, &mut pipeline, &mut listeners, &AtomicBool::new(false))?;
    let Both(telemetry, mut recorder) = listeners;
    recorder.recreate_deleted();
    let Recorder { saver, receipts, .. } = recorder;
    let saved = saver.finish(&saver::summary(&pipeline.counts()))?;
    receipts.confirm();
    // A host reads standard error as that of its server, so lines without a problem are for people
    // alone.
    let is_for_people = io::stderr().is_terminal();
    if let Some((line, has_lost)) = telemetry::finish(telemetry, TELEMETRY_END)
        && (has_lost || is_for_people)
    {
        receipts.say(&line);
    }
    match saved {
        Saved::Beside(file) => {
            let file = file.display();
            receipts.say(&format!(
                "recording: the database is locked; the recording is in {file}, and the next start of mcptap moves it"
            ));
        }
        Saved::As(sessions) if !sessions.is_empty() && is_for_people => {
            receipts.say(&target::recorded_as(&sessions, &place));
        }
        Saved::As(_) => {}
    }
    Ok(())
}

/// Saves what passes through the pipes of one process. If the database is deleted meanwhile, it
/// goes on in a new one.
struct Recorder {
    saver: DirectSaver,
    receipts: Receipts,
    info: CaptureInfo,
    options: WriteOptions,
    /// The connection and the streams: at most three pipes.
    begun: Vec<Event>,
    /// The last state of the session.
    session: Option<Event>,
}

impl Recorder {
    fn recreate_deleted(&mut self) {
        let writer = self.saver.writer();
        if !writer.is_deleted() {
            return;
        }
        self.info.started = saver::now();
        let begun = self.begun.iter().chain(&self.session).cloned();
        // If this fails, the next commit fails too and reports it.
        if writer.recreate(&self.info, self.options, begun).is_ok() {
            let path = writer.place().path().display();
            self.receipts
                .say(&format!("recording: the database {path} was deleted; what follows is recorded in a new one"));
        }
    }
}

impl Listener for Recorder {
    fn packet(&mut self, packet: &Packet<'_>) -> Result<()> {
        self.saver.packet(packet)
    }

    fn event(&mut self, event: Event) -> Result<()> {
        match &event {
            Event::Session(_) => self.session = Some(event.clone()),
            Event::Connection(_) | Event::Stream(_) => self.begun.push(event.clone()),
            _ => {}
        }
        self.saver.event(event)
    }

    fn idle(&mut self) -> Result<()> {
        self.recreate_deleted();
        self.saver.idle()?;
        if self.saver.is_saved() {
            self.receipts.confirm();
        }
        Ok(())
    }
}
