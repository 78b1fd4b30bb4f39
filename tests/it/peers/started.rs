//! Clients of both SDKs under `mcptap run`: an STDIO server and an HTTPS server in one recording,
//! and no other client.

use std::io::{Read, Write};

use super::authorized::with_host;
use super::*;
use crate::program::{NO_STATE, mcptap};
use crate::wrapped::line;

/// The port of a front that listens.
fn port_of(stderr: &mut BufReader<Patient<std::process::ChildStderr>>) -> u16 {
    let line = line(stderr);
    line.strip_prefix("front listening on ").and_then(|port| port.parse().ok()).unwrap_or_else(|| panic!("{line}"))
}

#[test]
fn a_client_is_recorded_with_its_stdio_and_https_servers_and_another_client_is_not() {
    let Some(peers) = peers() else { return };
    for sdk in BOTH {
        conversation(sdk, &peers);
    }
}

fn conversation(sdk: Sdk, peers: &Peers) {
    let (folder, db) = temporary_database();
    let (port, pem) = (free_port(), Peers::script("front.pem"));
    let server = [peers.node(), peers.package("server-everything"), "streamableHttp".to_owned()];
    let _serving = Serving::start(command(&server), port);
    let mut front = Command::new(peers.node());
    front.arg(Peers::script("front.mjs")).arg(port.to_string()).env("FRONT_PEM", &pem).stderr(Stdio::piped());
    let mut front = Serving(front.spawn().expect("node starts"));
    let stderr = front.0.stderr.take().expect("a pipe");
    let url = format!("https://mcp.test:{}/mcp", port_of(&mut BufReader::new(Patient::new(stderr, "the front"))));
    let client = match sdk {
        Sdk::Python => [peers.python(), Peers::script("client.py")],
        Sdk::TypeScript => [peers.node(), Peers::script("client.mjs")],
    };
    let Some(mut namespace) = with_host(folder.path()) else { return };
    let everything = [peers.node(), peers.package("server-everything"), "stdio".to_owned()];
    // Between its two servers the client waits, so that another one runs beside it.
    let script = r#"client="$0 $1"; url=$2; shift 2
        $client "$CALLS" -- "$@" && echo waiting && read go && exec $client "$CALLS" "$url""#;
    namespace.arg(mcptap().get_program()).arg("run").arg("--db").arg(&db).args(["--", "sh", "-c", script]);
    namespace.args(&client).arg(&url).args(&everything);
    namespace.env("CALLS", json!([["echo", { "message": "of the client" }]]).to_string());
    namespace.env("MCPTAP_PEERS", &peers.0).env("SSL_CERT_FILE", &pem).env("NODE_EXTRA_CA_CERTS", &pem);
    namespace.env(NO_STATE.0, NO_STATE.1).env_remove("SSLKEYLOGFILE");
    namespace.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = namespace.spawn().expect("unshare starts");
    let mut stdout = BufReader::new(Patient::new(child.stdout.take().expect("a pipe"), "the client"));
    let mut transcript = Vec::new();
    loop {
        let line = line(&mut stdout);
        match line.as_str() {
            "waiting" => break,
            "" => panic!("the client ended before it waited: {}", rest(&mut child)),
            line => transcript.push(serde_json::from_str(line).expect("lines are JSON")),
        }
    }
    let mut other = with_host(folder.path()).expect("it worked before");
    other.args(&client).arg(json!([["echo", { "message": "of another" }]]).to_string()).arg(&url);
    other.env("MCPTAP_PEERS", &peers.0).env("SSL_CERT_FILE", &pem).env("NODE_EXTRA_CA_CERTS", &pem);
    let done = other.finished();
    assert!(String::from_utf8_lossy(&done.stdout).contains("of another"), "{}", String::from_utf8_lossy(&done.stderr));
    child.stdin.take().expect("a pipe").write_all(b"go\n").expect("the client reads");
    let mut text = String::new();
    stdout.read_to_string(&mut text).expect("text");
    let status = child.ended("mcptap run");
    let stderr = rest(&mut child);
    assert!(status.success(), "{stderr}");
    if stderr.starts_with("mcptap: only STDIO servers") || stderr.starts_with("mcptap: servers over HTTP") {
        return needs::refused(&stderr);
    }
    assert!(!stderr.contains("mcptap"), "nothing gets onto the client's screen: {stderr}");
    transcript.extend(text.lines().map(|line| serde_json::from_str(line).expect("lines are JSON")));
    let lines = recorded(&db);
    assert_transcript(&format!("{sdk:?}"), &Transcript(transcript), &lines);
    let sessions = of_type(&lines, "session");
    let transports: Vec<&str> = sessions.iter().filter_map(|session| session["transport"].as_str()).collect();
    assert_eq!(transports, ["stdio", "streamable-http"]);
    let call = |message: &&&Value| message["transport"] == "streamable-http" && message["method"] == "tools/call";
    let messages = of_type(&lines, "message");
    let call = messages.iter().find(call).expect("a call over HTTPS");
    assert!(call["packets"].as_array().is_some_and(|packets| !packets.is_empty()), "{call}");
    let number = call["number"].to_string();
    let layers = mcptap().arg("layers").arg(&db).args(["--session", "2", "--message", &number, "--json"]).finished();
    let layers = String::from_utf8_lossy(&layers.stdout);
    assert!(layers.contains("\"layer\":\"tls\"") && layers.contains("\"mcp.test\""), "{layers}");
    let database = fs::read(&db).expect("a file");
    assert!(memchr::memmem::find(&database, b"of another").is_none());
}

/// The rest of its standard error.
fn rest(child: &mut Child) -> String {
    let mut text = String::new();
    let stderr = child.stderr.take().expect("a pipe");
    Patient::new(stderr, "mcptap to end").read_to_string(&mut text).expect("text");
    text
}
