//! From messages to packets and back, long lists in pages, and the mouse.

use super::hostile::wrapped;
use super::*;
use crate::capture::pipe::Pipe;

#[test]
fn packets_of_one_connection_at_a_time() {
    let mut story = Story::sample("helpdesk", (120, 30));
    story.press("<enter>6");
    let (first, count) = story.app.connection().map(|(connection, count)| (connection.id, count)).unwrap();
    assert!(count > 1);
    let packets = story.app.rows(Screen::Packets).unwrap();
    story.press("l");
    insta::assert_snapshot!("packets_of_the_next_connection_120x30", story.screen());
    let (second, _) = story.app.connection().unwrap();
    assert_ne!(second.id, first);
    // Once through all connections.
    for _ in 1..count {
        story.press("l");
    }
    assert_eq!(story.app.rows(Screen::Packets), Some(packets));
}

#[test]
fn from_a_field_to_its_packet_and_from_the_packet_to_its_message() {
    let mut story = Story::sample("weather", (120, 40));
    story.press("<enter>G<enter><tab><tab>/Quito<enter>w");
    assert_eq!(story.app.screen, Screen::Packets);
    let packet = story.app.packet(story.app.cursor(Screen::Packets).selected).unwrap();
    assert_eq!((packet.number.0, packet.message), (59, Some(MessageNumber(7))));
    story.press("g<esc>");
    assert_eq!(story.app.screen, Screen::Detail, "back to where one came from");
    story.press("w<enter>");
    assert_eq!(story.app.screen, Screen::Detail);
    assert_eq!(story.app.selected_message().unwrap().row.number, MessageNumber(7));
    // A step without a message leads to its packet.
    story.press("3g<enter>");
    assert_eq!((story.app.screen, story.app.cursor(Screen::Packets).selected), (Screen::Packets, 0));
}

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
    let areas = layout::detail(story.app.size, Screen::Detail);
    story.take(Input::Click(areas.layers.x + 3, areas.layers.y));
    assert_eq!(story.app.detail.focus, Focus::Layers);
    story.take(Input::Click(areas.bytes.x + 1 + 6 + 2 + 3 * 4, areas.bytes.y + 1));
    assert_eq!(
        (story.app.detail.focus, story.app.detail.offset),
        (Focus::Bytes, layout::bytes_per_row(story.app.size) + 4)
    );
    story.take(Input::Click(areas.json.x + 5, areas.json.y + 2));
    let detail = selected_detail(&story.app).unwrap();
    assert_eq!(story.app.detail.tree.path(detail.text(), story.app.detail.json.selected), "$.params");
    let (screen, at, _) =
        layout::tab_positions(&story.app).into_iter().find(|(screen, ..)| *screen == Screen::Statistics).unwrap();
    story.take(Input::Click(at.start, 1));
    assert_eq!(story.app.screen, screen);
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
