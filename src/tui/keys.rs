//! The keys, one table: read by the dispatcher, the footer, the help and the tests.
//!
//! A key has a name: the character it writes (`j`, `G`, `?`) or a word (`enter`, `esc`, `pgdn`, `ctrl-c`).

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::app::Screen;

/// How far a movement goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Motion {
    /// One row up.
    Up,
    /// One row down.
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
    /// The first of `total` lines that is in view afterwards, where so many are.
    pub fn scrolled(self, top: usize, in_view: usize, total: usize) -> usize {
        let last = total.saturating_sub(in_view);
        match self {
            Motion::Up => top.saturating_sub(1),
            Motion::Down => top + 1,
            Motion::PageUp => top.saturating_sub(in_view),
            Motion::PageDown => top + in_view,
            Motion::Home => 0,
            Motion::End => last,
        }
        .min(last)
    }
}

/// What a key makes the program do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Moves the cursor of the pane that has the keys.
    Move(Motion),
    /// Folds, or goes to the node above.
    Left,
    /// Unfolds, or goes to the first node below.
    Right,
    /// Folds or unfolds.
    Toggle,
    /// Unfolds everything, or as much as is sensible.
    UnfoldAll,
    /// Opens what is selected.
    Open,
    /// Back to where one came from; drops the filter first.
    Back,
    /// Shows a screen.
    Show(Screen),
    /// The next tab, or the one before.
    Tab(i8),
    /// The next pane, or the one before.
    Focus(i8),
    /// The next message, or the one before, without leaving its details.
    Message(i8),
    /// From a request to its answer and back.
    Partner,
    /// To the next message that failed or has findings.
    NextOdd,
    /// Sets or removes a mark.
    Mark,
    /// To the next mark.
    NextMark,
    /// Folds or unfolds the group of the selected message.
    Fold,
    /// Folds or unfolds all groups.
    FoldAll,
    /// To the packet that carries what is selected.
    Wire,
    /// The packets of the next connection, or of the one before.
    Connection(i8),
    /// Keeps the newest message in view.
    Follow,
    /// Writes a filter.
    Filter,
    /// Searches in a message.
    Search,
    /// To the next place found, or the one before.
    Found(i8),
    /// Writes a command.
    CommandLine,
    /// All servers of the host in the sequence, or one.
    Together,
    /// Time scale of the sequence.
    Zoom(i8),
    /// Sends a message or a session again.
    Replay,
    /// To the next difference between the answers of a replay, or to the one before.
    Difference(i8),
    /// From the list of a replay to its answers and back.
    Answers,
    /// Copies the message.
    CopyMessage,
    /// Copies the path of the selected field.
    CopyPath,
    /// Copies the value of the selected field.
    CopyValue,
    /// Copies a curl line that sends the message again.
    CopyCurl,
    /// The next theme.
    NextTheme,
    /// The help.
    Help,
    /// Draws everything again.
    Redraw,
    /// Puts the program to sleep.
    Suspend,
    /// Ends it.
    Quit,
}

/// Where a binding holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    /// On every screen.
    Everywhere,
    /// Where messages are listed.
    Messages,
    /// On the sequence.
    Sequence,
    /// On the details of a message.
    Detail,
    /// On the packets.
    Packets,
    /// On the replay.
    Replay,
    /// In every list: all screens but the details.
    Lists,
}

impl Where {
    /// Whether it holds on this screen.
    pub fn holds(self, screen: Screen) -> bool {
        match self {
            Where::Everywhere => true,
            Where::Messages => matches!(screen, Screen::Messages | Screen::Sequence | Screen::Detail),
            Where::Sequence => screen == Screen::Sequence,
            Where::Detail => screen == Screen::Detail,
            Where::Packets => screen == Screen::Packets,
            Where::Replay => screen == Screen::Replay,
            Where::Lists => screen != Screen::Detail,
        }
    }

    /// The heading in the help.
    pub fn title(self) -> &'static str {
        match self {
            Where::Everywhere => "everywhere",
            Where::Messages => "messages",
            Where::Sequence => "sequence",
            Where::Detail => "one message",
            Where::Packets => "packets",
            Where::Replay => "replay",
            Where::Lists => "lists",
        }
    }
}

/// One line of the table.
#[derive(Debug)]
pub struct Binding {
    /// The keys, the first one is shown.
    pub keys: &'static [&'static str],
    /// Where it holds.
    pub on: Where,
    /// What it does.
    pub command: Command,
    /// One word for the footer; empty: not shown there.
    pub short: &'static str,
    /// One line for the help.
    pub help: &'static str,
}

const fn key(
    keys: &'static [&'static str],
    on: Where,
    command: Command,
    short: &'static str,
    help: &'static str,
) -> Binding {
    Binding { keys, on, command, short, help }
}

/// The table. Where two bindings of a key hold, the first one counts.
#[rustfmt::skip]
pub const KEYS: &[Binding] = &[
    key(&["n"],                Where::Replay,     Command::Difference(1),          "next difference", "next difference, in this answer or the next"),
    key(&["N"],                Where::Replay,     Command::Difference(-1),         "",        "difference before"),
    key(&["tab"],              Where::Replay,     Command::Answers,                "answers", "from the list to the answers and back"),
    key(&["enter"],            Where::Lists,      Command::Open,                   "open",    "open what is selected"),
    key(&["/"],                Where::Lists,      Command::Filter,                 "filter",  "show only messages that fit a filter"),
    key(&["esc", "backspace"], Where::Everywhere, Command::Back,                   "back",    "drop the filter; back to where you came from"),
    key(&["tab"],              Where::Detail,     Command::Focus(1),               "pane",    "next pane: messages, layers, JSON, bytes"),
    key(&["backtab"],          Where::Detail,     Command::Focus(-1),              "",        "pane before"),
    key(&["right", "l"],       Where::Detail,     Command::Right,                  "",        "unfold, or into the node"),
    key(&["left", "h"],        Where::Detail,     Command::Left,                   "",        "fold, or out of the node"),
    key(&["enter", "space"],   Where::Detail,     Command::Toggle,                 "fold",    "fold or unfold; the whole of a long text"),
    key(&["*"],                Where::Detail,     Command::UnfoldAll,              "",        "unfold everything"),
    key(&["J", "."],           Where::Detail,     Command::Message(1),             "",        "next message"),
    key(&["K", ","],           Where::Detail,     Command::Message(-1),            "",        "message before"),
    key(&["p"],                Where::Messages,   Command::Partner,                "partner", "from a request to its answer and back"),
    key(&["R"],                Where::Everywhere, Command::Replay,                 "replay",  "send the selected request, or the session, again"),
    key(&["w"],                Where::Everywhere, Command::Wire,                   "wire",    "on the wire: the packet that carries what is selected"),
    key(&["F"],                Where::Messages,   Command::Follow,                 "follow",  "keep the newest message in view"),
    key(&["e"],                Where::Messages,   Command::NextOdd,                "",        "next message that failed or has findings"),
    key(&["m"],                Where::Messages,   Command::Mark,                   "",        "set or remove a mark"),
    key(&["'"],                Where::Messages,   Command::NextMark,               "",        "next mark"),
    key(&["z"],                Where::Messages,   Command::Fold,                   "batch",   "fold or unfold a batch or an operation"),
    key(&["Z"],                Where::Messages,   Command::FoldAll,                "",        "fold all of them, or unfold everything"),
    key(&["right", "l"],       Where::Packets,    Command::Connection(1),          "connection", "packets of the next connection"),
    key(&["left", "h"],        Where::Packets,    Command::Connection(-1),         "",        "packets of the connection before"),
    key(&["a"],                Where::Sequence,   Command::Together,               "all servers", "all servers of the host, or this one alone"),
    key(&["+", "="],           Where::Sequence,   Command::Zoom(1),                "zoom",    "more room for time"),
    key(&["-"],                Where::Sequence,   Command::Zoom(-1),               "",        "less room for time"),
    key(&["/"],                Where::Detail,     Command::Search,                 "search",  "search in this message"),
    key(&["n"],                Where::Detail,     Command::Found(1),               "",        "next place found"),
    key(&["N"],                Where::Detail,     Command::Found(-1),              "",        "place found before"),
    key(&["y"],                Where::Messages,   Command::CopyMessage,            "copy",    "copy the message"),
    key(&["Y"],                Where::Detail,     Command::CopyPath,               "",        "copy the path of the selected field"),
    key(&["v"],                Where::Detail,     Command::CopyValue,              "",        "copy the value of the selected field"),
    key(&["u"],                Where::Messages,   Command::CopyCurl,               "",        "copy a curl line (HTTP; secrets stay masked)"),
    key(&["up", "k"],          Where::Everywhere, Command::Move(Motion::Up),       "",        "up"),
    key(&["down", "j"],        Where::Everywhere, Command::Move(Motion::Down),     "",        "down"),
    key(&["pgup", "ctrl-b"],   Where::Everywhere, Command::Move(Motion::PageUp),   "",        "one screen up"),
    key(&["pgdn", "ctrl-f"],   Where::Everywhere, Command::Move(Motion::PageDown), "",        "one screen down"),
    key(&["home", "g"],        Where::Everywhere, Command::Move(Motion::Home),     "",        "to the beginning"),
    key(&["end", "G"],         Where::Everywhere, Command::Move(Motion::End),      "",        "to the end"),
    key(&["0"],                Where::Everywhere, Command::Show(Screen::Sessions), "",        "sessions"),
    key(&["1"],                Where::Everywhere, Command::Show(Screen::Messages), "",        "messages of the session"),
    key(&["2"],                Where::Everywhere, Command::Show(Screen::Sequence), "",        "the same as arrows between host and server"),
    key(&["3"],                Where::Everywhere, Command::Show(Screen::Layers),   "",        "what happened, layer by layer"),
    key(&["4"],                Where::Everywhere, Command::Show(Screen::Findings), "",        "findings, grouped by rule"),
    key(&["5"],                Where::Everywhere, Command::Show(Screen::Statistics), "",      "latency and rates"),
    key(&["6"],                Where::Everywhere, Command::Show(Screen::Packets),  "",        "packets, with TCP analysis"),
    key(&["7"],                Where::Everywhere, Command::Show(Screen::Tools),    "",        "capabilities and tools"),
    key(&["8"],                Where::Everywhere, Command::Show(Screen::Stderr),   "",        "what a wrapped server wrote to stderr"),
    key(&["9"],                Where::Everywhere, Command::Show(Screen::Replay),   "",        "the last replay: both answers side by side"),
    key(&["]"],                Where::Everywhere, Command::Tab(1),                 "",        "next screen"),
    key(&["["],                Where::Everywhere, Command::Tab(-1),                "",        "screen before"),
    key(&[":"],                Where::Everywhere, Command::CommandLine,            "",        "command: replay, export FILE, theme NAME, filter EXPR, goto N, q"),
    key(&["t"],                Where::Everywhere, Command::NextTheme,              "",        "next theme: dark, light, mono"),
    key(&["?"],                Where::Everywhere, Command::Help,                   "help",    "this help"),
    key(&["ctrl-l"],           Where::Everywhere, Command::Redraw,                 "",        "draw the screen again"),
    key(&["ctrl-z"],           Where::Everywhere, Command::Suspend,                "",        "suspend (fg comes back)"),
    key(&["q", "ctrl-c"],      Where::Everywhere, Command::Quit,                   "quit",    "quit"),
];

/// What a key does on this screen.
pub fn command(key: &str, screen: Screen) -> Option<Command> {
    KEYS.iter().find(|binding| binding.keys.contains(&key) && binding.on.holds(screen)).map(|binding| binding.command)
}

/// The name of a key as the table has it; `None` for a release, and for keys without a name.
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

/// The sign by which the footer and the help show a key.
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
            for binding in KEYS.iter().filter(|binding| binding.on.holds(screen)) {
                for key in binding.keys {
                    let same = KEYS.iter().filter(|other| other.keys.contains(key) && other.on.holds(screen)).count();
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
    fn keys_have_names() {
        let event = |code, modifiers| name(KeyEvent::new(code, modifiers));
        assert_eq!(event(KeyCode::Char('c'), KeyModifiers::CONTROL).as_deref(), Some("ctrl-c"));
        assert_eq!(event(KeyCode::Char('G'), KeyModifiers::SHIFT).as_deref(), Some("G"));
        assert_eq!(event(KeyCode::F(1), KeyModifiers::NONE), None);
        assert_eq!(story("j<enter> x"), ["j", "enter", "space", "x"]);
    }
}
