//! The state of the screen and how inputs change it: plain data and plain functions.
//!
//! ```text
//!  key ─► keys::command ─┐
//!  answer ───────────────┼─► update(app, input) ─► effects: query the store, copy, suspend, quit
//!  tick, resize ─────────┘            │
//!                                     └─► layout::draw(app): a pure function of the state
//! ```
//!
//! Nothing requests data explicitly. After each input `needed_queries` lists the queries whose
//! answers the screen shows. Those whose answers are missing or out of date are sent.

mod commands;
mod detail;
mod folds;
mod mouse;
mod needed_queries;
mod prompt;
mod replay;
#[cfg(test)]
mod tests;
mod update;

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::answer_cache::{AnswerCache, PagedList};
use super::cursor::Cursor;
use super::data::{MessageLine, PacketRow, Progress, Query, SessionRow};
use super::editor::Editor;
use super::replay::Replays;
use super::screen::Screen;
use super::theme::Theme;
use crate::capture::Time;
use crate::event::Connection;
use crate::mcp::{MessageNumber, SessionNumber};

pub use detail::{DetailView, Focus, drawn_detail, focus, selected_detail, unfoldable_layers};
pub use folds::Folds;
pub use prompt::completions;
pub use update::{Effect, Input, update};

/// The part of the screen that receives the keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// The screen itself.
    #[default]
    Browse,
    /// A line at the bottom.
    Prompt(Prompt, Editor),
    /// The help, scrolled by this number of lines.
    Help(usize),
    /// The whole text of the selected JSON string, scrolled by this number of lines.
    Value(usize),
    /// The form of a replay.
    Form,
}

/// The purpose of the line at the bottom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prompt {
    Filter,
    /// Text to find in a message.
    Search,
    Command,
}

/// A sentence at the bottom of the screen. It stays until the next key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    pub text: String,
    pub failed: bool,
}

/// Everything that the screen is drawn from.
#[derive(Debug, Default)]
pub struct App {
    /// Columns and rows of the terminal.
    pub size: (u16, u16),
    /// The wall-clock time of the last tick. Calls without an answer show how long
    /// they have waited.
    pub now: Time,
    pub theme: Theme,
    /// The name of the database or of the capture files.
    pub title: String,
    /// The database that is followed; `None` for capture files.
    pub database: Option<PathBuf>,
    pub screen: Screen,
    pub mode: Mode,
    /// The selected session, once there is one.
    pub session: Option<SessionNumber>,
    /// The text of the active filter; empty for none.
    pub filter: String,
    /// Whether the selection follows the newest message.
    pub follow: bool,
    /// Messages that the user marked.
    pub marks: BTreeSet<(SessionNumber, MessageNumber)>,
    /// Groups of messages that are folded.
    pub folds: Folds,
    /// Position of the connection whose packets are shown, among those of the session.
    pub connection: usize,
    /// Whether the sequence shows all servers of the host.
    pub all_servers: bool,
    /// Zoom of the sequence's time column: 0 hides it.
    pub zoom: u8,
    /// The panes of one message.
    pub detail: DetailView,
    pub notice: Option<Notice>,
    /// Progress of an import.
    pub progress: Option<Progress>,
    /// The form of a replay and the last replay.
    pub replays: Replays,
    /// The answers that the screen is drawn from.
    pub cache: AnswerCache,
    cursors: [Cursor; Screen::ALL.len()],
    /// The screens that led to this one, for `esc`.
    history: Vec<Screen>,
    /// Queries that a key caused. They are sent once, whatever is shown.
    key_queries: Vec<Query>,
}

impl App {
    /// The state at the start, on a terminal of this size.
    pub fn new(title: String, size: (u16, u16), theme: Theme) -> App {
        App { title, size, theme, ..App::default() }
    }

    /// Starts with the messages of a session instead of the list of sessions.
    pub fn open_session(&mut self, session: SessionNumber) {
        self.session = Some(session);
        self.history = vec![Screen::Sessions];
        self.screen = Screen::Messages;
    }

    /// The cursor of a screen. The screens that show the list of messages share one.
    pub fn cursor(&self, screen: Screen) -> &Cursor {
        &self.cursors[self.list(screen) as usize]
    }

    fn cursor_mut(&mut self, screen: Screen) -> &mut Cursor {
        &mut self.cursors[self.list(screen) as usize]
    }

    fn list(&self, screen: Screen) -> Screen {
        match screen {
            Screen::Sequence if self.all_servers => screen,
            Screen::Sequence | Screen::Detail => Screen::Messages,
            _ => screen,
        }
    }

    /// The row of the selected session, once it was read.
    pub fn session_row(&self) -> Option<&SessionRow> {
        self.cache.session(self.session?)
    }

    /// The number of messages in the list, folded ones included, and whether the filter has been
    /// applied to all messages.
    pub fn message_count(&self) -> Option<(usize, bool)> {
        self.cache.message_count(self.session?, &self.filter)
    }

    /// The message in a visible row of the list.
    pub fn message(&self, row: usize) -> Option<&MessageLine> {
        self.cache.message(self.session?, &self.filter, self.folds.list_row(row))
    }

    /// The connection whose packets are shown, and the number of connections of the session.
    pub fn connection(&self) -> Option<(&Connection, usize)> {
        let connections = self.cache.connections.of(self.session?)?;
        let shown = self.connection.min(connections.len().checked_sub(1)?);
        Some((&connections[shown], connections.len()))
    }

    /// A packet of that connection.
    pub fn packet(&self, row: usize) -> Option<&PacketRow> {
        self.cache.packets.of(&(self.session?, self.connection()?.0.id))?.row(row)
    }

    pub fn selected_message(&self) -> Option<&MessageLine> {
        if self.screen == Screen::Sequence && self.all_servers {
            return self.cache.all_servers.of(self.session?)?.lines.get(self.cursor(Screen::Sequence).selected);
        }
        self.message(self.cursor(Screen::Messages).selected)
    }

    /// The number of rows in a screen's list; `None` before it was read.
    pub fn rows(&self, screen: Screen) -> Option<usize> {
        if screen == Screen::Sessions {
            return self.cache.sessions().map(<[_]>::len);
        }
        let session = self.session?;
        match screen {
            Screen::Sessions => None,
            Screen::Sequence if self.all_servers => {
                self.cache.all_servers.of(session).map(|all_servers| all_servers.lines.len())
            }
            Screen::Messages | Screen::Sequence | Screen::Detail => {
                self.message_count().map(|(total, _)| self.folds.visible_count(total))
            }
            Screen::Layers => self.cache.steps.of(&session).map(PagedList::total),
            Screen::Findings => self.cache.findings.of(session).map(Vec::len),
            Screen::Statistics => self.cache.statistics.of(session).map(|figures| figures.calls.len()),
            Screen::Packets => match self.cache.connections.of(session)?.as_slice() {
                [] => Some(0),
                _ => self.cache.packets.of(&(session, self.connection()?.0.id)).map(PagedList::total),
            },
            Screen::Tools => self.cache.capabilities.of(session).map(Vec::len),
            Screen::Stderr => self.cache.stderr.of(&session).map(PagedList::total),
            Screen::Replay => Some(self.replays.run.as_ref().map_or(0, |run| run.rows.len())),
        }
    }

    pub fn is_marked(&self, message: MessageNumber) -> bool {
        self.session.is_some_and(|session| self.marks.contains(&(session, message)))
    }

    fn notify(&mut self, text: impl Into<String>) {
        self.notice = Some(Notice { text: text.into(), failed: false });
    }

    fn notify_error(&mut self, text: impl Into<String>) {
        self.notice = Some(Notice { text: text.into(), failed: true });
    }
}
