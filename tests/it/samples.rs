//! Golden samples: the output of mcptap for each folder of `samples/`, as text that a person can
//! read.
//!
//! To regenerate them run `UPDATE_SAMPLES=1 cargo test --test it samples`, and read the difference
//! before you commit it.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::program::{mcptap, root};
use crate::support::waits::Finishes;
use crate::wrapped::{ANSWERS, Wrapped, temporary_database};

/// The captures of a sample: of the network, and of pipes.
pub fn captures(sample: &Path) -> Vec<PathBuf> {
    ["capture.pcapng", "stdio.pcapng"].map(|name| sample.join(name)).into_iter().filter(|path| path.exists()).collect()
}

/// The folders of `samples/` with captures.
pub fn samples() -> Vec<PathBuf> {
    let folders = fs::read_dir(root().join("samples")).expect("samples is readable");
    let folders = folders.map(|entry| entry.expect("samples is readable").path());
    let mut samples: Vec<PathBuf> = folders.filter(|path| path.is_dir() && !captures(path).is_empty()).collect();
    samples.sort();
    assert!(samples.len() >= 3, "the samples were found");
    samples
}

/// Asserts that the output equals the golden file, and shows the difference otherwise.
fn assert_golden(path: &Path, said: &str) {
    if std::env::var_os("UPDATE_SAMPLES").is_some() {
        fs::write(path, said).expect("samples is writable");
        return;
    }
    let wanted = fs::read_to_string(path).unwrap_or_default();
    if wanted != said {
        let diff = similar::TextDiff::from_lines(&wanted, said);
        let name = path.strip_prefix(root()).unwrap_or(path).display().to_string();
        panic!("{name} differs:\n{}", diff.unified_diff().context_radius(2).header("wanted", "said"));
    }
}

fn text(arguments: &[&str], captures: &[PathBuf]) -> String {
    let done = mcptap().args(arguments).args(captures).finished();
    assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).expect("text is UTF-8")
}

#[test]
fn messages() {
    for sample in samples() {
        assert_golden(&sample.join("messages.txt"), &text(&["read"], &captures(&sample)));
    }
}

/// The first sentence of an explanation names the cause. The exit status says whether it found
/// any cause at all.
#[test]
fn explanations() {
    let cases = fs::read_dir(root().join("samples/causes")).expect("the cases are readable");
    let mut cases: Vec<PathBuf> = cases.map(|entry| entry.expect("the cases are readable").path()).collect();
    cases.retain(|case| case.is_dir());
    assert!(cases.len() >= 10, "the cases were found");
    for sample in samples().into_iter().chain(cases) {
        let explain = |capture: PathBuf| {
            let capture = capture.strip_prefix(root()).expect("a sample is in the repository").to_owned();
            let done = mcptap().current_dir(root()).arg("explain").arg(capture).finished();
            let text = String::from_utf8(done.stdout).expect("text is UTF-8");
            let is_healthy = text.lines().any(|line| line == "No problem found.");
            assert_eq!(done.status.code(), Some(i32::from(!is_healthy)), "{text}");
            assert_eq!(
                sample.ends_with("healthy"),
                is_healthy && sample.to_string_lossy().contains("causes"),
                "{text}"
            );
            text
        };
        let texts: Vec<String> = captures(&sample).into_iter().map(explain).collect();
        assert_golden(&sample.join("explain.txt"), &texts.join("\n"));
    }
}

/// If nothing else explains why a tool is never called, the answer names the tools that were not.
#[test]
fn tools_that_were_never_called_are_named() {
    let (_folder, db) = temporary_database();
    let listed = r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"t","inputSchema":{"type":"object"}},{"name":"rest","inputSchema":{"type":"object"}}]}}"#;
    let mut wrapped =
        Wrapped::shell(&db, &format!("read -r line; echo '{listed}'; n=1; {}", ANSWERS.trim_start_matches("n=0;")));
    wrapped.send_line(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
    assert_eq!(wrapped.next_line(), listed);
    wrapped.converse(2..3);
    wrapped.end();
    let explain = |options: &[&str]| {
        let done = mcptap().args(["explain", "latest", "--db"]).arg(&db).args(options).finished();
        (done.status.code(), String::from_utf8(done.stdout).expect("text is UTF-8"))
    };
    let (status, text) = explain(&["--symptom", "never-called"]);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("The client listed 2 tools (message 2) and never called 1 of them: rest. Why"), "{text}");
    assert_eq!(status, Some(1));
    assert!(!explain(&[]).1.contains("never called"), "only if somebody asks");
}

#[test]
fn layers() {
    for sample in samples() {
        let tables = captures(&sample).into_iter().map(|capture| text(&["layers"], &[capture]));
        assert_golden(&sample.join("layers.txt"), &tables.collect::<Vec<_>>().join("\n"));
    }
}

/// With a key log beside the capture, the content of TLS is shown.
#[test]
fn decrypted() {
    for sample in samples() {
        let keys = sample.join("keys.log");
        if keys.exists() {
            let keys = keys.to_str().expect("a path");
            let captures = captures(&sample);
            assert_golden(&sample.join("messages-decrypted.txt"), &text(&["read", "--keylog", keys], &captures));
            assert_golden(&sample.join("layers-decrypted.txt"), &text(&["layers", "--keylog", keys], &captures));
        }
    }
}

#[test]
fn findings() {
    for sample in samples() {
        let lines = text(&["read", "--json"], &captures(&sample));
        let mut said = String::new();
        for line in lines.lines() {
            let value: Value = serde_json::from_str(line).expect("lines are JSON");
            if value["type"] == "finding" {
                let list = |name: &str| value.get(name).map(|list| format!("  {name} {list}")).unwrap_or_default();
                let word = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
                let place = format!("{}{}", list("messages"), list("packets"));
                said += &format!("{:<8} {}{place}\n         {}\n", word("severity"), word("rule"), word("text"));
            }
        }
        assert_golden(&sample.join("findings.txt"), &said);
    }
}

/// Samples whose exports are compared too, one for each transport.
#[test]
fn exports() {
    let kinds = [
        ("weather", "capture.pcapng", "har"),
        ("helpdesk", "capture.pcapng", "har"),
        ("weather", "capture.pcapng", "otlp"),
        ("polluted-stdout", "stdio.pcapng", "otlp"),
    ];
    for (sample, capture, format) in kinds {
        let sample = root().join("samples").join(sample);
        let said = text(&["export", "--format", format], &[sample.join(capture)]);
        assert_golden(&sample.join(format!("session.{format}")), &said);
    }
}
