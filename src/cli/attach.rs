//! `mcptap attach`: records the STDIO of servers that already run.

mod list;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, bail, ensure};

use super::args::{Attach, Colour};
use super::printer::Printer;
use super::recording::{self, SavedRecording};
use super::{filter, stop, target, telemetry};
use crate::capture::pipe::Start;
use crate::cli::output::note;
use crate::engine::queue::Queue;
use crate::engine::{self, Both, saver};
use crate::pipeline::Pipeline;
use crate::source::attach::pairs;
use crate::source::attach::{Attached, Counts, Pair, Snapshot, visibility};
use crate::source::live;
use crate::source::overflow::Overflow;
use crate::store::{CaptureInfo, CaptureKind};
use crate::view::command_line;

/// MiB of the kernel's buffer.
#[cfg(feature = "live")]
const KERNEL_BUFFER: u32 = 64;

pub fn run(arguments: Attach, db: Option<PathBuf>, colour: Colour) -> Result<()> {
    let snapshot = Snapshot::take()?;
    let pairs = pairs::pairs(&snapshot);
    if arguments.list {
        return list::list(&snapshot, &pairs, arguments.recording.json, colour);
    }
    ensure!(arguments.buffer.is_power_of_two(), "--buffer {}: the kernel takes powers of two", arguments.buffer);
    let filter = filter::parse(arguments.recording.filter.as_deref())?;
    let redaction = arguments.redact.redaction(arguments.keep_secrets)?;
    let chosen = choose(&snapshot, pairs, arguments.process.as_deref())?;
    let (name, keep_secrets) = (arguments.name.as_deref(), arguments.keep_secrets);
    let servers: Vec<(Pair, Start)> =
        chosen.into_iter().map(|pair| (pair.clone(), start(&snapshot, &pair, name, keep_secrets))).collect();
    let wanted = telemetry::wanted(&arguments.recording.telemetry)?;
    let stop = stop::on_signals()?;
    let attached = Attached::new(&snapshot, &servers, arguments.buffer << 20)?;
    // The programs are loaded. The rest needs only the user's own rights, and written files
    // belong to the user.
    let user = live::drop_privileges()?;
    for (pair, start) in &servers {
        note!("attached to process {}: {}; Ctrl-C ends it", pair.server, start.command.join(" "));
        visibility::obstacles(&snapshot, pair).iter().for_each(|why| note!("not everything can be seen: {why}"));
    }
    let source = servers.iter().map(|(_, start)| start.command.join(" ")).collect::<Vec<_>>().join(", ");
    let info = CaptureInfo::begun(CaptureKind::Attach, target::redacted(source, redaction));
    let options = target::store_options(arguments.keep_secrets, redaction);
    let (place, folder) = recording::place(&arguments.recording, || target::database_of(db, user.as_ref()))?;
    let (recording, saver) = SavedRecording::begin(&arguments.recording, place, &info, options)?;
    let telemetry = telemetry::start(wanted, |line| note!("{line}"))?;
    let mut pipeline = Pipeline::new(target::live_options(false, recording.detail, redaction));
    let mut queue = Queue::start(attached, Arc::clone(&stop), Overflow::new(&folder, redaction.is_some()))?;
    let mut listeners = Both(Printer::new(arguments.recording.json, colour, filter, true), Both(telemetry, saver));
    // A signal ends the capture, and thereby the queue. Its remaining content is still decoded.
    let run = engine::run(&mut queue, &mut pipeline, &mut listeners, &AtomicBool::new(false));
    stop.store(true, Ordering::Relaxed);
    let counts = queue.finish().map(|attached| attached.counts());
    let Both(mut printer, Both(telemetry, saver)) = listeners;
    let saved = saver.map(|saver| saver.finish(saver::summary(&pipeline.counts()))).transpose();
    telemetry::finish(telemetry, telemetry::END).iter().for_each(|(line, _)| note!("{line}"));
    run?;
    printer.finish(&pipeline.counts())?;
    let Counts { seen, lost } = counts?;
    note!("{seen} bytes recorded, {lost} lost");
    saved?.iter().for_each(recording::note_lost);
    recording.end();
    Ok(())
}

/// Attaches to the servers that are meant; without a name, to all that are known as MCP.
#[cfg(feature = "live")]
pub(super) fn open(process: Option<&str>) -> Result<Attached> {
    let snapshot = Snapshot::take()?;
    let pairs = pairs::pairs(&snapshot);
    let chosen = match process {
        Some(_) => choose(&snapshot, pairs, process)?,
        None => pairs.into_iter().filter(|pair| pair.names_mcp && !visibility::is_recorded(&snapshot, pair)).collect(),
    };
    ensure!(!chosen.is_empty(), "no STDIO server runs here; \"mcptap attach --list\" says what was found");
    let servers: Vec<(Pair, Start)> =
        chosen.into_iter().map(|pair| (pair.clone(), start(&snapshot, &pair, None, false))).collect();
    Attached::new(&snapshot, &servers, KERNEL_BUFFER << 20)
}

/// What is recorded about a server before its first byte.
fn start(snapshot: &Snapshot, pair: &Pair, name: Option<&str>, keep_secrets: bool) -> Start {
    let command = command(snapshot, pair.server);
    let command = if keep_secrets { command } else { command_line::masked(&command) };
    let directory = std::fs::read_link(format!("/proc/{}/cwd", pair.server)).ok();
    let directory = directory.map(|directory| directory.to_string_lossy().into_owned());
    Start { command, name: name.map(str::to_owned), directory, already_ran: true }
}

/// The pairs that the user means.
fn choose(snapshot: &Snapshot, pairs: Vec<Pair>, process: Option<&str>) -> Result<Vec<Pair>> {
    let listing = |pairs: &[Pair]| {
        let lines = pairs.iter().map(|pair| {
            format!("\n  {:>7}  {}", pair.server, command_line::masked(&command(snapshot, pair.server)).join(" "))
        });
        lines.collect::<String>()
    };
    let Some(process) = process else {
        let (mcp, others): (Vec<Pair>, Vec<Pair>) = pairs.into_iter().partition(|pair| pair.names_mcp);
        let mut candidates = if mcp.is_empty() { others } else { mcp };
        candidates.retain(|pair| !visibility::is_recorded(snapshot, pair));
        return match candidates.len() {
            0 => bail!("no STDIO server runs here; \"mcptap attach --list\" says what was found"),
            1 => Ok(candidates),
            _ => bail!("several servers run here; name one by its process id:{}", listing(&candidates)),
        };
    };
    if let Ok(id) = process.parse::<u32>() {
        let Some(known) = snapshot.processes.get(&id) else { bail!("there is no process {id}") };
        // A host can be the server of another program, such as an editor.
        let (of, others): (Vec<Pair>, Vec<Pair>) = pairs.into_iter().partition(|pair| pair.processes.contains(&id));
        let hosted: Vec<Pair> = others.into_iter().filter(|pair| pair.host == id).collect();
        let is_server = |pair: &Pair| pair.names_mcp || hosted.is_empty();
        let of: Vec<Pair> = of.into_iter().filter(is_server).chain(hosted.iter().cloned()).collect();
        return match of.is_empty() {
            false => Ok(of),
            true if !known.is_readable => bail!("no permission to look into process {id}: run mcptap as root"),
            true => bail!(
                "process {id} is neither an STDIO server nor the host of one: no pipes or sockets lead from it to \
                 another process in both directions{}",
                hidden(snapshot).map(|hidden| format!("; {hidden}")).unwrap_or_default()
            ),
        };
    }
    let is_meant = |pair: &Pair| {
        let mut words = pair.processes.iter().flat_map(|id| command(snapshot, *id));
        words.any(|word| word.contains(process)) && !visibility::is_recorded(snapshot, pair)
    };
    let found: Vec<Pair> = pairs.into_iter().filter(is_meant).collect();
    match found.len() {
        0 => bail!("no command line of a running STDIO server contains \"{process}\"; see \"mcptap attach --list\""),
        1 => Ok(found),
        _ => bail!("\"{process}\" fits several servers; name one by its process id:{}", listing(&found)),
    }
}

/// The processes that could not be looked into, if there are any, and what to do.
fn hidden(snapshot: &Snapshot) -> Option<String> {
    let hidden = snapshot.processes.values().filter(|process| !process.is_readable).count();
    (hidden > 0).then(|| format!("{hidden} of all processes could not be looked into: run mcptap as root"))
}

fn command(snapshot: &Snapshot, id: u32) -> Vec<String> {
    snapshot.command(id).to_vec()
}
