//! Official servers under real launchers and hosts: found without a descriptor number, recorded.

use std::process::Command;

use serde_json::{Value, json};

use super::{RunningServer, Watcher, listed, texts};
use crate::peers::{Peers, peers};
use crate::support::waits::{ProcessEnd, until_some};
use crate::wrapped::of_type;

/// The requests and responses of a session up to here, as the host sees them.
fn initialize(server: &mut RunningServer) {
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "host", "version": "1"}}});
    ask(server, &hello);
    tell(server, &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
}

fn tell(server: &mut RunningServer, message: &Value) {
    use std::io::Write;
    writeln!(server.stdin.as_mut().expect("stdin is open"), "{message}").expect("the host reads");
}

/// Sends a request and returns its response. Notifications between them are passed over.
fn ask(server: &mut RunningServer, request: &Value) -> String {
    tell(server, request);
    loop {
        let line = crate::wrapped::line(&mut server.stdout);
        let message: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        if message["id"] == request["id"] && message.get("method").is_none() {
            return line;
        }
    }
}

/// The commands of servers, each with a launcher, and a tool with its arguments.
fn servers(peers: &Peers) -> Vec<(&'static str, Vec<String>, &'static str, Value)> {
    let npx = peers.npx("mcp-server-everything");
    let python = vec![peers.python(), Peers::script("server.py"), "stdio".into()];
    let mut uv =
        vec![peers.uv(), "run".into(), "--offline".into(), "--no-project".into(), "--python".into(), peers.python()];
    uv.extend([Peers::script("server.py"), "stdio".into()]);
    vec![
        ("server-everything under npx", npx, "echo", json!({"message": "hello"})),
        ("the Python SDK", python, "echo", json!({"text": "hello"})),
        ("the Python SDK under uv", uv, "echo", json!({"text": "hello"})),
    ]
}

#[test]
fn official_servers_are_found_and_recorded_under_hosts_in_node_and_python() {
    let Some(peers) = peers() else { return };
    let hosts = [[peers.node(), Peers::script("host.mjs")], [peers.python(), Peers::script("host.py")]];
    for host in hosts {
        for (name, command, tool, arguments) in servers(&peers) {
            let what = format!("{name} of {}", host[1]);
            let mut words = Command::new(&host[0]);
            words.arg(&host[1]).args(&command);
            let mut server = RunningServer::start(words);
            initialize(&mut server);
            let call = |id: usize| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": arguments}});
            ask(&mut server, &call(1));
            let pairs = listed();
            let host_id = server.child.id();
            let pair = pairs.iter().find(|pair| pair["host"]["process"] == host_id);
            let pair = pair.unwrap_or_else(|| panic!("{what} is not listed: {pairs:#?}"));
            // A host can be named instead of its server. Where its arguments name MCP, it would
            // count as a server of the test too.
            let named =
                if pair["names_mcp"] == true { pair["server"]["process"].as_u64() } else { Some(host_id.into()) };
            let named = named.and_then(|id| u32::try_from(id).ok()).expect("a process id");
            let Some(watcher) = Watcher::attach(named, &["--no-save"]) else { return };
            let sent: Vec<String> = (2..12).map(|id| call(id).to_string()).collect();
            let received: Vec<String> = (2..12).map(|id| ask(&mut server, &call(id))).collect();
            drop(server.stdin.take());
            server.child.ended("the host");
            let watched = watcher.end();
            assert_eq!(texts(&watched, "client-to-server"), sent, "{what}");
            let answers: Vec<String> = texts(&watched, "server-to-client");
            let answers: Vec<&String> = answers.iter().filter(|text| received.contains(text)).collect();
            assert_eq!(answers, received.iter().collect::<Vec<_>>(), "{what}");
            let session = of_type(&watched.lines, "session")[0];
            assert_eq!(session["peers"]["command"], pair["server"]["command"], "{what}");
            assert_eq!(session["completeness"], 1, "{what}");
            let errors =
                of_type(&watched.lines, "finding").into_iter().filter(|finding| finding["severity"] == "error");
            assert_eq!(errors.collect::<Vec<_>>(), [&Value::Null; 0], "{what}");
        }
    }
}

/// While a process starts, its launcher is what there is. Once the server runs, it is named.
#[test]
fn the_server_and_not_its_launcher_is_named() {
    let Some(peers) = peers() else { return };
    let npx = peers.npx("mcp-server-everything");
    let mut command = Command::new(&npx[0]);
    command.args(&npx[1..]);
    let mut server = RunningServer::start(command);
    initialize(&mut server);
    let id = server.child.id();
    let pair = until_some("the pair to be listed", || {
        listed().into_iter().find(|pair| pair["processes"].as_array().is_some_and(|all| all.contains(&json!(id))))
    });
    assert_ne!(pair["server"]["process"], id, "that is npx");
    let command = pair["server"]["command"].to_string();
    assert!(command.contains("mcp-server-everything") && !command.contains("npm"), "{command}");
    assert_eq!(pair["names_mcp"], true);
}
