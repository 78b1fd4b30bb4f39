//! More clients than a proxy and a mock have slots: idle ones, slow ones, and ones that wait for a
//! server which does not respond.

use std::sync::mpsc::Sender;

use super::*;
use crate::mock::Listening;

/// Connections that a proxy and a mock have at once, and how many of those of a proxy are only for
/// clients with a session.
const OF_PROXY: usize = 512;
const OF_MOCK: usize = 256;
const RESERVED: usize = OF_PROXY / 8;

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}"#;

/// Allows this process one connection for each slot.
fn many_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).expect("it may be as high as the maximum");
}

/// A crowd of clients that each send this and then wait.
fn crowd(address: &str, size: usize, sends: &str) -> Vec<TcpStream> {
    many_files();
    let client = |_| {
        let mut client = patient(TcpStream::connect(address).expect("it listens"));
        client.write_all(sends.as_bytes()).expect("sent");
        client
    };
    (0..size).map(client).collect()
}

/// The status line of the response to a request on a connection of its own.
fn status(address: &str, request: &str) -> String {
    let mut client = patient(TcpStream::connect(address).expect("it listens"));
    client.write_all(request.as_bytes()).expect("sent");
    head(&mut client).lines().next().unwrap_or_default().to_owned()
}

/// A server that answers at once, and gives whoever initializes a session. It hands over
/// connections whose request contains "hang".
fn server_that_hangs(hanging: Sender<TcpStream>) -> String {
    server(move |mut stream| {
        let asked = head(&mut stream);
        if asked.starts_with("GET /hang") {
            return hanging.send(stream).expect("it is waited for");
        }
        let initializes = asked.starts_with("POST");
        if initializes && stream.read_exact(&mut [0; INITIALIZE.len()]).is_err() {
            return;
        }
        let session = if initializes { "Mcp-Session-Id: s-1\r\n" } else { "" };
        let response = format!("HTTP/1.1 200 OK\r\n{session}Content-Length: 0\r\n\r\n");
        // The client may be gone.
        let _ = stream.write_all(response.as_bytes());
        let _ = stream.read_to_end(&mut Vec::new());
    })
}

#[test]
fn idle_and_slow_clients_give_way() {
    let (_folder, db) = temporary_database();
    let (hanging, _hung) = channel();
    let proxying = Proxying::start(&db, &server_that_hangs(hanging), &["--no-save"]);
    let sample = root().join("samples/helpdesk/capture.pcapng");
    let mut mock = mcptap();
    mock.arg("mock").arg(sample).args(["--session", "1"]);
    let listening = Listening::start(mock);
    let mocked = listening.url("");
    for (address, slots) in [(proxying.address(), OF_PROXY), (mocked.trim_start_matches("http://"), OF_MOCK)] {
        let initialize = post(INITIALIZE);
        for sends in ["", "POST /mcp HTTP/1.1\r\nHost: loc", &initialize[..initialize.len() - 1]] {
            let mut slow = crowd(address, slots + 1, sends);
            for _ in 0..3 {
                assert_eq!(status(address, &initialize), "HTTP/1.1 200 OK", "{slots} clients sent {sends:?}");
            }
            // The one that waited longest has lost its slot. Its end may be a reset.
            assert!(!matches!(slow[0].read(&mut [0]), Ok(1..)), "{slots} clients sent {sends:?}");
        }
    }
}

#[test]
fn sessions_go_on_while_strangers_hang_and_abandoned_requests_are_given_up() {
    let (_folder, db) = temporary_database();
    let (hanging, hung) = channel();
    let proxying = Proxying::start(&db, &server_that_hangs(hanging), &["--no-save"]);
    let address = proxying.address();
    let hang = |fields: &str| format!("GET /hang HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n");
    let of_session = GET.replace("\r\n\r\n", "\r\nMcp-Session-Id: s-1\r\n\r\n");
    assert_eq!(status(address, &post(INITIALIZE)), "HTTP/1.1 200 OK");
    let strangers = crowd(address, OF_PROXY - RESERVED, &hang(""));
    let mut servers: Vec<TcpStream> =
        strangers.iter().map(|_| hung.recv_timeout(PATIENCE).expect("it gets there")).collect();
    assert_eq!(status(address, GET), "HTTP/1.1 503 Service Unavailable");
    assert_eq!(
        status(address, &GET.replace("\r\n\r\n", "\r\nMcp-Session-Id: other\r\n\r\n")),
        "HTTP/1.1 503 Service Unavailable"
    );
    assert_eq!(status(address, &of_session), "HTTP/1.1 200 OK");
    // An event stream may stay open as long as it likes.
    let mut member = crowd(address, 1, &hang("Mcp-Session-Id: s-1\r\n")).remove(0);
    let mut stream = hung.recv_timeout(PATIENCE).expect("it gets there");
    let events = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n";
    stream.write_all(events.as_bytes()).expect("sent");
    expect(&mut member, events);
    let _members = crowd(address, RESERVED - 1, &hang("Mcp-Session-Id: s-1\r\n"));
    servers.extend((1..RESERVED).map(|_| hung.recv_timeout(PATIENCE).expect("it gets there")));
    assert_eq!(status(address, &of_session), "HTTP/1.1 503 Service Unavailable", "all slots serve somebody");
    // Nobody waits for these any more, so others are served at once, and the server learns of it.
    drop(strangers);
    assert_eq!(status(address, GET), "HTTP/1.1 200 OK");
    assert_eq!(servers[0].read(&mut [0]).unwrap_or_default(), 0);
    stream.write_all(b"data: 2\n\n").expect("sent");
    expect(&mut member, "data: 2\n\n");
}
