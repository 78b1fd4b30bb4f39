//! `attach --list` and servers over HTTP.

use std::net::TcpStream;
use std::process::Command;

use serde_json::{Value, json};

use super::listed;
use crate::peers::{Serving, free_port, peers};

/// The pairs with this address.
fn at(address: &str) -> Vec<Value> {
    let is_there =
        |pair: &Value| pair["server"]["addresses"].as_array().is_some_and(|all| all.contains(&json!(address)));
    listed().into_iter().filter(is_there).collect()
}

#[test]
fn an_http_server_is_listed_with_its_client_and_how_to_see_them() {
    let Some(peers) = peers() else { return };
    let port = free_port();
    let mut server = Command::new(peers.node());
    server.args([peers.package("server-everything"), "streamableHttp".to_owned()]);
    let _serving = Serving::start(server, port);
    let alone = at(&format!("[::]:{port}"));
    assert_eq!(alone.len(), 1, "{alone:#?}");
    assert!(alone[0].get("host").is_none() && alone[0]["transport"] == "http", "{}", alone[0]);
    let address = format!("127.0.0.1:{port}");
    let client = TcpStream::connect(&address).expect("the server listens");
    let pairs =
        crate::support::waits::until_some("the server to accept", || Some(at(&address)).filter(|at| !at.is_empty()));
    assert_eq!(pairs.len(), 1, "{pairs:#?}");
    let pair = &pairs[0];
    assert_eq!(pair["host"]["process"], std::process::id());
    assert_eq!(pair["server"]["command"][2], "streamableHttp");
    assert_eq!(pair["evidence"], "the server's command names MCP");
    assert_eq!(pair["see"], format!("sudo mcptap sniff -i lo -f \"tcp port {port}\""));
    drop(client);
}

/// A connection of a process that has nothing to do with MCP is not listed.
#[test]
fn other_connections_are_not_listed() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let _client = TcpStream::connect(address).expect("it listens");
    let _server = listener.accept().expect("a client");
    assert_eq!(at(&address.to_string()), [Value::Null; 0]);
}
