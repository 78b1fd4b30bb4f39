use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::thread::{self, JoinHandle};

use super::*;
use crate::http::listen;
use crate::support::pipes::patient;
use crate::support::waits::{PATIENCE, joined};

/// A listener whose connections do what their clients say, and answer each command.
struct Listener {
    address: SocketAddr,
    stop: UnixStream,
    serving: JoinHandle<()>,
}

/// Obeys the commands of one client.
fn obey(slot: &Slot) {
    let mut stream: &TcpStream = slot.stream();
    let mut command = [0];
    while stream.read(&mut command).is_ok_and(|count| count == 1) {
        let mut answer = Ok(());
        match command[0] {
            b'o' => slot.session_begins("mine"),
            b'e' => slot.session_ends("mine"),
            b'r' => slot.rest(),
            b'm' => answer = slot.begin(["", "mine"]),
            b's' => answer = slot.begin(["other"]),
            // A request whose response never comes.
            _ => {
                let _ = slot.begin([]).map(|()| stream.write_all(b"+"));
                let _ = slot.revoked().recv_timeout(PATIENCE);
                return;
            }
        }
        let _ = stream.write_all(if answer.is_ok() { b"+" } else { b"-" });
    }
}

impl Listener {
    fn with(slots: usize) -> Listener {
        let (listener, (end, stop)) = (listen::bind("0").unwrap(), UnixStream::pair().unwrap());
        let address = listener.local_addr().unwrap();
        let serving = thread::spawn(move || listen::serve(&listener, slots, Some(end.as_fd()), |slot| obey(&slot)));
        Listener { address, stop, serving }
    }

    fn client(&self, commands: &str) -> TcpStream {
        let client = patient(TcpStream::connect(self.address).unwrap());
        for command in commands.chars() {
            assert_eq!(asked(&client, command), '+', "{command} of {commands}");
        }
        client
    }

    fn end(mut self) {
        self.stop.write_all(b"X").unwrap();
        joined(self.serving, "the listener to end");
    }
}

fn asked(mut client: &TcpStream, command: char) -> char {
    let mut answer = [0];
    client.write_all(&[command as u8]).and_then(|()| client.read_exact(&mut answer)).unwrap();
    char::from(answer[0])
}

/// Waits until the listener closes the connection. Returns what it sent before.
fn rest(mut client: &TcpStream) -> String {
    let mut rest = String::new();
    client.read_to_string(&mut rest).unwrap();
    rest
}

#[test]
fn the_connection_without_a_request_for_longest_gives_way() {
    let listener = Listener::with(3);
    let [first, second, third] = ["r", "r", "r"].map(|commands| listener.client(commands));
    // Now the first has had a request more recently than the second.
    assert_eq!((asked(&first, 's'), asked(&first, 'r')), ('+', '+'));
    let fourth = listener.client("s");
    assert_eq!(rest(&second), "");
    let fifth = listener.client("s");
    assert_eq!(rest(&third), "");
    let sixth = listener.client("s");
    assert_eq!(rest(&first), "");
    // All wait for a response, so nobody gives way.
    let response = rest(&listener.client(""));
    assert!(response.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{response}");
    for client in [fourth, fifth, sixth] {
        assert_eq!(asked(&client, 'r'), '+');
    }
    listener.end();
}

#[test]
fn clients_with_a_session_give_way_last() {
    let listener = Listener::with(2);
    let [member, stranger] = ["or", "r"].map(|commands| listener.client(commands));
    let _new = listener.client("s");
    assert_eq!(rest(&stranger), "");
    let _newer = listener.client("s");
    assert_eq!(rest(&member), "");
    listener.end();
}

#[test]
fn clients_that_closed_give_way_first() {
    let listener = Listener::with(2);
    let (_idle, gone) = (listener.client("r"), listener.client("w"));
    drop(gone);
    let new = listener.client("s");
    assert_eq!(asked(&_idle, 'r'), '+', "it keeps its slot");
    drop(new);
    listener.end();
}

#[test]
fn the_reserve_is_for_clients_with_a_session() {
    let listener = Listener::with(16);
    let strangers: Vec<_> = (0..14).map(|_| listener.client("s")).collect();
    let stranger = listener.client("");
    assert_eq!(asked(&stranger, 's'), '-');
    assert_eq!(asked(&stranger, 'm'), '-', "there is no such session yet");
    drop(listener.client("o"));
    assert_eq!(asked(&stranger, 'm'), '+');
    let other = listener.client("m");
    assert_eq!((asked(&other, 'r'), asked(&other, 's')), ('+', '+'), "the connection belongs to the session");
    assert_eq!((asked(&other, 'r'), asked(&other, 'e')), ('+', '+'));
    drop(other);
    assert_eq!(asked(&listener.client(""), 'm'), '-', "the session is over");
    assert_eq!(asked(&strangers[0], 'r'), '+');
    drop(listener.client("s"));
    listener.end();
}

#[test]
fn the_sessions_used_longest_ago_are_forgotten() {
    let listener = listen::bind("0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let slot = Slot::only(client);
    for number in 0..MAX_SESSIONS {
        slot.session_begins(&number.to_string());
    }
    slot.begin(["0"]).unwrap();
    slot.session_begins("new");
    slot.session_begins(&"x".repeat(SESSION_NAME + 1));
    let table = slot.slots.table();
    assert_eq!(table.sessions.len(), MAX_SESSIONS);
    assert!(["0", "new", "2"].iter().all(|name| table.sessions.contains_key(*name)));
    assert!(!table.sessions.contains_key("1"));
}
