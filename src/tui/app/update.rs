//! Turns inputs into a new state and effects.

use super::super::data::{Answer, Progress, Request};
use super::super::keys::{self, Command};
use super::super::replay::{Order, run::Told};
use super::super::{layout, pane};
use super::{App, Mode, Screen, detail, mouse, moves, needs, prompt, replay};
use crate::capture::Time;
use crate::replay::plan::StepIndex;

/// An input to the state.
#[derive(Debug)]
pub enum Input {
    /// A key, by its name in the key table.
    Key(String),
    /// One notch of the mouse wheel; up is negative.
    Wheel(i8),
    /// A click on this column and row.
    Click(u16, u16),
    Paste(String),
    /// The new columns and rows of the terminal.
    Resize(u16, u16),
    /// An answer from the store.
    Answer(Request, Answer),
    /// Another process or thread wrote to the store.
    Changed,
    /// The wall-clock time, once a second.
    Tick(Time),
    /// Progress of the import.
    Progress(Progress),
    /// An update of the replay with this number.
    Replay(u64, Told),
}

/// Work outside of the state that an input causes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Send a query to the store.
    Ask(Request),
    /// Send a session, or one of its requests, again.
    Replay(Order),
    /// Stop the running replay.
    StopReplay,
    /// Read the two answers to a request of the last replay.
    ReadAnswers(StepIndex),
    /// Put this text on the clipboard.
    Copy(String),
    /// Draw the whole screen again.
    Redraw,
    /// Suspend the process.
    Suspend,
    Quit,
}

/// Rows that one notch of the wheel moves.
const NOTCH: usize = 3;

/// Applies an input to the state. Returns the work that it causes.
pub fn update(app: &mut App, input: Input) -> Vec<Effect> {
    let mut effects = match input {
        Input::Key(key) => press(app, &key),
        Input::Wheel(by) => {
            let key = if by < 0 { "up" } else { "down" };
            (0..NOTCH).flat_map(|_| press(app, key)).collect()
        }
        Input::Click(x, y) => {
            app.notice = None;
            mouse::click(app, x, y)
        }
        Input::Paste(text) => {
            match (&mut app.mode, &mut app.replays.form) {
                (Mode::Prompt(_, line), _) => line.insert(&text),
                (Mode::Form, Some(form)) => form.paste(&text),
                _ => {}
            }
            Vec::new()
        }
        Input::Resize(width, height) => {
            app.size = (width, height);
            Vec::new()
        }
        Input::Answer(request, answer) => {
            take(app, &request, answer);
            Vec::new()
        }
        Input::Changed => {
            app.pages.changed();
            Vec::new()
        }
        Input::Tick(now) => {
            app.now = now;
            app.pages.beat();
            Vec::new()
        }
        Input::Progress(progress) => {
            if matches!(progress, Progress::Done | Progress::Failed(_)) {
                app.pages.changed();
                app.pages.beat();
            }
            app.progress = Some(progress);
            Vec::new()
        }
        Input::Replay(number, told) => {
            replay::take(app, number, told);
            Vec::new()
        }
    };
    effects.extend(settle(app));
    let needed = needs::needs(app);
    let asked = app.pages.ask(needed).into_iter().chain(app.questions.drain(..));
    effects.extend(asked.map(Effect::Ask));
    effects
}

fn press(app: &mut App, key: &str) -> Vec<Effect> {
    app.notice = None;
    match app.mode {
        Mode::Prompt(..) if key != "ctrl-c" => prompt::key(app, key),
        Mode::Form if key != "ctrl-c" => replay::key(app, key),
        Mode::Help(top) => {
            app.mode = match keys::command(key, Screen::Sessions) {
                Some(Command::Move(motion)) => Mode::Help(pane::help::scrolled(app, top, motion)),
                _ => Mode::Browse,
            };
            Vec::new()
        }
        Mode::Value(top) => match keys::command(key, Screen::Detail) {
            Some(Command::Move(motion)) => {
                app.mode = Mode::Value(pane::value::scrolled(app, top, motion));
                Vec::new()
            }
            Some(Command::CopyValue) => moves::run(app, Command::CopyValue),
            _ => {
                app.mode = Mode::Browse;
                Vec::new()
            }
        },
        _ => keys::command(key, app.screen).map(|command| moves::run(app, command)).unwrap_or_default(),
    }
}

fn take(app: &mut App, request: &Request, answer: Answer) {
    match (request, answer) {
        (Request::Locate { session, filter, message }, Answer::Located(row)) => {
            if (app.session, &app.filter) == (Some(*session), filter) {
                match row {
                    Some(row) => moves::select_message(app, row),
                    None => app.complain(format!("message {} is not in this list: esc drops the filter", message.0)),
                }
            }
        }
        (Request::NextOdd { session, filter, .. }, Answer::Located(row)) => {
            if (app.session, &app.filter) == (Some(*session), filter) {
                match row {
                    Some(row) => moves::select_message(app, row),
                    None => app.say("nothing odd from here to the end"),
                }
            }
        }
        (Request::Group { session, filter, .. } | Request::Groups { session, filter }, Answer::Groups(groups)) => {
            if (app.session, &app.filter) == (Some(*session), filter) {
                moves::fold_groups(app, groups);
            }
        }
        (Request::LocatePacket(session, packet), Answer::PacketLocated(place)) if app.session == Some(*session) => {
            match place {
                Some((connection, row)) => moves::select_packet(app, connection, row),
                None => app.complain(format!("packet #{packet} was not kept")),
            }
        }
        (Request::Export { path, .. }, Answer::Exported(messages)) => {
            app.say(format!("{messages} messages written to {}", path.display()));
        }
        (Request::Draft { session, message }, Answer::Draft(draft)) => {
            replay::drafted(app, *session, message.is_some(), *draft);
        }
        (_, Answer::Failed(why)) => app.complain(why),
        (request, answer) => app.pages.take(request, answer),
    }
}

/// Makes the state consistent after an input: cursors are in their lists, the newest message is
/// visible if followed, and the panes show the selected message. Returns the effect that reads the
/// answers of a replay, if one is needed.
fn settle(app: &mut App) -> Option<Effect> {
    if let Some(sessions) = app.pages.sessions() {
        // A session that appears above must not move the selection to another one.
        let own = app.session.and_then(|own| sessions.iter().position(|row| row.session.number == own));
        let first = sessions.first().map(|row| row.session.number);
        match own {
            Some(row) => app.cursor_mut(Screen::Sessions).selected = row,
            None if app.session.is_none() => app.session = first,
            None => {}
        }
    }
    // The newest message that was read. While messages arrive fast, the very last one is still to
    // be read.
    if app.follow
        && let Some(last) = app.session.and_then(|session| app.pages.last_message(session, &app.filter))
    {
        app.cursor_mut(Screen::Messages).selected = app.folds.seen_row(last);
    }
    for screen in [Screen::Sessions, app.screen] {
        if let Some(total) = app.rows(screen) {
            let height = layout::list_height(app.size, screen);
            app.cursor_mut(screen).fit(total, height);
        }
    }
    detail::settle(app);
    replay::settle(app)
}
