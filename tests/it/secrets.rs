//! Secrets outside of header fields: OAuth sends them in bodies and URLs, here on a connection that
//! carries MCP.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::page::unpacked;
use crate::program::mcptap;
use crate::support::waits::Finishes;
use crate::wire::{Sender, Wire};

/// Texts that must not be written.
const SECRETS: [&str; 8] = [
    "Qm3xT8vLp1Zk",
    "hB7nW2cRy9Jd",
    "uF5sK0gXa6Ve",
    "eO4iM8tNq2Hl",
    "wY1zD6bPj7Cs",
    "rG9kU3fLx5Ta",
    "oZ2vE7mQn4Wi",
    "aJ8dS1pHc6Ry",
];

/// Arguments and results of tools are the conversation itself, so they are written.
const SAID: &str = "kT4bN9wXe2Gu";

/// A server that is its own authorization server. A client registers, requests a token and
/// continues with MCP, all on one connection.
fn conversation() -> Wire {
    let mut wire = Wire::default();
    wire.handshake(0, 40_000);
    let mut at = 100;
    let mut say = |from: Sender, head: &str, kind: &str, body: &str| {
        let text = format!("{head}\r\nHost: h\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        // In three packets. One begins within a value.
        let cuts = [0, text.len() / 3, text.len() - 17, text.len()];
        for part in cuts.windows(2) {
            at += 1;
            wire.segment(at, 40_000, from, "A", &text[part[0]..part[1]]);
        }
    };
    let (json, form) = ("application/json", "application/x-www-form-urlencoded");
    let (ok, post) = ("HTTP/1.1 200 OK", |target: &str| format!("POST {target} HTTP/1.1"));
    let [code, verifier, access, refresh, client, callback, query, torn] = SECRETS;
    say(Sender::Client, &post("/register"), json, r#"{"client_name":"c","redirect_uris":["http://127.0.0.1/cb"]}"#);
    say(Sender::Server, ok, json, &format!(r#"{{"client_id":"c","client_secret":"{client}"}}"#));
    let asks = "GET /authorize?response_type=code&client_id=c&state=1 HTTP/1.1";
    say(Sender::Client, asks, "text/plain", "");
    let back = format!("HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/cb?state=1&code={callback}");
    say(Sender::Server, &back, "text/plain", "");
    let grant = format!("grant_type=authorization_code&code={code}&client_id=c&code_verifier={verifier}");
    say(Sender::Client, &post("/token"), form, &grant);
    let gives =
        format!(r#"{{"access_token":"{access}","token_type":"Bearer","expires_in":3600,"refresh_token":"{refresh}"}}"#);
    say(Sender::Server, ok, json, &gives);
    let initialize = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;
    let initialized = r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}"#;
    let mcp = post(&format!("/mcp?api_key={query}"));
    say(Sender::Client, &mcp, json, initialize);
    say(Sender::Server, ok, json, initialized);
    // The member that makes it a message comes last, after more bytes than are searched. The Python
    // SDK sends such texts.
    let long = "x".repeat(80_000);
    let call = format!(
        r#"{{"method":"tools/call","params":{{"name":"t","arguments":{{"password":"{SAID}","text":"{long}"}}}},"jsonrpc":"2.0","id":1}}"#
    );
    say(Sender::Client, &mcp, json, &call);
    let answer =
        format!(r#"{{"id":1,"result":{{"content":[],"structuredContent":{{"token":"{SAID}"}}}},"jsonrpc":"2.0"}}"#);
    say(Sender::Server, ok, json, &answer);
    // A part of the last request is missing, and so is its end.
    let lost = format!(
        "POST /token HTTP/1.1\r\nHost: h\r\nContent-Type: {form}\r\nContent-Length: 999\r\n\r\ngrant_type=refresh_token&refresh_to"
    );
    wire.segment(500, 40_000, Sender::Client, "A", &lost);
    wire.segment(501, 40_000, Sender::Client, "A", "ken=");
    wire.packets.pop();
    wire.segment(502, 40_000, Sender::Client, "A", torn);
    wire
}

fn run(arguments: &[&str], path: &Path) -> Vec<u8> {
    let done = mcptap().args(arguments).arg(path).finished();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    done.stdout
}

fn messages(of: &[u8]) -> Vec<Value> {
    let lines = of.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let values = lines.map(|line| serde_json::from_slice::<Value>(line).expect("JSON"));
    values.filter(|value| value["type"] == "message").map(|value| value["raw"].clone()).collect()
}

fn holds(bytes: &[u8], text: &str) -> bool {
    memchr::memmem::find(bytes, text.as_bytes()).is_some()
}

/// Whether any part of a secret is there. The secret may have been cut in two.
fn contains_part(bytes: &[u8], secret: &str) -> bool {
    secret.as_bytes().windows(6).any(|part| memchr::memmem::find(bytes, part).is_some())
}

#[test]
fn oauth_secrets_are_masked_in_stores() {
    let folder = tempfile::tempdir().expect("a folder");
    let capture = folder.path().join("capture.pcapng");
    conversation().write(&capture);
    let wanted = messages(&run(&["read", "--json"], &capture));
    assert_eq!(wanted.len(), 4);
    for keep in [false, true] {
        let path = |name: &str| folder.path().join(format!("{keep}.{name}"));
        let database = path("db");
        let name = database.to_str().expect("a path");
        let mut arguments = vec!["read", "--json", "--save", "--db", name];
        arguments.extend(keep.then_some("--keep-secrets"));
        assert_eq!(messages(&run(&arguments, &capture)), wanted);
        let exported = path("pcapng");
        let har = path("har");
        for (format, to) in [("pcapng", &exported), ("har", &har)] {
            run(&["export", "--format", format, "-o", to.to_str().expect("a path")], &database);
        }
        let [exported_bytes, har] = [&exported, &har].map(|path| fs::read(path).expect("exported"));
        for secret in SECRETS {
            assert_eq!(contains_part(&exported_bytes, secret), keep, "{secret} in packets");
            assert!(keep || !contains_part(&har, secret), "{secret} in an archive");
        }
        assert!(holds(&exported_bytes, "grant_type=authorization_code&code=") && holds(&har, "token_type"));
        assert!(holds(&exported_bytes, SAID), "the conversation is whole");
        assert_eq!(messages(&run(&["read", "--json"], &exported)), wanted);
        assert_eq!(messages(&run(&["show", "--json"], &database)), wanted);
    }
}

/// Names under which real servers take keys, in URLs, fields and arguments of a command.
#[test]
fn keys_of_real_servers_are_masked_wherever_they_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let parameters = ["tavilyApiKey", "exaApiKey", "key", "sig", "auth", "secret", "software_statement"];
    let fields =
        ["Ocp-Apim-Subscription-Key", "Notion-Key", "Custom-Credential", "X-Signature", "DPoP", "Authentication-Info"];
    let query: Vec<String> = parameters.iter().map(|name| format!("{name}={}", SECRETS[0])).collect();
    let head: String = fields.iter().map(|name| format!("{name}: {}\r\n", SECRETS[1])).collect();
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let mut wire = Wire::default();
    wire.handshake(0, 40_000);
    let request = format!(
        "POST /mcp?max_tokens=3&{} HTTP/1.1\r\nHost: h\r\nIdempotency-Key: {SAID}\r\n{head}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        query.join("&"),
        body.len()
    );
    wire.segment(100, 40_000, Sender::Client, "A", &request);
    wire.write(&path("capture.pcapng"));
    let database = path("read.db");
    run(&["read", "--save", "--db", database.to_str().expect("a path")], &path("capture.pcapng"));

    let wrapped = path("wrap.db");
    let options = ["--github-pat", "--auth", "--bearer", "--db-pass", "--key"];
    let mut wrap = mcptap();
    wrap.args(["wrap", "--db"]).arg(&wrapped).args(["--", "true", "--author", SAID]);
    for option in options {
        wrap.args([option, SECRETS[2]]);
    }
    assert!(wrap.finished().status.success());

    for (database, formats) in [(&database, &["jsonl", "har", "pcapng", "html"][..]), (&wrapped, &["jsonl", "pcapng"])]
    {
        let mut outputs = vec![fs::read(database).expect("a database")];
        outputs.extend(formats.iter().map(|format| unpacked(&run(&["export", "--format", format], database))));
        for secret in &SECRETS[..3] {
            assert!(outputs.iter().all(|output| !contains_part(output, secret)), "{secret}");
        }
        assert!(outputs.iter().any(|output| holds(output, SAID)), "what is no secret stays");
    }
}
