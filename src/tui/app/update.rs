//! Turns inputs into a new state and effects.

use super::super::data::{Answer, Progress, Query};
use super::super::help_text;
use super::super::keys::{self, Command};
use super::super::replay::{Submission, run::ReplayUpdate};
use super::super::theme::Theme;
use super::{App, Mode, Screen, commands, detail, mouse, needed_queries, packets, prompt, replay, session_view};
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
    Answer(Query, Answer),
    /// Another process or thread wrote to the store.
    StoreChanged,
    /// The wall-clock time, once a second.
    Tick(Time),
    /// Progress of the import.
    Progress(Progress),
    /// An update of the replay with this number.
    Replay(u64, ReplayUpdate),
}

/// Work outside of the state that an input causes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Send a query to the store.
    Query(Query),
    /// Send a session, or one of its requests, again.
    Replay(Submission),
    /// Stop the running replay.
    StopReplay,
    /// Read the two answers to a request of the last replay.
    ReadAnswers(StepIndex),
    /// Put this text on the clipboard.
    Copy(String),
    /// Remember the theme for the next start; `None` forgets it.
    RememberTheme(Option<Theme>),
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
    let mut effects = Vec::new();
    match input {
        Input::Key(key) => effects = press(app, &key),
        Input::Wheel(by) => {
            let key = if by < 0 { "up" } else { "down" };
            effects = (0..NOTCH).flat_map(|_| press(app, key)).collect();
        }
        Input::Click(x, y) => {
            app.notice = None;
            effects = mouse::click(app, x, y);
        }
        Input::Paste(text) => match (&mut app.mode, &mut app.replays.form) {
            (Mode::Prompt(_, line), _) => line.insert(&text),
            (Mode::Form, Some(form)) => form.paste(&text),
            _ => {}
        },
        Input::Resize(width, height) => app.size = (width, height),
        Input::Answer(query, answer) => take(app, &query, answer),
        Input::StoreChanged => app.cache.store_changed(),
        Input::Tick(now) => {
            app.now = now;
            // An error in a line that is being edited stays until it is corrected.
            if !matches!(app.mode, Mode::Prompt(..)) {
                app.notice.take_if(|notice| now >= notice.until);
            }
            app.cache.second_passed();
        }
        Input::Progress(progress) => {
            if matches!(progress, Progress::Done | Progress::Failed(_)) {
                app.cache.store_changed();
                app.cache.second_passed();
            }
            app.progress = Some(progress);
        }
        Input::Replay(number, update) => replay::apply_update(app, number, update),
    }
    effects.extend(reconcile(app));
    let needed = needed_queries::needed_queries(app);
    let queries = app.cache.select_unsent(needed).into_iter().chain(app.key_queries.drain(..));
    effects.extend(queries.map(Effect::Query));
    effects
}

fn press(app: &mut App, key: &str) -> Vec<Effect> {
    app.notice = None;
    match app.mode {
        Mode::Prompt(..) if key != "ctrl-c" => prompt::key(app, key),
        Mode::Form if key != "ctrl-c" => replay::key(app, key),
        Mode::Help(top) => {
            app.mode = match keys::command(key, Screen::Sessions) {
                Some(Command::Move(motion)) => Mode::Help(help_text::scrolled(app.size, app.screen, top, motion)),
                _ => Mode::Browse,
            };
            Vec::new()
        }
        Mode::Value(top) => match keys::command(key, Screen::Detail) {
            Some(Command::Move(motion)) => {
                app.mode = Mode::Value(detail::value_scrolled(app, top, motion));
                Vec::new()
            }
            Some(Command::CopyValue) => commands::run(app, Command::CopyValue),
            _ => {
                app.mode = Mode::Browse;
                Vec::new()
            }
        },
        _ => keys::command(key, app.screen).map(|command| commands::run(app, command)).unwrap_or_default(),
    }
}

fn take(app: &mut App, query: &Query, answer: Answer) {
    match (query, answer) {
        (
            Query::Locate(list, _) | Query::NextProblem(list, _) | Query::Group(list, _) | Query::Groups(list),
            Answer::Located(_) | Answer::Groups(_),
        ) if app.message_list().as_ref() != Some(list) => {}
        (_, Answer::Located(Some(row))) => commands::select_message(app, row),
        (Query::Locate(_, message), Answer::Located(None)) => {
            app.notify_error(format!("message {} is not in this list: esc clears the filter", message.0));
        }
        (_, Answer::Located(None)) => app.notify("no later message failed or has findings"),
        (_, Answer::Groups(groups)) => commands::fold_groups(app, groups),
        (Query::LocatePacket(session, _, packet), Answer::PacketLocated(place)) if app.session == *session => {
            match place {
                Some((scope, row)) => packets::select_packet(app, scope, row),
                None => app.notify_error(format!("packet #{packet} is not stored, or not listed")),
            }
        }
        (Query::Export(.., path), Answer::Exported(messages)) => {
            app.notify(format!("{messages} messages written to {}", path.display()));
        }
        (Query::Draft(session, message), Answer::Draft(draft)) => {
            replay::open_form(app, *session, message.is_some(), *draft);
        }
        (_, Answer::Failed(why)) => app.notify_error(why),
        (query, answer) => {
            let is_about_list = matches!(answer, Answer::Sessions(_) | Answer::SessionsFound(..));
            app.cache.take(query, answer);
            if is_about_list {
                session_view::relist(app);
            }
        }
    }
}

/// Makes the state consistent after an input: cursors are in their lists, the newest message is
/// visible if followed, and the panes show the selected message. Returns the effect that reads the
/// answers of a replay, if one is needed.
fn reconcile(app: &mut App) -> Option<Effect> {
    // A session that appears above must not move the selection to another one.
    session_view::keep_selection(app);
    // With a filter only messages are listed.
    let notes = app.session.filter(|_| app.filter.is_empty()).and_then(|session| app.cache.notes.of(session));
    let total = app.message_count().map_or(0, |(total, _)| total);
    app.folds.set_notes(notes.into_iter().flatten().map(|note| note.before.min(total)));
    // The newest message that was read. While messages arrive fast, the very last one is still
    // to be read.
    if app.follow
        && let Some(last) = app.session.and_then(|session| app.cache.messages(session, &app.filter)?.last())
    {
        let row = if last + 1 == total { app.folds.visible_count(total) - 1 } else { app.folds.visible_row(last) };
        app.cursor_mut(Screen::Messages).selected = row;
    }
    for screen in [Screen::Sessions, app.screen] {
        if let Some(total) = app.rows(screen) {
            let height = app.list_height(screen);
            app.cursor_mut(screen).keep_visible(total, height);
        }
    }
    detail::update_panes(app);
    packets::update_panes(app);
    replay::answers_to_read(app)
}
