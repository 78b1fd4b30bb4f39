//! The form of a replay, the updates of the replay thread, and the keys of the replay screen.

use super::super::data::Query;
use super::super::keys::Motion;
use super::super::layout;
use super::super::replay::form::Form;
use super::super::replay::run::{ReplayUpdate, Run, Stage};
use super::super::replay::{Consent, Draft};
use super::{App, Effect, Mode, Screen, commands};
use crate::mcp::SessionNumber;

/// Opens the form, for the selected message if there is one, or else for the session.
pub(super) fn request_form(app: &mut App) {
    let Some(session) = app.session else { return app.notify("no session yet") };
    if app.screen == Screen::Replay
        && let Some(submission) = app.replays.run.as_ref().and_then(|run| run.submission.as_ref())
    {
        let (session, message) = (submission.session, submission.call.as_ref().map(|call| call.message));
        return app.key_queries.push(Query::Draft(session, message));
    }
    let lists = matches!(app.screen, Screen::Messages | Screen::Sequence | Screen::Detail);
    let selected = app.selected_message().filter(|_| lists).map(|line| (line.row.session, Some(line.row.number)));
    if lists && selected.is_none() && app.rows(app.screen) != Some(0) {
        // The row is not read yet. The form would be for another message than the one
        // about to appear.
        return app.notify("this message is still being read");
    }
    let (session, message) = selected.unwrap_or((session, None));
    app.key_queries.push(Query::Draft(session, message));
}

/// The command `:replay`, with nothing, `--to URL` or `-- COMMAND` after it.
pub(super) fn command(app: &mut App, rest: &str) {
    let Some(session) = app.session else { return app.notify_error("no session yet") };
    let after =
        |word: &str| rest.strip_prefix(word).filter(|text| text.starts_with(char::is_whitespace)).map(str::trim);
    match after("--to").or_else(|| after("--")) {
        Some(target) if !target.is_empty() => drop(app.replays.targets.insert(session, target.to_owned())),
        _ if rest.is_empty() => {}
        _ => return app.notify_error("replay takes --to URL or -- COMMAND; without them the form asks for the server"),
    }
    app.key_queries.push(Query::Draft(session, None));
}

/// Opens the form once its draft was read from the store.
pub(super) fn open_form(app: &mut App, session: SessionNumber, is_of_message: bool, draft: Draft) {
    if draft.requests == 0 {
        return app.notify("the client sent no request in this session: there is nothing to send again");
    }
    if is_of_message && draft.call.is_none() {
        app.notify("this is not a request of the client: the whole session is sent instead");
    }
    let last_target = app.replays.targets.get(&session).map(String::as_str);
    let is_own = |run: &&Run| run.submission.as_ref().is_some_and(|submission| submission.session == session);
    let last_run = app.replays.run.as_ref().filter(is_own);
    let mut form = Form::new(session, draft, last_target, &app.replays.headers, &app.replays.options);
    form.restore_arguments(last_run.and_then(|run| run.submission.as_ref()));
    form.late_refusals = last_run.map(|run| run.late_refusals.clone()).unwrap_or_default();
    app.replays.form = Some(form);
    app.mode = Mode::Form;
}

/// Handles a key while the form is open.
pub(super) fn key(app: &mut App, key: &str) -> Vec<Effect> {
    let Some(form) = &mut app.replays.form else {
        app.mode = Mode::Browse;
        return Vec::new();
    };
    let consent = match (form.questions.is_empty(), key) {
        (true, "esc") => {
            app.mode = Mode::Browse;
            return Vec::new();
        }
        (true, key) => match form.key(key) {
            true if form.late_refusals.is_empty() => Consent::Ask,
            true => {
                form.questions = std::mem::take(&mut form.late_refusals);
                return Vec::new();
            }
            false => return Vec::new(),
        },
        (false, "y") => Consent::SendAll,
        (false, "n") => Consent::SkipDestructive,
        (false, "esc") => {
            form.questions.clear();
            return Vec::new();
        }
        (false, _) => return Vec::new(),
    };
    if app.replays.run.as_ref().is_some_and(Run::is_going) {
        app.notify_error("a replay is running: 9 shows it, and esc stops it there");
        return Vec::new();
    }
    match form.submission(app.replays.last_number + 1, consent) {
        Ok(submission) => {
            app.replays.last_number += 1;
            app.replays.targets.insert(submission.session, submission.target.clone());
            app.replays.headers = submission.headers.clone();
            app.replays.options = submission.options.clone();
            app.replays.run = Some(Run::new(submission.clone()));
            app.mode = Mode::Browse;
            *app.cursor_mut(Screen::Replay) = Default::default();
            commands::show(app, Screen::Replay);
            vec![Effect::Replay(submission)]
        }
        Err(why) => {
            app.notify_error(why);
            Vec::new()
        }
    }
}

/// Handles an update of the replay thread. Updates of earlier replays are ignored.
pub(super) fn apply_update(app: &mut App, number: u64, update: ReplayUpdate) {
    let Some(run) = app.replays.run.as_mut().filter(|_| number == app.replays.last_number) else { return };
    if let ReplayUpdate::NeedsConsent(questions) = update {
        // Nothing was sent. The form opens again and asks for consent.
        app.replays.run = None;
        if let Some(form) = &mut app.replays.form {
            form.questions = questions;
            app.mode = Mode::Form;
        }
        if app.screen == Screen::Replay {
            commands::back(app);
        }
        return;
    }
    if let Some(row) = run.apply(update) {
        let (total, height) = (run.rows.len(), app.list_height(Screen::Replay));
        app.cursor_mut(Screen::Replay).select(row, total, height);
    }
}

/// Returns the effect that reads the answers of the selected row, if they are not shown yet.
pub(super) fn answers_to_read(app: &mut App) -> Option<Effect> {
    let selected = app.cursor(Screen::Replay).selected;
    let run = app.replays.run.as_mut().filter(|_| app.screen == Screen::Replay)?;
    run.show_answers(selected).map(Effect::ReadAnswers)
}

/// Stops the running replay. Returns false if there is none.
pub(super) fn stop(app: &mut App) -> bool {
    let Some(run) = app.replays.run.as_mut().filter(|run| run.is_going()) else { return false };
    run.stage = Stage::Stopping;
    app.notify("stopping the replay: requests that were not sent are marked");
    true
}

/// Scrolls the answers. Returns false if the list receives the keys.
pub(super) fn move_cursor(app: &mut App, motion: Motion) -> bool {
    let height = usize::from(layout::replay(layout::body(app.size)).old.height);
    let Some(run) = app.replays.run.as_mut().filter(|run| run.answers_focused) else { return false };
    run.scroll(motion.rows(height), height);
    true
}

/// Switches between the list and the answers.
pub(super) fn focus(app: &mut App) {
    if let Some(run) = &mut app.replays.run {
        run.answers_focused = !run.answers_focused;
    }
}

/// Goes to the next difference in the answers, or else to the next request with a different answer.
pub(super) fn next_difference(app: &mut App, by: i8) {
    let selected = app.cursor(Screen::Replay).selected;
    let Some(run) = &mut app.replays.run else { return };
    if run.next_difference(by) {
        return;
    }
    let differs = |row: &usize| run.pair(*row).is_some_and(|pair| pair.outcome.differs());
    let found = if by > 0 { (selected + 1..run.rows.len()).find(differs) } else { (0..selected).rev().find(differs) };
    match found {
        Some(row) => commands::select_row(app, row),
        None => app.notify("no other difference from here"),
    }
}
