//! A client that posts one body after another to a URL, and blocks meanwhile.

use std::io::{self, ErrorKind, Read, Write};
use std::time::Duration;

use anyhow::{Context, Result};

use super::connect::{BeforeDeadline, ConnectOptions, Connected, Connector, describe, stream};
use super::message_reader::{MessageReader, Part};
use super::origin::{Origin, request_target};
use crate::decode::Direction;
use crate::decode::http::StartLine;

/// Maximum bytes of a response body that are kept.
const BODY: usize = 64 << 10;

/// Bytes per read.
const PIECE: usize = 4 << 10;

/// The response to a POST.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PostResponse {
    /// The status code.
    pub status: u16,
    /// The first bytes of the body.
    pub body: Vec<u8>,
}

/// Posts to one URL. The connection is kept for the next request.
#[derive(Debug)]
pub struct Poster {
    connector: Connector,
    connected: Option<Connected>,
    /// The head of each request, up to the value of `Content-Length`.
    head: String,
    limit: Duration,
}

impl Poster {
    /// A client for this URL. The options have the header fields and the time limit for connecting;
    /// a request as a whole has the same limit.
    pub fn new(url: &str, options: &ConnectOptions) -> Result<Poster> {
        let origin = Origin::of(url).with_context(|| format!("{url} is not an HTTP URL"))?;
        let fields = options.request_fields(origin.user.as_deref());
        let fields: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let head = format!(
            "POST {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: mcptap/{}\r\n{fields}Content-Length: ",
            request_target(url),
            origin.authority,
            env!("CARGO_PKG_VERSION")
        );
        Ok(Poster { connector: Connector::new(origin, options)?, connected: None, head, limit: options.timeout })
    }

    /// Sends a body and waits for the response.
    pub fn post(&mut self, body: &[u8]) -> Result<PostResponse, String> {
        // A server may have closed a connection that was idle. A new one decides.
        let mut kept = self.connected.take();
        let again = kept.as_mut().and_then(|connected| self.exchange(connected, body).ok());
        let ((answer, leaves_open), connected) = match again.zip(kept) {
            Some(done) => done,
            None => {
                let mut connected = self.connector.connect()?;
                (self.exchange(&mut connected, body)?, connected)
            }
        };
        self.connected = leaves_open.then_some(connected);
        Ok(answer)
    }

    /// Sends a body on a connection. Returns the response, and whether the connection can be
    /// used for another request.
    fn exchange(&self, (socket, session): &mut Connected, body: &[u8]) -> Result<(PostResponse, bool), String> {
        let mut deadline = BeforeDeadline::new(socket, Some(self.limit));
        let mut stream = stream(session, &mut deadline);
        let request = [format!("{}{}\r\n\r\n", self.head, body.len()).as_bytes(), body].concat();
        let sent = stream.write_all(&request).and_then(|()| stream.flush());
        sent.map_err(|error| describe(&error))?;
        let mut reader = MessageReader::new(Direction::ServerToClient);
        let mut answer = PostResponse::default();
        let mut buffer = [0; PIECE];
        loop {
            let count = match stream.read(&mut buffer) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                // A server that closes TLS without a notice has sent all the same what it sent.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => 0,
                read => read.map_err(|error: io::Error| describe(&error))?,
            };
            for part in reader.push(&buffer[..count]) {
                match part {
                    Part::Head(head) => {
                        if let StartLine::Response { status, .. } = head.start {
                            answer.status = status;
                        }
                    }
                    Part::Content(bytes) => {
                        let room = BODY.saturating_sub(answer.body.len());
                        answer.body.extend_from_slice(&bytes[..bytes.len().min(room)]);
                    }
                    Part::Anomaly(_) => {}
                    Part::End(end) => {
                        end?;
                        return Ok((answer, reader.leaves_open()));
                    }
                }
            }
        }
    }
}
