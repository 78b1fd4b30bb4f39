//! `mcptap proxy`: forwards traffic to an HTTP server, prints it and saves it.
//!
//! Clients are served from the first moment to the last, even if recording fails. Failures of
//! recording are reported.

use std::cell::Cell;
use std::io::{self, IsTerminal};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use crossbeam_channel::bounded;

use super::args::{self, Colour};
use super::ca::{self, Trust};
use super::install::replaced_settings;
use super::printer::Printer;
use super::recording::{self, SavedRecording};
use super::replay::header_fields;
use super::{databases, filter, stop, target, telemetry};
use crate::capture::Packet;
use crate::cli::output::note;
use crate::decode::redact::Redaction;
use crate::decode::uri;
use crate::engine::{self, Both, Listener, saver};
use crate::event::Event;
use crate::http::{connect, listen};
use crate::pipeline::Pipeline;
use crate::proxy::{ForwardProxy, HostUses, Proxy, TrafficRecorder, bridge};
use crate::source;
use crate::source::overflow::Overflow;
use crate::source::tape::{self, LostBytes, Tape};
use crate::store::{CaptureInfo, CaptureKind, DatabaseFile, Writer};
use crate::view::{command_line, units};

/// Maximum time for connecting to the server.
const CONNECTING: Duration = Duration::from_secs(10);

/// The port of a forward proxy. Clients are configured with it, so it should stay the same.
const INTERCEPT_PORT: &str = "8877";

/// Time that open connections have to end after a signal. Connections that are still being made are
/// not waited for.
const GRACE: Duration = Duration::from_secs(1);

pub fn run(arguments: args::Proxy, db: Option<PathBuf>, colour: Colour) -> Result<()> {
    let filter = filter::parse(arguments.recording.filter.as_deref())?;
    let redaction = arguments.redact.redaction(arguments.keep_secrets)?;
    let (tape, tape_source) = tape::tape();
    let loss = LostBytes::default();
    let proxy = AnyProxy::new(&arguments, TrafficRecorder { tape, loss: loss.clone() })?;
    let listener = if arguments.stdio { None } else { Some(listener(&arguments)?) };
    let metrics_at = Cell::default();
    let wanted = telemetry::wanted(&arguments.recording.telemetry)?;
    let telemetry = telemetry::start(wanted, |line| metrics_at.set(Some(line.to_owned())))?;
    let (place, folder) = recording::place(&arguments.recording, || target::database(db))?;
    let (stop, signal) = stop::with_descriptor()?;
    let mut tape_source =
        tape_source.reporting_pauses().with_overflow(Overflow::new(&folder, true)).context("cannot start a thread")?;
    let tape_end = tape_source.ender();
    let (recorder, recorded) = bounded::<()>(0);
    if let Some(listener) = &listener {
        announce(&arguments, &proxy, listener.local_addr().context("cannot listen")?);
    }
    metrics_at.take().iter().for_each(|line: &String| note!("{line}"));
    let uses = proxy.uses();
    let stopped = Arc::clone(&stop);
    let serve = move || {
        let served = proxy.serve(listener.as_ref(), &signal);
        let _ = recorded.recv_timeout(GRACE);
        tape_end.end();
        stopped.store(true, Ordering::Relaxed);
        served
    };
    let serving = thread::Builder::new().name("proxy".to_owned()).spawn(serve).context("cannot start a thread")?;
    // From here on this thread decodes and saves.
    source::lower_priority();

    let writer = place.map(|place| writer(&arguments, redaction, place, &stop));
    let (writer, refused) = match writer.transpose() {
        Ok(writer) => (writer, None),
        Err(error) => (None, Some(error)),
    };
    let (recording, saver) = SavedRecording::of(writer, &arguments.recording);
    let config = target::live_options(arguments.keep_secrets, recording.detail, redaction);
    let mut pipeline = Pipeline::new(config);
    // In STDIO mode standard output belongs to the client.
    let printer = (!arguments.stdio).then(|| Printer::new(arguments.recording.json, colour, filter, true));
    let mut listeners =
        Named { name: arguments.name.clone(), listener: Both(OptionalPrinter(printer), Both(telemetry, saver)) };
    // A signal ends the connections, and thereby the tape. Its remaining content is still decoded.
    let run = engine::run(&mut tape_source, &mut pipeline, &mut listeners, &AtomicBool::new(false));
    if let Err(error) = &run {
        note!("recording has stopped: {error:#}");
    }
    drop((tape_source, recorder));
    serving.join().map_err(|_| anyhow!("the proxy crashed"))??;

    let counts = pipeline.counts();
    let Both(OptionalPrinter(printer), Both(telemetry, saver)) = listeners.listener;
    let saved = saver.map(|saver| saver.finish(saver::summary(&counts))).transpose();
    // Standard output may be closed.
    let _ = printer.map(|mut printer| printer.finish(&counts));
    if loss.bytes() > 0 {
        note!("recording could not keep up: {} bytes were not recorded", loss.bytes());
    }
    uses.iter().for_each(note_uses);
    target::note_blanked(&counts);
    // A host reads standard error as that of its server, so lines without a problem are for people
    // alone.
    let is_for_people = !arguments.stdio || io::stderr().is_terminal();
    if let Some((line, has_lost)) = telemetry::finish(telemetry, telemetry::END)
        && (has_lost || is_for_people)
    {
        note!("{line}");
    }
    run?;
    match refused {
        Some(error) => return Err(error.context("nothing was saved")),
        None => saved?.iter().for_each(recording::note_lost),
    }
    let saved_in = recording.saved_in.clone();
    recording.end();
    if let Some((place, capture)) = saved_in.filter(|_| is_for_people) {
        target::note_saved(&place, capture);
    }
    Ok(())
}

fn listener(arguments: &args::Proxy) -> Result<TcpListener> {
    let place = arguments.listen.as_deref().unwrap_or(INTERCEPT_PORT);
    listen::bind(place)
}

/// A proxy of one of the kinds.
enum AnyProxy {
    Reverse(Box<Proxy>),
    Forward(Box<ForwardProxy>, Trust),
    /// A bridge from STDIO to a URL.
    Bridge(String, connect::ConnectOptions, Tape),
}

impl AnyProxy {
    fn new(arguments: &args::Proxy, recorder: TrafficRecorder) -> Result<AnyProxy> {
        let options = connect::ConnectOptions {
            certificates: connect::certificates(arguments.cacert.as_deref())?,
            insecure: arguments.insecure,
            also_system: !arguments.intercept.is_empty(),
            timeout: CONNECTING,
            ..connect::ConnectOptions::default()
        };
        if arguments.stdio {
            let mut fields = header_fields(&arguments.header, arguments.bearer_env.as_deref())?;
            let (replaced, kept) = replaced_settings().unzip();
            fields.extend(kept.unwrap_or_default());
            let to = arguments.to.clone().or(replaced).context("--stdio needs the URL of the server: --to URL")?;
            return Ok(AnyProxy::Bridge(to, connect::ConnectOptions { fields, ..options }, recorder.tape));
        }
        if let Some(to) = &arguments.to {
            return Ok(AnyProxy::Reverse(Box::new(Proxy::new(to, &options, arguments.allow_host.clone(), recorder)?)));
        }
        let authority = ca::authority()?;
        let trust = Trust::of(&authority);
        let proxy = ForwardProxy::new(&arguments.intercept, authority, &options, recorder)?;
        Ok(AnyProxy::Forward(Box::new(proxy), trust))
    }

    fn uses(&self) -> Option<HostUses> {
        if let AnyProxy::Forward(proxy, _) = self { Some(proxy.uses()) } else { None }
    }

    fn serve(self, listener: Option<&TcpListener>, signal: &OwnedFd) -> Result<()> {
        match (self, listener) {
            (AnyProxy::Reverse(proxy), Some(listener)) => proxy.serve(listener, signal),
            (AnyProxy::Forward(proxy, _), Some(listener)) => proxy.serve(listener, signal),
            (AnyProxy::Bridge(url, options, tape), _) => bridge(&url, &options, tape, signal),
            (_, None) => Ok(()),
        }
    }
}

/// Prints the address for clients, and warnings about it.
fn announce(arguments: &args::Proxy, proxy: &AnyProxy, address: SocketAddr) {
    let servers = match (&arguments.to, proxy) {
        (Some(to), _) => {
            let to = command_line::masked(&[to]).concat();
            let path = uri::origin_form(&to);
            note!("give clients http://{address}{path} in place of {to}; Ctrl-C ends it");
            to
        }
        (None, AnyProxy::Forward(_, trust)) => {
            note!("records {}; Ctrl-C ends it", arguments.intercept.join(", "));
            note!("start a client with: {} COMMAND", trust.environment(address));
            "servers".to_owned()
        }
        (None, _) => String::new(),
    };
    if !address.ip().is_loopback() {
        note!(
            "every machine that reaches this address can use {}, unencrypted: listen on 127.0.0.1 or ::1 to prevent that",
            if arguments.to.is_some() { "the server" } else { "the proxy" }
        );
    }
    if arguments.insecure {
        note!("--insecure: the certificate of {servers} is not checked");
    }
}

/// Prints the hosts whose TLS was opened, and those that passed unopened.
fn note_uses(uses: &HostUses) {
    for (host, uses) in uses.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        if uses.opened > 0 {
            note!("{host}: TLS of {} opened", units::count(uses.opened, "connection"));
        }
        if uses.tunnelled > 0 {
            note!("{host}: {} passed unopened", units::count(uses.tunnelled, "connection"));
        }
    }
}

/// Begins a capture in the database. Another program may have it locked. In the meantime traffic
/// waits in the queue.
fn writer(
    arguments: &args::Proxy,
    redaction: Option<&'static Redaction>,
    place: DatabaseFile,
    stop: &AtomicBool,
) -> Result<Writer> {
    let servers = arguments.to.clone().unwrap_or_else(|| format!("--intercept {}", arguments.intercept.join(",")));
    let source = if arguments.keep_secrets { servers } else { command_line::masked(&[servers]).concat() };
    let info = CaptureInfo::begun(CaptureKind::Proxy, target::redacted(source, redaction));
    let options = target::store_options(arguments.keep_secrets, redaction);
    let mut is_reported = false;
    let writer = target::create_patiently(&place, &info, options, |error| {
        if !std::mem::replace(&mut is_reported, true) {
            note!("recording has not started, but clients are served: {error:#}");
        }
        !stop.load(Ordering::Relaxed)
    })?;
    databases::remember(place.path());
    Ok(writer)
}

/// Gives the sessions the name of `--name`.
struct Named<L> {
    name: Option<String>,
    listener: L,
}

impl<L: Listener> Listener for Named<L> {
    fn packet(&mut self, packet: &Packet<'_>) -> Result<()> {
        self.listener.packet(packet)
    }

    fn event(&mut self, mut event: Event) -> Result<()> {
        if let Event::Session(session) = &mut event {
            session.name.clone_from(&self.name);
        }
        self.listener.event(event)
    }

    fn event_ref(&mut self, event: &Event) -> Result<()> {
        match event {
            Event::Session(_) => self.event(event.clone()),
            event => self.listener.event_ref(event),
        }
    }

    fn after_input(&mut self) -> Result<()> {
        self.listener.after_input()
    }

    fn idle(&mut self) -> Result<()> {
        self.listener.idle()
    }

    fn progress(&mut self, read: u64, total: Option<u64>) {
        self.listener.progress(read, total);
    }

    fn is_satisfied(&self) -> bool {
        self.listener.is_satisfied()
    }
}

/// Prints lines as long as standard output is open. When it closes, the proxy and its
/// recording go on.
struct OptionalPrinter(Option<Printer>);

impl OptionalPrinter {
    fn show(&mut self, show: impl FnOnce(&mut Printer) -> Result<()>) -> Result<()> {
        if self.0.as_mut().is_some_and(|printer| show(printer).is_err()) {
            self.0 = None;
        }
        Ok(())
    }
}

impl Listener for OptionalPrinter {
    fn packet(&mut self, packet: &Packet<'_>) -> Result<()> {
        self.show(|printer| printer.packet(packet))
    }

    fn event(&mut self, event: Event) -> Result<()> {
        self.show(|printer| printer.event(event))
    }

    fn event_ref(&mut self, event: &Event) -> Result<()> {
        self.show(|printer| printer.event_ref(event))
    }

    fn after_input(&mut self) -> Result<()> {
        self.show(Printer::after_input)
    }

    fn idle(&mut self) -> Result<()> {
        self.show(Printer::idle)
    }
}
