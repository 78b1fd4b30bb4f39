//! The form of a replay, the updates of the replay thread, and the keys of the replay screen.

use super::super::data::Request;
use super::super::keys::Motion;
use super::super::layout;
use super::super::replay::form::Form;
use super::super::replay::run::{Run, Stage, Told};
use super::super::replay::{Consent, Draft};
use super::{App, Effect, Mode, Screen, moves};
use crate::mcp::SessionNumber;

/// Opens the form, for the selected message if there is one, or else for the session.
pub(super) fn open(app: &mut App) {
    let Some(session) = app.session else { return app.say("no session yet") };
    if app.screen == Screen::Replay
        && let Some(order) = app.replays.run.as_ref().and_then(|run| run.order.as_ref())
    {
        let (session, message) = (order.session, order.call.as_ref().map(|call| call.message));
        return app.questions.push(Request::Draft { session, message });
    }
    let selected = match app.screen {
        Screen::Messages | Screen::Sequence | Screen::Detail => {
            app.selected_message().map(|line| (line.row.session, line.row.number))
        }
        _ => None,
    };
    let lists = matches!(app.screen, Screen::Messages | Screen::Sequence | Screen::Detail);
    if lists && selected.is_none() && app.rows(app.screen) != Some(0) {
        // The row is not read yet. The form would be for another message than the one about to
        // appear.
        return app.say("this message is still being read");
    }
    let (session, message) = selected.map_or((session, None), |(session, message)| (session, Some(message)));
    app.questions.push(Request::Draft { session, message });
}

/// The command `:replay`, with nothing, `--to URL` or `-- COMMAND` after it.
pub(super) fn command(app: &mut App, rest: &str) {
    let Some(session) = app.session else { return app.complain("no session yet") };
    let after =
        |word: &str| rest.strip_prefix(word).filter(|text| text.starts_with(char::is_whitespace)).map(str::trim);
    match after("--to").or_else(|| after("--")) {
        Some(target) if !target.is_empty() => drop(app.replays.targets.insert(session, target.to_owned())),
        _ if rest.is_empty() => {}
        _ => return app.complain("replay takes --to URL or -- COMMAND, or nothing: then a form asks"),
    }
    app.questions.push(Request::Draft { session, message: None });
}

/// Opens the form once its draft was read from the store.
pub(super) fn drafted(app: &mut App, session: SessionNumber, is_of_message: bool, draft: Draft) {
    if draft.requests == 0 {
        return app.say("the client asked for nothing in this session: there is nothing to send again");
    }
    if is_of_message && draft.call.is_none() {
        app.say("no request of the client: what is sent again is the session");
    }
    let known = app.replays.targets.get(&session).map(String::as_str);
    let again = app.replays.run.as_ref().and_then(|run| run.order.as_ref()).filter(|order| order.session == session);
    let mut form = Form::new(session, draft, known, &app.replays.fields, &app.replays.options);
    form.edited_before(again);
    form.warned =
        app.replays.run.as_ref().filter(|_| again.is_some()).map(|run| run.refused_late.clone()).unwrap_or_default();
    app.replays.form = Some(form);
    app.mode = Mode::Form;
}

/// Handles a key while the form is open.
pub(super) fn key(app: &mut App, key: &str) -> Vec<Effect> {
    let Some(form) = &mut app.replays.form else {
        app.mode = Mode::Browse;
        return Vec::new();
    };
    let consent = match (form.asks.is_empty(), key) {
        (true, "esc") => {
            app.mode = Mode::Browse;
            return Vec::new();
        }
        (true, key) => match form.key(key) {
            true if form.warned.is_empty() => Consent::Ask,
            true => {
                form.asks = std::mem::take(&mut form.warned);
                return Vec::new();
            }
            false => return Vec::new(),
        },
        (false, "y") => Consent::All,
        (false, "n") => Consent::Harmless,
        (false, "esc") => {
            form.asks.clear();
            return Vec::new();
        }
        (false, _) => return Vec::new(),
    };
    if app.replays.run.as_ref().is_some_and(Run::is_going) {
        app.complain("a replay is under way: 9 shows it, esc ends it there");
        return Vec::new();
    }
    match form.order(app.replays.last + 1, consent) {
        Ok(order) => {
            app.replays.last += 1;
            app.replays.targets.insert(order.session, order.target.clone());
            app.replays.fields = order.fields.clone();
            app.replays.options = order.options.clone();
            app.replays.run = Some(Run::new(order.clone()));
            app.mode = Mode::Browse;
            *app.cursor_mut(Screen::Replay) = Default::default();
            moves::show(app, Screen::Replay);
            vec![Effect::Replay(order)]
        }
        Err(why) => {
            app.complain(why);
            Vec::new()
        }
    }
}

/// Handles an update of the replay thread. Updates of earlier replays are ignored.
pub(super) fn take(app: &mut App, number: u64, told: Told) {
    let Some(run) = app.replays.run.as_mut().filter(|_| number == app.replays.last) else { return };
    if let Told::Asks(asks) = told {
        // Nothing was sent. The form opens again and asks for consent.
        app.replays.run = None;
        if let Some(form) = &mut app.replays.form {
            form.asks = asks;
            app.mode = Mode::Form;
        }
        if app.screen == Screen::Replay {
            moves::back(app);
        }
        return;
    }
    if let Some(row) = run.take(told) {
        let (total, height) = (run.rows.len(), layout::list_height(app.size, Screen::Replay));
        app.cursor_mut(Screen::Replay).select(row, total, height);
    }
}

/// Returns the effect that reads the answers of the selected row, if they are not shown yet.
pub(super) fn settle(app: &mut App) -> Option<Effect> {
    let selected = app.cursor(Screen::Replay).selected;
    let run = app.replays.run.as_mut().filter(|_| app.screen == Screen::Replay)?;
    run.settle(selected).map(Effect::ReadAnswers)
}

/// Stops the running replay. Returns false if there is none.
pub(super) fn stop(app: &mut App) -> bool {
    let Some(run) = app.replays.run.as_mut().filter(|run| run.is_going()) else { return false };
    run.stage = Stage::Stopping;
    app.say("the replay ends: what was not sent says so");
    true
}

/// Scrolls the answers. Returns false if the list receives the keys.
pub(super) fn move_cursor(app: &mut App, motion: Motion) -> bool {
    let height = usize::from(layout::replay(layout::body(app.size)).old.height);
    let Some(run) = app.replays.run.as_mut().filter(|run| run.in_answers) else { return false };
    let page = height.saturating_sub(1).max(1) as isize;
    let by = match motion {
        Motion::Up => -1,
        Motion::Down => 1,
        Motion::PageUp => -page,
        Motion::PageDown => page,
        Motion::Home => isize::MIN,
        Motion::End => isize::MAX,
    };
    run.scroll(by, height);
    true
}

/// Switches between the list and the answers.
pub(super) fn focus(app: &mut App) {
    if let Some(run) = &mut app.replays.run {
        run.in_answers = !run.in_answers;
    }
}

/// Goes to the next difference in the answers, or else to the next request with a different answer.
pub(super) fn next_difference(app: &mut App, by: i8) {
    let selected = app.cursor(Screen::Replay).selected;
    let Some(run) = &mut app.replays.run else { return };
    if run.step(by) {
        return;
    }
    let differs = |row: &usize| run.pair(*row).is_some_and(|pair| pair.outcome.differs());
    let found = if by > 0 { (selected + 1..run.rows.len()).find(differs) } else { (0..selected).rev().find(differs) };
    match found {
        Some(row) => moves::select_row(app, row),
        None => app.say("no other difference from here"),
    }
}
