//! `mcptap web`: the page that follows a recording, and who may have it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::page::browser_script;
use crate::peers::peers;
use crate::program::{mcptap, root};
use crate::support::needs::{CHROMIUM, have_program};
use crate::support::pipes::Patient;
use crate::support::waits::ProcessEnd;
use crate::wrapped::{ANSWERS, Wrapped, await_session, temporary_database};

/// `mcptap web`, and the URL that it printed.
struct Serving {
    process: Child,
    url: String,
}

impl Serving {
    fn start(db: &Path, target: &[&str]) -> Serving {
        let mut command = mcptap();
        command.arg("web").args(target).args(["--no-open", "--db"]).arg(db);
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the program starts");
        let url = next(&mut lines(&mut process));
        Serving { process, url }
    }

    /// The address and the path of the page.
    fn place(&self) -> (&str, &str) {
        let rest = self.url.strip_prefix("http://").expect("a URL");
        rest.split_at(rest.find('/').expect("a path"))
    }

    /// The head and the content of a response, up to these words.
    fn get(&self, path: &str, fields: &str, until: &str) -> String {
        let (address, _) = self.place();
        let stream = TcpStream::connect(address).expect("the page is served");
        let mut stream = Patient::new(stream, "the page");
        write!(stream, "GET {path} HTTP/1.1\r\n{fields}\r\n").expect("it reads");
        let (mut text, mut buffer) = (Vec::new(), [0; 4096]);
        while until.is_empty() || !String::from_utf8_lossy(&text).contains(until) {
            match stream.read(&mut buffer).expect("a response") {
                0 => break,
                count => text.extend_from_slice(&buffer[..count]),
            }
        }
        String::from_utf8_lossy(&text).into_owned()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.process.killed();
    }
}

fn lines(process: &mut Child) -> BufReader<Patient<ChildStdout>> {
    BufReader::new(Patient::new(process.stdout.take().expect("a pipe"), "a program to print a line"))
}

fn next(lines: &mut impl BufRead) -> String {
    crate::wrapped::line(lines)
}

#[test]
fn only_who_has_the_url_gets_the_page() {
    let (_folder, db) = temporary_database();
    let capture = root().join("samples/weather/capture.pcapng").display().to_string();
    let serving = Serving::start(&db, &[&capture]);
    let (address, path) = serving.place();
    assert_eq!(path.len(), 34, "128 bits as hexadecimal digits: {path}");
    let own = format!("Host: {address}\r\n");
    let closing = format!("{own}Connection: close\r\n");

    let page = serving.get(path, &closing, "");
    assert!(page.starts_with("HTTP/1.1 200 OK\r\n") && page.contains("id=\"waterfall\""), "{page}");
    for field in [
        "Cache-Control: no-store\r\n",
        "frame-ancestors 'none'\r\n",
        "connect-src 'self'; ",
        "Referrer-Policy: no-referrer\r\n",
    ] {
        assert!(page.contains(field), "{field}: {page}");
    }
    let data = serving.get(&format!("{path}events"), &own, "\nready\n");
    assert!(data.contains("data-kind=\"details\"") && data.contains("data-kind=\"exchanges\""));
    let same = format!("{closing}Origin: http://{address}\r\n");
    assert!(serving.get(path, &same, "").starts_with("HTTP/1.1 200 "));

    let events = format!("{path}events");
    let wrong = format!("/{}/", "0".repeat(32));
    for (path, fields, status) in [
        ("/", closing.clone(), 404),
        (&wrong, closing.clone(), 404),
        (&format!("{wrong}events"), closing.clone(), 404),
        (&path[..path.len() - 1], closing.clone(), 404),
        (path, "Host: evil.example\r\nConnection: close\r\n".to_owned(), 403),
        (&events, "Host: localhost.evil.example\r\nConnection: close\r\n".to_owned(), 403),
        (&events, format!("{closing}Origin: https://evil.example\r\n"), 403),
        (&events, format!("{closing}Origin: null\r\n"), 403),
    ] {
        let response = serving.get(path, &fields, "");
        assert!(response.starts_with(&format!("HTTP/1.1 {status} ")), "{path} {fields}: {response}");
        assert!(!response.contains("data-kind"), "{path} {fields}");
    }
    let elsewhere =
        mcptap().args(["web", &capture, "--no-open", "--listen", "0.0.0.0:0"]).stdout(Stdio::null()).spawn();
    assert_eq!(elsewhere.expect("the program starts").ended("mcptap web").code(), Some(2));
}

/// A wrap in progress adds a call. The page shows it without a reload, and keeps the viewer's
/// place in it.
#[test]
fn a_page_follows_a_recording() {
    let Some(peers) = peers() else { return };
    if !have_program(&CHROMIUM) {
        return;
    }
    let (_folder, db) = temporary_database();
    let mut wrapped = Wrapped::shell(&db, ANSWERS);
    wrapped.converse(1..40);
    await_session(&db);
    let serving = Serving::start(&db, &[]);
    let script = browser_script(&peers.0, "follow.mjs");
    let mut node = Command::new(peers.0.join("node"));
    node.arg(script).arg("/usr/bin/chromium").arg(&serving.url).stdout(Stdio::piped());
    let mut browser = node.spawn().expect("node starts");
    let mut seen = lines(&mut browser);
    let before: Value = serde_json::from_str(&next(&mut seen)).expect("JSON");
    wrapped.converse(40..41);
    let after: Value = serde_json::from_str(&next(&mut seen)).expect("JSON");
    assert!(browser.ended("the browser").success());
    assert!(wrapped.end().status.success());

    assert_eq!((&after["said"], &after["requests"]), (&json!([]), &json!([])));
    assert_eq!(after["live"], "connected");
    assert_eq!(after["rows"].as_u64(), before["rows"].as_u64().map(|rows| rows + 2));
    for same in ["selected", "top", "search", "details", "title"] {
        assert_eq!(before[same], after[same], "{same}");
    }
    assert_eq!(after["top"], 30);
}
