//! `mcptap run`: starts a client, and records the servers that it uses.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use rustix::fs::{Access, access};

use super::args::{Redact, RunClient};
use super::{databases, recording, target};
use crate::cli::output::note;
use crate::decode::redact::Redaction;
use crate::engine;
use crate::engine::queue::Queue;
use crate::engine::saver::{self, Saver};
use crate::event::Detail;
use crate::pipeline::{Pipeline, PipelineConfig};
use crate::run::environment;
use crate::run::process::ClientProcess;
use crate::run::{ClientTraffic, shims};
use crate::source::attach::{CAPABILITIES, Counts, WatchedClient, own_streams};
use crate::source::keylog::WithKeyLog;
use crate::source::live::{self, Environment, Live, LiveOptions, Statistics};
use crate::source::overflow::Overflow;
use crate::source::stdio::{Server, exit_code};
use crate::source::{self};
use crate::store::{CaptureId, CaptureInfo, CaptureKind, DatabaseFile, TemporaryFolder, Writer};
use crate::view::command_line;

/// The time that the servers of a client have to end after it.
const GRACE: Duration = Duration::from_millis(500);

pub fn run(arguments: RunClient, db: Option<PathBuf>) -> Result<ExitCode> {
    ensure!(arguments.buffer.is_power_of_two(), "--buffer {}: the kernel takes powers of two", arguments.buffer);
    let rights = Rights::open(arguments.buffer, arguments.keep_secrets);
    // All that needs rights is open. The client, its servers and all files belong to the user.
    let user = live::drop_privileges()?;
    let redaction = arguments.redact.redaction(arguments.keep_secrets)?;
    let mut environment = environment::of_user(env::vars_os().collect(), user.as_ref());
    let place = DatabaseFile::file(target::database_of(db, user.as_ref())?);
    let recorded = target::recorded_command(&arguments.command, arguments.keep_secrets, redaction);
    let server = Server { recorded, command: arguments.command, name: None, seals: false };
    match rights {
        Rights::Pipes(watched, packets) => {
            let keys = TemporaryFolder::for_key_log(&folders_in_memory(&environment));
            let packets = packets.map_err(|why| match why.to_string().contains("no permission") {
                true => note!("servers over HTTP are not recorded. For them, once: {}", setcap()),
                false => note!("servers over HTTP are not recorded: {why}"),
            });
            let packets = packets.ok();
            match keys.as_ref().map(TemporaryFolder::key_log) {
                Ok(file) => environment::add_key_log(&mut environment, &file),
                Err(why) => note!("HTTPS stays encrypted, since there is no place for its secrets: {why}"),
            }
            let key_log = environment.get(OsStr::new("SSLKEYLOGFILE")).map(PathBuf::from);
            let recording = RecordOptions { place, key_log, keep_secrets: arguments.keep_secrets, redaction };
            record(&server, &environment, watched, packets, &recording)
        }
        Rights::Nothing(why) => {
            let by_name = "only STDIO servers that the client starts by name are recorded (npx, uvx, python, ...)";
            match why.to_string().contains("does not permit") {
                true => note!("{by_name}"),
                false => note!("{by_name}: {why}"),
            }
            note!("for all STDIO and HTTP servers: sudo mcptap run, or once: {}", setcap());
            let folder = with_shims(&mut environment, &place, arguments.keep_secrets, &arguments.redact);
            let folder = folder.map_err(|why| note!("nothing is recorded: {why:#}")).ok();
            let code = start(&server, &environment, |client| Ok(exit_code(client.wait()?)));
            drop(folder);
            code
        }
    }
}

/// What this process may record.
enum Rights {
    /// The pipes of all servers, and packets unless they are refused for a reason.
    Pipes(Box<WatchedClient>, Result<Live>),
    /// Neither, for a reason.
    Nothing(anyhow::Error),
}

impl Rights {
    fn open(buffer: u32, keep_secrets: bool) -> Rights {
        let shown: fn(Vec<String>) -> Vec<String> =
            if keep_secrets { |command| command } else { |command| command_line::masked(&command) };
        match WatchedClient::prepare(&own_streams(), buffer << 20, shown) {
            Ok(watched) => Rights::Pipes(Box::new(watched), packets(buffer)),
            Err(why) => Rights::Nothing(why),
        }
    }
}

/// All TCP packets of this machine. Those of the client are chosen later.
fn packets(buffer: u32) -> Result<Live> {
    let filter = Some("tcp".to_owned());
    Live::open(&LiveOptions { filter, buffer_size: (buffer as usize) << 20, ..LiveOptions::default() })
}

fn setcap() -> String {
    let program = env::current_exe().map_or_else(|_| "mcptap".into(), |path| path.display().to_string());
    format!("sudo setcap {CAPABILITIES},cap_net_raw=ep {program}")
}

/// The folders that may be in memory, the most private one first.
fn folders_in_memory(environment: &Environment) -> Vec<PathBuf> {
    let own = environment.get(OsStr::new("XDG_RUNTIME_DIR")).map(PathBuf::from).filter(|path| path.is_absolute());
    let of_user = PathBuf::from(format!("/run/user/{}", rustix::process::geteuid().as_raw()));
    own.into_iter().chain([of_user, "/dev/shm".into(), "/run".into(), env::temp_dir()]).collect()
}

/// The place of a recording, and what is recorded.
struct RecordOptions {
    place: DatabaseFile,
    key_log: Option<PathBuf>,
    keep_secrets: bool,
    redaction: Option<&'static Redaction>,
}

/// Starts the client, and returns the exit status. As in shells, 127 means that the command was not
/// found, 126 that it is not executable.
fn start(
    server: &Server,
    environment: &Environment,
    then: impl FnOnce(ClientProcess) -> Result<u8>,
) -> Result<ExitCode> {
    match ClientProcess::start(server, environment) {
        Ok(client) => then(client).map(ExitCode::from),
        Err(error) => {
            note!("{error}");
            Ok(ExitCode::from(error.exit_code()))
        }
    }
}

/// Runs a client and records it. Nothing is printed while it runs: the terminal is its own.
fn record(
    server: &Server,
    environment: &Environment,
    mut watched: Box<WatchedClient>,
    packets: Option<Live>,
    recording: &RecordOptions,
) -> Result<ExitCode> {
    let RecordOptions { place, key_log, keep_secrets, redaction } = recording;
    let options = target::store_options(*keep_secrets, *redaction);
    let info = CaptureInfo::begun(CaptureKind::Attach, server.recorded.join(" "));
    let writer = Writer::create(place.clone(), &info, options)?;
    let _listing = databases::remember(place.path());
    let capture = writer.capture();
    let folder = place.path().parent().map_or_else(env::temp_dir, Path::to_owned);
    start(server, environment, |client| {
        // From here on nothing may fail before the client has ended.
        let ended = Arc::new(AtomicBool::new(false));
        let living = watched.living();
        let recorder = watched.started().and_then(|()| {
            let traffic = ClientTraffic::new(*watched, packets);
            let queue = Queue::start(traffic, Arc::clone(&ended), Overflow::new(&folder, true))?;
            let config = target::live_options(*keep_secrets, Detail::Store, *redaction);
            spawn_recorder(queue, key_log.clone(), writer, config)
        });
        let exit = client.wait();
        let since = Instant::now();
        while living.load(Ordering::Relaxed) > 0 && since.elapsed() < GRACE && recorder.is_ok() {
            thread::sleep(Duration::from_millis(5));
        }
        ended.store(true, Ordering::Relaxed);
        let result = recorder.and_then(|recorder| recorder.join().map_err(|_| anyhow!("the recorder crashed"))?);
        match result {
            Ok(recorded) => recorded.report(place, capture),
            Err(why) => note!("recording: {why:#}"),
        }
        Ok(exit_code(exit.context("cannot wait for the client")?))
    })
}

/// What a recorder has done.
struct RunReport {
    pipes: Counts,
    packets: Option<Statistics>,
    /// Packets that the decoder was too slow for.
    dropped: u64,
    saved: crate::store::Counts,
}

impl RunReport {
    /// Prints what is missing, and for people what was recorded.
    fn report(&self, place: &DatabaseFile, capture: CaptureId) {
        let lost = self.pipes.lost;
        if lost > 0 {
            note!("{lost} bytes of STDIO servers were lost: a larger --buffer helps");
        }
        let by_kernel = self.packets.map_or(0, |packets| packets.dropped);
        if by_kernel + self.dropped > 0 {
            note!("{} packets were lost: a larger --buffer helps", by_kernel + self.dropped);
        }
        recording::note_lost(&self.saved);
        if io::stderr().is_terminal() && !target::note_saved(place, capture) {
            note!("nothing was recorded: the client had no MCP session that could be seen");
        }
    }
}

/// Starts the thread that decodes and saves.
fn spawn_recorder(
    queue: Queue<ClientTraffic>,
    key_log: Option<PathBuf>,
    writer: Writer,
    config: PipelineConfig,
) -> Result<JoinHandle<Result<RunReport>>> {
    let record = move || {
        source::lower_priority();
        let gauge = queue.gauge();
        let mut source = WithKeyLog::new(queue, key_log.as_deref(), true)?;
        let mut pipeline = Pipeline::new(config);
        let mut saver = Saver::new(writer, true);
        let run = engine::run(&mut source, &mut pipeline, &mut saver, &AtomicBool::new(false));
        let (pipes, packets) = source.into_inner().finish()?.finish()?;
        let dropped = gauge.dropped().map_or(0, |dropped| dropped.packets);
        let mut counts = pipeline.counts();
        let by_kernel = packets.map_or(0, |packets| packets.dropped);
        let lost = [(by_kernel, "dropped by the kernel"), (dropped, "dropped by mcptap")];
        counts
            .skipped
            .extend(lost.into_iter().filter(|(packets, _)| *packets > 0).map(|(packets, why)| (why, packets)));
        let saved = saver.finish(saver::summary(&counts))?;
        run?;
        Ok(RunReport { pipes, packets, dropped, saved })
    };
    thread::Builder::new().name("recorder".to_owned()).spawn(record).context("cannot start a thread")
}

/// Puts a folder of programs that record before those in PATH.
fn with_shims(
    environment: &mut Environment,
    place: &DatabaseFile,
    keep_secrets: bool,
    redact: &Redact,
) -> Result<TemporaryFolder> {
    let folder = TemporaryFolder::for_key_log(&folders_in_memory(environment)).context("no folder for programs")?;
    let path = std::path::absolute(place.path())?;
    let mut wrap: Vec<OsString> =
        vec![env::current_exe()?.into(), "--db".into(), path.into(), "wrap".into(), "--if-mcp".into()];
    wrap.extend(keep_secrets.then(|| "--keep-secrets".into()));
    wrap.extend(redact.words()?);
    shims::install(&folder.programs(), environment, &wrap).context("cannot write programs")?;
    let first = std::fs::read_dir(folder.programs())?.next().transpose()?;
    let first = first.context("PATH has no program that starts servers")?;
    access(first.path(), Access::EXEC_OK)
        .with_context(|| format!("programs in {} cannot be started", folder.programs().display()))?;
    Ok(folder)
}
