//! The terminal UI in a real terminal (tmux): the screen, and the state in which the terminal is
//! left.
//!
//! No step waits for a fixed time. Each waits for its effect, up to a bound.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use mcptap::tui::term::Screen;
use rustix::process::{Pid, Signal, kill_process};
use unicode_width::UnicodeWidthStr;

use crate::program::{NO_STATE, root};
use crate::support::needs::{self, have_program};
use crate::support::signals::default_in_programs;
use crate::support::waits::{Finishes, PATIENCE, ProcessEnd};

/// The time between two looks at a screen.
const LOOK: Duration = Duration::from_millis(20);

/// A terminal with a shell.
struct Terminal {
    socket: String,
}

impl Terminal {
    /// Opens a terminal of this size. `None` if tmux is missing.
    fn open(width: u16, height: u16) -> Option<Terminal> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        if !have_program(&needs::TMUX) {
            return None;
        }
        default_in_programs();
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let terminal = Terminal { socket: format!("mcptap-test-{}-{next}", std::process::id()) };
        let (width, height) = (width.to_string(), height.to_string());
        let state = format!("{}={}", NO_STATE.0, NO_STATE.1);
        let shell = format!("env -u MCPTAP_DB -u SSLKEYLOGFILE -u NO_COLOR -u ENV {state} PS1='$ ' sh -i");
        terminal.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", &width, "-y", &height, &shell]);
        terminal.wait("$");
        Some(terminal)
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let done = Command::new("tmux").args(["-u", "-L", &self.socket]).args(arguments).finished();
        assert!(done.status.success(), "tmux {arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).expect("tmux writes UTF-8")
    }

    /// Types text as it is.
    fn text(&self, text: &str) -> &Terminal {
        self.tmux(&["send-keys", "-l", text]);
        self
    }

    /// Presses a key by its name.
    fn key(&self, key: &str) -> &Terminal {
        self.tmux(&["send-keys", key]);
        self
    }

    /// Runs a command in the shell.
    fn run(&self, command: &str) -> &Terminal {
        self.text(command).key("Enter")
    }

    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// Waits until this text is on the screen. Returns the screen.
    fn wait(&self, text: &str) -> String {
        self.wait_for(text, |screen| screen.contains(text))
    }

    fn wait_for(&self, what: &str, fits: impl Fn(&str) -> bool) -> String {
        let began = Instant::now();
        loop {
            let screen = self.screen();
            if fits(&screen) {
                return screen;
            }
            assert!(began.elapsed() < PATIENCE, "\"{what}\" does not come:\n{screen}");
            std::thread::sleep(LOOK);
        }
    }

    /// Whether the alternate screen is active, and the state of the cursor.
    fn state(&self) -> String {
        self.tmux(&["display-message", "-p", "#{alternate_on} #{cursor_flag} #{mouse_any_flag} #{pane_title}"])
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // The server may have ended already.
        let _ = Command::new("tmux").args(["-L", &self.socket, "kill-server"]).try_finished();
    }
}

fn program(arguments: &str) -> String {
    format!("{} {arguments}", env!("CARGO_BIN_EXE_mcptap"))
}

fn sample() -> String {
    program(root().join("samples/weather/capture.pcapng").to_str().expect("UTF-8"))
}

/// Starts the program after printing the terminal settings. Returns the settings and the
/// state of the terminal.
fn started(terminal: &Terminal, command: &str) -> (String, String) {
    terminal.run("clear; echo \"before: $(stty -g)\"");
    let settings = |screen: &str| screen.lines().find_map(|line| line.strip_prefix("before: ").map(str::to_owned));
    let screen = terminal.wait_for("stty", |screen| settings(screen).is_some());
    let state = terminal.state();
    terminal.run(command);
    terminal.wait(" 1 session ");
    (settings(&screen).expect("it was there"), state)
}

/// Asserts that the shell is back and the terminal has its former state.
fn restored(terminal: &Terminal, (settings, state): &(String, String)) {
    terminal.wait_for("the shell", |screen| !screen.contains('┌') && screen.trim_end().ends_with('$'));
    terminal.run("echo \"after: $(stty -g)\"");
    let after = format!("after: {settings}");
    // The line is wrapped: the settings are longer than the width of the terminal.
    terminal.wait_for(&after, |screen| screen.replace('\n', "").contains(&after));
    assert_eq!(&terminal.state(), state);
}

#[test]
fn opens_filters_walks_to_a_packet_resizes_and_quits() {
    let Some(terminal) = Terminal::open(80, 24) else { return };
    let before = started(&terminal, &sample());
    terminal.key("Enter").wait("▸ messages");
    terminal.text("/tool = get_weather and kind = response").key("Enter").wait("/ tool = get_weather");
    terminal.wait("1 of 1 found in 7 messages");
    // Opens the message, then its packet, then the other packets of its connection.
    terminal.key("Enter").wait("▸ message ");
    terminal.wait("bytes: packet #59");
    terminal.text("w").wait("▸ packets");
    terminal.wait("message 7");
    terminal.tmux(&["resize-window", "-x", "132", "-y", "40"]);
    // The screen may be read while it is drawn.
    terminal.wait_for("132 columns", |screen| {
        screen.lines().count() == 40 && screen.lines().all(|line| line.width() == 132)
    });
    terminal.tmux(&["resize-window", "-x", "60", "-y", "16"]);
    terminal.wait_for("60 columns", |screen| screen.lines().next().is_some_and(|line| line.width() == 60));
    terminal.text("q");
    restored(&terminal, &before);
}

#[test]
fn a_file_that_is_no_capture_is_an_error_on_the_normal_screen() {
    let Some(terminal) = Terminal::open(200, 24) else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("x.json");
    std::fs::write(&file, "{\"a\":1}").expect("it is writable");
    let raw = directory.path().join("raw");
    terminal.tmux(&["pipe-pane", "-o", &format!("cat > {}", raw.display())]);
    terminal.run(&format!("{}; echo \"status $?\"", program(file.to_str().expect("UTF-8"))));
    let screen = terminal.wait("status 2");
    assert!(screen.contains("not a pcap or pcapng file (first bytes 7b 22 61 22)"), "{screen}");
    let written = std::fs::read(&raw).expect("tmux wrote it");
    let takes_screen = memchr::memmem::find(&written, b"\x1b[?1049h").is_some();
    assert!(!takes_screen && !written.is_empty(), "the screen was never taken");
}

#[test]
fn the_theme_fits_the_terminal_until_the_user_chooses_one() {
    let Some(terminal) = Terminal::open(100, 24) else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let state = format!("XDG_STATE_HOME={} TERM=xterm-256color", directory.path().display());
    // The background that the terminal reports: tmux passes on that of the pane.
    let colours = |terminal: &Terminal| terminal.tmux(&["capture-pane", "-p", "-e"]);
    for (background, client) in [("#ffffff", "38;5;25"), ("#101010", "38;5;80")] {
        terminal.tmux(&["set", "-g", "window-style", &format!("bg={background}")]);
        terminal.run(&format!("{state} {}", sample())).wait(" 1 session ");
        terminal.key("Enter").wait("1 of 7 messages");
        assert!(colours(&terminal).contains(client), "{background}:\n{}", colours(&terminal));
        terminal.text("q").wait_for("the shell", |screen| screen.trim_end().ends_with('$'));
    }
    // On a dark background, the second theme is light. It stays.
    terminal.run(&format!("{state} {}", sample())).wait(" 1 session ");
    terminal.text("t").wait("theme light");
    terminal.text("q").wait_for("the shell", |screen| screen.trim_end().ends_with('$'));
    terminal.run(&format!("{state} {}", sample())).wait(" 1 session ");
    terminal.key("Enter").wait("1 of 7 messages");
    assert!(colours(&terminal).contains("38;5;25"), "{}", colours(&terminal));
    terminal.text(":theme auto").key("Enter").wait("next start");
    terminal.text("q").wait_for("the shell", |screen| screen.trim_end().ends_with('$'));
    // With 16 colours there are no others.
    let few = format!("XDG_STATE_HOME={} TERM=xterm", directory.path().display());
    terminal.run(&format!("{few} {}", sample())).wait(" 1 session ");
    terminal.key("Enter").wait("1 of 7 messages");
    let screen = colours(&terminal);
    let numbers = screen.split("8;5;").skip(1).map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next());
    let numbers: Vec<u8> =
        numbers.map(|number| number.and_then(|number| number.parse().ok()).expect("a number")).collect();
    assert!(numbers.contains(&6) && numbers.iter().all(|number| *number < 16), "{numbers:?}");
    terminal.text("q");
}

#[test]
fn the_first_screen_explains_the_start_and_shows_new_sessions() {
    let Some(terminal) = Terminal::open(80, 24) else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let db = directory.path().join("new/mcptap.db");
    terminal.run(&program(&format!("--db {}", db.display())));
    terminal.wait("$ mcptap install");
    assert!(!db.exists(), "looking writes nothing");
    let mut wrap = Command::new(env!("CARGO_BIN_EXE_mcptap"));
    wrap.env(NO_STATE.0, NO_STATE.1);
    wrap.arg("--db").arg(&db).args(["wrap", "--name", "first", "--", "sh", "-c", SERVER]);
    let mut wrapped = wrap.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("it runs");
    let mut input = wrapped.stdin.take().expect("it is piped");
    input.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n").expect("it listens");
    terminal.wait("1 of 1 session");
    drop(input);
    assert!(wrapped.ended("mcptap").success());
    terminal.text("q");
}

/// A server that answers every request alike, and waits for the next.
const SERVER: &str = r#"while read -r line; do
id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
[ -n "$id" ] && printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"},"content":[{"type":"text","text":"hail"}]}}\n' "$id"
done
"#;

#[test]
fn a_call_is_sent_again_to_a_server_that_runs() {
    let Some(terminal) = Terminal::open(120, 40) else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let server = directory.path().join("server.sh");
    std::fs::write(&server, SERVER).expect("it is writable");
    let before = started(&terminal, &sample());
    terminal.key("Enter").wait("▸ messages");
    terminal.text("G").wait("Quito: 17 °C");
    terminal.text("R").wait("matches the tool's schema");
    terminal.key("C-u").text(&format!("sh {}", server.display())).key("C-r").wait("2 requests: 2 different");
    let screen = terminal.wait("now: result");
    assert!(screen.contains("Quito: 17 °C, light rain") && screen.contains("hail"), "{screen}");
    // The session was recorded, and the list shows it by itself.
    terminal.text("0").wait("2 sessions");
    terminal.text("q");
    restored(&terminal, &before);
}

#[test]
fn the_terminal_is_given_back_when_a_signal_ends_the_program() {
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        let Some(terminal) = Terminal::open(100, 24) else { return };
        let folder = tempfile::tempdir().expect("a folder");
        let files = || std::fs::read_dir(folder.path()).expect("a folder").count();
        let before = started(&terminal, &format!("TMPDIR={} {}", folder.path().display(), sample()));
        assert_eq!(files(), 1, "the temporary database");
        let shell = terminal.tmux(&["display-message", "-p", "#{pane_pid}"]);
        let shell = shell.trim();
        let children = std::fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).expect("it lives");
        let program = children.trim().parse().ok().and_then(Pid::from_raw).expect("its only child");
        kill_process(program, signal).expect("it lives");
        restored(&terminal, &before);
        assert_eq!(files(), 0, "{signal:?}");
    }
}

#[test]
fn suspended_and_continued() {
    let Some(terminal) = Terminal::open(100, 24) else { return };
    let before = started(&terminal, &sample());
    terminal.key("Enter").wait("▸ messages");
    terminal.key("C-z").wait_for("the shell", |screen| screen.contains("Stopped") && screen.contains("before: "));
    assert_eq!(terminal.state(), before.1);
    terminal.tmux(&["resize-window", "-x", "90", "-y", "20"]);
    terminal.run("fg").wait("▸ messages");
    // The size may have changed meanwhile. Keys arrive again.
    terminal.wait_for("90 columns", |screen| screen.lines().next().is_some_and(|line| line.width() == 90));
    terminal.text("2").wait("▸ sequence");
    terminal.text("q");
    terminal.wait_for("the shell", |screen| screen.trim_end().ends_with('$'));
    assert_eq!(terminal.state(), before.1);
}

#[test]
fn a_panic_gives_the_terminal_back_and_is_read() {
    let Some(terminal) = Terminal::open(100, 24) else { return };
    terminal.run("clear; echo \"before: $(stty -g)\"").wait("before: ");
    let state = terminal.state();
    let test = std::env::current_exe().expect("this program has a path");
    let name = "terminal::panics_while_it_has_the_terminal";
    terminal.run(&format!("clear; RUST_BACKTRACE=0 {} --exact {name} --ignored --nocapture; stty -a", test.display()));
    let screen =
        terminal.wait_for("stty", |screen| screen.contains("on the alternate screen") && screen.contains("echok"));
    for set in ["icanon", "echo", "opost", "icrnl"] {
        assert!(screen.split_whitespace().any(|word| word == set), "{set}:\n{screen}");
    }
    assert_eq!(terminal.state(), state);
}

#[test]
#[ignore = "run in a terminal by the test above"]
fn panics_while_it_has_the_terminal() {
    let _screen = Screen::take().expect("a terminal");
    panic!("on the alternate screen");
}

/// A server whose texts contain terminal sequences: they set the title, fill the clipboard, clear
/// the screen and reverse the direction of text.
const HOSTILE: &str = r#"read line
printf '\033]0;owned\007 to stderr \033[2J\342\200\256\n' >&2
printf '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"\\u001b]0;owned\\u0007\342\200\256srv","version":"\302\2331"}}}\n'
read line
printf '\033]52;c;b3duZWQ=\007not json\n'
printf '{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"\\u001b[2J\\u202egpj.exe \342\200\213 \360\237\221\251\342\200\215\360\237\221\251 \345\244\251\346\260\227"}]}}\n'
read line
"#;

const ASKS: &str = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-11-25\",\
    \"capabilities\":{},\"clientInfo\":{\"name\":\"c\",\"version\":\"1\"}}}\n\
    {\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":{\"name\":\"天気\",\"arguments\":{}}}\n";

fn record(directory: &Path) -> String {
    let (server, database) = (directory.join("server.sh"), directory.join("captures.db"));
    std::fs::write(&server, HOSTILE).expect("it is writable");
    let asks = directory.join("asks");
    std::fs::write(&asks, ASKS).expect("it is writable");
    let mut wrap = Command::new(env!("CARGO_BIN_EXE_mcptap"));
    wrap.env(NO_STATE.0, NO_STATE.1);
    wrap.env_remove("MCPTAP_DB").arg("wrap").arg("--db").arg(&database).arg("--").arg("sh").arg(&server);
    let input = std::fs::File::open(&asks).expect("it is there");
    let done = wrap.finished_on(input);
    assert!(done.status.code().is_some(), "{done:?}");
    database.to_str().expect("UTF-8").to_owned()
}

#[test]
fn texts_of_a_server_never_act_on_the_terminal() {
    let directory = tempfile::tempdir().expect("a directory");
    let database = record(directory.path());
    let Some(terminal) = Terminal::open(100, 30) else { return };
    let raw = directory.path().join("raw");
    let before = started(&terminal, &format!(":; {}", program(&format!("--db {database}"))));
    // The bytes that the program writes from now on. Everything is drawn again.
    terminal.tmux(&["pipe-pane", "-o", &format!("cat > {}", raw.display())]);
    terminal.key("C-l").key("Enter").wait("▸ messages");
    for (key, shown) in [
        ("2", "▸ sequence"),
        ("3", "▸ layers"),
        ("4", "▸ findings"),
        ("5", "▸ stats"),
        ("6", "▸ packets"),
        ("7", "▸ tools"),
    ] {
        terminal.text(key).wait(shown);
    }
    terminal.text("8").wait("to stderr");
    terminal.text("1").text("/not json").key("Enter").wait("1 of 1 found");
    terminal.key("Escape").wait("of 5 messages");
    terminal.text(":goto 5").key("Enter").wait("5 of 5 messages");
    terminal.key("Enter").wait("bytes: JSON text");
    let screen = terminal.wait("gpj.exe");
    assert!(screen.lines().all(|line| line.width() == 100), "{screen}");
    terminal.key("Tab").text("*").key("Tab").text("*").text("K").wait("not json");
    terminal.text("q");
    restored(&terminal, &before);
    assert!(!terminal.state().contains("owned"), "{}", terminal.state());
    let written = std::fs::read(&raw).expect("tmux wrote it");
    let written = String::from_utf8_lossy(&written);
    assert!(written.contains("gpj.exe"), "it was drawn");
    for acts in ["\u{1b}]", "\u{9b}", "\u{202e}", "\u{200b}", "\u{1b}c"] {
        assert!(!written.contains(acts), "{acts:?}");
    }
}

#[test]
fn a_deletion_asks_first() {
    let Some(terminal) = Terminal::open(100, 30) else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let database = record(directory.path());
    let delete = program(&format!("--db {database} delete 1"));
    terminal.run("clear").run(&delete);
    let screen = terminal.wait("delete 1 session (about ");
    // The server's name acts on a terminal. It is shown without that.
    assert!(screen.contains("      1  ") && screen.contains("[y/N]"), "{screen}");
    terminal.key("Enter").wait("nothing was deleted");
    terminal.run("clear").run(&delete).wait("[y/N]");
    terminal.text("y").key("Enter").wait("1 session deleted; ");
    assert!(!terminal.state().contains("owned"), "{}", terminal.state());
}
