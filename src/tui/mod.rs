//! The terminal UI: every layer at a glance, live or stored.
//!
//! ```text
//!  keys ──┐                    ┌─► frame::draw ─► pane/*       a pure function of the state
//!  clock ─┼─► update(app, …) ──┤
//!  import ┤                    └─► effects ─┬─► copy, suspend, quit
//!         │                                 └─► query thread ─► QueryRunner ─► store
//!         └──────────── Input::Answer ◄─────────────┘
//!                                           └─► replay thread ─► a live server
//! ```
//!
//! The state ([`app`]) uses neither the store nor the terminal, and drawing uses no keys. A thread
//! of its own queries the store, so the screen reacts to keys at once however long a query takes.

mod answer_cache;
mod app;
mod background;
mod canvas;
mod copy;
mod cursor;
mod data;
mod editor;
mod frame;
mod help_text;
pub mod import;
mod json;
mod keys;
mod layout;
mod pane;
mod query_runner;
mod query_thread;
mod replay;
mod replayer;
mod screen;
pub mod term;
pub mod theme;

use std::io::stdout;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use crossbeam_channel::{Receiver, Sender, bounded, select, tick, unbounded};
use crossterm::event::{self, Event, MouseButton, MouseEventKind};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::engine::saver::now;
use crate::mcp::SessionNumber;
use crate::store::{DatabaseFile, StoreReader, TextIndexer};
use app::{App, Effect, Input};
use data::Query;
use import::{Decoding, Import};
use query_runner::QueryRunner;
use query_thread::StoreState;
use replayer::Replayer;
use theme::Theme;

/// The traffic to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A database, followed while others write to it. If it does not exist yet, the UI
    /// waits for it.
    Database(PathBuf),
    /// One session of a database.
    Session(PathBuf, u32),
    /// Capture files, read as one.
    Files(Vec<PathBuf>),
}

/// Options of the terminal UI.
#[derive(Clone, Debug, Default)]
pub struct UiOptions {
    /// Options for decoding capture files.
    pub decoding: Decoding,
    /// The initial theme; `None` for the one chosen last, or the one that fits the terminal.
    pub theme: Option<Theme>,
    /// A sentence for the bottom line until the first key.
    pub hint: Option<String>,
}

/// Shows a target until the user quits.
///
/// # Errors
///
/// The target cannot be opened, or there is no terminal.
pub fn run(target: Target, options: UiOptions) -> Result<()> {
    let (inputs, events) = unbounded();
    let stop = Arc::new(AtomicBool::new(false));
    let (title, place, session, newest_first, import) = match target {
        Target::Database(path) => (title(&path), DatabaseFile::file(path), None, true, None),
        Target::Session(path, session) => {
            (title(&path), DatabaseFile::file(path), Some(SessionNumber(session)), true, None)
        }
        Target::Files(files) => {
            let name = files.iter().map(title).collect::<Vec<_>>().join(" ");
            let place = DatabaseFile::temporary()?;
            let import = Import::new(&files, place.clone(), options.decoding)?;
            (name, place, None, false, Some(import))
        }
    };
    let replayer = Replayer::new(place.clone(), inputs.clone());
    let database = import.is_none().then(|| place.path().to_owned());
    let indexed = place.clone();
    // An existing store is opened before the screen is taken, so that an error appears on
    // the normal terminal.
    let store = match place.path().exists() {
        true => StoreState::Open(Box::new(QueryRunner::new(StoreReader::open(place)?, newest_first))),
        false => StoreState::Awaited(place),
    };
    let theme = options.theme.unwrap_or_else(background::initial_theme);
    let mut screen = term::Screen::take()?;
    let size = screen.terminal().size().context("cannot ask the terminal for its size")?;
    let mut app = App::new(title, (size.width, size.height), theme);
    app.palette.depth = background::colour_depth();
    app.database = database;
    if let Some(hint) = options.hint {
        app.show_hint(hint);
    }
    if let Some(session) = session {
        app.open_session(session);
    }
    let (queries, inbox) = unbounded();
    let answers = inputs.clone();
    let reader =
        thread::Builder::new().name("reader".to_owned()).spawn(move || query_thread::run(store, &inbox, &answers));
    let reader = reader.context("cannot start the reader")?;
    let indexer = import.is_none().then(|| index_texts(indexed, stop.clone())).flatten();
    let importer = import.map(|import| read_files(import, inputs.clone(), stop.clone())).transpose()?;
    read_keys(inputs)?;
    let mut outputs = Outputs { screen: &mut screen, queries: &queries, replayer };
    let result = event_loop(&mut outputs, &mut app, &events);
    drop(outputs);
    drop(screen);
    // An unfinished import is abandoned. A temporary store is removed with the last of its users.
    drop(queries);
    stop.store(true, Ordering::Relaxed);
    wait_for_threads(importer.into_iter().chain(indexer).chain([reader]));
    result
}

/// Limit of the time that quitting waits for a query in progress.
const PATIENCE: Duration = Duration::from_secs(2);

/// Waits for threads that were asked to end.
fn wait_for_threads(threads: impl Iterator<Item = thread::JoinHandle<()>>) {
    let began = Instant::now();
    for thread in threads {
        while !thread.is_finished() && began.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Makes the full-text index of a database while it is looked at. Without it, as on a read-only
/// medium, a search takes longer.
fn index_texts(place: DatabaseFile, stop: Arc<AtomicBool>) -> Option<thread::JoinHandle<()>> {
    let run = move || {
        if place.path().exists() {
            let _ = TextIndexer::open(place).and_then(|mut indexer| indexer.run(&stop));
        }
    };
    thread::Builder::new().name("indexer".to_owned()).spawn(run).ok()
}

fn title(path: impl AsRef<std::path::Path>) -> String {
    let path = path.as_ref();
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

fn read_files(import: Import, inputs: Sender<Input>, stop: Arc<AtomicBool>) -> Result<thread::JoinHandle<()>> {
    let run = move || {
        // The screen may be gone before the file is read.
        import.run(&mut |progress| drop(inputs.send(Input::Progress(progress))), &stop);
    };
    thread::Builder::new().name("import".to_owned()).spawn(run).context("cannot start reading")
}

/// Starts the thread that reads keys. It ends with the program, because nothing else can interrupt
/// its wait for a key.
fn read_keys(inputs: Sender<Input>) -> Result<()> {
    let run = move || {
        let mut late_reply = keys::LateReply::default();
        while let Ok(event) = event::read() {
            if late_reply.includes(&event) {
                continue;
            }
            let input = match event {
                Event::Key(key) => keys::name(key).map(Input::Key),
                Event::Paste(text) => Some(Input::Paste(text)),
                Event::Mouse(mouse) => match mouse.kind {
                    MouseEventKind::ScrollUp => Some(Input::Wheel(-1)),
                    MouseEventKind::ScrollDown => Some(Input::Wheel(1)),
                    MouseEventKind::Down(MouseButton::Left) => Some(Input::Click(mouse.column, mouse.row)),
                    _ => None,
                },
                Event::Resize(width, height) => Some(Input::Resize(width, height)),
                _ => None,
            };
            if input.is_some_and(|input| inputs.send(input).is_err()) {
                return;
            }
        }
        // Without a terminal there is no user.
        let _ = inputs.send(Input::Key("ctrl-c".to_owned()));
    };
    thread::Builder::new().name("keys".to_owned()).spawn(run).context("cannot read keys")?;
    Ok(())
}

/// Draws frames and handles inputs until the end. All inputs that have arrived are handled before
/// the next frame.
fn event_loop(outputs: &mut Outputs<'_>, app: &mut App, events: &Receiver<Input>) -> Result<()> {
    let seconds = tick(Duration::from_secs(1));
    let signals = signals()?;
    let effects = app::update(app, Input::Tick(now()));
    outputs.perform(effects, app)?;
    loop {
        outputs.screen.terminal().draw(|frame| {
            if let Some(cursor) = frame::draw(app, frame.buffer_mut()) {
                frame.set_cursor_position(cursor);
            }
        })?;
        let first = select! {
            recv(events) -> input => input.unwrap_or(Input::Key("ctrl-c".to_owned())),
            recv(seconds) -> _ => Input::Tick(now()),
            recv(signals) -> _ => return Ok(()),
        };
        let mut effects = app::update(app, first);
        for input in events.try_iter().take(1_000) {
            effects.extend(app::update(app, input));
        }
        if outputs.perform(effects, app)? {
            return Ok(());
        }
    }
}

/// The receivers of effects: the terminal and the other threads.
struct Outputs<'a> {
    screen: &'a mut term::Screen,
    queries: &'a Sender<Query>,
    replayer: Replayer,
}

impl Outputs<'_> {
    /// Performs effects. Returns true if the program is to end.
    fn perform(&mut self, effects: Vec<Effect>, app: &App) -> Result<bool> {
        for effect in effects {
            match effect {
                // The query thread outlives the screen unless it panicked.
                Effect::Query(query) => self.queries.send(query).context("the query thread ended")?,
                Effect::Replay(submission) => self.replayer.start(submission)?,
                Effect::StopReplay => self.replayer.stop(),
                Effect::ReadAnswers(step) => {
                    let replays = &app.replays;
                    if let Some(finished) = replays.run.as_ref().and_then(|run| run.finished.clone()) {
                        self.replayer.read(replays.last_number, finished, step)?;
                    }
                }
                Effect::Copy(text) => copy::send(&mut stdout(), &text).context("cannot copy")?,
                // If the theme cannot be remembered, it is chosen again next time.
                Effect::RememberTheme(theme) => drop(background::remember(theme)),
                Effect::Redraw => self.screen.clear()?,
                Effect::Suspend => self.screen.suspend()?,
                Effect::Quit => return Ok(true),
            }
        }
        Ok(false)
    }
}

/// A channel that reports signals to end.
fn signals() -> Result<Receiver<()>> {
    let (sender, signals) = bounded(1);
    let mut caught = Signals::new([SIGHUP, SIGINT, SIGTERM]).context("cannot catch signals")?;
    let wait = move || {
        if caught.forever().next().is_some() {
            let _ = sender.send(());
        }
    };
    thread::Builder::new().name("signals".to_owned()).spawn(wait).context("cannot catch signals")?;
    Ok(signals)
}
