//! `export --format parquet`.

use std::fs::File;

use ::parquet::file::reader::{FileReader, SerializedFileReader};
use ::parquet::record::RowAccessor;
use serde_json::Value;

use super::{export, lines};
use crate::program::root;

/// The rows equal the JSON lines. One file holds several sessions.
#[test]
fn rows_are_the_messages_of_the_json_lines() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("out.parquet");
    let to = ["-o", out.to_str().expect("a path")];
    for (name, filter) in [
        ("helpdesk/capture.pcapng", ""),
        ("polluted-stdout/stdio.pcapng", ""),
        ("helpdesk/capture.pcapng", "kind = error"),
    ] {
        let capture = root().join("samples").join(name);
        let filter: &[&str] = if filter.is_empty() { &[] } else { &["--filter", filter] };
        let done = export(&capture, "parquet", &[&to, filter].concat());
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let reader = SerializedFileReader::new(File::open(&out).expect("a file")).expect("Parquet");
        let rows: Vec<_> = reader.get_row_iter(None).expect("rows").map(|row| row.expect("a row")).collect();
        let messages = lines(&capture, "message", filter);
        assert_eq!(rows.len(), messages.len(), "{name}");
        for (row, message) in rows.iter().zip(&messages) {
            let columns: Vec<&str> = row.get_column_iter().map(|(name, _)| name.as_str()).collect();
            let at = |name: &str| columns.iter().position(|known| *known == name).expect("a column");
            let number = |name: &str| row.get_long(at(name)).ok();
            let text = |name: &str| row.get_string(at(name)).ok().map(String::as_str);
            for name in ["session", "number", "answers", "answered_by", "latency_ns", "exchange", "line"] {
                assert_eq!(number(name), message.get(name).and_then(Value::as_i64), "{name}: {message}");
            }
            for name in ["transport", "direction", "kind", "method", "carrier", "sse_id"] {
                assert_eq!(text(name), message.get(name).and_then(Value::as_str), "{name}: {message}");
            }
            assert_eq!(text("text"), message["raw"].as_str());
            let findings = row.get_list(at("findings")).expect("a list").len();
            assert_eq!(findings, message.get("findings").and_then(Value::as_array).map_or(0, Vec::len));
        }
    }
}
