//! `mcptap proxy`: before a server that speaks HTTP, to lines and into the database.
//!
//! Clients are served from the first moment to the last, whatever becomes of the record: what is wrong with that is said.

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use crossbeam_channel::bounded;

use super::args::{self, Colour};
use super::printer::Printer;
use super::{filter, stop, target};
use crate::capture::{Limits, Packet};
use crate::decode::uri;
use crate::engine::queue::Queue;
use crate::engine::saver::{self, Saver};
use crate::engine::{self, Both, Listener};
use crate::event::{Detail, Event};
use crate::http::{connect, listen};
use crate::pipeline::{Options, Pipeline};
use crate::proxy::{Proxy, Record};
use crate::source;
use crate::source::overflow::Overflow;
use crate::source::tape::{self, LostBytes};
use crate::store::{self, CaptureInfo, CaptureKind, DatabaseFile, Writer};
use crate::view::command_line;

/// How long a connection to the server may take to be made.
const CONNECTING: Duration = Duration::from_secs(10);

/// How long connections may take to end once told to. Those that are still being made are not waited for.
const GRACE: Duration = Duration::from_secs(1);

pub fn run(arguments: args::Proxy, db: Option<PathBuf>, colour: Colour) -> Result<ExitCode> {
    let filter = filter::parse(arguments.filter.as_deref())?;
    let (tape, tape_source) = tape::tape();
    let loss = LostBytes::default();
    let proxy = proxy(&arguments, Record { tape, loss: loss.clone() })?;
    let listener = listen::bind(&arguments.listen).with_context(|| format!("cannot listen at {}", arguments.listen))?;
    let address = listener.local_addr().context("cannot listen")?;
    let place = if arguments.no_save { None } else { Some(DatabaseFile::file(target::database(db)?)) };
    // What is decoded and saved more slowly than it passes waits beside the database, which has to find room there too.
    let folder = place.as_ref().and_then(|place| place.create_folder().ok()).unwrap_or_else(env::temp_dir);
    let (stop, signal) = stop::with_descriptor()?;
    let ended = Arc::new(AtomicBool::new(false));
    let mut queue =
        Queue::start(tape_source.reporting_idle_at_once(), Arc::clone(&ended), Overflow::new(&folder, true))?;
    let gauge = queue.gauge();
    let (recording, recorded) = bounded::<()>(0);
    let serve = move || {
        let served = proxy.serve(&listener, &signal);
        let _ = recorded.recv_timeout(GRACE);
        ended.store(true, Ordering::Relaxed);
        served
    };
    announce(&arguments, address);
    let serving = thread::Builder::new().name("proxy".to_owned()).spawn(serve).context("cannot start a thread")?;
    // This thread decodes and saves from here on.
    source::lower_priority();

    let writer = place.map(|place| writer(&arguments, place, &stop));
    let (writer, refused) = match writer.transpose() {
        Ok(writer) => (writer, None),
        Err(error) => (None, Some(error)),
    };
    let saver = writer.map(|writer| Saver::new(writer, true));
    let detail = if saver.is_some() { Detail::Store } else { Detail::Messages };
    let options =
        Options { limits: Limits::live(), detail, keep_secrets: arguments.keep_secrets, ..Options::default() };
    let mut pipeline = Pipeline::new(options);
    let printer = Printer::new(arguments.json, colour, filter, true);
    let mut listeners = Both(Watched(Some(printer)), saver);
    // A signal ends the connections, and that the queue: what is in it is still decoded.
    let run = engine::run(&mut queue, &mut pipeline, &mut listeners, &AtomicBool::new(false));
    if let Err(error) = &run {
        eprintln!("mcptap: nothing more is recorded: {error:#}");
    }
    drop((queue, recording));
    serving.join().map_err(|_| anyhow!("the proxy crashed"))??;

    let mut counts = pipeline.counts().clone();
    let dropped = gauge.dropped().map_or(0, |dropped| dropped.packets);
    counts.skipped.extend((dropped > 0).then_some(("dropped by mcptap", dropped)));
    let Both(Watched(printer), saver) = listeners;
    let saved = saver.map(|saver| saver.finish(target::summary(&counts))).transpose();
    // Nobody may be there to read it.
    let _ = printer.map(|mut printer| printer.finish(&counts));
    if dropped > 0 || loss.bytes() > 0 {
        let bytes = loss.bytes();
        eprintln!("mcptap: recording did not keep up: {dropped} packets and {bytes} bytes passed unrecorded");
    }
    run?;
    match refused {
        Some(error) => return Err(error.context("nothing was saved")),
        None => saved?.filter(|counts| counts.lost > 0).into_iter().for_each(|counts| {
            eprintln!("mcptap: {} records could not be saved", counts.lost);
        }),
    }
    Ok(ExitCode::SUCCESS)
}

fn proxy(arguments: &args::Proxy, record: Record) -> Result<Proxy> {
    let options = connect::Options {
        certificates: connect::certificates(arguments.cacert.as_deref())?,
        insecure: arguments.insecure,
        timeout: CONNECTING,
        ..connect::Options::default()
    };
    Proxy::new(&arguments.to, &options, arguments.allow_host.clone(), record)
}

/// Says where clients find it, and what a person should know of that.
fn announce(arguments: &args::Proxy, address: std::net::SocketAddr) {
    let (to, path) = (&arguments.to, uri::origin_form(&arguments.to));
    eprintln!("mcptap: give clients http://{address}{path} in place of {to}; Ctrl-C ends it");
    if !address.ip().is_loopback() {
        eprintln!(
            "mcptap: whoever reaches this machine reaches the server through it, unencrypted: only an address of 127.0.0.0/8 or ::1 is its own"
        );
    }
    if arguments.insecure {
        eprintln!("mcptap: --insecure: whoever answers for {to} is believed");
    }
}

/// Begins a capture in the database. Another program may hold it locked: traffic waits in the queue meanwhile.
fn writer(arguments: &args::Proxy, place: DatabaseFile, stop: &AtomicBool) -> Result<Writer> {
    let source = if arguments.keep_secrets {
        arguments.to.clone()
    } else {
        command_line::masked(&[arguments.to.clone().into()]).concat()
    };
    let (process, started) = (std::process::id(), saver::now());
    let info = CaptureInfo { kind: CaptureKind::Proxy, source, process, started };
    let options = store::WriteOptions { keep_secrets: arguments.keep_secrets, ..store::WriteOptions::default() };
    let mut is_told = false;
    target::create_patiently(&place, &info, options, |error| {
        if !std::mem::replace(&mut is_told, true) {
            eprintln!("mcptap: not recorded yet, clients are served all the same: {error:#}");
        }
        !stop.load(Ordering::Relaxed)
    })
}

/// Lines for whoever watches. That nobody does any more ends neither the proxy nor the record.
struct Watched(Option<Printer>);

impl Watched {
    fn show(&mut self, show: impl FnOnce(&mut Printer) -> Result<()>) -> Result<()> {
        if self.0.as_mut().is_some_and(|printer| show(printer).is_err()) {
            self.0 = None;
        }
        Ok(())
    }
}

impl Listener for Watched {
    fn packet(&mut self, packet: &Packet<'_>) -> Result<()> {
        self.show(|printer| printer.packet(packet))
    }

    fn event(&mut self, event: Event) -> Result<()> {
        self.show(|printer| printer.event(event))
    }

    fn hear(&mut self, event: &Event) -> Result<()> {
        self.show(|printer| printer.hear(event))
    }

    fn settled(&mut self) -> Result<()> {
        self.show(Printer::settled)
    }

    fn idle(&mut self) -> Result<()> {
        self.show(Printer::idle)
    }
}
