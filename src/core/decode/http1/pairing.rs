//! Which request a response answers.
//!
//! RFC 9112 section 9.3.2: a server "MUST send the corresponding responses in the same order that the requests were
//! received". So responses are counted off against requests, as long as none of either can have passed unseen. After a
//! loss the count is not known any more, and one more thing helps: what the client had seen when it sent a request.
//!
//! ```text
//!  requests            1 (seen 0)   2 (seen 238)   3 (seen 853)
//!  responses   0 ── lost ── 238 ────────── 853 ─ HTTP/1.1 200 …
//!                                           └ answers 3: not 1 nor 2, for this client never sent a request
//!                                             before it had the whole answer to the one before
//! ```
//!
//! A wrong pair is worse than none: where more than one request could be meant, the response stays alone.

use std::collections::VecDeque;

use crate::decode::http::ExchangeIndex;

/// What of a request decides how its response is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asks {
    /// `HEAD`: the response has no content.
    Head,
    /// `CONNECT`: a 2xx response makes a tunnel.
    Connect,
    /// A field `Upgrade`: a 101 response switches protocols.
    Upgrade,
    /// Anything else, or not known.
    Other,
}

/// A request that waits for its response, or a place where requests may have passed unseen.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    /// Offset in the responses up to which the client had seen when it began to send; for unseen requests the least it
    /// can be.
    seen: u64,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Request {
        exchange: ExchangeIndex,
        asks: Asks,
        /// False right behind lost requests, where the client had seen nothing since: they may wait as this one does.
        follows_answers: bool,
    },
    /// Requests were lost, nobody knows how many, from this offset of the requests on.
    Lost(u64),
    /// Requests may have been sent, if the client sends them without waiting, from this offset of the requests on.
    Doubtful(u64),
}

impl Waiting {
    fn is_request(&self) -> bool {
        matches!(self.what, What::Request { .. })
    }
}

/// The response to a request: its exchange, and how to read it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    /// The exchange.
    pub(super) exchange: ExchangeIndex,
    /// What was asked.
    pub(super) asks: Asks,
    /// Whether the request is known.
    pub(super) paired: bool,
}

/// The requests of one connection that wait.
#[derive(Debug)]
pub(super) struct Pairing {
    /// `seen` never falls from front to back.
    waiting: VecDeque<Waiting>,
    limit: usize,
    next: u64,
    /// The client never sent a request before the response to the one before was over.
    sequential: bool,
    /// Responses that began below this offset may have passed unseen.
    responses_lost: u64,
    /// Where the last response that answers a request ended; `None` while it goes on.
    over: Option<u64>,
    /// The exchange of an interim response whose request is not known: the final response is of the same.
    interim: Option<ExchangeIndex>,
    /// The exchange that ended HTTP on this connection.
    switched: Option<ExchangeIndex>,
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

    fn open(&mut self) -> ExchangeIndex {
        self.next += 1;
        ExchangeIndex(self.next - 1)
    }

    /// A request was seen, sent by a client that had seen the responses up to `seen`. Whether older ones had to be
    /// forgotten for it, for the first time since the queue was in order.
    pub(super) fn ask(&mut self, seen: u64, asks: Asks) -> (ExchangeIndex, bool) {
        // Where the response to the one before was not seen: if one can have been lost, it was, and the client saw
        // something more.
        let before = self.waiting.iter().rev().find(|waiting| waiting.is_request());
        let alone = before.is_none_or(|before| before.seen < seen && before.seen < self.responses_lost);
        self.sequential &= alone && self.over.is_some_and(|over| over <= seen);
        let follows_answers = match self.waiting.back().map(|waiting| waiting.what) {
            // It waited for the response to the request before, so it would have waited for others.
            Some(What::Doubtful(_)) if self.sequential => {
                self.waiting.pop_back();
                true
            }
            Some(What::Lost(_) | What::Doubtful(_)) => self.over.is_some_and(|over| over < seen),
            _ => true,
        };
        // A request that was captured only when it was sent again brings an acknowledgment of that time. What follows
        // it in the stream was first sent later, so this request was first sent by a client that had seen no more than
        // that.
        for earlier in self.waiting.iter_mut().rev().take_while(|earlier| earlier.seen > seen) {
            earlier.seen = seen;
        }
        let exchange = self.open();
        self.waiting.push_back(Waiting { seen, what: What::Request { exchange, asks, follows_answers } });
        (exchange, self.forget())
    }

    /// Keeps the queue within its limit. What is forgotten becomes a place of lost requests: the count must not slip.
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

    /// Requests were lost from this offset of the requests on.
    pub(super) fn lose_requests(&mut self, from: u64) {
        self.unseen(What::Lost(from));
    }

    /// Requests may have passed unseen from this offset of the requests on: it is not certain where the last one ended.
    pub(super) fn doubt_requests(&mut self, from: u64) {
        self.unseen(What::Doubtful(from));
    }

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

    /// Up to this offset of the responses, responses may have begun unseen.
    pub(super) fn lose_responses(&mut self, up_to: u64) {
        self.responses_lost = self.responses_lost.max(up_to);
    }

    /// A response begins at `start`, sent by a server that had seen the requests up to `acknowledged`.
    pub(super) fn answer(&mut self, start: u64, acknowledged: u64, interim: bool) -> Answer {
        // A client that has seen bytes has not asked for them later.
        let candidates = self.waiting.partition_point(|waiting| waiting.seen <= start);
        let Some((at, exchange, asks)) = self.asked(candidates, acknowledged) else {
            if !interim && candidates > 0 {
                // It may have answered any of them. If it was not the first, that one was answered before.
                self.lose_responses(start.saturating_add(1));
                if candidates > 1 && self.waiting[0].is_request() {
                    self.waiting.pop_front();
                }
            }
            let exchange = self.interim.take().unwrap_or_else(|| self.open());
            self.interim = interim.then_some(exchange);
            return Answer { exchange, asks: Asks::Other, paired: false };
        };
        // What comes before it was never answered, or its answer was lost. From here on the count is known again.
        self.waiting.drain(..at + usize::from(!interim));
        self.responses_lost = 0;
        self.interim = None;
        if !interim {
            self.over = None;
        }
        Answer { exchange, asks, paired: true }
    }

    /// A response goes on at `start` whose head was not seen. Where its client does not wait for one response before it asks for the next, this may be
    /// an earlier one that goes on: it stays alone.
    pub(super) fn answer_unseen(&mut self, start: u64, acknowledged: u64) -> Answer {
        match self.sequential {
            true => self.answer(start, acknowledged, false),
            false => Answer { exchange: self.open(), asks: Asks::Other, paired: false },
        }
    }

    /// Which of the first `candidates` a response answers: its place in the queue.
    fn asked(&self, candidates: usize, acknowledged: u64) -> Option<(usize, ExchangeIndex, Asks)> {
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
            // Each request was sent after the response to the one before, so the last one is meant. Lost requests of
            // which the server had seen nothing are not.
            let meant = self.waiting.iter().take(candidates).rposition(|waiting| match waiting.what {
                What::Request { .. } => true,
                What::Lost(from) | What::Doubtful(from) => from < acknowledged,
            });
            request(meant?)
        } else {
            None
        }
    }

    /// A response that answers a request is over, at this offset of the responses, or may be.
    pub(super) fn over(&mut self, offset: u64) {
        self.over.get_or_insert(offset);
    }

    /// Requests that wait.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// The response whose end was told goes on after all.
    pub(super) fn goes_on(&mut self) {
        self.over = None;
    }

    /// Whether no request waits, seen or unseen.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }

    /// What the last request asks, while it waits, if that may end HTTP on this connection.
    pub(super) fn undecided(&self) -> Option<Asks> {
        match self.waiting.back()?.what {
            What::Request { asks: asks @ (Asks::Connect | Asks::Upgrade), .. } => Some(asks),
            _ => None,
        }
    }

    /// HTTP ends on this connection.
    pub(super) fn switch(&mut self, exchange: ExchangeIndex) {
        self.switched = Some(exchange);
        self.waiting.clear();
    }

    /// The exchange that ended HTTP on this connection.
    pub(super) fn switched(&self) -> Option<ExchangeIndex> {
        self.switched
    }
}
