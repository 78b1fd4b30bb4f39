//! Finds the request that a response answers.
//!
//! RFC 9112 section 9.3.2: a server "MUST send the corresponding responses in the same order that
//! the requests were received". Responses are therefore counted against requests, as long as
//! neither can be missing. After a loss the count is unknown. Then one more fact helps: how much of
//! the responses the client had acknowledged when it sent a request.
//!
//! ```text
//!  acknowledged        0            238            853
//!  requests            1            2              3
//!  responses   0 ── lost ── 238 ────────── 853 ─ HTTP/1.1 200 …
//!                                           └ answers 3: not 1 nor 2, since this client
//!                                             sent each request after the whole response
//!                                             to the previous one
//! ```
//!
//! A wrong pair is worse than none. Where more than one request is possible, the response stays
//! alone.

use std::collections::VecDeque;

use crate::decode::http::Index;

/// The kind of a request, as far as it decides how its response is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asks {
    /// `HEAD`: the response has no content.
    Head,
    /// `CONNECT`: a 2xx response makes a tunnel.
    Connect,
    /// A field `Upgrade`: a 101 response switches protocols.
    Upgrade,
    /// Any other request, or an unknown one.
    Other,
}

/// A request without its response, or a place where requests may be missing.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    /// Offset in the responses up to which the client had acknowledged when it began to send. For
    /// missing requests this is the lowest possible value.
    seen: u64,
    what: What,
}

/// The kind of an entry in the queue.
#[derive(Clone, Copy, Debug)]
enum What {
    Request {
        exchange: Index,
        asks: Asks,
        /// False right after lost requests, if the client had received nothing since. The lost
        /// requests may then be unanswered too.
        follows_answers: bool,
    },
    /// An unknown number of requests was lost, from this offset of the requests on.
    Lost(u64),
    /// Requests may be missing from this offset of the requests on, if the client sends
    /// them without waiting.
    Doubtful(u64),
}

impl Waiting {
    fn is_request(&self) -> bool {
        matches!(self.what, What::Request { .. })
    }
}

/// The exchange of a response, and how to read the response.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    /// The exchange of the response.
    pub(super) exchange: Index,
    /// The kind of the request.
    pub(super) asks: Asks,
    /// Whether the request was captured.
    pub(super) paired: bool,
}

/// The requests of one connection without a response.
#[derive(Debug)]
pub(super) struct Pairing {
    /// The queue, oldest first. `acknowledged` never decreases from front to back.
    waiting: VecDeque<Waiting>,
    limit: usize,
    next: u64,
    /// Whether the client never sent a request before the response to the previous one was over.
    sequential: bool,
    /// Responses that began below this offset may be missing.
    responses_lost: u64,
    /// The offset at which the last paired response ended; `None` while it is incomplete.
    over: Option<u64>,
    /// The exchange of an interim response without a request. The final response belongs to it too.
    interim: Option<Index>,
    /// The exchange that ended HTTP on this connection.
    switched: Option<Index>,
}

impl Pairing {
    pub(super) fn new(limit: usize) -> Pairing {
        Pairing {
            waiting: VecDeque::new(),
            // Room for the place of what was forgotten and for one request.
            limit: limit.max(2),
            next: 0,
            sequential: true,
            responses_lost: 0,
            over: Some(0),
            interim: None,
            switched: None,
        }
    }

    fn open(&mut self) -> Index {
        self.next += 1;
        Index(self.next - 1)
    }

    /// Adds a request. The client had acknowledged the responses up to `acknowledged`.
    ///
    /// Returns its exchange, and whether older requests were evicted for it, for the first time
    /// since the queue was in order.
    pub(super) fn ask(&mut self, seen: u64, asks: Asks) -> (Index, bool) {
        // If the previous request has no response and a response can be lost, then it was lost: the
        // client has received more since.
        let before = self.waiting.iter().rev().find(|waiting| waiting.is_request());
        let alone = before.is_none_or(|before| before.seen < seen && before.seen < self.responses_lost);
        self.sequential &= alone && self.over.is_some_and(|over| over <= seen);
        let follows_answers = match self.waiting.back().map(|waiting| waiting.what) {
            // The client waited for the response to the previous request, so it would have waited
            // again.
            Some(What::Doubtful(_)) if self.sequential => {
                self.waiting.pop_back();
                true
            }
            Some(What::Lost(_) | What::Doubtful(_)) => self.over.is_some_and(|over| over < seen),
            _ => true,
        };
        // A request that was captured only when it was retransmitted has the acknowledgment of that
        // time. Requests after it in the stream were first sent later, so the client had
        // acknowledged no more when it first sent this one.
        for earlier in self.waiting.iter_mut().rev().take_while(|earlier| earlier.seen > seen) {
            earlier.seen = seen;
        }
        let exchange = self.open();
        self.waiting.push_back(Waiting { seen, what: What::Request { exchange, asks, follows_answers } });
        (exchange, self.forget())
    }

    /// Enforces the limit of the queue. Evicted requests become an entry of lost ones, to
    /// keep the count.
    fn forget(&mut self) -> bool {
        if self.waiting.len() <= self.limit {
            return false;
        }
        let first = self.waiting.front().is_some_and(Waiting::is_request);
        while self.waiting.len() >= self.limit {
            self.waiting.pop_front();
        }
        self.waiting.push_front(Waiting { seen: 0, what: What::Lost(0) });
        first
    }

    /// Notes that requests were lost from this offset of the requests on.
    pub(super) fn lose_requests(&mut self, from: u64) {
        self.unseen(What::Lost(from));
    }

    /// Notes that requests may be missing from this offset of the requests on: the end of the last
    /// one is uncertain.
    pub(super) fn doubt_requests(&mut self, from: u64) {
        self.unseen(What::Doubtful(from));
    }

    /// Adds an entry for missing requests, or merges it with the last one.
    fn unseen(&mut self, what: What) {
        match (self.waiting.back_mut(), what) {
            (Some(Waiting { what: What::Lost(_), .. }), _)
            | (Some(Waiting { what: What::Doubtful(_), .. }), What::Doubtful(_)) => {}
            (Some(Waiting { what: doubtful @ What::Doubtful(_), .. }), lost) => *doubtful = lost,
            (back, what) => {
                let seen = back.map_or(0, |waiting| waiting.seen);
                self.waiting.push_back(Waiting { seen, what });
                self.forget();
            }
        }
    }

    /// Notes that responses may be missing that began up to this offset.
    pub(super) fn lose_responses(&mut self, up_to: u64) {
        self.responses_lost = self.responses_lost.max(up_to);
    }

    /// Pairs a response that begins at `start`. The server had acknowledged the requests up to
    /// `acknowledged`.
    pub(super) fn answer(&mut self, start: u64, acknowledged: u64, interim: bool) -> Answer {
        // A client that has received bytes did not request them later.
        let candidates = self.waiting.partition_point(|waiting| waiting.seen <= start);
        let Some((at, exchange, asks)) = self.asked(candidates, acknowledged) else {
            if !interim && candidates > 0 {
                // It may have answered any of them. If it was not the first, that one was answered
                // before.
                self.lose_responses(start.saturating_add(1));
                if candidates > 1 && self.waiting[0].is_request() {
                    self.waiting.pop_front();
                }
            }
            let exchange = self.interim.take().unwrap_or_else(|| self.open());
            self.interim = interim.then_some(exchange);
            return Answer { exchange, asks: Asks::Other, paired: false };
        };
        // Requests before it stay without response, or their response was lost. The count is
        // certain again.
        self.waiting.drain(..at + usize::from(!interim));
        self.responses_lost = 0;
        self.interim = None;
        if !interim {
            self.over = None;
        }
        Answer { exchange, asks, paired: true }
    }

    /// Pairs a response without a head that continues at `start`. If the client sends requests
    /// without waiting, this may be the rest of an earlier response, so it stays alone.
    pub(super) fn answer_unseen(&mut self, start: u64, acknowledged: u64) -> Answer {
        match self.sequential {
            true => self.answer(start, acknowledged, false),
            false => Answer { exchange: self.open(), asks: Asks::Other, paired: false },
        }
    }

    /// The request that a response answers, of the first `candidates`: its index in the queue.
    fn asked(&self, candidates: usize, acknowledged: u64) -> Option<(usize, Index, Asks)> {
        let request = |at: usize| match self.waiting.get(at)?.what {
            What::Request { exchange, asks, follows_answers } => {
                (at == 0 || !self.sequential || follows_answers).then_some((at, exchange, asks))
            }
            What::Lost(_) | What::Doubtful(_) => None,
        };
        let first = self.waiting.front().filter(|_| candidates > 0)?;
        let certain = first.is_request() && first.seen >= self.responses_lost;
        if certain || candidates == 1 {
            request(0)
        } else if self.sequential {
            // Each request was sent after the response to the previous one, so the last one is
            // meant. Lost requests that the server had not acknowledged are not.
            let meant = self.waiting.iter().take(candidates).rposition(|waiting| match waiting.what {
                What::Request { .. } => true,
                What::Lost(from) | What::Doubtful(from) => from < acknowledged,
            });
            request(meant?)
        } else {
            None
        }
    }

    /// Notes that a paired response is over, or may be, at this offset of the responses.
    pub(super) fn over(&mut self, offset: u64) {
        self.over.get_or_insert(offset);
    }

    /// The number of entries in the queue.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Notes that a response continues after its end was noted.
    pub(super) fn goes_on(&mut self) {
        self.over = None;
    }

    /// Whether the queue is empty: no request and no missing request waits for a response.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The kind of the last request, while it waits, if its response may end HTTP
    /// on this connection.
    pub(super) fn undecided(&self) -> Option<Asks> {
        match self.waiting.back()?.what {
            What::Request { asks: asks @ (Asks::Connect | Asks::Upgrade), .. } => Some(asks),
            _ => None,
        }
    }

    /// Notes that HTTP ends on this connection.
    pub(super) fn switch(&mut self, exchange: Index) {
        self.switched = Some(exchange);
        self.waiting.clear();
    }

    /// The exchange that ended HTTP on this connection.
    pub(super) fn switched(&self) -> Option<Index> {
        self.switched
    }
}
