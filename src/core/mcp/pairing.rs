//! Pairing of responses with requests (JSON-RPC 2.0 sections 4 and 5; MCP basic/index "Messages").
//!
//! Within a session a request is identified by its sender and its typed id, because both peers
//! count from 0 or 1. Ids are reused, and a server without sessions sees the same id from many
//! clients. Therefore the exchange decides where a response travels in the HTTP exchange of its
//! request.
//!
//! **No pairing is made on a guess**: where two requests match, none is chosen.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::note::WaitEnd;
use super::number_index::{NumberIndex, Numbers};
use super::numbers::MessageNumber;
use crate::capture::Time;
use crate::capture::steps::step;
use crate::decode::{ConnectionId, Direction, ExchangeNumber};

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
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum TypedId {
    /// Digits without a leading zero. Nearly all ids are of this form.
    Number(u64),
    /// The content of a string, unescaped.
    Text(Arc<str>),
    /// Any other JSON text, as sent.
    Other(Arc<str>),
}

/// The open requests of a session.
///
/// Each question has an index, so that a message costs the same however many requests are open.
#[derive(Debug, Default)]
pub struct Pairing {
    /// Numbers grow, so the first request is the oldest.
    open: BTreeMap<MessageNumber, (SenderAndId, Pending)>,
    by_id: FxHashMap<SenderAndId, SameId>,
    /// The requests that an exchange carried: those of each id, and with `None` all of them.
    by_exchange: NumberIndex<(ExchangeNumber, Option<SenderAndId>)>,
    /// The requests whose exchange ended with its connection.
    by_ended_connection: NumberIndex<ConnectionId>,
    answered: FxHashSet<SenderAndId>,
}

/// The open requests of one sender with the same id.
#[derive(Debug, Default)]
struct SameId {
    numbers: Numbers,
    /// Of these, the number of requests that were not cancelled.
    live: usize,
}

impl Pairing {
    /// The number of requests without a response.
    pub fn open(&self) -> usize {
        self.open.len()
    }

    /// The requests without a response, in order of their numbers.
    pub fn pending(&self) -> impl Iterator<Item = &Pending> {
        self.open.values().map(|(_, pending)| pending)
    }

    /// The requests of one side without a response, in order of their numbers.
    pub fn pending_of(&self, side: Direction) -> impl Iterator<Item = &Pending> {
        self.open.values().filter(move |((sender, _), _)| *sender == side).map(|(_, pending)| pending)
    }

    /// Whether a request of `sender` with this id has no response yet.
    pub fn awaits(&self, sender: Direction, id: &str) -> bool {
        self.by_id.contains_key(&(sender, typed_id(id)))
    }

    /// Whether a request of `sender` with this id is open, or was answered recently.
    pub fn is_open_or_answered(&self, sender: Direction, id: &str) -> bool {
        let key = (sender, typed_id(id));
        self.by_id.contains_key(&key) || self.answered.contains(&key)
    }

    /// Whether a request that this exchange carried has no response yet.
    pub fn awaits_in(&self, exchange: ExchangeNumber) -> bool {
        self.numbers_in(exchange).next().is_some()
    }

    /// The numbers of the open requests that an exchange carried, in order.
    fn numbers_in(&self, exchange: ExchangeNumber) -> impl Iterator<Item = MessageNumber> {
        self.by_exchange.of(&(exchange, None)).inspect(|_| step())
    }

    /// Records that an exchange ended. Responses to its requests can still come on another stream.
    pub fn exchange_ended(&mut self, exchange: ExchangeNumber, end: ExchangeEnd) {
        for number in self.numbers_in(exchange).collect::<Vec<_>>() {
            if let Some((_, pending)) = self.open.get_mut(&number) {
                pending.ended = Some(end);
                if end.end == WaitEnd::ConnectionEnded {
                    self.by_ended_connection.insert(end.connection, number);
                }
            }
        }
    }

    /// Records when a connection ended that ended open exchanges.
    pub fn connection_ended(&mut self, connection: ConnectionId, time: Time) {
        for number in self.by_ended_connection.of(&connection) {
            step();
            if let Some(end) = self.open.get_mut(&number).and_then(|(_, pending)| pending.ended.as_mut()) {
                end.time = end.time.max(time);
            }
        }
    }

    /// Adds a request. Above `limit` open requests the oldest is evicted. Returns whether a request
    /// with this id was in flight already.
    pub fn add_request(&mut self, sender: Direction, id: &str, pending: Pending, limit: usize) -> bool {
        let key = (sender, typed_id(id));
        self.answered.remove(&key);
        let same = self.by_id.entry(key.clone()).or_default();
        let in_flight = same.live > 0;
        same.numbers.insert(pending.number);
        same.live += usize::from(!pending.cancelled);
        if let Some(exchange) = pending.exchange {
            self.by_exchange.insert((exchange, None), pending.number);
            self.by_exchange.insert((exchange, Some(key.clone())), pending.number);
        }
        self.open.insert(pending.number, (key, pending));
        while self.open.len() > limit
            && let Some((oldest, _)) = self.open.first_key_value()
        {
            self.take(*oldest);
        }
        in_flight
    }

    /// Finds and removes the request that a response of `sender` answers. `limit` bounds the stored
    /// ids of answered requests.
    pub fn take_request(&mut self, sender: Direction, id: &str, scope: Scope, limit: usize) -> PairingResult {
        let key = (sender.reversed(), typed_id(id));
        let exchange = match scope {
            Scope::Exchange(exchange) => Some(exchange),
            Scope::Session(exchange) => exchange,
            Scope::NotCaptured => return PairingResult::NotCaptured,
        };
        let in_exchange = exchange.and_then(|exchange| self.by_exchange.of(&(exchange, Some(key.clone()))).next());
        let number = match (in_exchange, scope, self.by_id.get(&key)) {
            (Some(number), ..) => Some(number),
            (None, Scope::Session(_), Some(same)) => match (same.numbers.len(), same.live) {
                (1, _) => same.numbers.iter().next(),
                (_, 1) => same.numbers.iter().rev().inspect(|_| step()).find(|number| self.is_live(*number)),
                _ => return PairingResult::Ambiguous,
            },
            _ => None,
        };
        match number.and_then(|number| self.take(number)) {
            Some((_, pending)) => {
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

    fn is_live(&self, number: MessageNumber) -> bool {
        self.open.get(&number).is_some_and(|(_, pending)| !pending.cancelled)
    }

    /// Marks the request of `sender` with this id as cancelled. Returns it if it was not before.
    pub fn cancel(&mut self, sender: Direction, id: &str) -> Option<&Pending> {
        let same = self.by_id.get_mut(&(sender, typed_id(id)))?;
        let (_, pending) = self.open.get_mut(&same.numbers.iter().next_back()?)?;
        let was_cancelled = std::mem::replace(&mut pending.cancelled, true);
        same.live -= usize::from(!was_cancelled);
        (!was_cancelled).then_some(pending)
    }

    /// Removes the requests of an exchange that the server refused or redirected, and returns them
    /// in order of their numbers. No response to them follows.
    pub fn take_exchange(&mut self, exchange: ExchangeNumber) -> Vec<(Direction, Pending)> {
        let numbers: Vec<MessageNumber> = self.numbers_in(exchange).collect();
        let taken = numbers.into_iter().filter_map(|number| self.take(number));
        taken.map(|((sender, _), pending)| (sender, pending)).collect()
    }

    /// Finds and removes the request that an error in the response to `exchange` answers, although
    /// its id names none: the only request that the exchange carried.
    pub fn take_only_request(&mut self, exchange: ExchangeNumber) -> Option<Pending> {
        let first_two: Vec<MessageNumber> = self.numbers_in(exchange).take(2).collect();
        let [only] = first_two[..] else { return None };
        self.take(only).map(|(_, pending)| pending)
    }

    /// Removes a request from all indexes.
    fn take(&mut self, number: MessageNumber) -> Option<(SenderAndId, Pending)> {
        let (key, pending) = self.open.remove(&number)?;
        if let Some(same) = self.by_id.get_mut(&key) {
            same.numbers.remove(number);
            same.live -= usize::from(!pending.cancelled);
            if same.numbers.is_empty() {
                self.by_id.remove(&key);
            }
        }
        if let Some(exchange) = pending.exchange {
            self.by_exchange.remove(&(exchange, None), number);
            self.by_exchange.remove(&(exchange, Some(key.clone())), number);
        }
        if let Some(end) = &pending.ended {
            self.by_ended_connection.remove(&end.connection, number);
        }
        Some((key, pending))
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
    match id.starts_with('"').then(|| serde_json::from_str::<String>(id)) {
        Some(Ok(text)) => TypedId::Text(text.into()),
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
            assert_eq!([pairing.open.len(), pairing.by_id.len(), pairing.by_exchange.len()], [1, 1, 0]);
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
