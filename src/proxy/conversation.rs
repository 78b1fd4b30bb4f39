//! A connection of a client, as bytes in and bytes out: the decoder that reads captures tells where heads are, and everything between them passes as it is.
//!
//! ```text
//!           bytes of the client ─► held ─► decoder: heads, what is odd ─► as far as it is understood ─► bytes for the server
//! bytes for the client ◄─ as far as it is understood ◄─ decoder ◄─ held ◄─ bytes of the server
//! ```
//!
//! So only heads, and lines that frame chunks, are held until they are whole ([`endpoint`](super::endpoint) holds one line more); and what was passed on means to the record what it meant here.

use std::collections::VecDeque;
use std::sync::Arc;

use super::endpoint::{Announcement, Change};
use super::heads::{Places, Redirect};
use crate::capture::Limits;
use crate::decode::http::{Head, HttpEvent, StartLine};
use crate::decode::http1::Http1;
use crate::decode::{Anomaly, Direction, Ending, Piece};
use crate::http::requests::Refusal;

/// Requests that wait for their answers, beyond which no more are read. Pipelining clients send tens.
const WAITING: u64 = 64;

/// Both directions of a connection.
#[derive(Debug)]
pub(super) struct Conversation {
    http: Http1,
    /// How far the decoder was told.
    told: [u64; 2],
    state: State,
}

/// What the decoder tells.
#[derive(Debug)]
struct State {
    places: Arc<Places>,
    /// By which name the client calls the proxy.
    host: String,
    ways: [Way; 2],
    /// Where the last head of a request begins and ends.
    head: (u64, u64),
    /// Whether its body goes on.
    has_more: bool,
    /// Requests passed on whose answers are not over.
    waiting: u64,
    /// An answer has begun.
    answers: bool,
    /// It may begin with an address at the server.
    announcement: Option<Announcement>,
    refused: Option<Refused>,
    /// Where the server redirected past the proxy.
    away: Option<String>,
}

/// A request that is not passed on, or not to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) refusal: Refusal,
    /// The server has a part of it.
    pub(super) is_begun: bool,
}

/// One direction.
#[derive(Debug)]
struct Way {
    /// Offset of what is held.
    start: u64,
    held: Vec<u8>,
    /// What changes of it, in order.
    changes: VecDeque<Change>,
    /// Nothing is passed on from here, for now or for good.
    cut: u64,
}

impl Way {
    fn new() -> Way {
        Way { start: 0, held: Vec::new(), changes: VecDeque::new(), cut: u64::MAX }
    }

    /// Appends what stands before this offset, in its new form, and lets go of it.
    fn take(&mut self, end: u64, out: &mut Vec<u8>) {
        let end = end.min(self.cut).max(self.start);
        let place = |offset: u64| (offset - self.start) as usize;
        if out.is_empty() && self.changes.is_empty() && place(end) == self.held.len() {
            // Content, which is most of what passes, is not copied again.
            self.start = end;
            return std::mem::swap(out, &mut self.held);
        }
        let mut at = self.start;
        while let Some((range, text)) = self.changes.pop_front_if(|(range, _)| range.end <= end) {
            out.extend_from_slice(&self.held[place(at)..place(range.start)]);
            out.extend_from_slice(&text);
            at = range.end;
        }
        out.extend_from_slice(&self.held[place(at)..place(end)]);
        self.held.drain(..place(end));
        self.start = end;
    }
}

impl Conversation {
    pub(super) fn new(places: Arc<Places>, own: &str) -> Conversation {
        let state = State {
            places,
            host: own.to_owned(),
            ways: [Way::new(), Way::new()],
            head: (0, 0),
            has_more: false,
            waiting: 0,
            answers: false,
            announcement: None,
            refused: None,
            away: None,
        };
        Conversation { http: Http1::new(Limits::default()), told: [0; 2], state }
    }

    /// Takes bytes that one side sent.
    pub(super) fn push(&mut self, direction: Direction, bytes: &[u8]) {
        self.state.ways[direction as usize].held.extend_from_slice(bytes);
        self.tell(direction, Piece::Data(bytes));
        self.told[direction as usize] += bytes.len() as u64;
    }

    /// The server sends nothing more.
    pub(super) fn end(&mut self) {
        self.tell(Direction::ServerToClient, Piece::End(Ending::Finished));
    }

    fn tell(&mut self, direction: Direction, piece: Piece<'_>) {
        let seen = self.told[direction.reversed() as usize];
        let Conversation { http, state, .. } = self;
        http.push(direction, piece, seen, &mut |event| state.hear(event));
    }

    /// Appends what may be passed on to whoever this direction leads to.
    pub(super) fn take(&mut self, direction: Direction, out: &mut Vec<u8>) {
        let understood = self.http.low_water(direction);
        self.state.ways[direction as usize].take(understood, out);
    }

    /// Bytes of the client that are not passed on, or not yet.
    pub(super) fn held(&self) -> &[u8] {
        &self.state.ways[0].held
    }

    /// Whether more of the client may be read.
    pub(super) fn wants_more(&self) -> bool {
        self.state.refused.is_none() && self.state.waiting < WAITING
    }

    /// Requests passed on whose answers are not over.
    pub(super) fn waiting(&self) -> u64 {
        self.state.waiting
    }

    /// Whether the answer to the oldest of them has begun.
    pub(super) fn is_answering(&self) -> bool {
        self.state.answers
    }

    /// Whether the server has said anything.
    pub(super) fn was_answered(&self) -> bool {
        self.told[1] > 0
    }

    /// The request with which it ends.
    pub(super) fn refused(&self) -> Option<&Refused> {
        self.state.refused.as_ref()
    }

    /// Where the server redirected past the proxy, once.
    pub(super) fn away(&mut self) -> Option<String> {
        self.state.away.take()
    }
}

impl State {
    fn hear(&mut self, event: HttpEvent<'_>) {
        match event {
            // Nothing behind what was refused is looked at.
            HttpEvent::Head { direction: Direction::ClientToServer, .. } if self.refused.is_some() => {}
            HttpEvent::Head { direction: Direction::ClientToServer, head, .. } => self.request(&head),
            HttpEvent::Head { direction: Direction::ServerToClient, head, .. } => self.response(&head),
            HttpEvent::End { direction: Direction::ClientToServer, .. } => self.has_more = false,
            HttpEvent::End { direction: Direction::ServerToClient, .. } => {
                self.waiting = self.waiting.saturating_sub(1);
                self.answers = false;
                self.release();
            }
            HttpEvent::Content { direction: Direction::ServerToClient, offset, bytes, .. } => {
                self.content(offset, bytes);
            }
            HttpEvent::Anomaly { direction: Direction::ClientToServer, anomaly, .. } => self.odd(&anomaly),
            // What is odd in answers is for the client to judge, as without us.
            _ => {}
        }
    }

    fn request(&mut self, head: &Head) {
        self.head = (head.offset, head.end());
        match self.places.request(head) {
            Ok((text, host)) => {
                self.host = host.unwrap_or_else(|| std::mem::take(&mut self.host));
                self.ways[0].changes.push_back((head.offset..head.end(), text));
                self.waiting += 1;
                self.has_more = true;
            }
            Err(refusal) => self.refuse(refusal, head.offset, false),
        }
    }

    fn response(&mut self, head: &Head) {
        let is_interim = matches!(head.start, StartLine::Response { status: 100 | 102..200, .. });
        self.answers |= !is_interim;
        match self.places.redirect(head, &self.host) {
            Redirect::None => {}
            Redirect::Here(text) => self.ways[1].changes.push_back((head.offset..head.end(), text)),
            Redirect::Away(place) => self.away = Some(place),
        }
        self.announcement = Announcement::of(head);
        self.ways[1].cut = self.announcement.as_ref().map_or(u64::MAX, Announcement::start);
    }

    /// Content of an answer, which is looked at only at its beginning.
    fn content(&mut self, offset: u64, bytes: &[u8]) {
        let Some(announcement) = &mut self.announcement else { return };
        let way = &mut self.ways[1];
        let held = way.held.get((announcement.start() - way.start) as usize..).unwrap_or_default();
        let renamed = |address: &str| self.places.renamed(address, &self.host);
        if let Some(changes) = announcement.push(offset, bytes, held, renamed) {
            way.changes.extend(changes);
            self.release();
        }
    }

    fn release(&mut self) {
        self.announcement = None;
        self.ways[1].cut = u64::MAX;
    }

    /// Something in what the client sent cannot be read without a guess.
    fn odd(&mut self, anomaly: &Anomaly) {
        let Some(offset) = offset(anomaly).filter(|_| self.refused.is_none()) else { return };
        let (start, end) = self.head;
        let is_in_head = self.has_more && offset < end;
        let is_held = self.ways[0].start <= start;
        if is_in_head && is_held {
            self.ways[0].changes.pop_back();
            self.waiting -= 1;
            self.refuse(Refusal::of(anomaly), start, false);
        } else {
            self.refuse(Refusal::of(anomaly), offset.max(end), self.has_more);
        }
    }

    fn refuse(&mut self, refusal: Refusal, cut: u64, is_begun: bool) {
        self.ways[0].cut = cut;
        self.refused = Some(Refused { refusal, is_begun });
    }
}

/// Where it is, for what can be odd in requests.
fn offset(anomaly: &Anomaly) -> Option<u64> {
    match anomaly {
        Anomaly::BareLineFeed { offset }
        | Anomaly::FoldedHeader { offset }
        | Anomaly::AmbiguousFraming { offset, .. }
        | Anomaly::NotHttp { offset, .. }
        | Anomaly::LimitReached { offset, .. } => Some(*offset),
        _ => None,
    }
}
