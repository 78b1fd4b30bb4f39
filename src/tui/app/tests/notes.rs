//! Notes between the messages: what happened around them.

use super::hostile::wrapped;
use super::*;
use crate::capture::pipe::Pipe;

fn cause(name: &str, size: (u16, u16)) -> Story {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("samples/causes").join(name);
    let file = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let file = file.filter(|path| path.extension().is_some_and(|ending| ending == "pcapng")).max().unwrap();
    Story::files(&[file], size)
}

#[test]
fn refusals_and_exits_stand_between_the_messages() {
    for (name, sign, text) in [
        ("404", "×", "HTTP 404"),
        ("401", "×", "HTTP 401"),
        ("hang", "◌", "no answer"),
        ("crash-in-call", "■", "server ended"),
        ("crash-at-import", "┊", "stderr"),
    ] {
        let mut story = cause(name, (120, 30));
        story.press("<enter>G");
        let screen = story.screen();
        let line = screen.lines().find(|line| line.contains(text) && line.contains(sign));
        assert!(line.is_some(), "{name}: {text}\n{screen}");
        story.press("2");
        assert!(story.screen().contains(text), "{name}: {text}\n{}", story.screen());
    }
    let mut story = cause("crash-in-call", (110, 40));
    story.press("<enter>G");
    insta::assert_snapshot!("notes_crash_110x40", story.screen());
    story.press("2");
    insta::assert_snapshot!("notes_sequence_110x40", story.screen());
}

#[test]
fn a_note_is_selected_read_whole_and_leads_to_its_message() {
    let mut story = cause("404", (120, 40));
    story.press("<enter>");
    while !story.app.selected_note().is_some_and(|note| note.words.what.starts_with("HTTP 404")) {
        let before = story.app.cursor(Screen::Messages).selected;
        story.press("j");
        assert_ne!(story.app.cursor(Screen::Messages).selected, before, "there is no such note");
    }
    let note = story.app.selected_note().unwrap().clone();
    let Some(crate::tui::data::NoteTarget::Message(message)) = note.target else { panic!("{note:?}") };
    assert!(story.screen().contains(&format!("enter opens message {}", message.0)), "{}", story.screen());
    // Keys for messages do nothing here.
    story.press("pmy");
    story.press("<enter>");
    assert_eq!(story.app.screen, Screen::Detail);
    assert_eq!(story.app.selected_message().unwrap().row.number, message);
    // A filter lists messages only.
    story.press("<esc>/kind = request<enter>");
    let rows = story.app.rows(Screen::Messages).unwrap();
    assert!((0..rows).all(|row| story.app.note(row).is_none()));
}

#[test]
fn long_stderr_is_folded_and_enter_shows_all() {
    let lines: Vec<String> = (0..40).map(|line| format!("line {line}\n")).collect();
    let call = (Pipe::Stdin, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n");
    let answer = (Pipe::Stdout, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n");
    let stderr: Vec<(Pipe, &str)> = lines.iter().map(|line| (Pipe::Stderr, line.as_str())).collect();
    let all: Vec<(Pipe, &str)> = std::iter::once(call).chain(stderr).chain([answer]).collect();
    let mut story = Story::store(wrapped(&all, true), (80, 24));
    story.press("<enter>");
    // Two lines, the fold, and the last four, between two messages.
    assert_eq!(story.app.rows(Screen::Messages), Some(9));
    insta::assert_snapshot!("notes_stderr_80x24", story.screen());
    story.press("jjj");
    assert_eq!(
        story.app.selected_note().map(|note| note.words.about.as_str()),
        Some("… 34 more lines (enter shows all)")
    );
    story.press("<enter>");
    assert_eq!(story.app.screen, Screen::Stderr);
    story.press("<esc>F");
    assert_eq!(story.app.cursor(Screen::Messages).selected, 8, "the newest row");
    assert_eq!(story.app.selected_message().unwrap().row.number, MessageNumber(2));
}
