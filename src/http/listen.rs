//! Accepts HTTP clients: the address, the limit on connections, and the names that clients may use
//! for this program.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::BorrowedFd;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::response::head;
use super::slots::{Slot, Slots};
use crate::decode::uri;

/// The pause after a failed accept. Usually file descriptors have run out, and some
/// connection will end.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// The longest time for a whole request head to arrive, counted from its first byte. A client sends
/// a head at once, so only the network delays it.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// The most bytes and the longest time for reading what a client still sends after a refusal.
const DRAIN_BYTES: usize = 1 << 20;
const DRAIN_TIME: Duration = Duration::from_secs(1);

/// Listens at a port, or at an address and a port. A port alone means 127.0.0.1.
///
/// # Errors
/// The address is invalid or in use. The error says what to try.
pub fn bind(address: &str) -> anyhow::Result<TcpListener> {
    let port = address.strip_prefix(':').unwrap_or(address);
    let bound = match port.parse::<u16>() {
        // "When running locally, servers SHOULD bind only to localhost (127.0.0.1) rather than all
        // network interfaces" (basic/transports, "Security Warning")
        Ok(port) => TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], port))),
        Err(_) => TcpListener::bind(address),
    };
    bound.map_err(|error| {
        let advice = match error.kind() {
            ErrorKind::AddrInUse => "another program uses this port: choose another one, or 0 for a free one",
            ErrorKind::PermissionDenied => "this port needs special rights: choose one above 1023",
            ErrorKind::AddrNotAvailable => "this machine has no such address",
            ErrorKind::InvalidInput => "write a port (8080), or an address and a port (127.0.0.1:8080, [::1]:8080)",
            _ => return anyhow!(error).context(format!("cannot listen at {address}")),
        };
        anyhow!("cannot listen at {address}: {advice}")
    })
}

/// Whether the `Host` field names this program. A page in a browser must not reach it under a
/// domain of the page's owner (DNS rebinding). An IP address cannot be rebound, so only names are
/// checked: `localhost` and those that the user allowed.
pub fn is_own_name(host: &str, names: &[String]) -> bool {
    let name = uri::host_name(host);
    let is_known = |known: &str| known.eq_ignore_ascii_case(name);
    name.parse::<IpAddr>().is_ok() || is_known("localhost") || names.iter().any(|known| is_known(known))
}

/// Serves each connection on a thread of its own, at most `most` at once. Returns when `stop`
/// becomes readable; without `stop` it never returns. A client for which no slot can be freed gets
/// status 503, see [`slots`](super::slots).
pub fn serve<S>(listener: &TcpListener, most: usize, stop: Option<BorrowedFd<'_>>, serve: S)
where
    S: Fn(Slot) + Clone + Send + 'static,
{
    raise_descriptor_limit();
    let slots = Slots::new(most);
    while is_readable_before(listener, stop) {
        let Ok((stream, _)) = listener.accept() else {
            slots.make_room();
            thread::sleep(ACCEPT_RETRY);
            continue;
        };
        match slots.admit(stream) {
            Ok(slot) => {
                let serve = serve.clone();
                // If no thread can be started, the connection is closed.
                let _ = thread::Builder::new().name("connection".to_owned()).spawn(move || serve(slot));
            }
            Err(stream) => send_unavailable(stream),
        }
    }
}

/// Allows as many open files as the system does. A proxy has two for each connection, and the
/// usual limit of 1,024 would be reached before all slots are in use.
fn raise_descriptor_limit() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // With the old limit the program still serves clients, only fewer.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

/// Waits for a connection. Returns false when `stop` becomes readable.
fn is_readable_before(listener: &TcpListener, stop: Option<BorrowedFd<'_>>) -> bool {
    let Some(stop) = stop else { return true };
    loop {
        let mut watched = [PollFd::from_borrowed_fd(stop, PollFlags::IN), PollFd::new(listener, PollFlags::IN)];
        match poll(&mut watched, None) {
            Err(rustix::io::Errno::INTR) => {}
            _ => return watched[0].revents().is_empty(),
        }
    }
}

fn send_unavailable(mut stream: TcpStream) {
    // The connection is dropped in any case, so errors are ignored.
    let _ = stream.set_write_timeout(Some(ACCEPT_RETRY));
    let _ = stream.write_all(head(503, &[("Connection", "close")], Some(0)).as_bytes());
}

/// Sends a short text on a blocking connection.
pub fn send(mut stream: &TcpStream, text: &str) -> io::Result<()> {
    stream.set_write_timeout(Some(HEAD_TIMEOUT))?;
    stream.write_all(text.as_bytes())
}

/// Ends a connection after a refusal. It first reads what the client still sends: closing a socket
/// with unread bytes resets the connection, and the client would lose the response.
pub fn drain(mut stream: &TcpStream) {
    let _ = stream.shutdown(Shutdown::Write);
    let until = Instant::now() + DRAIN_TIME;
    let (mut read, mut buffer) = (0, [0; 4096]);
    while read < DRAIN_BYTES {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || stream.set_read_timeout(Some(left)).is_err() {
            return;
        }
        match stream.read(&mut buffer) {
            Ok(count @ 1..) => read += count,
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_means_localhost() {
        for address in ["0", ":0", "127.0.0.1:0", "localhost:0"] {
            assert!(bind(address).unwrap().local_addr().unwrap().ip().is_loopback(), "{address}");
        }
        for address in ["", ":", "65536", "127.0.0.1", "nonsense:0:0"] {
            assert!(bind(address).is_err(), "{address}");
        }
    }

    #[test]
    fn other_host_names_are_refused() {
        let names = ["Mock.internal".to_owned()];
        for host in ["localhost", "LOCALHOST:8000", "127.0.0.1:8000", "[::1]:8000", "192.0.2.7", "mock.internal:80"] {
            assert!(is_own_name(host, &names), "{host}");
        }
        for host in ["evil.example", "localhost.evil.example:8000", "127.0.0.1.evil.example", "", "[", "[evil]"] {
            assert!(!is_own_name(host, &names), "{host}");
        }
    }
}
