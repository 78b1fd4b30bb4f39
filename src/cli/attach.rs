//! `mcptap attach`: records the STDIO of servers that already run.

use std::env;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, bail, ensure};
use serde_json::json;

use super::args::{Attach, Colour};
use super::printer::Printer;
use super::{databases, filter, output, stop, target, telemetry};
use crate::capture::Limits;
use crate::capture::pipe::Start;
use crate::cli::output::note;
use crate::engine::queue::Queue;
use crate::engine::saver::Saver;
use crate::engine::{self, Both};
use crate::event::Detail;
use crate::pipeline::{Pipeline, PipelineConfig};
use crate::source::attach::pairs::{self, program};
use crate::source::attach::{Attached, Counts, Pair, Snapshot, visibility};
use crate::source::live;
use crate::source::overflow::Overflow;
use crate::store::{CaptureKind, DatabaseFile, WriteOptions, Writer};
use crate::view::paint::Tone;
use crate::view::{command_line, safe, secrets};

pub fn run(arguments: Attach, db: Option<PathBuf>, colour: Colour) -> Result<ExitCode> {
    let snapshot = Snapshot::take()?;
    let pairs = pairs::pairs(&snapshot);
    if arguments.list {
        return list(&snapshot, &pairs, arguments.json, colour);
    }
    ensure!(arguments.buffer.is_power_of_two(), "--buffer {}: the kernel takes powers of two", arguments.buffer);
    let filter = filter::parse(arguments.filter.as_deref())?;
    let chosen = choose(&snapshot, pairs, arguments.process.as_deref())?;
    let servers: Vec<(Pair, Start)> =
        chosen.into_iter().map(|pair| (pair.clone(), start(&snapshot, &pair, &arguments))).collect();
    let wanted = telemetry::wanted(&arguments.telemetry)?;
    let stop = stop::on_signals()?;
    let attached = Attached::new(&snapshot, &servers, arguments.buffer << 20)?;
    // The programs are loaded. The rest needs only the user's own rights, and written files
    // belong to the user.
    live::drop_privileges()?;
    for (pair, start) in &servers {
        note!("attached to process {}: {}; Ctrl-C ends it", pair.server, start.command.join(" "));
        visibility::obstacles(&snapshot, pair).iter().for_each(|why| note!("not everything can be seen: {why}"));
    }
    // Packets that are not decoded yet wait beside the database, because that place needs free
    // space anyway.
    let mut folder = env::temp_dir();
    let saver = if arguments.no_save {
        None
    } else {
        let source = servers.iter().map(|(_, start)| start.command.join(" ")).collect::<Vec<_>>().join(", ");
        let place = DatabaseFile::file(target::database(db)?);
        folder = place.path().parent().map_or(folder, Path::to_owned);
        let options =
            WriteOptions { keep_secrets: arguments.keep_secrets, mask_key: secrets::key(), ..WriteOptions::default() };
        let writer = Writer::create(place, &target::capture_info(CaptureKind::Attach, source), options)?;
        databases::remember(writer.place().path());
        Some(Saver::new(writer, true))
    };
    let telemetry = telemetry::start(wanted, |line| note!("{line}"))?;
    let detail = if saver.is_some() { Detail::Store } else { Detail::Messages };
    let mut pipeline = Pipeline::new(PipelineConfig { limits: Limits::live(), detail, ..PipelineConfig::default() });
    let mut queue = Queue::start(attached, Arc::clone(&stop), Overflow::new(&folder, false))?;
    let mut listeners = Both(Printer::new(arguments.json, colour, filter, true), Both(telemetry, saver));
    // A signal ends the capture, and thereby the queue. Its remaining content is still decoded.
    let run = engine::run(&mut queue, &mut pipeline, &mut listeners, &AtomicBool::new(false));
    stop.store(true, Ordering::Relaxed);
    let counts = queue.finish().map(|attached| attached.counts());
    let Both(mut printer, Both(telemetry, saver)) = listeners;
    let saved = saver.map(|saver| saver.finish(target::summary(&pipeline.counts()))).transpose();
    if let Some((line, _)) = telemetry::finish(telemetry, telemetry::END) {
        note!("{line}");
    }
    run?;
    printer.finish(&pipeline.counts())?;
    let Counts { seen, lost } = counts?;
    note!("{seen} bytes recorded, {lost} lost");
    if let Some(counts) = saved?.filter(|counts| counts.lost > 0) {
        note!("{} records could not be saved", counts.lost);
    }
    Ok(ExitCode::SUCCESS)
}

/// What is recorded about a server before its first byte.
fn start(snapshot: &Snapshot, pair: &Pair, arguments: &Attach) -> Start {
    let command = command(snapshot, pair.server);
    let command = if arguments.keep_secrets { command } else { masked(command) };
    let directory = std::fs::read_link(format!("/proc/{}/cwd", pair.server)).ok();
    let directory = directory.map(|directory| directory.to_string_lossy().into_owned());
    Start { command, name: arguments.name.clone(), directory, already_ran: true }
}

/// The pairs that the user means.
fn choose(snapshot: &Snapshot, pairs: Vec<Pair>, process: Option<&str>) -> Result<Vec<Pair>> {
    let listing = |pairs: &[Pair]| {
        let lines = pairs
            .iter()
            .map(|pair| format!("\n  {:>7}  {}", pair.server, masked(command(snapshot, pair.server)).join(" ")));
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
    snapshot.processes.get(&id).map(|process| process.command.clone()).unwrap_or_default()
}

fn masked(command: Vec<String>) -> Vec<String> {
    command_line::masked(&command.into_iter().map(OsString::from).collect::<Vec<_>>())
}

/// Prints all pairs, with what can be seen of each.
fn list(snapshot: &Snapshot, pairs: &[Pair], json: bool, colour: Colour) -> Result<ExitCode> {
    let mut out = output::stdout();
    let (paint, width) = (output::paint(colour), output::width());
    for pair in pairs {
        let reasons = visibility::obstacles(snapshot, pair);
        let (host, server) = (masked(command(snapshot, pair.host)), masked(command(snapshot, pair.server)));
        if json {
            let party = |id: u32, command: &[String]| json!({"process": id, "command": command});
            let line = json!({
                "type": "pair", "host": party(pair.host, &host), "server": party(pair.server, &server),
                "transport": "stdio", "processes": pair.processes, "names_mcp": pair.names_mcp, "obstacles": reasons,
            });
            writeln!(out, "{line}")?;
            continue;
        }
        let launchers: Vec<String> = pair
            .processes
            .iter()
            .filter(|id| **id != pair.server)
            .map(|id| {
                let words = command(snapshot, *id);
                format!("{} ({id})", words.first().map_or("?", |word| program(word)))
            })
            .collect();
        let under = if launchers.is_empty() { String::new() } else { format!("  under {}", launchers.join(", ")) };
        let line = format!("{:>8}  stdio  {}", pair.server, server.join(" "));
        let tone = if pair.names_mcp { Tone::Strong } else { Tone::Plain };
        writeln!(out, "{}", paint.paint(tone, &safe::fit(&line, width)))?;
        let line = format!("          host {} {}{under}", pair.host, host.join(" "));
        writeln!(out, "{}", paint.paint(Tone::Dim, &safe::fit(&line, width)))?;
        for why in reasons {
            writeln!(out, "          {}", paint.paint(Tone::Warning, &why))?;
        }
    }
    if !json && pairs.is_empty() {
        writeln!(out, "no STDIO server was found")?;
    }
    if let Some(hidden) = hidden(snapshot) {
        note!("{hidden}");
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
