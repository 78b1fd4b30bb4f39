//! The state of the screen and how inputs change it: plain data and plain functions.
//!
//! ```text
//!  key ─► keys::command ─┐
//!  answer ───────────────┼─► update(app, input) ─► effects: query the store, copy, suspend, quit
//!  tick, resize ─────────┘            │
//!                                     └─► frame::draw(app): a pure function of the state
//! ```
//!
//! Nothing requests data explicitly. After each input `needed_queries` lists the queries whose
//! answers the screen shows. Those whose answers are missing or out of date are sent.

pub mod bars;
mod commands;
mod detail;
mod folds;
mod layer_tree;
mod mouse;
mod needed_queries;
mod packets;
mod prompt;
mod replay;
mod session_view;
#[cfg(test)]
mod tests;
mod update;

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::answer_cache::{AnswerCache, PagedList};
use super::cursor::Cursor;
use super::data::{MessageLine, MessageList, NoteLine, Progress, Query, SessionRow};
use super::editor::Editor;
use super::layout;
use super::replay::Replays;
use super::screen::{Focus, Screen};
use super::theme::{Palette, Theme};
use crate::capture::Time;
use crate::mcp::{MessageNumber, SessionNumber};

pub use detail::{DetailView, drawn_detail, focus, selected_detail, value_lines};
pub use folds::Folds;
pub use layer_tree::{ByteCursor, LayerTree};
pub use packets::PacketView;
pub use prompt::completions;
pub use session_view::SessionView;
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

/// A sentence at the bottom of the screen. It stays until the next key, or for some seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    pub text: String,
    pub failed: bool,
    /// The time at which it leaves.
    pub until: Time,
}

impl Notice {
    /// The seconds for which a notice stays: one of a failure is longer, and worth a second look.
    const STAYS: [i64; 2] = [4, 10];
}

/// Everything that the screen is drawn from.
#[derive(Debug, Default)]
pub struct App {
    /// Columns and rows of the terminal.
    pub size: (u16, u16),
    /// The wall-clock time of the last tick. Calls without an answer show how long
    /// they have waited.
    pub now: Time,
    pub palette: Palette,
    /// The name of the database or of the capture files.
    pub title: String,
    /// The database that is followed; `None` for capture files.
    pub database: Option<PathBuf>,
    pub screen: Screen,
    pub mode: Mode,
    /// The selected session, once there is one.
    pub session: Option<SessionNumber>,
    /// The list of sessions: its search, order and rows.
    pub sessions: SessionView,
    /// The text of the active filter; empty for none.
    pub filter: String,
    /// Whether the selection follows the newest message.
    pub follow: bool,
    /// Messages that the user marked.
    pub marks: BTreeSet<(SessionNumber, MessageNumber)>,
    /// Groups of messages that are folded.
    pub folds: Folds,
    /// The panes of the packets.
    pub packets: PacketView,
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
        App { title, size, palette: Palette { theme, ..Palette::default() }, ..App::default() }
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
        self.cache.messages(self.session?, &self.filter).map(|list| (list.total(), list.is_complete()))
    }

    /// The list of messages, for queries.
    fn message_list(&self) -> Option<MessageList> {
        Some(MessageList { session: self.session?, filter: self.filter.clone() })
    }

    /// The note in a visible row of the list.
    pub fn note(&self, row: usize) -> Option<&NoteLine> {
        self.cache.notes.of(self.session?)?.get(self.folds.note(row)?)
    }

    /// The note that is selected.
    pub fn selected_note(&self) -> Option<&NoteLine> {
        let lists = matches!(self.screen, Screen::Messages | Screen::Sequence | Screen::Detail);
        self.note(self.cursor(Screen::Messages).selected).filter(|_| lists && !self.shows_all_servers())
    }

    /// Whether the arrows of all servers are shown.
    pub fn shows_all_servers(&self) -> bool {
        self.screen == Screen::Sequence && self.all_servers
    }

    /// The message in a visible row of the list.
    pub fn message(&self, row: usize) -> Option<&MessageLine> {
        if self.folds.note(row).is_some() {
            return None;
        }
        self.cache.messages(self.session?, &self.filter)?.row(self.folds.list_row(row))
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
            return self.session_count();
        }
        if screen == Screen::Packets {
            return self.cache.packets.of(&(self.session, self.packet_scope())).map(PagedList::total);
        }
        let session = self.session?;
        match screen {
            Screen::Sessions | Screen::Packets => None,
            Screen::Sequence if self.all_servers => {
                self.cache.all_servers.of(session).map(|all_servers| all_servers.lines.len())
            }
            Screen::Messages | Screen::Sequence | Screen::Detail => {
                self.message_count().map(|(total, _)| self.folds.visible_count(total))
            }
            Screen::Layers => self.cache.steps.of(&session).map(PagedList::total),
            Screen::Findings => self.cache.findings.of(session).map(Vec::len),
            Screen::Statistics => self.cache.statistics.of(session).map(|figures| figures.calls.len()),
            Screen::Tools => self.cache.capabilities.of(session).map(Vec::len),
            Screen::Stderr => self.cache.stderr.of(&session).map(PagedList::total),
            Screen::Replay => Some(self.replays.run.as_ref().map_or(0, |run| run.rows.len())),
        }
    }

    pub fn is_marked(&self, message: MessageNumber) -> bool {
        self.session.is_some_and(|session| self.marks.contains(&(session, message)))
    }

    /// The pane of the current screen that receives the keys.
    pub fn focus(&self) -> Focus {
        match self.screen {
            Screen::Packets => self.packets.focus,
            _ => focus(self),
        }
    }

    /// Visible rows of a screen's list.
    pub fn list_height(&self, screen: Screen) -> usize {
        let focus = if screen == Screen::Packets { self.packets.focus } else { focus(self) };
        layout::list_height(self.size, screen, focus)
    }

    /// Shows a sentence until the first key.
    pub fn show_hint(&mut self, text: String) {
        self.notice = Some(Notice { text, failed: false, until: Time(i64::MAX) });
    }

    fn notify(&mut self, text: impl Into<String>) {
        self.set_notice(text.into(), false);
    }

    fn notify_error(&mut self, text: impl Into<String>) {
        self.set_notice(text.into(), true);
    }

    fn set_notice(&mut self, text: String, failed: bool) {
        let stays = Notice::STAYS[usize::from(failed)] * 1_000_000_000;
        self.notice = Some(Notice { text, failed, until: Time(self.now.0.saturating_add(stays)) });
    }
}
