//! Long lists in pages, long texts, and the mouse.

use super::hostile::wrapped;
use super::*;
use crate::capture::pipe::Pipe;

#[test]
fn stderr_comes_in_pages() {
    let lines: Vec<String> = (0..700).map(|line| format!("line {line}\nand {line}")).collect();
    let lines_of_pipe: Vec<(Pipe, &str)> = lines.iter().map(|line| (Pipe::Stderr, line.as_str())).collect();
    let call = (Pipe::Stdin, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n");
    let lines_of_pipe: Vec<(Pipe, &str)> = std::iter::once(call).chain(lines_of_pipe).collect();
    let mut story = Story::store(wrapped(&lines_of_pipe, false), (80, 24));
    story.press("8");
    // Each chunk ends in the middle of a line, the last one too.
    assert_eq!(story.app.rows(Screen::Stderr), Some(701));
    let line = |story: &Story, row| {
        let lines = story.app.cache.stderr.of(&SessionNumber(1)).unwrap();
        lines.row(row).map(|line| line.text.clone())
    };
    assert_eq!(line(&story, 1).as_deref(), Some("and 0line 1"));
    assert_eq!(line(&story, 500), None, "not asked for");
    story.press("G");
    assert_eq!(line(&story, 700).as_deref(), Some("and 699"));
    assert!(story.screen().contains("and 698line 699"), "{}", story.screen());
}

#[test]
fn a_long_text_is_read_in_a_box() {
    let text = "天気 ".repeat(60) + "\\n\\u001b[31mend";
    let call =
        format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{{\"name\":\"{text}\"}}}}\n");
    let mut story = Story::store(wrapped(&[(Pipe::Stdin, &call)], false), (80, 24));
    story.press("1<enter><tab><tab>/end<enter><enter>");
    insta::assert_snapshot!("value_80x24", story.screen());
    story.press("vx");
    assert_eq!(story.copied, [format!("{}\n\u{1b}[31mend", "天気 ".repeat(60))]);
    assert_eq!(story.app.mode, Mode::Browse);
}

#[test]
fn the_mouse_does_what_keys_do() {
    let mut story = Story::sample("weather", (120, 40));
    // A click on the row of message 3. A second click opens it.
    story.take(Input::Click(20, 3));
    story.take(Input::Click(20, 5));
    assert_eq!((story.app.screen, story.app.cursor(Screen::Messages).selected), (Screen::Messages, 2));
    story.take(Input::Wheel(1));
    assert_eq!(story.app.cursor(Screen::Messages).selected, 5);
    story.take(Input::Click(20, 8));
    assert_eq!(story.app.screen, Screen::Detail);
    // A byte of the packet selects the layer that it belongs to.
    let areas = layout::detail(story.app.size, Screen::Detail, Focus::List);
    story.take(Input::Click(areas.layers.x + 3, areas.layers.y));
    assert_eq!(story.app.detail.focus, Focus::Layers);
    story.take(Input::Click(areas.bytes.x + 1 + 6 + 2 + 3 * 4, areas.bytes.y + 1));
    assert_eq!(
        (story.app.detail.focus, story.app.detail.byte.offset),
        (Focus::Bytes, layout::bytes_per_row(areas.bytes) + 4)
    );
    story.take(Input::Click(areas.json.x + 5, areas.json.y + 2));
    let detail = selected_detail(&story.app).unwrap();
    assert_eq!(story.app.detail.tree.path(detail.text(), story.app.detail.json.selected), "$.params");
    let tab = bars::tabs(&story.app).into_iter().find(|tab| tab.screen == Screen::Statistics).unwrap();
    story.take(Input::Click(tab.columns.start, 1));
    assert_eq!(story.app.screen, Screen::Statistics);
    // A click on a key in the bottom line presses it.
    let hint = bars::hints(&story.app).into_iter().find(|hint| hint.binding.command == keys::Command::Back).unwrap();
    story.take(Input::Click(hint.columns.start + 1, story.app.size.1 - 1));
    assert_eq!(story.app.screen, Screen::Detail);
}

#[test]
fn marked_messages_are_exported_alone() {
    let mut story = Story::sample("weather", (80, 24));
    let file = tempfile::tempdir().unwrap();
    let path = file.path().join("marked.jsonl");
    story.press(&format!("1:export marked {}<enter>", path.display()));
    assert!(story.app.notice.as_ref().is_some_and(|notice| notice.failed));
    story.press(&format!("mGm:export marked {}<enter>", path.display()));
    let written = std::fs::read_to_string(&path).unwrap();
    assert_eq!(written.lines().count(), 2, "{written}");
}
