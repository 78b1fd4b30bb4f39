//! One client: its connection, that to the server, and what passes.
//!
//! One thread does all of it with one `poll`. What was read is passed on before anything else is read, and noted once it has passed; a side that does not take
//! what it is sent holds up the other, not the program. Ends and resets are passed on too.

use std::io::{self, ErrorKind};
use std::mem;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::set_socket_linger;

use super::Proxy;
use super::conversation::Conversation;
use crate::capture::Time;
use crate::decode::Direction::{ClientToServer, ServerToClient};
use crate::http::listen;
use crate::http::requests::Refusal;
use crate::http::socket::Socket;
use crate::source::now;
use crate::source::tape::LossyTapeConnection;

/// Bytes read at once.
const PIECE: usize = 64 << 10;

/// How long a client may keep a connection that the server has closed.
const LINGER: Duration = Duration::from_secs(60);

/// How long a client may take to read why it was refused.
const UNREAD: Duration = Duration::from_secs(5);

/// How a connection ends.
#[derive(Debug)]
enum Over {
    /// Both sides have said all.
    Finished,
    /// One side broke it off: so does the other.
    Broken,
    /// The client is told why.
    Answered(Refusal),
}

pub(super) struct Relay<'p> {
    proxy: &'p Proxy,
    stop: BorrowedFd<'p>,
    client: Socket,
    /// The client's address, and the one that it reached.
    addresses: (SocketAddr, SocketAddr),
    server: Option<Socket>,
    talk: Conversation,
    track: Option<LossyTapeConnection>,
    /// When what is being passed on was read.
    came: Time,
    /// Which side sends nothing more: client, server.
    ended: (bool, bool),
    /// The server takes nothing more. It may still say why.
    is_deaf: bool,
    /// When patience with the client ends.
    until: Option<Instant>,
    read: Vec<u8>,
    out: Vec<u8>,
}

impl<'p> Relay<'p> {
    /// # Errors
    /// The client is gone already.
    pub(super) fn new(proxy: &'p Proxy, stop: BorrowedFd<'p>, client: TcpStream) -> io::Result<Relay<'p>> {
        client.set_nodelay(true)?;
        let addresses = (client.peer_addr()?, client.local_addr()?);
        Ok(Relay {
            proxy,
            stop,
            client: Socket::new((client, None))?,
            addresses,
            server: None,
            talk: Conversation::new(proxy.places.clone(), &addresses.1.to_string()),
            track: None,
            came: now(),
            ended: (false, false),
            is_deaf: false,
            until: Some(Instant::now() + proxy.patience),
            read: vec![0; PIECE],
            out: Vec::new(),
        })
    }

    /// Until it is over.
    pub(super) fn run(mut self) {
        let over = loop {
            match self.turn() {
                Ok(()) => {}
                Err(over) => break over,
            }
        };
        match over {
            Over::Finished => {}
            Over::Broken => self.break_off(),
            Over::Answered(refusal) => self.answer(&refusal),
        }
    }

    /// Waits for what comes next, and passes it on.
    fn turn(&mut self) -> Result<(), Over> {
        let (reads_client, reads_server) = (self.reads_client(), self.reads_server());
        let holds = reads_server && self.server.as_ref().is_some_and(Socket::holds_received);
        let limit =
            if holds { Some(Duration::ZERO) } else { self.until.map(|until| until - Instant::now().min(until)) };
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        let flag = |is_wanted: bool, flag: PollFlags| if is_wanted { flag } else { PollFlags::empty() };
        let flags = |reads, writes| flag(reads, PollFlags::IN) | flag(writes, PollFlags::OUT);
        let client = flags(reads_client, self.client.has_unsent());
        let server = self.server.as_ref();
        let server = server.map(|socket| (socket, flags(reads_server, socket.has_unsent() && !self.is_deaf)));
        // A server of which nothing is wanted for the moment is not waited for: that it is gone will be seen, and there is nobody to tell yet.
        let (server_end, server) = match server.filter(|(_, flags)| !flags.is_empty()) {
            Some((socket, flags)) => (socket.socket().as_fd(), flags),
            None => (self.stop, PollFlags::empty()),
        };
        let mut watched = [
            PollFd::from_borrowed_fd(self.stop, PollFlags::IN),
            PollFd::new(self.client.socket(), client),
            PollFd::from_borrowed_fd(server_end, server),
        ];
        match poll(&mut watched, limit.as_ref()) {
            Err(rustix::io::Errno::INTR) => return Ok(()),
            Err(_) => return Err(Over::Broken),
            Ok(_) => {}
        }
        let [stop, client, server] = watched.map(|watched| watched.revents());
        if !stop.is_empty() {
            return Err(Over::Finished);
        }
        if client.intersects(PollFlags::ERR | PollFlags::HUP) && !reads_client {
            return Err(Over::Broken);
        }
        if !client.is_empty() {
            self.client.flush().map_err(|_| Over::Broken)?;
            if reads_client {
                self.hear_client()?;
            }
        }
        if !server.is_empty() || holds {
            self.hear_server(reads_server)?;
        }
        self.settle()
    }

    /// Whether the client is to be read: not while the server has not taken what came before.
    fn reads_client(&self) -> bool {
        let is_stuck = self.is_deaf || self.server.as_ref().is_some_and(Socket::has_unsent);
        !self.ended.0 && !is_stuck && self.talk.wants_more()
    }

    fn reads_server(&self) -> bool {
        self.server.is_some() && !self.ended.1 && !self.client.has_unsent()
    }

    fn hear_client(&mut self) -> Result<(), Over> {
        match self.client.receive(&mut self.read) {
            Ok(None) => Ok(()),
            Ok(Some(0)) => {
                self.ended.0 = true;
                // Nothing was asked, or not to the end.
                let server = self.server.as_mut().ok_or(Over::Finished)?;
                self.is_deaf |= server.end().is_err();
                Ok(())
            }
            Ok(Some(count)) => {
                self.came = now();
                self.talk.push(ClientToServer, &self.read[..count]);
                self.pass_to_server()
            }
            Err(_) => Err(Over::Broken),
        }
    }

    fn pass_to_server(&mut self) -> Result<(), Over> {
        self.out.clear();
        self.talk.take(ClientToServer, &mut self.out);
        if self.out.is_empty() {
            return Ok(());
        }
        self.until = None;
        let (client, own) = self.addresses;
        let server = match &mut self.server {
            Some(server) => server,
            none => {
                let made = self.proxy.connect(own);
                let address = made.as_ref().ok().and_then(|server| server.socket().peer_addr().ok());
                // What reached nobody was said to us.
                let track = self.proxy.record.track(self.came, client, address.unwrap_or(own));
                let track = self.track.insert(track);
                match made {
                    Ok(server) => none.insert(server),
                    Err(why) => {
                        track.sent(self.came, mem::take(&mut self.out));
                        return Err(Over::Answered(bad_gateway(why)));
                    }
                }
            }
        };
        // Noted before it is passed on: what it leads to may come on another connection, and must not be noted before.
        if let Some(track) = &mut self.track {
            track.sent(self.came, self.out.clone());
        }
        self.is_deaf |= server.send(&self.out).is_err();
        Ok(())
    }

    fn hear_server(&mut self, reads: bool) -> Result<(), Over> {
        let Some(server) = &mut self.server else { return Ok(()) };
        self.is_deaf |= server.flush().is_err();
        if !reads {
            return Ok(());
        }
        match server.receive(&mut self.read) {
            Ok(None) => return Ok(()),
            Ok(Some(0)) => self.end_of_server(),
            Ok(Some(count)) => {
                self.came = now();
                self.talk.push(ServerToClient, &self.read[..count]);
            }
            // Many servers end TLS without a word. Only within an answer that matters: the client must not take it for the answer's end.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof && !self.talk.is_answering() => self.end_of_server(),
            Err(error) if !self.talk.was_answered() => {
                let why = format!("the connection broke without an answer: {error}");
                return Err(Over::Answered(bad_gateway(self.proxy.named(why))));
            }
            Err(_) => return Err(Over::Broken),
        }
        self.pass_to_client()?;
        // What a client sent behind its question may be passed on now that the answer is known.
        self.pass_to_server()
    }

    fn end_of_server(&mut self) {
        self.ended.1 = true;
        self.talk.end();
    }

    fn pass_to_client(&mut self) -> Result<(), Over> {
        self.out.clear();
        self.talk.take(ServerToClient, &mut self.out);
        if let Some(place) = self.talk.away() {
            self.proxy.say(&format!("clients are redirected to {place}: what they say there does not pass here"));
        }
        if !self.out.is_empty() {
            if let Some(track) = &mut self.track {
                track.received(self.came, self.out.clone());
            }
            self.client.send(&self.out).map_err(|_| Over::Broken)?;
        }
        if self.ended.1 {
            if !self.talk.was_answered() && self.talk.waiting() > 0 {
                let why = "it closed the connection without an answer".to_owned();
                return Err(Over::Answered(bad_gateway(self.proxy.named(why))));
            }
            self.client.end().map_err(|_| Over::Broken)?;
        }
        Ok(())
    }

    /// What follows from all that was said.
    fn settle(&mut self) -> Result<(), Over> {
        let is_closed = self.ended.1 && !self.client.has_unsent();
        if let Some(refused) = self.talk.refused() {
            if refused.is_begun {
                // The server has a part of a request whose end nobody knows. Its answer may be on its way already: then there is no place for ours.
                let is_mute = self.talk.waiting() == 1 && !self.talk.is_answering() && !self.client.has_unsent();
                return Err(if is_mute { Over::Answered(refused.refusal.clone()) } else { Over::Broken });
            }
            // Answers come in the order of the questions.
            if self.talk.waiting() == 0 {
                return Err(Over::Answered(refused.refusal.clone()));
            }
        }
        if is_closed && (self.ended.0 || self.is_deaf) {
            return Err(Over::Finished);
        }
        self.check_patience()
    }

    fn check_patience(&mut self) -> Result<(), Over> {
        let now = Instant::now();
        let is_slow = self.server.is_none() || !self.talk.held().is_empty();
        let patience = match (self.ended.1, is_slow) {
            (true, _) => LINGER,
            (false, true) if self.talk.refused().is_none() => self.proxy.patience,
            _ => {
                self.until = None;
                return Ok(());
            }
        };
        if *self.until.get_or_insert(now + patience) > now {
            return Ok(());
        }
        if self.ended.1 || self.talk.held().is_empty() || self.talk.waiting() > 0 {
            return Err(Over::Finished);
        }
        Err(Over::Answered(Refusal::new(408, "the request did not come in time")))
    }

    /// Resets both connections.
    fn break_off(&self) {
        for socket in [Some(&self.client), self.server.as_ref()].into_iter().flatten() {
            // Where that cannot be, it is closed.
            let _ = set_socket_linger(socket.socket(), Some(Duration::ZERO));
        }
    }

    /// Answers in place of the server. What the client sent and the server never got is recorded too.
    fn answer(mut self, refusal: &Refusal) {
        let (client, own) = self.addresses;
        self.proxy.say(&format!("answered with {}: {}", refusal.status, refusal.why));
        let response = refusal.response("mcptap proxy: ");
        let time = now();
        let mut track = self.track.take().unwrap_or_else(|| self.proxy.record.track(time, client, own));
        track.sent(time, self.talk.held().to_vec());
        track.received(time, response.clone().into_bytes());
        drop(self.server.take());
        let socket = self.client.socket();
        let ready = socket.set_nonblocking(false).and_then(|()| socket.set_write_timeout(Some(UNREAD)));
        if ready.and_then(|()| self.client.send(response.as_bytes())).is_ok() {
            listen::drain(self.client.socket());
        }
    }
}

fn bad_gateway(why: String) -> Refusal {
    Refusal::new(502, why)
}
