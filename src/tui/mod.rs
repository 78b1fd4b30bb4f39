//! The terminal UI: every layer at a glance, live or saved.
//!
//! ```text
//!  keys ──┐                    ┌─► layout::draw ─► pane/*      a pure function of the state
//!  clock ─┼─► update(app, …) ──┤
//!  import ┤                    └─► effects ─┬─► copy, suspend, quit
//!         │                                 └─► reader thread ─► Library ─► store
//!         └──────────── Input::Answer ◄─────────────┘
//!                                           └─► replay thread ─► a live server
//! ```
//!
//! The state ([`app`]) knows no store and no terminal; drawing knows no keys; the store is asked on a thread of its own, so the screen
//! answers keys at once however long a question takes.

pub mod app;
pub mod canvas;
pub mod copy;
pub mod data;
pub mod editor;
pub mod import;
pub mod json;
pub mod keys;
pub mod layout;
pub mod library;
pub mod pages;
pub mod pane;
mod reader;
pub mod replay;
mod replayer;
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

use crate::engine::saver::now;
use crate::mcp::SessionNumber;
use crate::store::{DatabaseFile, StoreReader};
use app::{App, Effect, Input};
use data::Request;
use import::{Decoding, Import};
use library::Library;
use reader::Store;
use replayer::Replayer;
use theme::Theme;

/// What is looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A database, followed while others write to it; waited for where it is not there yet.
    Database(PathBuf),
    /// One session of a database.
    Session(PathBuf, u32),
    /// Capture files, read as one.
    Files(Vec<PathBuf>),
}

/// How.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// How captures are decoded.
    pub decoding: Decoding,
    /// The theme to begin with.
    pub theme: Theme,
}

/// Shows a target until the person quits.
///
/// # Errors
/// The target cannot be opened; there is no terminal.
pub fn run(target: Target, options: Options) -> Result<()> {
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
    // What is there is opened at once: where that fails, the reason is said on the terminal as it was.
    let store = match place.path().exists() {
        true => Store::Open(Box::new(Library::new(StoreReader::open(place)?, newest_first))),
        false => Store::Awaited(place),
    };
    let mut screen = term::Screen::take()?;
    let size = screen.terminal().size().context("cannot ask the terminal for its size")?;
    let mut app = App::new(title, (size.width, size.height), options.theme);
    app.database = database;
    if let Some(session) = session {
        app.open_session(session);
    }
    let (ask, asked) = unbounded();
    let answers = inputs.clone();
    let reader = thread::Builder::new().name("reader".to_owned()).spawn(move || reader::run(store, &asked, &answers));
    let reader = reader.context("cannot start the reader")?;
    let importer = import.map(|import| read_files(import, inputs.clone(), stop.clone())).transpose()?;
    read_keys(inputs)?;
    let mut ways = Ways { screen: &mut screen, ask: &ask, replayer };
    let result = draw_on(&mut ways, &mut app, &events);
    drop(ways);
    drop(screen);
    // An import in the middle of a file is given up. A temporary store goes with the last of its users.
    drop(ask);
    stop.store(true, Ordering::Relaxed);
    leave(importer.into_iter().chain([reader]));
    result
}

/// How long a person who has quit is kept waiting for a question that is still being answered.
const PATIENCE: Duration = Duration::from_secs(2);

/// Waits for threads that were told to end.
fn leave(threads: impl Iterator<Item = thread::JoinHandle<()>>) {
    let began = Instant::now();
    for thread in threads {
        while !thread.is_finished() && began.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(2));
        }
    }
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

/// Keys come from a thread that ends with the program: nothing else can wake it from its wait for one.
fn read_keys(inputs: Sender<Input>) -> Result<()> {
    let run = move || {
        while let Ok(event) = event::read() {
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
        // No terminal, no person.
        let _ = inputs.send(Input::Key("ctrl-c".to_owned()));
    };
    thread::Builder::new().name("keys".to_owned()).spawn(run).context("cannot read keys")?;
    Ok(())
}

/// Inputs to frames, until the end. Everything that has come is taken in before a frame is drawn.
fn draw_on(ways: &mut Ways<'_>, app: &mut App, events: &Receiver<Input>) -> Result<()> {
    let seconds = tick(Duration::from_secs(1));
    let signals = signals()?;
    let effects = app::update(app, Input::Tick(now()));
    ways.perform(effects, app)?;
    loop {
        ways.screen.terminal().draw(|frame| {
            if let Some(cursor) = layout::draw(app, frame.buffer_mut()) {
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
        if ways.perform(effects, app)? {
            return Ok(());
        }
    }
}

/// Ways out of the state, to the terminal and to the other threads.
struct Ways<'a> {
    screen: &'a mut term::Screen,
    ask: &'a Sender<Request>,
    replayer: Replayer,
}

impl Ways<'_> {
    /// Does what is to be done; true for the end.
    fn perform(&mut self, effects: Vec<Effect>, app: &App) -> Result<bool> {
        for effect in effects {
            match effect {
                // The reader outlives the screen, unless it panicked: then there is nobody to ask.
                Effect::Ask(request) => self.ask.send(request).context("the store is no longer read")?,
                Effect::Replay(order) => self.replayer.start(order)?,
                Effect::StopReplay => self.replayer.stop(),
                Effect::ReadAnswers(step) => {
                    let replays = &app.replays;
                    if let Some(finished) = replays.run.as_ref().and_then(|run| run.finished.clone()) {
                        self.replayer.read(replays.last, finished, step)?;
                    }
                }
                Effect::Copy(text) => copy::send(&mut stdout(), &text).context("cannot copy")?,
                Effect::Redraw => self.screen.clear()?,
                Effect::Suspend => self.screen.sleep()?,
                Effect::Quit => return Ok(true),
            }
        }
        Ok(false)
    }
}

/// A channel that tells of signals to end.
fn signals() -> Result<Receiver<()>> {
    let (told, signals) = bounded(1);
    #[cfg(unix)]
    {
        use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
        let mut caught =
            signal_hook::iterator::Signals::new([SIGHUP, SIGINT, SIGTERM]).context("cannot catch signals")?;
        let wait = move || {
            if caught.forever().next().is_some() {
                let _ = told.send(());
            }
        };
        thread::Builder::new().name("signals".to_owned()).spawn(wait).context("cannot catch signals")?;
    }
    #[cfg(not(unix))]
    std::mem::forget(told);
    Ok(signals)
}
