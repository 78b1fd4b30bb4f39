//! The state of the screen, and how inputs change it: plain data and plain functions.
//!
//! ```text
//!  key ─► keys::command ─┐
//!  answer ───────────────┼─► update(app, input) ─► effects: ask the store, copy, sleep, quit
//!  tick, resize ─────────┘            │
//!                                     └─► layout::draw(app): a pure function of the state
//! ```
//!
//! Nobody says "load this": after each input [`needs`](App) says which answers the screen is drawn from, and what is not there or out
//! of date is asked for.

mod cursor;
mod detail;
mod folds;
mod mouse;
mod moves;
mod needs;
mod prompt;
mod replay;
#[cfg(test)]
mod tests;
mod update;

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::data::{MessageLine, PacketRow, Progress, Request, SessionRow};
use super::editor::Editor;
use super::pages::{List, Pages};
use super::replay::Replays;
use super::theme::Theme;
use crate::capture::Time;
use crate::event::Connection;
use crate::mcp::{MessageNumber, SessionNumber};

pub use cursor::Cursor;
pub use detail::{DetailView, Focus, Found, drawn as detail_drawn, fitting, focus, shown as detail_shown};
pub use folds::Folds;
pub use prompt::completions;
pub use update::{Effect, Input, update};

/// The screens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Screen {
    /// All sessions.
    #[default]
    Sessions,
    /// Messages of one.
    Messages,
    /// The same as arrows.
    Sequence,
    /// The step table.
    Layers,
    /// Findings.
    Findings,
    /// Figures.
    Statistics,
    /// Packets.
    Packets,
    /// Capabilities and tools.
    Tools,
    /// stderr of a wrapped server.
    Stderr,
    /// A replay and its answers.
    Replay,
    /// One message.
    Detail,
}

impl Screen {
    /// All of them, in the order of the tabs.
    pub const ALL: [Screen; 11] = [
        Screen::Sessions,
        Screen::Messages,
        Screen::Sequence,
        Screen::Layers,
        Screen::Findings,
        Screen::Statistics,
        Screen::Packets,
        Screen::Tools,
        Screen::Stderr,
        Screen::Replay,
        Screen::Detail,
    ];

    /// Its name, as the tabs show it.
    pub fn name(self) -> &'static str {
        match self {
            Screen::Sessions => "sessions",
            Screen::Messages => "messages",
            Screen::Sequence => "sequence",
            Screen::Layers => "layers",
            Screen::Findings => "findings",
            Screen::Statistics => "stats",
            Screen::Packets => "packets",
            Screen::Tools => "tools",
            Screen::Stderr => "stderr",
            Screen::Replay => "replay",
            Screen::Detail => "message",
        }
    }

    fn index(self) -> usize {
        Screen::ALL.iter().position(|screen| *screen == self).unwrap_or_default()
    }
}

/// Who gets the keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// The screen.
    #[default]
    Browse,
    /// A line at the bottom.
    Prompt(Prompt, Editor),
    /// The help, scrolled by so many lines.
    Help(usize),
    /// The whole text of the selected JSON string, scrolled by so many lines.
    Value(usize),
    /// The form of a replay.
    Form,
}

/// What a line at the bottom is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prompt {
    /// A filter.
    Filter,
    /// Text to be found in a message.
    Search,
    /// A command.
    Command,
}

/// One sentence for the person, until the next key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The sentence.
    pub text: String,
    /// Whether something failed.
    pub failed: bool,
}

/// Everything the screen is drawn from.
#[derive(Debug, Default)]
pub struct App {
    /// Columns and rows of the terminal.
    pub size: (u16, u16),
    /// The time by the clock, as the last tick told it: for calls that are waited for.
    pub now: Time,
    /// The theme.
    pub theme: Theme,
    /// What is looked at: the database or the files.
    pub title: String,
    /// The database that is followed; nothing where capture files are looked at.
    pub database: Option<PathBuf>,
    /// The screen.
    pub screen: Screen,
    /// Who gets the keys.
    pub mode: Mode,
    /// The session, once one was chosen.
    pub session: Option<SessionNumber>,
    /// The filter in force; empty: none.
    pub filter: String,
    /// Whether the newest message is kept in view.
    pub follow: bool,
    /// Messages that were marked.
    pub marks: BTreeSet<(SessionNumber, MessageNumber)>,
    /// Groups of messages that are folded.
    pub folds: Folds,
    /// Which of the session's connections the packets are of.
    pub connection: usize,
    /// Whether the sequence shows all servers of the host.
    pub together: bool,
    /// The sequence's room for time: 0 none.
    pub zoom: u8,
    /// The panes of one message.
    pub detail: DetailView,
    /// A sentence for the person.
    pub notice: Option<Notice>,
    /// How far an import is.
    pub progress: Option<Progress>,
    /// Replays: the form, and the last one.
    pub replays: Replays,
    /// The answers.
    pub pages: Pages,
    cursors: [Cursor; Screen::ALL.len()],
    /// Screens one came through.
    history: Vec<Screen>,
    /// Questions that the person asked, not the screen.
    questions: Vec<Request>,
}

impl App {
    /// At the beginning, on a terminal of this size.
    pub fn new(title: String, size: (u16, u16), theme: Theme) -> App {
        App { title, size, theme, ..App::default() }
    }

    /// Begins with a session instead of the list of them.
    pub fn open_session(&mut self, session: SessionNumber) {
        self.session = Some(session);
        self.history = vec![Screen::Sessions];
        self.screen = Screen::Messages;
    }

    /// The cursor of a screen. The screens that show the list of messages share one.
    pub fn cursor(&self, screen: Screen) -> &Cursor {
        &self.cursors[self.list(screen).index()]
    }

    fn cursor_mut(&mut self, screen: Screen) -> &mut Cursor {
        &mut self.cursors[self.list(screen).index()]
    }

    fn list(&self, screen: Screen) -> Screen {
        match screen {
            Screen::Sequence if self.together => screen,
            Screen::Sequence | Screen::Detail => Screen::Messages,
            _ => screen,
        }
    }

    /// The session's row, where it is known.
    pub fn session_row(&self) -> Option<&SessionRow> {
        self.pages.session(self.session?)
    }

    /// Messages in the list, folded ones too, and whether the filter went through all.
    pub fn message_count(&self) -> Option<(usize, bool)> {
        self.pages.message_count(self.session?, &self.filter)
    }

    /// The message that is seen in a row of the list.
    pub fn message(&self, row: usize) -> Option<&MessageLine> {
        self.pages.message(self.session?, &self.filter, self.folds.row(row))
    }

    /// The connection whose packets are shown, and how many there are to choose from.
    pub fn connection(&self) -> Option<(&Connection, usize)> {
        let connections = self.pages.connections(self.session?)?;
        let shown = self.connection.min(connections.len().checked_sub(1)?);
        Some((&connections[shown], connections.len()))
    }

    /// A packet of that connection.
    pub fn packet(&self, row: usize) -> Option<&PacketRow> {
        self.pages.packets(self.session?, self.connection()?.0.id)?.row(row)
    }

    /// The selected message.
    pub fn selected_message(&self) -> Option<&MessageLine> {
        if self.screen == Screen::Sequence && self.together {
            return self.pages.together(self.session?)?.lines.get(self.cursor(Screen::Sequence).selected);
        }
        self.message(self.cursor(Screen::Messages).selected)
    }

    /// Rows of a screen's list; `None` while it is not known.
    pub fn rows(&self, screen: Screen) -> Option<usize> {
        if screen == Screen::Sessions {
            return self.pages.sessions().map(<[_]>::len);
        }
        let session = self.session?;
        match screen {
            Screen::Sessions => None,
            Screen::Sequence if self.together => self.pages.together(session).map(|together| together.lines.len()),
            Screen::Messages | Screen::Sequence | Screen::Detail => {
                self.message_count().map(|(total, _)| self.folds.seen(total))
            }
            Screen::Layers => self.pages.steps(session).map(List::total),
            Screen::Findings => self.pages.findings(session).map(<[_]>::len),
            Screen::Statistics => self.pages.statistics(session).map(|figures| figures.calls.len()),
            Screen::Packets => match self.pages.connections(session)? {
                [] => Some(0),
                _ => self.pages.packets(session, self.connection()?.0.id).map(List::total),
            },
            Screen::Tools => self.pages.capabilities(session).map(<[_]>::len),
            Screen::Stderr => self.pages.stderr(session).map(List::total),
            Screen::Replay => Some(self.replays.run.as_ref().map_or(0, |run| run.rows.len())),
        }
    }

    /// Whether this message is marked.
    pub fn is_marked(&self, message: MessageNumber) -> bool {
        self.session.is_some_and(|session| self.marks.contains(&(session, message)))
    }

    fn say(&mut self, text: impl Into<String>) {
        self.notice = Some(Notice { text: text.into(), failed: false });
    }

    fn complain(&mut self, text: impl Into<String>) {
        self.notice = Some(Notice { text: text.into(), failed: true });
    }
}
