//! `export --format otlp`.

use std::collections::HashSet;

use serde_json::Value;

use super::{exported, lines};
use crate::program::{mcptap, root};
use crate::support::waits::Finishes;

/// The spans of an export.
pub fn spans(text: &str) -> Vec<Value> {
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("lines are JSON"));
    let of = |line: Value| line["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().expect("spans").clone();
    lines.flat_map(of).collect()
}

/// Each request and each session has one span, in its trace. The spans of a capture file and of a
/// database are the same.
#[test]
fn ids_come_from_what_was_captured() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["weather/capture.pcapng", "helpdesk/capture.pcapng", "polluted-stdout/stdio.pcapng"] {
        let capture = root().join("samples").join(name);
        let text = exported(&capture, "otlp", &[]);
        let db = folder.path().join(name.replace('/', "-")).with_extension("db");
        let saved = mcptap().args(["read", "--save", "--db"]).arg(&db).arg(&capture).finished();
        assert!(saved.status.success());
        assert_eq!(exported(&db, "otlp", &[]), text, "{name}");

        let spans = spans(&text);
        let requests =
            lines(&capture, "message", &[]).into_iter().filter(|message| message["kind"] == "request").count();
        assert_eq!(spans.len(), requests + lines(&capture, "session", &[]).len(), "{name}");
        let ids: HashSet<&str> = spans.iter().map(|span| span["spanId"].as_str().expect("an id")).collect();
        assert_eq!(ids.len(), spans.len());
        for span in &spans {
            let parent = span.get("parentSpanId").and_then(Value::as_str);
            assert_eq!(parent.is_none(), span["name"] == "session");
            assert!(parent.is_none_or(|parent| ids.contains(parent)));
        }
    }
}

#[test]
fn a_filter_chooses_calls_by_either_message() {
    let capture = root().join("samples/weather/capture.pcapng");
    let names = |filter: &str| -> Vec<Value> {
        spans(&exported(&capture, "otlp", &["--filter", filter])).into_iter().map(|span| span["name"].clone()).collect()
    };
    let call = ["tools/call get_weather", "session"];
    assert_eq!(names("tool = get_weather and kind = request"), call);
    assert_eq!(names("tool = get_weather and kind = response"), call);
}
