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

use crate::decode::http::ExchangeIndex;

/// The kind of a request, as far as it decides how its response is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestKind {
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
struct QueueEntry {
    /// Offset in the responses up to which the client had acknowledged when it began to send. For
    /// missing requests this is the lowest possible value.
    acknowledged: u64,
    kind: EntryKind,
}

/// The kind of an entry in the queue.
#[derive(Clone, Copy, Debug)]
enum EntryKind {
    Request {
        exchange: ExchangeIndex,
        request_kind: RequestKind,
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

impl QueueEntry {
    fn is_request(&self) -> bool {
        matches!(self.kind, EntryKind::Request { .. })
    }
}

/// The exchange of a response, and how to read the response.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResponsePairing {
    /// The exchange of the response.
    pub(super) exchange: ExchangeIndex,
    /// The kind of the request.
    pub(super) request_kind: RequestKind,
    /// Whether the request was captured.
    pub(super) paired: bool,
}

/// The requests of one connection without a response.
#[derive(Debug)]
pub(super) struct Pairing {
    /// The queue, oldest first. `acknowledged` never decreases from front to back.
    queue: VecDeque<QueueEntry>,
    limit: usize,
    next: u64,
    /// Whether the client never sent a request before the response to the previous one was over.
    sequential: bool,
    /// Responses that began below this offset may be missing.
    responses_lost: u64,
    /// The offset at which the last paired response ended; `None` while it is incomplete.
    last_end: Option<u64>,
    /// The exchange of an interim response without a request. The final response belongs to it too.
    interim: Option<ExchangeIndex>,
    /// The exchange that ended HTTP on this connection.
    switched: Option<ExchangeIndex>,
}

impl Pairing {
    pub(super) fn new(limit: usize) -> Pairing {
        Pairing {
            queue: VecDeque::new(),
            // Room for an entry of lost requests and for one request.
            limit: limit.max(2),
            next: 0,
            sequential: true,
            responses_lost: 0,
            last_end: Some(0),
            interim: None,
            switched: None,
        }
    }

    fn open(&mut self) -> ExchangeIndex {
        self.next += 1;
        ExchangeIndex(self.next - 1)
    }

    /// Adds a request. The client had acknowledged the responses up to `acknowledged`.
    ///
    /// Returns its exchange, and whether older requests were evicted for it, for the first time
    /// since the queue was in order.
    pub(super) fn add_request(&mut self, acknowledged: u64, request_kind: RequestKind) -> (ExchangeIndex, bool) {
        // If the previous request has no response and a response can be lost, then it was lost: the
        // client has received more since.
        let before = self.queue.iter().rev().find(|entry| entry.is_request());
        let alone =
            before.is_none_or(|before| before.acknowledged < acknowledged && before.acknowledged < self.responses_lost);
        self.sequential &= alone && self.last_end.is_some_and(|end| end <= acknowledged);
        let follows_answers = match self.queue.back().map(|entry| entry.kind) {
            // The client waited for the response to the previous request, so it would have waited
            // again.
            Some(EntryKind::Doubtful(_)) if self.sequential => {
                self.queue.pop_back();
                true
            }
            Some(EntryKind::Lost(_) | EntryKind::Doubtful(_)) => self.last_end.is_some_and(|end| end < acknowledged),
            _ => true,
        };
        // A request that was captured only when it was retransmitted has the acknowledgment of that
        // time. Requests after it in the stream were first sent later, so the client had
        // acknowledged no more when it first sent this one.
        for earlier in self.queue.iter_mut().rev().take_while(|earlier| earlier.acknowledged > acknowledged) {
            earlier.acknowledged = acknowledged;
        }
        let exchange = self.open();
        self.queue.push_back(QueueEntry {
            acknowledged,
            kind: EntryKind::Request { exchange, request_kind, follows_answers },
        });
        (exchange, self.enforce_limit())
    }

    /// Enforces the limit of the queue. Evicted requests become an entry of lost ones, to
    /// keep the count.
    fn enforce_limit(&mut self) -> bool {
        if self.queue.len() <= self.limit {
            return false;
        }
        let first = self.queue.front().is_some_and(QueueEntry::is_request);
        while self.queue.len() >= self.limit {
            self.queue.pop_front();
        }
        self.queue.push_front(QueueEntry { acknowledged: 0, kind: EntryKind::Lost(0) });
        first
    }

    /// Notes that requests were lost from this offset of the requests on.
    pub(super) fn lose_requests(&mut self, from: u64) {
        self.add_unseen(EntryKind::Lost(from));
    }

    /// Notes that requests may be missing from this offset of the requests on: the end of the last
    /// one is uncertain.
    pub(super) fn doubt_requests(&mut self, from: u64) {
        self.add_unseen(EntryKind::Doubtful(from));
    }

    /// Adds an entry for missing requests, or merges it with the last one.
    fn add_unseen(&mut self, kind: EntryKind) {
        match (self.queue.back_mut(), kind) {
            (Some(QueueEntry { kind: EntryKind::Lost(_), .. }), _)
            | (Some(QueueEntry { kind: EntryKind::Doubtful(_), .. }), EntryKind::Doubtful(_)) => {}
            (Some(QueueEntry { kind: doubtful @ EntryKind::Doubtful(_), .. }), lost) => *doubtful = lost,
            (back, kind) => {
                let acknowledged = back.map_or(0, |entry| entry.acknowledged);
                self.queue.push_back(QueueEntry { acknowledged, kind });
                self.enforce_limit();
            }
        }
    }

    /// Notes that responses may be missing that began up to this offset.
    pub(super) fn lose_responses(&mut self, up_to: u64) {
        self.responses_lost = self.responses_lost.max(up_to);
    }

    /// Pairs a response that begins at `start`. The server had acknowledged the requests up to
    /// `acknowledged`.
    pub(super) fn pair_response(&mut self, start: u64, acknowledged: u64, interim: bool) -> ResponsePairing {
        // A client that has received bytes did not request them later.
        let candidates = self.queue.partition_point(|entry| entry.acknowledged <= start);
        let Some((at, exchange, request_kind)) = self.find_request(candidates, acknowledged) else {
            if !interim && candidates > 0 {
                // It may have answered any of them. If it was not the first, that one was answered
                // before.
                self.lose_responses(start.saturating_add(1));
                if candidates > 1 && self.queue[0].is_request() {
                    self.queue.pop_front();
                }
            }
            let exchange = self.interim.take().unwrap_or_else(|| self.open());
            self.interim = interim.then_some(exchange);
            return ResponsePairing { exchange, request_kind: RequestKind::Other, paired: false };
        };
        // Requests before it stay without response, or their response was lost. The count is
        // certain again.
        self.queue.drain(..at + usize::from(!interim));
        self.responses_lost = 0;
        self.interim = None;
        if !interim {
            self.last_end = None;
        }
        ResponsePairing { exchange, request_kind, paired: true }
    }

    /// Pairs a response without a head that continues at `start`. If the client sends requests
    /// without waiting, this may be the rest of an earlier response, so it stays alone.
    pub(super) fn pair_headless_response(&mut self, start: u64, acknowledged: u64) -> ResponsePairing {
        match self.sequential {
            true => self.pair_response(start, acknowledged, false),
            false => ResponsePairing { exchange: self.open(), request_kind: RequestKind::Other, paired: false },
        }
    }

    /// The request that a response answers, of the first `candidates`: its index in the queue.
    fn find_request(&self, candidates: usize, acknowledged: u64) -> Option<(usize, ExchangeIndex, RequestKind)> {
        let request = |at: usize| match self.queue.get(at)?.kind {
            EntryKind::Request { exchange, request_kind, follows_answers } => {
                (at == 0 || !self.sequential || follows_answers).then_some((at, exchange, request_kind))
            }
            EntryKind::Lost(_) | EntryKind::Doubtful(_) => None,
        };
        let first = self.queue.front().filter(|_| candidates > 0)?;
        let certain = first.is_request() && first.acknowledged >= self.responses_lost;
        if certain || candidates == 1 {
            request(0)
        } else if self.sequential {
            // Each request was sent after the response to the previous one, so the last one is
            // meant. Lost requests that the server had not acknowledged are not.
            let meant = self.queue.iter().take(candidates).rposition(|entry| match entry.kind {
                EntryKind::Request { .. } => true,
                EntryKind::Lost(from) | EntryKind::Doubtful(from) => from < acknowledged,
            });
            request(meant?)
        } else {
            None
        }
    }

    /// Notes that a paired response is over, or may be, at this offset of the responses.
    pub(super) fn end_response(&mut self, offset: u64) {
        self.last_end.get_or_insert(offset);
    }

    /// The number of entries in the queue.
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Notes that a response continues after its end was noted.
    pub(super) fn resume_response(&mut self) {
        self.last_end = None;
    }

    /// Whether the queue is empty: no request and no missing request waits for a response.
    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_empty()
    }

    /// The kind of the last request, while it waits, if its response may end HTTP
    /// on this connection.
    pub(super) fn possible_switch(&self) -> Option<RequestKind> {
        match self.queue.back()?.kind {
            EntryKind::Request {
                request_kind: request_kind @ (RequestKind::Connect | RequestKind::Upgrade), ..
            } => Some(request_kind),
            _ => None,
        }
    }

    /// Notes that HTTP ends on this connection.
    pub(super) fn switch(&mut self, exchange: ExchangeIndex) {
        self.switched = Some(exchange);
        self.queue.clear();
    }

    /// The exchange that ended HTTP on this connection.
    pub(super) fn switched(&self) -> Option<ExchangeIndex> {
        self.switched
    }
}
