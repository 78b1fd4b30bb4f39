//! The bodies of the fuzz targets for damaged databases and for exports.

use std::hash::BuildHasher;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use serde_json::Value;

use super::output::{Collected, collect};
use super::run_words;
use crate::capture::{Limits, Packet, PacketNumber, Time};
use crate::event::{Detail, Event};
use crate::pipeline::{Input, Pipeline, PipelineConfig};
use crate::source::reader::CaptureFileReader;
use crate::source::{Item, Source};
use crate::store::{self, CaptureInfo, CaptureKind, DatabaseFile, Summary, WriteOptions, Writer};
use crate::view::safe;
use mcptap_core::internal::fuzz::{Observed, scripted};

/// Commands that read a database. `@` is its path, `#` a number.
const COMMANDS: [&str; 31] = [
    "sessions @",
    "sessions @ --json",
    "show @",
    "show @ --json",
    "show @ --summary",
    "show @ --session #",
    "show @ --message # --session 1",
    "show @ --message # --session 2",
    "show @ --message # --session 4 --json",
    "show @ --filter answered||latency>1ms",
    "layers @",
    "layers @ --json",
    "layers @ --message # --session 1",
    "layers @ --message # --session 2 --json",
    "layers @ --message # --session 4",
    "check @",
    "check @ --format json",
    "check @ --format sarif",
    "check @ --format junit",
    "export @ --format jsonl",
    "export @ --format har",
    "export @ --format html",
    "export @ --format otlp",
    "export @ --format mermaid",
    "export @ --format pcapng",
    "export @ --format parquet",
    "diff @ @ --session #",
    "replay @ --dry-run --session #",
    "explain @",
    "explain @ --json",
    "explain @ --symptom slow --session #",
];

/// Damages a database and runs a command on it. The first byte of `data` chooses the database, the
/// second the command and the third its number. The rest describes the damage, as
/// [`damage`](crate::store::fuzz::damage) reads it.
///
/// The command prints something or returns an error. What it prints is well-formed.
///
/// # Panics
///
/// If one of these properties does not hold.
pub fn fuzz_database(databases: &[&[u8]], data: &[u8]) {
    let [database, command, number, damage @ ..] = data else { return };
    let place = DatabaseFile::temporary().expect("a place");
    std::fs::write(place.path(), databases[usize::from(*database) % databases.len()]).expect("the file");
    store::fuzz::damage(place.path(), damage);
    let command = COMMANDS[usize::from(*command) % COMMANDS.len()];
    command_on(place.path(), command, *number);
}

/// Commands that write a whole store.
const EXPORTS: [&str; 10] = [
    "export @ --format jsonl",
    "export @ --format har",
    "export @ --format html",
    "export @ --format otlp",
    "export @ --format mermaid",
    "export @ --format pcapng",
    "export @ --format parquet",
    "show @ --json",
    "show @ --summary",
    "layers @",
];

/// Stores the events of a script of packets, and writes the store. The first byte chooses how.
///
/// What is written is well-formed. The secret of a request that came first is in no export.
///
/// # Panics
///
/// If one of these properties does not hold.
pub fn fuzz_export(data: &[u8]) {
    let Some((command, data)) = data.split_first() else { return };
    // A fuzzer cannot guess it, so that it occurs nowhere else.
    let secret = format!("{:016x}", rustc_hash::FxBuildHasher.hash_one(data) | 1 << 63);
    let (packets, secrets) = scripted(&[&with_secrets(&secret), data].concat());
    let place = stored(&packets, &secrets);
    let command = EXPORTS[usize::from(*command) % EXPORTS.len()];
    let out = command_on(place.path(), command, 0);
    assert!(!contains(&out.unwrap_or_default(), &secret), "{command} has a secret");
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

/// A script of a connection whose request has a secret in its head, and whose token request has it
/// in its body.
fn with_secrets(secret: &str) -> Vec<u8> {
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let pong = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
    let form = format!("grant_type=refresh_token&refresh_token={secret}");
    let kind = "Content-Type: application/json\r\nContent-Length";
    let texts = [
        format!(
            "POST /mcp HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {secret}\r\n{kind}: {}\r\n\r\n{ping}",
            ping.len()
        ),
        format!("HTTP/1.1 200 OK\r\nSet-Cookie: a={secret}\r\n{kind}: {}\r\n\r\n{pong}", pong.len()),
        format!(
            "POST /token HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{form}",
            form.len()
        ),
        format!("HTTP/1.1 200 OK\r\n{kind}: 35\r\n\r\n{{\"access_token\":\"{secret}\"}}"),
    ];
    let mut script = vec![0x10, 0, 0x14, 0];
    for (text, step) in texts.iter().zip([0x00, 0x04].into_iter().cycle()) {
        script.extend([step, u8::try_from(text.len()).expect("a short text")]);
        script.extend_from_slice(text.as_bytes());
    }
    script.extend([0x18, 0, 0x1c, 0]);
    script
}

/// The events of packets in a new store.
fn stored(packets: &[Observed], secrets: &[u8]) -> DatabaseFile {
    let place = DatabaseFile::temporary().expect("a place");
    let info = CaptureInfo {
        kind: CaptureKind::Import,
        source: "fuzz".into(),
        process: 1,
        started: Time(0),
        ..CaptureInfo::default()
    };
    let mut writer = Writer::create(place.clone(), &info, WriteOptions::default()).expect("a writer");
    let config = PipelineConfig {
        limits: Limits::default(),
        detail: Detail::Store,
        hash: false,
        keep_secrets: false,
        mask_key: None,
        redaction: None,
    };
    let mut pipeline = Pipeline::new(config);
    pipeline.push(Input::Secrets(secrets), &mut |event: Event| writer.event(event));
    for (observed, number) in packets.iter().zip(1..) {
        let Observed { time, link, original_length, ref data } = *observed;
        let packet = Packet { number: PacketNumber(number), time, link, interface: 0, original_length, data };
        writer.packet(&packet);
        pipeline.push(Input::Packet(packet), &mut |event| writer.event(event));
    }
    pipeline.push(Input::End, &mut |event| writer.event(event));
    writer.finish(&Summary::default()).expect("the store takes all");
    place
}

/// Runs a command and checks what it prints. Returns that, unless the command failed.
fn command_on(path: &Path, command: &str, number: u8) -> Option<Vec<u8>> {
    let number = number.to_string();
    let path = path.to_str().expect("a temporary path is text");
    let words = command.split(' ').map(|word| match word {
        "@" => path,
        "#" => &number,
        word => word,
    });
    let words: Vec<&str> = ["mcptap", "--color", "never"].into_iter().chain(words).collect();
    let (result, Collected { out, notes }): (Result<ExitCode>, _) = collect(|| run_words(&words));
    let complete = result.is_ok();
    if let Err(error) = &result {
        assert!(!format!("{error:#}").is_empty());
    }
    assert_visible(command, &String::from_utf8_lossy(&notes));
    match command.rsplit(' ').next() {
        _ if command == "check @ --format json" => assert_lines(command, &out),
        Some("parquet") => assert!(!complete || (out.starts_with(b"PAR1") && out.ends_with(b"PAR1"))),
        Some("pcapng") => assert!(!complete || is_whole_capture(&out)),
        Some("--json" | "jsonl" | "otlp") => assert_lines(command, &out),
        Some("har" | "json" | "sarif") if complete => assert_json(command, &out),
        Some("har" | "json" | "sarif") => {}
        _ => {
            let text = std::str::from_utf8(&out).expect("text is UTF-8");
            assert_visible(command, text);
            if complete && matches!(command.rsplit(' ').next(), Some("html" | "junit")) {
                assert_closed(text);
            }
        }
    }
    complete.then_some(out)
}

/// Asserts that each line is JSON.
fn assert_lines(command: &str, text: &[u8]) {
    text.split(|byte| *byte == b'\n').for_each(|line| assert_json(command, line));
}

fn assert_json(command: &str, text: &[u8]) {
    let parsed = serde_json::from_slice::<Value>(text);
    assert!(text.is_empty() || parsed.is_ok(), "{command}: {parsed:?} {}", String::from_utf8_lossy(text));
}

/// Asserts that nothing in a text acts on a terminal or hides.
fn assert_visible(command: &str, text: &str) {
    for line in text.lines() {
        assert_eq!(safe::visible(line), line, "{command}");
    }
}

/// Asserts that the tags of a page or of XML are closed in order.
fn assert_closed(text: &str) {
    let mut open = Vec::new();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once('<') {
        let (tag, after) = after.split_once('>').expect("tags end");
        let name = tag.split([' ', '=', '\n']).next().unwrap_or_default();
        match name.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name), "{tag}"),
            None if tag.ends_with(['/', '?']) || ["!DOCTYPE", "meta", "input"].contains(&name) => {}
            None => open.push(name),
        }
        // A script has no tags but its own end.
        rest = if name == "script" { after.find("</script").map_or("", |end| &after[end..]) } else { after };
    }
    assert_eq!(open, [""; 0]);
}

/// Whether a capture file can be read to its end without damage.
fn is_whole_capture(bytes: &[u8]) -> bool {
    let mut reader = CaptureFileReader::new("fuzz", bytes);
    loop {
        match reader.next() {
            Ok(Some(Item::Damage(_))) | Err(_) => return false,
            Ok(Some(_)) => {}
            Ok(None) => return true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_databases_are_read_or_refused() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/databases/version-3.db");
        let database = std::fs::read(path).expect("the database");
        for command in 0..COMMANDS.len() as u8 {
            for damage in [&[][..], &[1, 2, 0, 0], &[0, 0, 0, 99, 3, 1, 2, 3], &[2, 12, 9, 1, 1, 2, 200, 200]] {
                fuzz_database(&[&database], &[&[0, command, 3], damage].concat());
            }
        }
    }

    /// Damage that a fuzzer found: a total that overflows, and a summary that did not end.
    #[test]
    fn damage_of_the_oldest_database_ends() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/databases/version-1.db");
        let database = std::fs::read(path).expect("the database");
        for damage in [
            &b"\x24\x1f\xfe\xfc\x2c\xff\xfc\xfd\xf5\xff"[..],
            b"\x00\x04\xfb\xff\xff\xbf\x00\x02\x1b\x02\x05\x02\x00\x01\x00\x2e\xff\xff\x07\xff\xfd\x2ea0\x00\x00\x00\x1d\x00\x00",
        ] {
            fuzz_database(&[&database], damage);
        }
    }

    #[test]
    fn commands_on_a_whole_database_succeed() {
        // A copy, because the commands bring it up to date.
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("version-3.db");
        std::fs::copy(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/databases/version-3.db"), &path).expect("a copy");
        for command in COMMANDS {
            let out = command_on(&path, command, 2);
            assert!(out.is_some() || ["diff", "replay"].iter().any(|name| command.starts_with(name)), "{command}");
        }
    }

    #[test]
    fn exports_of_any_script_are_well_formed() {
        for seed in [&b""[..], &[0x10, 0, 0x14, 0, 0x38, 3, 0, 0x40, 5], b"\x3b\x02\x05\x01\x3f\x02\x06\x01"] {
            for command in 0..EXPORTS.len() as u8 {
                fuzz_export(&[&[command], seed].concat());
            }
        }
    }
}
