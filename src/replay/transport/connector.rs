//! The sockets of ureq, with what goes through them noted on a tape: the bytes before TLS wraps them and after it is taken off.
//!
//! ```text
//!  ureq ─► Taped ─► TLS (https only) ─► Tcp
//!            └─► tape
//! ```

use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Weak};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::RecvFlags;
use ureq::Error;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, RustlsConnector, ShutdownHandle, Transport,
};

use crate::source::tape::{Tape, TapeConnection};

/// Makes connections whose bytes are noted.
pub struct TapedConnector {
    tls: RustlsConnector,
    tape: Tape,
}

impl TapedConnector {
    /// Notes on `tape`.
    pub fn new(tape: Tape) -> TapedConnector {
        TapedConnector { tls: RustlsConnector::default(), tape }
    }
}

impl fmt::Debug for TapedConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TapedConnector")
    }
}

impl Connector<()> for TapedConnector {
    type Out = Taped;

    fn connect(&self, details: &ConnectionDetails<'_>, _: Option<()>) -> Result<Option<Taped>, Error> {
        let stream = Arc::new(Socket(connect(details)?));
        let (client, server) = (stream.0.local_addr()?, stream.0.peer_addr()?);
        // While a stream of events is read, closing the socket is the only way to end it.
        (details.register_shutdown)(Arc::downgrade(&stream) as Weak<dyn ShutdownHandle>)?;
        let config = details.config;
        let buffers = LazyBuffers::new(config.input_buffer_size(), config.output_buffer_size());
        let tcp = Tcp { stream, buffers, limits: [None; 2] };
        let Some(inner) = self.tls.connect(details, Some(tcp))? else { return Ok(None) };
        let connection = self.tape.open(client, server);
        Ok(Some(Taped { inner: Box::new(inner), tape: self.tape.clone(), connection, held: Vec::new() }))
    }
}

/// The first address that answers.
fn connect(details: &ConnectionDetails<'_>) -> Result<TcpStream, Error> {
    let mut last = None;
    for address in &details.addrs {
        let attempt = match details.timeout.not_zero() {
            Some(timeout) => TcpStream::connect_timeout(address, *timeout),
            None => TcpStream::connect(address),
        };
        match attempt {
            Ok(stream) => {
                // A request must not wait for the acknowledgement of the one before.
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => last = Some(error),
        }
    }
    Err(last.map_or(Error::HostNotFound, Error::Io))
}

#[derive(Debug)]
struct Socket(TcpStream);

impl ShutdownHandle for Socket {
    fn shutdown(&self) {
        // Closed already is closed too.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

#[derive(Debug)]
struct Tcp {
    stream: Arc<Socket>,
    buffers: LazyBuffers,
    /// How long the socket waits to be read from and to be written to.
    limits: [Option<Duration>; 2],
}

impl Tcp {
    fn stream(&self) -> &TcpStream {
        &self.stream.0
    }
}

/// A socket's timeout is an error of its own for ureq.
fn timed(error: std::io::Error, timeout: NextTimeout) -> Error {
    match error.kind() {
        ErrorKind::TimedOut | ErrorKind::WouldBlock => Error::Timeout(timeout.reason),
        _ => Error::Io(error),
    }
}

impl Transport for Tcp {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        let timeout = timeout.for_write();
        let limit = timeout.not_zero().map(|timeout| *timeout);
        // Each of these is a system call, and calls have the same limits nearly always.
        if limit != self.limits[1] {
            self.stream().set_write_timeout(limit)?;
            self.limits[1] = limit;
        }
        let mut stream = &self.stream.0;
        stream.write_all(&self.buffers.output()[..amount]).map_err(|error| timed(error, timeout))
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        let timeout = timeout.for_read();
        let limit = timeout.not_zero().map(|timeout| *timeout);
        if limit != self.limits[0] {
            self.stream().set_read_timeout(limit)?;
            self.limits[0] = limit;
        }
        let stream = Arc::clone(&self.stream);
        let amount = loop {
            match (&stream.0).read(self.buffers.input_append_buf()) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                result => break result.map_err(|error| timed(error, timeout))?,
            }
        };
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    /// Whether the server left the connection open and said nothing unasked.
    fn is_open(&mut self) -> bool {
        let look = rustix::net::recv(self.stream(), &mut [0; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT);
        matches!(look, Err(Errno::AGAIN))
    }
}

/// A connection whose plain bytes are noted.
#[derive(Debug)]
pub struct Taped {
    inner: Box<dyn Transport>,
    tape: Tape,
    connection: TapeConnection,
    /// What is to be sent: head and body of a request go as one, which wakes the server once.
    held: Vec<u8>,
}

/// Bytes that are held back at most.
const HELD: usize = 64 << 10;

impl Taped {
    /// Sends what is held.
    fn flush(&mut self, timeout: NextTimeout) -> Result<(), Error> {
        let held = std::mem::take(&mut self.held);
        if held.is_empty() {
            return Ok(());
        }
        // Noted first: the answer may be noted before this returns.
        self.tape.sent(self.connection, &held);
        let mut rest = held.as_slice();
        while !rest.is_empty() {
            let output = self.inner.buffers().output();
            let count = rest.len().min(output.len());
            if count == 0 {
                return Err(Error::Io(ErrorKind::WriteZero.into()));
            }
            output[..count].copy_from_slice(&rest[..count]);
            rest = &rest[count..];
            self.inner.transmit_output(count, timeout)?;
        }
        self.held = held;
        self.held.clear();
        Ok(())
    }
}

impl Transport for Taped {
    fn buffers(&mut self) -> &mut dyn Buffers {
        self.inner.buffers()
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        let output = self.inner.buffers().output().get(..amount).unwrap_or_default();
        self.held.extend_from_slice(output);
        if self.held.len() > HELD { self.flush(timeout) } else { Ok(()) }
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        // Whoever waits for an answer has asked all of it.
        self.flush(timeout)?;
        let before = self.inner.buffers().input().len();
        let more = self.inner.await_input(timeout)?;
        let received = self.inner.buffers().input().get(before..).unwrap_or_default();
        self.tape.received(self.connection, received);
        Ok(more)
    }

    fn is_open(&mut self) -> bool {
        self.inner.is_open()
    }

    fn is_tls(&self) -> bool {
        self.inner.is_tls()
    }
}

impl Drop for Taped {
    fn drop(&mut self) {
        self.tape.close(self.connection);
    }
}
