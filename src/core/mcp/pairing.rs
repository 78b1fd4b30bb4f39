//! Pairing of responses with requests (JSON-RPC 2.0 sections 4 and 5; MCP basic/index "Messages").
//!
//! Within a session a request is identified by its sender and its typed id, because both peers
//! count from 0 or 1. Ids are reused, and a server without sessions sees the same id from many
//! clients. Therefore the exchange decides where a response travels in the HTTP exchange of its
//! request.
//!
//! **No pairing is made on a guess**: where two requests match, none is chosen.

use std::collections::VecDeque;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::note::WaitEnd;
use super::numbers::MessageNumber;
use crate::capture::Time;
use crate::decode::exchange::ExchangeNumber;
use crate::decode::{ConnectionId, Direction};

/// The end of an exchange without the response to its request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExchangeEnd {
    pub connection: ConnectionId,
    /// The time of the last byte of the exchange, or of the end of its connection.
    pub time: Time,
    pub end: WaitEnd,
}

/// A request without a response so far.
#[derive(Clone, Debug, PartialEq)]
pub struct Pending {
    pub number: MessageNumber,
    /// The time when its last byte was captured.
    pub time: Time,
    pub method: Option<Arc<str>>,
    pub tool: Option<Arc<str>>,
    pub exchange: Option<ExchangeNumber>,
    /// Whether its sender cancelled it.
    pub cancelled: bool,
    /// The end of its exchange, if that ended without the response.
    pub ended: Option<ExchangeEnd>,
}

/// The place in which a response looks for its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The whole session: pipes, responses of clients, and streams of a session with an id. A
    /// request in the given exchange is preferred.
    Session(Option<ExchangeNumber>),
    /// Only this exchange. Servers without sessions give no other evidence.
    Exchange(ExchangeNumber),
    /// Nowhere: the request in this exchange was not captured, so no captured request is the one.
    NotCaptured,
}

/// The result of pairing one response.
#[derive(Clone, Debug, PartialEq)]
pub enum PairingResult {
    /// The response answers this request.
    Request(Pending),
    /// The other peer sent no request with this id.
    Unknown,
    /// The request was not captured.
    NotCaptured,
    /// The request with this id already has a response.
    AlreadyAnswered,
    /// Several requests with this id are open.
    Ambiguous,
}

/// A sender and a typed id.
type SenderAndId = (Direction, TypedId);

/// An id in a form in which equal ids compare equal. `1`, `1.0` and `"1"` differ.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum TypedId {
    /// Digits without a leading zero. Nearly all ids are of this form.
    Number(u64),
    /// The content of a string, unescaped.
    Text(Box<str>),
    /// Any other JSON text, as sent.
    Other(Box<str>),
}

/// The open requests of a session.
#[derive(Debug, Default)]
pub struct Pairing {
    open: FxHashMap<SenderAndId, Vec<Pending>>,
    /// Keys in the order of the requests, oldest first, to evict the oldest. Keys of answered
    /// requests are removed later.
    order: VecDeque<SenderAndId>,
    count: usize,
    answered: FxHashSet<SenderAndId>,
}

impl Pairing {
    /// The number of requests without a response.
    pub fn open(&self) -> usize {
        self.count
    }

    /// The requests without a response, in order of their numbers.
    pub fn pending(&self) -> Vec<&Pending> {
        let mut pending: Vec<&Pending> = self.open.values().flatten().collect();
        pending.sort_by_key(|pending| pending.number);
        pending
    }

    /// The requests of one side without a response, in order of their numbers.
    pub fn pending_of(&self, side: Direction) -> Vec<&Pending> {
        let of_side = self.open.iter().filter(|((sender, _), _)| *sender == side);
        let mut pending: Vec<&Pending> = of_side.flat_map(|(_, same)| same).collect();
        pending.sort_by_key(|pending| pending.number);
        pending
    }

    /// Whether a request of `sender` with this id has no response yet.
    pub fn awaits(&self, sender: Direction, id: &str) -> bool {
        self.open.contains_key(&(sender, typed_id(id)))
    }

    /// Whether a request of `sender` with this id is open, or was answered recently.
    pub fn is_open_or_answered(&self, sender: Direction, id: &str) -> bool {
        let key = (sender, typed_id(id));
        self.open.contains_key(&key) || self.answered.contains(&key)
    }

    /// Whether a request that this exchange carried has no response yet.
    pub fn awaits_in(&self, exchange: ExchangeNumber) -> bool {
        self.open.values().flatten().any(|pending| pending.exchange == Some(exchange))
    }

    /// Records that an exchange ended. Responses to its requests can still come on another stream.
    pub fn exchange_ended(&mut self, exchange: ExchangeNumber, end: ExchangeEnd) {
        let of_exchange = |pending: &&mut Pending| pending.exchange == Some(exchange);
        self.open.values_mut().flatten().filter(of_exchange).for_each(|pending| pending.ended = Some(end));
    }

    /// Records when a connection ended that ended open exchanges.
    pub fn connection_ended(&mut self, connection: ConnectionId, time: Time) {
        let ends = self.open.values_mut().flatten().filter_map(|pending| pending.ended.as_mut());
        let of_connection = ends.filter(|end| end.connection == connection && end.end == WaitEnd::ConnectionEnded);
        of_connection.for_each(|end| end.time = end.time.max(time));
    }

    /// Adds a request. Above `limit` open requests the oldest is evicted. Returns whether a request
    /// with this id was in flight already.
    pub fn add_request(&mut self, sender: Direction, id: &str, pending: Pending, limit: usize) -> bool {
        let key = (sender, typed_id(id));
        self.answered.remove(&key);
        let same = self.open.entry(key.clone()).or_default();
        let in_flight = same.iter().any(|earlier| !earlier.cancelled);
        same.push(pending);
        self.count += 1;
        self.order.push_back(key);
        while self.count > limit {
            let Some(oldest) = self.order.pop_front() else { break };
            self.take(&oldest, 0);
        }
        if self.order.len() > 2 * self.count + 64 {
            self.drop_answered_keys();
        }
        in_flight
    }

    /// Finds and removes the request that a response of `sender` answers. `limit` bounds the stored
    /// ids of answered requests.
    pub fn take_request(&mut self, sender: Direction, id: &str, scope: Scope, limit: usize) -> PairingResult {
        let key = (sender.reversed(), typed_id(id));
        let same = self.open.get(&key).map(Vec::as_slice).unwrap_or_default();
        let exchange = match scope {
            Scope::Exchange(exchange) => Some(exchange),
            Scope::Session(exchange) => exchange,
            Scope::NotCaptured => return PairingResult::NotCaptured,
        };
        let in_exchange = |pending: &Pending| exchange.is_some() && pending.exchange == exchange;
        let position = match (same.iter().position(in_exchange), scope) {
            (Some(position), _) => Some(position),
            (None, Scope::Exchange(_) | Scope::NotCaptured) => None,
            (None, Scope::Session(_)) => match same {
                [] => None,
                [_] => Some(0),
                several => {
                    let live = |pending: &Pending| !pending.cancelled;
                    if several.iter().filter(|pending| live(pending)).count() != 1 {
                        return PairingResult::Ambiguous;
                    }
                    several.iter().position(live)
                }
            },
        };
        match position.and_then(|position| self.take(&key, position)) {
            Some(pending) => {
                if self.answered.len() >= limit {
                    self.answered.clear();
                }
                self.answered.insert(key);
                PairingResult::Request(pending)
            }
            None if self.answered.contains(&key) => PairingResult::AlreadyAnswered,
            None => PairingResult::Unknown,
        }
    }

    /// Marks the request of `sender` with this id as cancelled. Returns it if it was not before.
    pub fn cancel(&mut self, sender: Direction, id: &str) -> Option<&Pending> {
        let pending = self.open.get_mut(&(sender, typed_id(id))).and_then(|same| same.last_mut())?;
        let was_cancelled = std::mem::replace(&mut pending.cancelled, true);
        (!was_cancelled).then_some(pending)
    }

    /// Removes the requests of an exchange that the server refused or redirected, and returns them
    /// in order of their numbers. No response to them follows.
    pub fn take_exchange(&mut self, exchange: ExchangeNumber) -> Vec<(Direction, Pending)> {
        let mut taken = Vec::new();
        self.open.retain(|(sender, _), same| {
            let of_exchange = same.extract_if(.., |pending| pending.exchange == Some(exchange));
            taken.extend(of_exchange.map(|pending| (*sender, pending)));
            !same.is_empty()
        });
        self.count -= taken.len();
        taken.sort_by_key(|(_, pending)| pending.number);
        taken
    }

    /// Finds and removes the request that an error in the response to `exchange` answers, although
    /// its id names none: the only request that the exchange carried.
    pub fn take_only_request(&mut self, exchange: ExchangeNumber) -> Option<Pending> {
        let in_exchange = |pending: &Pending| pending.exchange == Some(exchange);
        let mut fitting = self.open.iter().flat_map(|(key, same)| {
            same.iter().enumerate().filter(|(_, pending)| in_exchange(pending)).map(move |(at, _)| (key, at))
        });
        let (key, position) = fitting.next()?;
        if fitting.next().is_some() {
            return None;
        }
        let key = key.clone();
        self.take(&key, position)
    }

    /// Removes the keys of answered requests. A client that always uses the same id leaves the same
    /// key many times; each open request needs one.
    fn drop_answered_keys(&mut self) {
        let mut left: FxHashMap<&SenderAndId, usize> = self.open.iter().map(|(key, same)| (key, same.len())).collect();
        let mut order = VecDeque::with_capacity(self.count);
        for key in std::mem::take(&mut self.order).into_iter().rev() {
            if let Some(left) = left.get_mut(&key).filter(|left| **left > 0) {
                *left -= 1;
                order.push_front(key);
            }
        }
        self.order = order;
    }

    fn take(&mut self, key: &SenderAndId, position: usize) -> Option<Pending> {
        let same = self.open.get_mut(key)?;
        let pending = (position < same.len()).then(|| same.remove(position));
        if same.is_empty() {
            self.open.remove(key);
        }
        self.count -= usize::from(pending.is_some());
        pending
    }
}

/// Whether two ids, as sent, have the same type and value.
pub fn is_same_id(one: &str, other: &str) -> bool {
    one == other || typed_id(one) == typed_id(other)
}

fn typed_id(id: &str) -> TypedId {
    if id.bytes().all(|byte| byte.is_ascii_digit())
        && !(id.len() > 1 && id.starts_with('0'))
        && let Ok(number) = id.parse()
    {
        return TypedId::Number(number);
    }
    match id.starts_with('"').then(|| serde_json::from_str(id)) {
        Some(Ok(text)) => TypedId::Text(text),
        _ => TypedId::Other(id.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Direction::{ClientToServer as C2S, ServerToClient as S2C};

    const LIMIT: usize = 8;

    fn request(pairing: &mut Pairing, sender: Direction, id: &str, number: u64, exchange: Option<u64>) -> bool {
        let exchange = exchange.map(ExchangeNumber);
        let number = MessageNumber(number);
        let pending =
            Pending { number, time: Time(0), method: None, tool: None, exchange, cancelled: false, ended: None };
        pairing.add_request(sender, id, pending, LIMIT)
    }

    fn answer(pairing: &mut Pairing, sender: Direction, id: &str, scope: Scope) -> Result<u64, PairingResult> {
        match pairing.take_request(sender, id, scope, LIMIT) {
            PairingResult::Request(pending) => Ok(pending.number.0),
            other => Err(other),
        }
    }

    #[test]
    fn both_sides_number_alike_and_answers_come_in_any_order() {
        let mut pairing = Pairing::default();
        request(&mut pairing, C2S, "1", 1, None);
        request(&mut pairing, S2C, "1", 2, None);
        request(&mut pairing, C2S, "2", 3, None);
        assert_eq!(answer(&mut pairing, S2C, "2", Scope::Session(None)), Ok(3));
        assert_eq!(answer(&mut pairing, C2S, "1", Scope::Session(None)), Ok(2));
        assert_eq!(answer(&mut pairing, S2C, "1", Scope::Session(None)), Ok(1));
        assert_eq!(answer(&mut pairing, S2C, "1", Scope::Session(None)), Err(PairingResult::AlreadyAnswered));
        assert_eq!(pairing.open(), 0);
    }

    #[test]
    fn one_id_for_all_requests_leaves_nothing_behind() {
        let mut pairing = Pairing::default();
        request(&mut pairing, C2S, "2", 1, None);
        for number in 2..1_000 {
            request(&mut pairing, C2S, "1", number, None);
            assert_eq!(answer(&mut pairing, S2C, "1", Scope::Session(None)), Ok(number));
            assert!(pairing.order.len() <= 70, "{} keys", pairing.order.len());
        }
        assert_eq!(answer(&mut pairing, S2C, "2", Scope::Session(None)), Ok(1));
    }

    #[test]
    fn the_type_of_an_id_counts_and_its_spelling_does_not() {
        let mut pairing = Pairing::default();
        request(&mut pairing, C2S, "1", 1, None);
        request(&mut pairing, C2S, "1.0", 2, None);
        request(&mut pairing, C2S, "\"1\"", 3, None);
        request(&mut pairing, C2S, "\"\\u0061\"", 4, None);
        assert_eq!(answer(&mut pairing, S2C, "\"1\"", Scope::Session(None)), Ok(3));
        assert_eq!(answer(&mut pairing, S2C, "1.0", Scope::Session(None)), Ok(2));
        assert_eq!(answer(&mut pairing, S2C, "\"a\"", Scope::Session(None)), Ok(4));
    }

    #[test]
    fn a_stateless_answer_is_looked_for_in_its_exchange_alone() {
        let mut pairing = Pairing::default();
        request(&mut pairing, C2S, "1", 1, Some(10));
        request(&mut pairing, C2S, "1", 2, Some(11));
        assert_eq!(answer(&mut pairing, S2C, "1", Scope::Exchange(ExchangeNumber(11))), Ok(2));
        assert_eq!(
            answer(&mut pairing, S2C, "1", Scope::Exchange(ExchangeNumber(12))),
            Err(PairingResult::AlreadyAnswered)
        );
        assert_eq!(answer(&mut pairing, S2C, "1", Scope::Exchange(ExchangeNumber(10))), Ok(1));
    }

    #[test]
    fn no_pairing_is_made_on_a_guess() {
        let mut pairing = Pairing::default();
        request(&mut pairing, C2S, "1", 1, None);
        assert!(request(&mut pairing, C2S, "1", 2, None), "in flight");
        assert_eq!(answer(&mut pairing, S2C, "1", Scope::Session(None)), Err(PairingResult::Ambiguous));
        pairing.cancel(C2S, "1");
        assert_eq!(answer(&mut pairing, S2C, "1", Scope::Session(None)), Ok(1), "the other was cancelled");
    }

    #[test]
    fn the_oldest_open_requests_are_forgotten_first() {
        let mut pairing = Pairing::default();
        for number in 1..=20 {
            request(&mut pairing, C2S, &number.to_string(), number, None);
        }
        assert_eq!(pairing.open(), LIMIT);
        assert_eq!(answer(&mut pairing, S2C, "12", Scope::Session(None)), Err(PairingResult::Unknown));
        assert_eq!(answer(&mut pairing, S2C, "13", Scope::Session(None)), Ok(13));
    }
}
