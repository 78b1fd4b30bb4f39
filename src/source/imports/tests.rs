use super::*;
use crate::source::reader::CaptureFileReader;
use crate::source::tape::OPENING;
use crate::source::{Item, Source};

/// The pipe events of an import, in short, and its damage.
fn imported(text: &str) -> (Vec<String>, Vec<String>) {
    assert!(lines::recognises(text), "{text}");
    let mut builder = ImportBuilder::default();
    lines::read(text, &mut builder);
    let import = builder.finish();
    let mut reader = CaptureFileReader::new("import", &import.capture[..]);
    let mut events = Vec::new();
    while let Some(item) = reader.next().expect("a capture") {
        let Item::Packet(packet) = item else { panic!("no packet") };
        let (process, event) = pipe::decode(packet.data).expect("a pipe packet");
        let process = process - pipe::FIRST_IMPORTED;
        events.push(match event {
            PipeEvent::Start(start) => format!("{process} start {:?} {}", start.name, start.command.join(" ")),
            PipeEvent::Data(pipe, text) => {
                format!("{process} {} {} {}", packet.time.0, pipe.name(), String::from_utf8_lossy(text).trim_end())
            }
            other => panic!("{other:?}"),
        });
    }
    (events, import.damage.into_iter().map(|(_, reason)| reason).collect())
}

#[test]
fn lines_of_mcpsnoop_have_sessions_commands_and_logs() {
    let text = r#"{"session_id":"a-1","server_label":"files","seq":0,"ts":"2026-01-02T03:04:05Z","direction":"meta","transport":"stdio","raw":{"command":["srv","x"]}}
{"session_id":"a-1","server_label":"files","seq":1,"ts":"2026-01-02T03:04:05.5Z","direction":"c2s","transport":"stdio","raw":{"jsonrpc":"2.0","id":1,"method":"ping"}}
{"session_id":"a-1","server_label":"files","seq":2,"ts":"2026-01-02T03:04:06Z","direction":"stderr","transport":"stdio","text":"hello"}
{"session_id":"b-2","server_label":"other","seq":1,"ts":"2026-01-02T03:04:07Z","direction":"s2c","transport":"http","raw":{"jsonrpc":"2.0","id":1,"result":{}}}
{"session_id":"a-1","seq":3,"ts":"2026-01-02T03:04:08Z","direction":"s2c","transport":"stdio","text":"no JSON"}
{"session_id":"a-1","seq":4,"ts":"2026"#;
    let (events, damage) = imported(text);
    let at = |milliseconds: i64| 1_767_323_045_000_000_000 + milliseconds * 1_000_000;
    assert_eq!(
        events,
        [
            "0 start Some(\"files\") srv x".to_owned(),
            format!("0 {} stdin {{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}}", at(500)),
            format!("0 {} stderr hello", at(1_000)),
            "1 start Some(\"other\") ".to_owned(),
            format!("1 {} stdout {{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{{}}}}", at(2_000)),
            format!("0 {} stdout no JSON", at(3_000)),
        ]
    );
    assert!(damage.len() == 1 && damage[0].starts_with("line 6: this is not JSON"), "{damage:?}");
}

#[test]
fn senders_that_no_line_names_follow_from_the_messages() {
    let text = r#"{"jsonrpc":"2.0","id":1,"method":"initialize"}
{"jsonrpc":"2.0","id":1,"result":{}}
{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage"}
{"jsonrpc":"2.0","id":1,"result":{"model":"m"}}
{"jsonrpc":"2.0","method":"notifications/progress"}
{"jsonrpc":"2.0","method":"notifications/initialized"}
"#;
    let (events, damage) = imported(text);
    let pipes: Vec<&str> = events[1..].iter().map(|event| event.split(' ').nth(2).expect("a pipe")).collect();
    assert_eq!((pipes, damage.len()), (vec!["stdin", "stdout", "stdout", "stdin", "stdout", "stdin"], 0));
}

#[test]
fn logs_of_clients_and_other_forms_are_read() {
    let text = r#"2026-01-02T03:04:05.000Z [files] [info] Initializing server... { metadata: undefined }
2026-01-02T03:04:05.000Z [files] [info] Message from client: {"method":"ping","jsonrpc":"2.0","id":0} { metadata: undefined }
2026-01-02T03:04:05.000Z [files] [info] Message from server: {"jsonrpc":"2.0","id":0
{"timestamp":1767323045000,"direction":"outgoing","message":{"jsonrpc":"2.0","id":5,"method":"ping"}}
{"type":"message","session":1,"time":"2026-01-02T03:04:05Z","direction":"server-to-client","raw":"{\"jsonrpc\":\"2.0\",\"id\":5,\"result\":{}}","number":2}
{"type":"session","number":1,"transport":"stdio"}
"#;
    let (events, damage) = imported(text);
    assert_eq!(events.len(), 6, "{events:?}");
    assert!(events.contains(&"0 start Some(\"files\") ".to_owned()));
    assert!(damage.len() == 1 && damage[0].starts_with("line 3: the message is not JSON"), "{damage:?}");
}

#[test]
fn memory_is_bounded_and_the_end_is_named() {
    let full = || ImportBuilder { size: MAX_MADE + 1, ..ImportBuilder::default() };
    let mut of_lines = full();
    lines::read("\n{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n", &mut of_lines);
    let mut of_archive = full();
    har::read("{\"log\":{\n\"entries\":[{}]}}", &mut of_archive);
    for builder in [of_lines, of_archive] {
        assert!(builder.packets.is_empty() && builder.damage.len() == 1, "{:?}", builder.damage);
        assert!(builder.damage[0].1.starts_with("line 2: the import ends here"), "{:?}", builder.damage);
    }
    // What is made is counted, and a long line has several packets.
    let mut builder = ImportBuilder::default();
    builder.line("", (None, &[]), None, Pipe::Stdin, &"x".repeat(2 * SEGMENT));
    assert_eq!(builder.packets.len(), 4);
    assert!((2 * SEGMENT..3 * SEGMENT).contains(&builder.size), "{}", builder.size);
}

#[test]
fn other_files_are_not_recognised() {
    for text in ["", "{}", "{\"a\":1}\n", "hello\nworld", "<html>", "{\"log\":{\"version\":1}}"] {
        assert!(!lines::recognises(text) && !har::recognises(text), "{text}");
    }
}

#[test]
fn entries_before_damage_are_read() {
    let entry = r#"{"startedDateTime":"2026-01-02T03:04:05Z","time":5,"request":{"method":"GET","url":"http://h/x","headers":[]},"response":{"status":200,"statusText":"OK","headers":[],"content":{"text":"hi"}},"timings":{"send":1,"wait":2,"receive":2}}"#;
    for (text, exchanges, line) in [
        (format!("{{\"log\":{{\"entries\":[\n{entry},\n{entry}\n]}}}}"), 2, None),
        (format!("{{\"log\":{{\"entries\":[\n{entry},\n{{\"request\":1}},\n{entry}]}}}}"), 2, Some("line 3: ")),
        (format!("{{\"log\":{{\"entries\":[\n{entry},\n{}", &entry[..70]), 1, Some("line 3: ")),
        (format!("{{\"log\":{{\"entries\":[{entry}"), 1, Some("line 1: ")),
    ] {
        assert!(har::recognises(&text));
        let mut builder = ImportBuilder::default();
        har::read(&text, &mut builder);
        // The flags of TCP, behind a header of IPv4.
        let opened = builder.packets.iter().filter(|(.., packet)| packet[33] == OPENING[0].1).count();
        assert_eq!(opened, exchanges, "{text}");
        let damage = builder.finish().damage;
        assert_eq!(damage.first().map(|(_, reason)| &reason[..8]), line, "{damage:?}");
    }
}
