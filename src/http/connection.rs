//! The connection of a client whose requests are answered one after another.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::listen::{self, HEAD_TIMEOUT};
use super::requests::{Refusal, Request, Requests};
use super::response::head;
use super::slots::Slot;

/// The longest time without a request.
const IDLE_TIMEOUT: Duration = Duration::from_secs(120);

/// The longest time that a client may take to read a piece of a response.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// Bytes per read.
const PIECE: usize = 16 << 10;

/// A whole response.
#[derive(Debug, Default)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The header fields, without `Content-Length`.
    pub fields: Vec<(&'static str, String)>,
    /// The content as it is sent.
    pub body: Vec<u8>,
}

impl Response {
    /// A response with content of this type.
    pub fn ok(kind: &str, body: Vec<u8>) -> Response {
        Response { status: 200, fields: vec![("Content-Type", kind.to_owned())], body }
    }

    /// A response that only says why there is no other.
    pub fn refused(status: u16, why: &str) -> Response {
        Response { status, ..Response::ok("text/plain; charset=utf-8", format!("{why}\n").into_bytes()) }
    }
}

/// Writes the content of a response until it returns. The connection ends then.
pub type Stream = Box<dyn FnOnce(&Slot, &mut dyn Write) -> io::Result<()>>;

/// A response, whole or as it is written.
pub enum Reply {
    /// A whole response.
    Whole(Response),
    /// Status and header fields of a response whose content follows bit by bit.
    Stream(Response, Stream),
}

impl From<Response> for Reply {
    fn from(response: Response) -> Reply {
        Reply::Whole(response)
    }
}

/// Answers the requests of a connection with responses that `respond` makes.
pub fn answer<R: Into<Reply>>(slot: &Slot, mut respond: impl FnMut(&Request) -> R) {
    serve(
        slot,
        "mcptap: ",
        |_| Vec::new(),
        |request| match respond(request).into() {
            Reply::Whole(response) => send(slot.stream(), request, &response),
            Reply::Stream(response, write) => {
                send_stream(slot, &response, write)?;
                // The content ends with the connection.
                Err(io::ErrorKind::ConnectionAborted.into())
            }
        },
    );
}

/// Reads the requests of a connection one after another until it ends. The function
/// `session_names` finds texts in a request that can be the name of a session. The function
/// `answer` writes the response, and fails if the connection has to be closed. The text of a
/// refusal begins with `prefix`.
pub fn serve(
    slot: &Slot,
    prefix: &str,
    session_names: fn(&Request) -> Vec<&str>,
    mut answer: impl FnMut(&Request) -> io::Result<()>,
) {
    let mut stream: &TcpStream = slot.stream();
    // Responses are written whole, so Nagle's algorithm would only delay them.
    let _ = stream.set_nodelay(true);
    let _ = stream.set_write_timeout(Some(WRITE_TIMEOUT));
    let mut requests = Requests::default();
    let refusal = loop {
        let request = match next(stream, &mut requests) {
            Ok(Some(request)) => request,
            Ok(None) => return,
            Err(refusal) => break refusal,
        };
        if let Err(refusal) = slot.begin(session_names(&request)) {
            break refusal;
        }
        if answer(&request).is_err() || !request.keeps_alive() {
            return;
        }
        slot.rest();
    };
    if stream.write_all(refusal.response(prefix).as_bytes()).is_ok() {
        listen::drain(stream);
    }
}

fn send(mut stream: &TcpStream, request: &Request, response: &Response) -> io::Result<()> {
    let mut fields: Vec<(&str, &str)> = response.fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
    if !request.keeps_alive() {
        fields.push(("Connection", "close"));
    }
    let head = head(response.status, &fields, Some(response.body.len()));
    let body: &[u8] = if request.method() == "HEAD" { &[] } else { &response.body };
    stream.write_all(&[head.as_bytes(), body].concat())
}

fn send_stream(slot: &Slot, response: &Response, write: Stream) -> io::Result<()> {
    let mut stream: &TcpStream = slot.stream();
    let fields = response.fields.iter().map(|(name, value)| (*name, value.as_str())).chain([("Connection", "close")]);
    stream.write_all(head(response.status, &fields.collect::<Vec<_>>(), None).as_bytes())?;
    write(slot, &mut stream)
}

/// Waits for the next request. `None` means that the client closed the connection or was too slow.
///
/// # Errors
/// The request is refused. Nothing after it can be read.
fn next(mut stream: &TcpStream, requests: &mut Requests) -> Result<Option<Request>, Refusal> {
    let (mut until, mut buffer) = (None, [0; PIECE]);
    loop {
        if let Some(request) = requests.take()? {
            return Ok(Some(request));
        }
        if requests.is_begun() {
            until.get_or_insert_with(|| Instant::now() + HEAD_TIMEOUT);
        }
        let left = until.map_or(IDLE_TIMEOUT, |until| until.saturating_duration_since(Instant::now()));
        let can_continue = !requests.awaits_continue() || stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").is_ok();
        // `set_read_timeout` refuses a timeout of zero.
        if !can_continue || stream.set_read_timeout(Some(left)).is_err() {
            return Ok(None);
        }
        match stream.read(&mut buffer) {
            Ok(count @ 1..) => requests.push(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            _ => return Ok(None),
        }
    }
}
