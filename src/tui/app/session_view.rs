//! The list of sessions as the user sees it: those that a search found, without the ones that fold
//! away, in the order of a column.

use std::collections::BTreeMap;

use super::{App, Screen, commands};
use crate::mcp::SessionNumber;
use crate::tui::data::SessionRow;
use crate::view::session_list::{Fold, SortKey, fold};
use crate::view::units;

/// The choices of the user, and the list that they give.
#[derive(Debug, Default)]
pub struct SessionView {
    /// Only sessions with a message that this filter selects are listed; empty for all.
    pub filter: String,
    /// The column that gives the order.
    pub sort: SortKey,
    /// Failed replays and empty sessions are listed too.
    pub all: bool,
    /// Positions of the listed sessions among those that were read.
    rows: Vec<usize>,
    /// The number of sessions that are left out, for each reason.
    folded: BTreeMap<Fold, u64>,
}

impl App {
    /// The number of listed sessions, once they were read.
    pub fn session_count(&self) -> Option<usize> {
        self.cache.sessions().map(|_| self.sessions.rows.len())
    }

    /// A listed session.
    pub fn listed_session(&self, row: usize) -> Option<&SessionRow> {
        self.cache.sessions()?.get(*self.sessions.rows.get(row)?)
    }

    /// The row of a session in the list.
    pub(super) fn row_of_session(&self, number: SessionNumber) -> Option<usize> {
        let sessions = self.cache.sessions()?;
        self.sessions.rows.iter().position(|row| sessions.get(*row).is_some_and(|row| row.session.number == number))
    }

    /// What the list leaves out, in words; empty for nothing.
    pub fn sessions_left_out(&self) -> String {
        let folded: Vec<String> =
            self.sessions.folded.iter().map(|(fold, count)| units::count(*count, fold.noun())).collect();
        folded.join(", ")
    }
}

/// Makes the list anew, because sessions, matches or choices changed.
pub(super) fn relist(app: &mut App) {
    let view = &app.sessions;
    let found = app.cache.sessions_found(&view.filter).map(|(found, _)| found);
    let (mut rows, mut folded) = (Vec::new(), BTreeMap::new());
    let sessions = app.cache.sessions().unwrap_or_default();
    // A capture file has been opened for what it contains.
    let all = view.all || app.database.is_none();
    for (position, row) in sessions.iter().enumerate() {
        let is_found = view.filter.is_empty() || found.is_some_and(|found| found.contains(&row.session.number));
        // A session that was opened by its number stays.
        let is_chosen = app.session == Some(row.session.number) && app.screen != Screen::Sessions;
        match fold(row, app.now).filter(|_| !all && !is_chosen) {
            _ if !is_found => {}
            Some(fold) => *folded.entry(fold).or_default() += 1,
            None => rows.push(position),
        }
    }
    // As they were read, they are in order of number.
    if view.sort != SortKey::Number {
        rows.sort_by(|one, other| view.sort.compare(&sessions[*one], &sessions[*other]));
    }
    (app.sessions.rows, app.sessions.folded) = (rows, folded);
}

/// Searches all sessions.
pub(super) fn set_filter(app: &mut App, filter: String) {
    app.sessions.filter = filter;
    relist(app);
}

/// Sorts by the next column.
pub(super) fn next_sort(app: &mut App) {
    set_sort(app, SortKey::ALL[(app.sessions.sort as usize + 1) % SortKey::ALL.len()]);
}

/// Sorts by a column.
pub(super) fn set_sort(app: &mut App, sort: SortKey) {
    app.sessions.sort = sort;
    relist(app);
    app.notify(format!("sessions by {}", sort.name()));
}

/// Lists failed replays and empty sessions too, or leaves them out.
pub(super) fn toggle_all(app: &mut App) {
    app.sessions.all = !app.sessions.all;
    relist(app);
    app.notify(if app.sessions.all { "all sessions" } else { "without failed replays and empty sessions" });
}

/// Keeps the selection on its session. If that is not listed, the first one is selected.
pub(super) fn keep_selection(app: &mut App) {
    match app.session.map(|own| (own, app.row_of_session(own))) {
        Some((_, Some(row))) => app.cursor_mut(Screen::Sessions).selected = row,
        Some((_, None)) if app.screen != Screen::Sessions => {}
        _ => {
            if let Some(first) = app.listed_session(0).map(|row| row.session.number) {
                commands::select_session(app, Some(first));
                app.cursor_mut(Screen::Sessions).selected = 0;
            }
        }
    }
}
