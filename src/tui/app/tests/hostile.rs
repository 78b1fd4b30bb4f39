//! Servers that send text which acts on terminals, through packets of real pipes. None of it
//! reaches the screen.

use super::*;
use crate::capture::pipe::{Pipe, PipeEvent, Start, encode};
use crate::capture::{LinkType, Packet, PacketNumber};
use crate::event::Detail;
use crate::pipeline::{self, Input as Fed, Pipeline};
use crate::store::{CaptureInfo, CaptureKind, Summary, WriteOptions, Writer};

/// A store of a wrapped server with these lines, one millisecond apart. `live`: the
/// server still runs.
pub(super) fn wrapped(lines: &[(Pipe, &str)], live: bool) -> DatabaseFile {
    let place = DatabaseFile::temporary().unwrap();
    let info = CaptureInfo {
        kind: CaptureKind::Wrap,
        source: "server".into(),
        process: 1,
        started: Time(0),
        ..CaptureInfo::default()
    };
    let mut writer = Writer::create(place.clone(), &info, WriteOptions::default()).unwrap();
    let mut pipeline =
        Pipeline::new(pipeline::PipelineConfig { detail: Detail::Store, ..pipeline::PipelineConfig::default() });
    let start = Start { command: vec!["python".into(), "server.py".into()], ..Start::default() };
    let contents = std::iter::once(PipeEvent::Start(start))
        .chain(lines.iter().map(|(pipe, line)| PipeEvent::Data(*pipe, line.as_bytes())));
    let mut time = Time(0);
    for (index, content) in contents.enumerate() {
        let mut data = Vec::new();
        encode(4711, &content, &mut data);
        time = Time(index as i64 * 1_000_000);
        let packet = Packet {
            number: PacketNumber(index as u64 + 1),
            time,
            link: LinkType::PIPE,
            interface: 0,
            original_length: data.len() as u32,
            data: &data,
        };
        writer.packet(&packet);
        pipeline.push(Fed::Packet(packet), &mut |event| writer.event(event));
    }
    if live {
        pipeline.push(Fed::Tick(time), &mut |event| writer.event(event));
        writer.alive(time);
        writer.commit().unwrap();
    } else {
        pipeline.push(Fed::End, &mut |event| writer.event(event));
        writer.finish(&Summary { ended: time, ..Summary::default() }).unwrap();
    }
    place
}

const HOSTILE: &[(Pipe, &str)] = &[
    (
        Pipe::Stdin,
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"天気 \\u001b[2J\",\"arguments\":{\"a\":\"\\u001b]52;c;AA\\u0007\"}}}\n",
    ),
    (Pipe::Stderr, "loading\u{1b}[31m red\u{202e}txt.exe\n"),
    (
        Pipe::Stdout,
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"👩‍👩‍👧 \u{9b}31m\u{202e}gpj.exe\u{200b}\"}]}}\n",
    ),
    (Pipe::Stdin, "{\"jsonrpc\":\"2.0\",\"id\":\"2\\u0000\",\"method\":\"a\u{7f}b\"}\n"),
    (Pipe::Stdout, "not json \u{1b}c at all\n"),
];

#[test]
fn no_control_sequence_reaches_the_terminal_and_columns_stay_aligned() {
    let mut story = Story::store(wrapped(HOSTILE, false), (110, 30));
    for keys in [
        "",
        "1",
        "2",
        "3",
        "4",
        "5",
        "6",
        "7",
        "8",
        "1g<enter>",
        "<tab>*",
        "<tab>",
        "<tab>",
        ".",
        ".",
        ".",
        "<tab>*<tab>gG<tab>gG<tab>gG",
    ] {
        story.press(keys);
        let screen = story.screen();
        let acts =
            |c: &char| (c.is_control() && *c != '\n') || matches!(c, '\u{202a}'..='\u{202e}' | '\u{200b}'..='\u{200f}');
        assert_eq!(screen.chars().find(acts), None, "{keys}\n{screen}");
        for line in screen.lines() {
            assert_eq!(unicode_width::UnicodeWidthStr::width(line), 110, "{keys}: {line}");
        }
    }
}

#[test]
fn a_wrapped_server_has_no_lower_layers_but_a_stderr() {
    let mut story = Story::store(wrapped(HOSTILE, false), (110, 30));
    story.press("18");
    insta::assert_snapshot!("stdio_stderr_110x30", story.screen());
    story.press("1g<enter><tab>g<enter>");
    insta::assert_snapshot!("stdio_message_110x30", story.screen());
}

#[test]
fn a_call_that_waits_shows_how_long() {
    let place = wrapped(&HOSTILE[..1], true);
    let mut story = Story::store(place, (110, 20));
    story.press("1");
    story.take(Input::Tick(Time(3_501_000_000)));
    assert!(story.screen().contains("3.50 s…"), "{}", story.screen());
}
