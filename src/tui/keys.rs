//! The key table. The dispatcher, the footer, the help and the tests read it.
//!
//! A key has a name: its character (`j`, `G`, `?`) or a word (`enter`, `esc`, `pgdn`, `ctrl-c`).

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::screen::Screen;

/// A movement of a cursor or of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Motion {
    Up,
    Down,
    /// One screen up.
    PageUp,
    /// One screen down.
    PageDown,
    /// To the first row.
    Home,
    /// To the last row.
    End,
}

impl Motion {
    /// The distance in rows, for a window of `height` rows. A page keeps one row of the one before.
    pub fn rows(self, height: usize) -> isize {
        let page = height.saturating_sub(1).max(1) as isize;
        match self {
            Motion::Up => -1,
            Motion::Down => 1,
            Motion::PageUp => -page,
            Motion::PageDown => page,
            Motion::Home => isize::MIN,
            Motion::End => isize::MAX,
        }
    }

    /// The new first visible line, for a window of `in_view` lines in a text of `total` lines.
    pub fn scrolled(self, top: usize, in_view: usize, total: usize) -> usize {
        top.saturating_add_signed(self.rows(in_view + 1)).min(total.saturating_sub(in_view))
    }
}

/// The action of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Moves the cursor of the pane that receives the keys.
    Move(Motion),
    /// Folds, or goes to the parent node.
    Left,
    /// Unfolds, or goes to the first child.
    Right,
    Toggle,
    UnfoldAll,
    /// Opens the selected row.
    Open,
    /// Clears the filter, or returns to the previous screen.
    Back,
    Show(Screen),
    /// Goes to the next tab (1) or the previous one (-1).
    Tab(i8),
    /// Goes to the next pane (1) or the previous one (-1).
    Focus(i8),
    /// Goes to the next message (1) or the previous one (-1), without leaving the details.
    Message(i8),
    /// Goes from a request to its answer and back.
    Partner,
    /// Goes to the next message that failed or has findings.
    NextProblem,
    /// Sets or removes a mark.
    Mark,
    NextMark,
    /// Folds or unfolds the group of the selected message.
    Fold,
    FoldAll,
    /// Goes to the packet that carries the selection.
    ShowPacket,
    /// Goes to the list of connections, or back from it.
    Connections,
    /// Sorts the sessions by the next column.
    Sort,
    /// Lists failed replays and empty sessions too, or leaves them out.
    AllSessions,
    /// Starts or stops following the newest message.
    Follow,
    /// Opens the line for a filter.
    Filter,
    /// Opens the line for a search in a message.
    Search,
    /// Goes to the next search hit (1) or the previous one (-1).
    SearchHit(i8),
    /// Opens the line for a command.
    OpenCommandLine,
    /// Shows all servers of the host in the sequence, or one.
    AllServers,
    /// Changes the zoom of the sequence's time column.
    Zoom(i8),
    /// Opens the form that sends a message or a session again.
    Replay,
    /// Goes to the next difference (1) between the answers of a replay, or the previous one (-1).
    Difference(i8),
    /// Switches between the list of a replay and its answers.
    Answers,
    CopyMessage,
    /// Copies the JSONPath of the selected field.
    CopyPath,
    /// Copies the value of the selected field.
    CopyValue,
    /// Copies a curl command that sends the message again.
    CopyCurl,
    NextTheme,
    Help,
    /// Draws the whole screen again.
    Redraw,
    /// Suspends the program.
    Suspend,
    Quit,
}

/// The screens on which a binding is active.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyScope {
    /// Active on all screens.
    Everywhere,
    /// Screens that list messages.
    Messages,
    Sequence,
    /// The details of a message.
    Detail,
    /// Screens with several panes: a message, and packets.
    Panes,
    Packets,
    Sessions,
    Replay,
    /// All screens but the details of a message.
    Lists,
}

impl KeyScope {
    /// Whether the binding is active on a screen.
    pub fn includes(self, screen: Screen) -> bool {
        match self {
            KeyScope::Everywhere => true,
            KeyScope::Messages => matches!(screen, Screen::Messages | Screen::Sequence | Screen::Detail),
            KeyScope::Sequence => screen == Screen::Sequence,
            KeyScope::Detail => screen == Screen::Detail,
            KeyScope::Panes => matches!(screen, Screen::Detail | Screen::Packets),
            KeyScope::Packets => screen == Screen::Packets,
            KeyScope::Sessions => screen == Screen::Sessions,
            KeyScope::Replay => screen == Screen::Replay,
            KeyScope::Lists => screen != Screen::Detail,
        }
    }

    /// The heading in the help.
    pub fn title(self) -> &'static str {
        match self {
            KeyScope::Everywhere => "everywhere",
            KeyScope::Messages => "messages",
            KeyScope::Sequence => "sequence",
            KeyScope::Detail => "one message",
            KeyScope::Panes => "panes",
            KeyScope::Packets => "packets",
            KeyScope::Sessions => "sessions",
            KeyScope::Replay => "replay",
            KeyScope::Lists => "lists",
        }
    }
}

/// One row of the key table.
#[derive(Debug)]
pub struct Binding {
    /// The keys. The footer shows the first one.
    pub keys: &'static [&'static str],
    pub scope: KeyScope,
    pub command: Command,
    /// The word in the footer; empty if it is not shown there.
    pub short: &'static str,
    /// The line in the help.
    pub help: &'static str,
}

const fn key(
    keys: &'static [&'static str],
    scope: KeyScope,
    command: Command,
    short: &'static str,
    help: &'static str,
) -> Binding {
    Binding { keys, scope, command, short, help }
}

/// The table. Of two bindings of a key on one screen the first one counts; a test allows none.
#[rustfmt::skip]
pub const KEYS: &[Binding] = &[
    key(&["n"],                KeyScope::Replay,     Command::Difference(1),          "next difference", "next difference, in this answer or a later one"),
    key(&["N"],                KeyScope::Replay,     Command::Difference(-1),         "",        "previous difference"),
    key(&["tab"],              KeyScope::Replay,     Command::Answers,                "answers", "switch between the list and the answers"),
    key(&["enter"],            KeyScope::Lists,      Command::Open,                   "open",    "open the selected row"),
    key(&["/"],                KeyScope::Lists,      Command::Filter,                 "filter",  "show only messages that match a filter; among sessions: search all of them"),
    key(&["s"],                KeyScope::Sessions,   Command::Sort,                   "sort",    "sort by the next column: failures, open requests, findings …"),
    key(&["A"],                KeyScope::Sessions,   Command::AllSessions,            "",        "list failed replays and empty sessions too, or leave them out"),
    key(&["esc", "backspace"], KeyScope::Everywhere, Command::Back,                   "back",    "clear the filter, then go back one screen"),
    key(&["tab"],              KeyScope::Panes,      Command::Focus(1),               "pane",    "next pane"),
    key(&["backtab"],          KeyScope::Panes,      Command::Focus(-1),              "",        "previous pane"),
    key(&["right", "l"],       KeyScope::Panes,      Command::Right,                  "",        "unfold, or go to the first child; among packets: next connection"),
    key(&["left", "h"],        KeyScope::Panes,      Command::Left,                   "",        "fold, or go to the parent; among packets: previous connection"),
    key(&["space"],            KeyScope::Panes,      Command::Toggle,                 "",        "fold or unfold"),
    key(&["*"],                KeyScope::Panes,      Command::UnfoldAll,              "",        "unfold everything"),
    key(&["enter"],            KeyScope::Detail,     Command::Toggle,                 "fold",    "fold or unfold; show a long text in full"),
    key(&["J", "."],           KeyScope::Detail,     Command::Message(1),             "",        "next message"),
    key(&["K", ","],           KeyScope::Detail,     Command::Message(-1),            "",        "previous message"),
    key(&["p"],                KeyScope::Messages,   Command::Partner,                "partner", "go from a request to its answer, or back"),
    key(&["R"],                KeyScope::Everywhere, Command::Replay,                 "replay",  "send the selected request or the session again"),
    key(&["w"],                KeyScope::Everywhere, Command::ShowPacket,                   "wire",    "wire: show the packet that carries the selection"),
    key(&["F"],                KeyScope::Messages,   Command::Follow,                 "follow",  "follow the newest message"),
    key(&["e"],                KeyScope::Messages,   Command::NextProblem,                "",        "next message that failed or has findings"),
    key(&["m"],                KeyScope::Messages,   Command::Mark,                   "",        "set or remove a mark"),
    key(&["'"],                KeyScope::Messages,   Command::NextMark,               "",        "next mark"),
    key(&["z"],                KeyScope::Messages,   Command::Fold,                   "group",   "fold or unfold a batch or an operation"),
    key(&["Z"],                KeyScope::Messages,   Command::FoldAll,                "",        "fold all batches and operations, or unfold all"),
    key(&["c"],                KeyScope::Packets,    Command::Connections,            "connections", "choose a connection, or all packets"),
    key(&["a"],                KeyScope::Sequence,   Command::AllServers,               "all servers", "all servers of the host, or only this one"),
    key(&["+", "="],           KeyScope::Sequence,   Command::Zoom(1),                "zoom",    "zoom in"),
    key(&["-"],                KeyScope::Sequence,   Command::Zoom(-1),               "",        "zoom out"),
    key(&["/"],                KeyScope::Detail,     Command::Search,                 "search",  "search in this message"),
    key(&["n"],                KeyScope::Detail,     Command::SearchHit(1),               "",        "next search result"),
    key(&["N"],                KeyScope::Detail,     Command::SearchHit(-1),              "",        "previous search result"),
    key(&["y"],                KeyScope::Messages,   Command::CopyMessage,            "copy",    "copy the message"),
    key(&["Y"],                KeyScope::Detail,     Command::CopyPath,               "",        "copy the JSONPath of the selected field"),
    key(&["v"],                KeyScope::Detail,     Command::CopyValue,              "",        "copy the value of the selected field"),
    key(&["u"],                KeyScope::Messages,   Command::CopyCurl,               "",        "copy a curl command (HTTP only; secrets masked)"),
    key(&["up", "k"],          KeyScope::Everywhere, Command::Move(Motion::Up),       "",        "up"),
    key(&["down", "j"],        KeyScope::Everywhere, Command::Move(Motion::Down),     "",        "down"),
    key(&["pgup", "ctrl-b"],   KeyScope::Everywhere, Command::Move(Motion::PageUp),   "",        "one page up"),
    key(&["pgdn", "ctrl-f"],   KeyScope::Everywhere, Command::Move(Motion::PageDown), "",        "one page down"),
    key(&["home", "g"],        KeyScope::Everywhere, Command::Move(Motion::Home),     "",        "to the beginning"),
    key(&["end", "G"],         KeyScope::Everywhere, Command::Move(Motion::End),      "",        "to the end"),
    key(&["0"],                KeyScope::Everywhere, Command::Show(Screen::Sessions), "",        "list of sessions"),
    key(&["1"],                KeyScope::Everywhere, Command::Show(Screen::Messages), "",        "messages of the session"),
    key(&["2"],                KeyScope::Everywhere, Command::Show(Screen::Sequence), "",        "sequence: messages as arrows between the peers"),
    key(&["3"],                KeyScope::Everywhere, Command::Show(Screen::Layers),   "",        "layers: what happened, step by step"),
    key(&["4"],                KeyScope::Everywhere, Command::Show(Screen::Findings), "",        "findings, grouped by rule"),
    key(&["5"],                KeyScope::Everywhere, Command::Show(Screen::Statistics), "",      "statistics: latency and message rate"),
    key(&["6"],                KeyScope::Everywhere, Command::Show(Screen::Packets),  "",        "packets, with TCP analysis"),
    key(&["7"],                KeyScope::Everywhere, Command::Show(Screen::Tools),    "",        "capabilities and tools"),
    key(&["8"],                KeyScope::Everywhere, Command::Show(Screen::Stderr),   "",        "stderr of a wrapped server"),
    key(&["9"],                KeyScope::Everywhere, Command::Show(Screen::Replay),   "",        "the last replay, with both answers side by side"),
    key(&["]"],                KeyScope::Everywhere, Command::Tab(1),                 "",        "next screen"),
    key(&["["],                KeyScope::Everywhere, Command::Tab(-1),                "",        "previous screen"),
    key(&[":"],                KeyScope::Everywhere, Command::OpenCommandLine,            "",        "command: replay, export, theme, filter, goto, session"),
    key(&["t"],                KeyScope::Everywhere, Command::NextTheme,              "",        "next theme: dark, light, mono"),
    key(&["?"],                KeyScope::Everywhere, Command::Help,                   "help",    "this help"),
    key(&["ctrl-l"],           KeyScope::Everywhere, Command::Redraw,                 "",        "draw the screen again"),
    key(&["ctrl-z"],           KeyScope::Everywhere, Command::Suspend,                "",        "suspend (fg resumes)"),
    key(&["q", "ctrl-c"],      KeyScope::Everywhere, Command::Quit,                   "quit",    "quit"),
];

/// The command of a key on a screen.
pub fn command(key: &str, screen: Screen) -> Option<Command> {
    KEYS.iter()
        .find(|binding| binding.keys.contains(&key) && binding.scope.includes(screen))
        .map(|binding| binding.command)
}

/// The name of a key in the table. `None` for a release, and for keys without a name.
pub fn name(event: KeyEvent) -> Option<String> {
    if event.kind == KeyEventKind::Release {
        return None;
    }
    let name = match event.code {
        KeyCode::Char(' ') => "space".to_owned(),
        KeyCode::Char(c) => c.to_string(),
        KeyCode::Enter => "enter".to_owned(),
        KeyCode::Esc => "esc".to_owned(),
        KeyCode::Backspace => "backspace".to_owned(),
        KeyCode::Delete => "delete".to_owned(),
        KeyCode::Tab => "tab".to_owned(),
        KeyCode::BackTab => "backtab".to_owned(),
        KeyCode::Up => "up".to_owned(),
        KeyCode::Down => "down".to_owned(),
        KeyCode::Left => "left".to_owned(),
        KeyCode::Right => "right".to_owned(),
        KeyCode::PageUp => "pgup".to_owned(),
        KeyCode::PageDown => "pgdn".to_owned(),
        KeyCode::Home => "home".to_owned(),
        KeyCode::End => "end".to_owned(),
        _ => return None,
    };
    Some(if event.modifiers.contains(KeyModifiers::CONTROL) { format!("ctrl-{name}") } else { name })
}

/// Recognises the reply of a terminal that came too late, as keys: it would be read as commands.
///
/// The reply to OSC 11 is `ESC ] 11 ; rgb:… ESC \` or ends in BEL. A terminal library reads the
/// escape character as Alt.
#[derive(Debug, Default)]
pub struct LateReply {
    /// Keys of the reply so far.
    keys: usize,
}

impl LateReply {
    /// Limit of the keys of a reply. More are of the user.
    const LONGEST: usize = 40;

    /// Whether an event belongs to a late reply.
    pub fn includes(&mut self, event: &Event) -> bool {
        let Event::Key(key) = event else { return false };
        let alt = key.modifiers.contains(KeyModifiers::ALT);
        match key.code {
            KeyCode::Char(']') if alt => self.keys = 1,
            _ if self.keys == 0 || self.keys > Self::LONGEST => {
                self.keys = 0;
                return false;
            }
            KeyCode::Char('\\') if alt => self.keys = 0,
            KeyCode::Char('g') if key.modifiers.contains(KeyModifiers::CONTROL) => self.keys = 0,
            KeyCode::Char('0'..='9' | 'a'..='f' | 'A'..='F' | 'r' | 'g' | ';' | ':' | '/')
                if !key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) =>
            {
                self.keys += 1;
            }
            // It is a key of the user.
            _ => {
                self.keys = 0;
                return false;
            }
        }
        true
    }
}

/// The symbol of a key in the footer and the help.
pub fn sign(key: &str) -> &str {
    match key {
        "enter" => "⏎",
        "up" => "↑",
        "down" => "↓",
        "left" => "←",
        "right" => "→",
        "backtab" => "shift-tab",
        key => key,
    }
}

/// The names of the keys in a story: `jj<enter>/tool = add<enter>`.
#[cfg(test)]
pub fn story(keys: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut rest = keys.chars();
    while let Some(c) = rest.next() {
        names.push(match c {
            '<' => rest.by_ref().take_while(|c| *c != '>').collect(),
            ' ' => "space".to_owned(),
            c => c.to_string(),
        });
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_binding_is_hidden_by_one_above_it() {
        for screen in Screen::ALL {
            for binding in KEYS.iter().filter(|binding| binding.scope.includes(screen)) {
                for key in binding.keys {
                    let same =
                        KEYS.iter().filter(|other| other.keys.contains(key) && other.scope.includes(screen)).count();
                    assert_eq!(same, 1, "{key} on {screen:?}");
                }
            }
        }
    }

    #[test]
    fn every_screen_has_its_key_and_every_binding_its_help() {
        for screen in Screen::ALL {
            let shown = KEYS.iter().any(|binding| binding.command == Command::Show(screen));
            assert!(shown || screen == Screen::Detail, "{screen:?}");
        }
        assert!(KEYS.iter().all(|binding| !binding.keys.is_empty() && !binding.help.is_empty()));
    }

    #[test]
    fn a_late_reply_is_no_command() {
        let key = |code, modifiers| Event::Key(KeyEvent::new(code, modifiers));
        let mut late = LateReply::default();
        assert!(!late.includes(&key(KeyCode::Char('1'), KeyModifiers::NONE)));
        for end in [key(KeyCode::Char('\\'), KeyModifiers::ALT), key(KeyCode::Char('g'), KeyModifiers::CONTROL)] {
            assert!(late.includes(&key(KeyCode::Char(']'), KeyModifiers::ALT)));
            assert!("11;rgb:1e1e/1e1e/1e1e".chars().all(|c| late.includes(&key(KeyCode::Char(c), KeyModifiers::NONE))));
            assert!(late.includes(&end) && !late.includes(&key(KeyCode::Char('q'), KeyModifiers::NONE)));
        }
        // Alt-] of the user takes no other key.
        for own in [key(KeyCode::Char('q'), KeyModifiers::NONE), key(KeyCode::Char('c'), KeyModifiers::CONTROL)] {
            assert!(late.includes(&key(KeyCode::Char(']'), KeyModifiers::ALT)));
            assert!(!late.includes(&own));
        }
    }

    #[test]
    fn keys_have_names() {
        let event = |code, modifiers| name(KeyEvent::new(code, modifiers));
        assert_eq!(event(KeyCode::Char('c'), KeyModifiers::CONTROL).as_deref(), Some("ctrl-c"));
        assert_eq!(event(KeyCode::Char('G'), KeyModifiers::SHIFT).as_deref(), Some("G"));
        assert_eq!(event(KeyCode::F(1), KeyModifiers::NONE), None);
        assert_eq!(story("j<enter> x"), ["j", "enter", "space", "x"]);
    }
}
