//! What the program prints and writes: nothing acts on a terminal, and files are their owner's.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Output;

use crate::program::{mcptap, root};
use crate::support::waits::Finishes;
use crate::wire::Wire;

/// An escape sequence, DEL, a C1 control, a bidirectional control and a line separator.
const HOSTILE: &str = "\u{1b}[31m\u{7f}\u{9b}31m\u{202e}\u{2066}\u{2028}";

fn run(arguments: &[&dyn AsRef<OsStr>]) -> Output {
    let mut command = mcptap();
    arguments.iter().for_each(|argument| {
        command.arg(argument);
    });
    command.finished()
}

/// Checks that nothing in an output acts on a terminal.
fn assert_harmless(what: &str, output: &[u8]) {
    let text = String::from_utf8_lossy(output);
    let acts = |c: &char| {
        (c.is_control() && !matches!(c, '\n' | '\t')) || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if let Some(at) = text.find(|c| acts(&c)) {
        let before: String = text[..at].chars().rev().take(60).collect();
        panic!("{what} prints {:?} behind {:?}", text[at..].chars().next(), before.chars().rev().collect::<String>());
    }
}

/// A conversation in which the server and the client put hostile text wherever they choose it.
fn capture(path: &Path) {
    // JSON escapes ESC, but DEL and all further characters may stand in a string as they are.
    let text = HOSTILE.replace('\u{1b}', "\\u001b");
    Wire::lines(&[
        format!(r#"> {{"jsonrpc":"2.0","id":1,"method":"initialize","params":{{"protocolVersion":"{text}","capabilities":{{}},"clientInfo":{{"name":"{text}","version":"{text}"}}}}}}"#),
        format!(r#"< {{"jsonrpc":"2.0","id":1,"result":{{"protocolVersion":"{text}","capabilities":{{}},"serverInfo":{{"name":"{text}","version":"{text}"}}}}}}"#),
        format!(r#"> {{"jsonrpc":"2.0","id":"{text}","method":"{text}","{text}":"{text}"}}"#),
        format!(r#"< {{"jsonrpc":"2.0","id":"{text}","error":{{"code":-32601,"message":"{text}"}}}}"#),
        format!(r#"> {{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{{"name":"{text}","arguments":{{"{text}":"{text}"}}}}}}"#),
        format!(r#"< {{"jsonrpc":"2.0","id":3,"result":{{"content":[{{"type":"{text}","text":"{text}"}}],"{text}":1}}}}"#),
        format!("< {text}"),
    ])
    .write(path);
}

#[test]
fn no_view_and_no_format_acts_on_a_terminal() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(format!("{HOSTILE}.pcapng"));
    capture(&path);
    for words in [
        "read",
        "read --json",
        "sessions",
        "sessions --json",
        "show",
        "show --json",
        "show --summary",
        "show --message 3",
        "show --message 6",
        "layers",
        "layers --json",
        "layers --message 3",
        "layers --message 3 --json",
        "check --format text",
        "check --format json",
        "check --format sarif",
        "check --format junit",
        "export --format jsonl",
        "export --format html",
        "export --format otlp",
        "export --format mermaid",
        "export --format har",
    ] {
        let mut command = mcptap();
        let (name, options) = words.split_once(' ').unwrap_or((words, ""));
        let done = command.arg(name).arg(&path).args(options.split_whitespace()).finished();
        assert!(!done.stdout.is_empty() || !done.stderr.is_empty(), "{words} prints something");
        assert_harmless(words, &done.stdout);
        assert_harmless(words, &done.stderr);
    }
    let done = run(&[&"diff", &path, &path]);
    assert_harmless("diff", &[done.stdout, done.stderr].concat());
}

#[test]
fn no_error_repeats_what_acts_on_a_terminal() {
    let nothing = format!("/nothing/{HOSTILE}");
    let nothing: &str = &nothing;
    for arguments in [
        &["wrap", "--", nothing][..],
        &[nothing, "--", nothing],
        &["show", nothing],
        &["show", "--message", HOSTILE],
        &["read", HOSTILE],
        &["export", "--format", HOSTILE],
        &["check", "--config", nothing],
        &["rules", HOSTILE],
        &["show", "--filter", HOSTILE],
        &["proxy", "--listen", HOSTILE, "--to", HOSTILE],
        &["proxy", "--listen", "0", "--to", HOSTILE],
        &["mock", nothing],
        &["replay", nothing, "--to", HOSTILE],
        &["--db", nothing, "sessions"],
        &[HOSTILE],
    ] {
        let done = mcptap().args(arguments).finished();
        assert!(!done.status.success() && !done.stderr.is_empty(), "{arguments:?}");
        assert_harmless(&format!("{arguments:?}"), &done.stderr);
        assert_harmless(&format!("{arguments:?}"), &done.stdout);
    }
}

/// Everything that a command says goes through the function that escapes it.
#[test]
fn commands_print_notes_in_one_way() {
    let mut folders = vec![root().join("src/cli")];
    let mut seen = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = fs::read_to_string(&path).expect("text");
            seen += text.matches("note!(").count();
            assert!(!text.contains("eprintln!("), "{}: use note! or say", path.display());
        }
    }
    assert!(seen > 10, "the sources are here");
}

#[test]
#[cfg(unix)]
fn files_of_captured_data_belong_to_their_owner() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("capture.pcapng");
    capture(&path);
    for format in ["jsonl", "html", "otlp", "pcapng", "mermaid"] {
        let out = folder.path().join(format);
        assert!(run(&[&"export", &path, &"--format", &format, &"-o", &out]).status.success(), "{format}");
        let mode = fs::metadata(&out).expect("exported").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{format}");
    }
}
