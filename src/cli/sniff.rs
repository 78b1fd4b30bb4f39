//! `mcptap sniff`: captures live from an interface, prints messages and saves them.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::args::{Colour, Sniff};
use super::printer::Printer;
use super::recording::{self, SavedRecording};
use super::{filter, output, stop, target, telemetry};
use crate::capture::Packet;
use crate::cli::output::note;
use crate::engine::queue::{Gauge, Queue};
use crate::engine::{self, Both, Listener, saver};
use crate::event::Event;
use crate::export::pcapng;
use crate::pipeline::Pipeline;
#[cfg(all(feature = "attach", target_os = "linux"))]
use crate::source::attach::{Counts, SecretTap, WithSecrets};
use crate::source::keylog::WithKeyLog;
use crate::source::live::{self, Live, LiveOptions, Statistics};
use crate::source::overflow::Overflow;
use crate::store::{CaptureInfo, CaptureKind};
use crate::view::units;

pub fn run(arguments: Sniff, db: Option<PathBuf>, colour: Colour) -> Result<()> {
    if arguments.list_interfaces {
        return list();
    }
    let filter = filter::parse(arguments.recording.filter.as_deref())?;
    let redaction = arguments.decoding.redaction()?;
    if redaction.is_some() && arguments.write.is_some() {
        bail!("--write would write the packets as captured, with the values that are redacted: leave one of them out");
    }
    let wanted = telemetry::wanted(&arguments.recording.telemetry)?;
    let interface = arguments.interface.clone().unwrap_or_default();
    let live = Live::open(&LiveOptions {
        interface: interface.clone(),
        filter: arguments.capture_filter.clone(),
        promiscuous: arguments.promiscuous,
        buffer_size: (arguments.buffer as usize) << 20,
        ..LiveOptions::default()
    })?;
    #[cfg(all(feature = "attach", target_os = "linux"))]
    let secrets = arguments.keys_from.as_deref().map(SecretTap::attach).transpose()?;
    // The interface is open. The rest needs only the user's own rights, and written files belong
    // to the user.
    let user = live::drop_privileges()?;
    let telemetry = telemetry::start(wanted, |line| note!("{line}"))?;
    let stop = stop::on_signals()?;
    let raw = arguments.write.as_ref().map(|path| PacketFile::create(path)).transpose()?;
    let info = CaptureInfo::begun(CaptureKind::Sniff, interface.clone());
    let options = target::store_options(arguments.decoding.keep_secrets, redaction);
    let (place, folder) = recording::place(&arguments.recording, || target::database_of(db, user.as_ref()))?;
    let (recording, saver) = SavedRecording::begin(&arguments.recording, place, &info, options)?;
    #[cfg(all(feature = "attach", target_os = "linux"))]
    secrets.iter().flat_map(|tap| &tap.notes).for_each(|line| note!("{line}"));
    note!("capturing on {interface}; Ctrl-C ends it");
    let config = target::live_options(arguments.decoding.keep_secrets, recording.detail, redaction);
    let mut pipeline = Pipeline::new(config);
    let queue = Queue::start(live, Arc::clone(&stop), Overflow::new(&folder, true))?;
    let gauge = queue.gauge();
    if let Some(seconds) = arguments.duration {
        stop_after(Duration::from_secs_f64(seconds.clamp(0.0, 1e9)), Arc::clone(&stop))?;
    }
    let limit = MessageLimit { messages: arguments.count, stop: Arc::clone(&stop), waiting: Some(gauge.clone()) };
    let printer = Printer::new(arguments.recording.json, colour, filter, true);
    let mut listeners = Both(Both(printer, limit), Both(raw, Both(telemetry, saver)));
    let keys = arguments.decoding.key_log(true);
    #[cfg(all(feature = "attach", target_os = "linux"))]
    let queue = WithSecrets::new(queue, secrets);
    let mut source = WithKeyLog::new(queue, keys.as_deref(), true)?;
    // A signal ends the capture, and thereby the queue. Its remaining content is still decoded.
    let run = engine::run(&mut source, &mut pipeline, &mut listeners, &AtomicBool::new(false));
    stop.store(true, Ordering::Relaxed);
    let queue = source.into_inner();
    #[cfg(all(feature = "attach", target_os = "linux"))]
    let text = queue.text_counts();
    #[cfg(all(feature = "attach", target_os = "linux"))]
    let queue = queue.into_inner();
    let statistics = queue.finish().and_then(|mut live| live.statistics());
    let (dropped, times) = gauge.dropped().map_or((0, None), |dropped| (dropped.packets, Some(dropped.times)));
    let mut counts = pipeline.counts();
    if let Ok(Statistics { dropped: by_kernel, dropped_by_interface: by_interface, .. }) = statistics {
        let lost = [(by_kernel, "dropped by the kernel"), (by_interface, "dropped by the interface")];
        let lost = lost.into_iter().chain([(dropped, "dropped by mcptap")]).filter(|(packets, _)| *packets > 0);
        counts.skipped.extend(lost.map(|(packets, reason)| (reason, packets)));
    }
    let Both(Both(mut printer, _), Both(raw, Both(telemetry, saver))) = listeners;
    let saved = saver.map(|saver| saver.finish(saver::summary(&counts))).transpose();
    raw.map(|mut raw| raw.0.flush()).transpose()?;
    telemetry::finish(telemetry, telemetry::END).iter().for_each(|(line, _)| note!("{line}"));
    run?;
    printer.finish(&counts)?;
    let Statistics { captured, dropped: by_kernel, dropped_by_interface: by_interface } = statistics?;
    note!(
        "{captured} packets captured, {by_kernel} dropped by the kernel, {by_interface} by the interface, {dropped} by mcptap"
    );
    #[cfg(all(feature = "attach", target_os = "linux"))]
    if text != Counts::default() {
        note!("{} bytes of text above TLS recorded, {} lost", text.seen, text.lost);
    }
    if let Some((first, last)) = times {
        note!(
            "decoding could not keep up: packets were dropped from {} to {}",
            units::clock(first),
            units::clock(last)
        );
    }
    for saved in saved?.iter() {
        target::note_unkept(saved);
        recording::note_lost(saved);
    }
    if let Some((place, capture)) = &recording.saved_in {
        target::note_blanked(&counts);
        target::note_saved(place, *capture);
    }
    recording.end();
    Ok(())
}

/// Prints the name, state, addresses and description of each interface.
fn list() -> Result<()> {
    let mut out = output::stdout();
    for interface in live::interfaces()? {
        let addresses: Vec<String> = interface.addresses.iter().map(ToString::to_string).collect();
        let state = match (interface.up, interface.running) {
            (true, true) => "up",
            (true, false) => "no link",
            (false, _) => "down",
        };
        let description = interface.description.unwrap_or_default();
        let line = format!("{:<16} {state:<8} {:<40} {description}", interface.name, addresses.join(" "));
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(out.flush()?)
}

/// Sets the flag after a time. It ends the capture; packets captured before are still decoded.
fn stop_after(time: Duration, stop: Arc<AtomicBool>) -> Result<()> {
    let wait = move || {
        thread::sleep(time);
        stop.store(true, Ordering::Relaxed);
    };
    thread::Builder::new().name("duration".to_owned()).spawn(wait).context("cannot start a thread")?;
    Ok(())
}

/// Ends a capture after a number of messages.
struct MessageLimit {
    messages: Option<u64>,
    stop: Arc<AtomicBool>,
    /// The queue, until the user was informed once that decoding goes on after the
    /// end of capturing.
    waiting: Option<Gauge>,
}

impl Listener for MessageLimit {
    fn event(&mut self, event: Event) -> Result<()> {
        self.event_ref(&event)
    }

    fn event_ref(&mut self, event: &Event) -> Result<()> {
        if let (Event::Message(_), Some(left)) = (event, &mut self.messages) {
            *left = left.saturating_sub(1);
        }
        Ok(())
    }

    fn idle(&mut self) -> Result<()> {
        if self.stop.load(Ordering::Relaxed)
            && let Some(waiting) = self.waiting.take().map(|gauge| gauge.waiting()).filter(|packets| *packets > 0)
        {
            note!("{waiting} captured packets still have to be decoded; Ctrl-C ends without them");
        }
        Ok(())
    }

    fn is_satisfied(&self) -> bool {
        self.messages == Some(0)
    }
}

/// Writes the raw packets to a file.
struct PacketFile(pcapng::Writer<BufWriter<std::fs::File>>);

impl PacketFile {
    fn create(path: &Path) -> Result<PacketFile> {
        let file = output::create_private(path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(PacketFile(pcapng::Writer::new(BufWriter::new(file))?))
    }
}

impl Listener for PacketFile {
    fn packet(&mut self, packet: &Packet<'_>) -> Result<()> {
        self.0.packet(packet).context("cannot write the raw packets")?;
        Ok(())
    }

    fn event(&mut self, _: Event) -> Result<()> {
        Ok(())
    }

    fn event_ref(&mut self, _: &Event) -> Result<()> {
        Ok(())
    }
}
