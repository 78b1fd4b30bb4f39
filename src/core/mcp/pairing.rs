//! Which answer belongs to which request (JSON-RPC 2.0 section 4 and 5; MCP basic/index "Messages").
//!
//! A request is known by its sender and its typed id within a session: both sides number from 0 or 1 on their own. Ids are reused, and stateless
//! servers see the same id from many clients at once; so where an answer comes back in the HTTP exchange of its request, the exchange decides. **No
//! pairing is made on a guess**: where two requests fit, none is chosen.

use std::collections::VecDeque;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::numbers::MessageNumber;
use crate::capture::Time;
use crate::decode::Direction;
use crate::decode::exchange::ExchangeNumber;

/// A request that waits for its answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Pending {
    /// Its number.
    pub number: MessageNumber,
    /// When it was complete.
    pub time: Time,
    /// Its method.
    pub method: Option<Arc<str>>,
    /// The tool that it calls.
    pub tool: Option<Arc<str>>,
    /// The exchange that carried it.
    pub exchange: Option<ExchangeNumber>,
    /// Its sender asked to cancel it.
    pub cancelled: bool,
}

/// Where an answer looks for its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Anywhere in the session (pipes; the client's answers; streams of a stateful session), preferring this exchange.
    Session(Option<ExchangeNumber>),
    /// Only in this exchange: there is no other link between the two (stateless servers).
    Exchange(ExchangeNumber),
    /// Nowhere: what was asked was not captured, so nothing that was is it.
    Unseen,
}

/// What became of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Answered {
    /// It answers this request.
    Request(Pending),
    /// No request of the other side has this id.
    Unknown,
    /// Its request was not captured.
    Unseen,
    /// The request with this id was answered before.
    Again,
    /// Several requests with this id are open.
    Ambiguous,
}

/// A sender and a typed id.
type Key = (Direction, Id);

/// An id in a form in which equal ids are equal: `1`, `1.0` and `"1"` stay three.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Id {
    /// Digits without a leading zero, which nearly all ids are.
    Number(u64),
    /// A string, unescaped.
    Text(Box<str>),
    /// Anything else as sent.
    Other(Box<str>),
}

/// The open requests of a session.
#[derive(Debug, Default)]
pub struct Pairing {
    open: FxHashMap<Key, Vec<Pending>>,
    /// Keys in order of opening, to forget the oldest; entries may be stale.
    order: VecDeque<Key>,
    count: usize,
    answered: FxHashSet<Key>,
}

impl Pairing {
    /// Requests that wait for their answer.
    pub fn open(&self) -> usize {
        self.count
    }

    /// Those requests, in order of their numbers.
    pub fn pending(&self) -> Vec<&Pending> {
        let mut pending: Vec<&Pending> = self.open.values().flatten().collect();
        pending.sort_by_key(|pending| pending.number);
        pending
    }

    /// Whether `sender` waits for the answer to a request with this id.
    pub fn awaits(&self, sender: Direction, id: &str) -> bool {
        self.open.contains_key(&(sender, typed(id)))
    }

    /// Whether a request of `sender` with this id waits for its answer, or was answered lately.
    pub fn knows(&self, sender: Direction, id: &str) -> bool {
        let key = (sender, typed(id));
        self.open.contains_key(&key) || self.answered.contains(&key)
    }

    /// Whether a request that this exchange carried waits for its answer.
    pub fn awaits_in(&self, exchange: ExchangeNumber) -> bool {
        self.open.values().flatten().any(|pending| pending.exchange == Some(exchange))
    }

    /// A request was sent. Beyond `limit` open ones the oldest is forgotten. Says whether the id was in flight already.
    pub fn request(&mut self, sender: Direction, id: &str, pending: Pending, limit: usize) -> bool {
        let key = (sender, typed(id));
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
            self.forget_answered();
        }
        in_flight
    }

    /// An answer was sent by `sender`.
    pub fn answer(&mut self, sender: Direction, id: &str, scope: Scope, limit: usize) -> Answered {
        let key = (sender.reversed(), typed(id));
        let same = self.open.get(&key).map(Vec::as_slice).unwrap_or_default();
        let exchange = match scope {
            Scope::Exchange(exchange) => Some(exchange),
            Scope::Session(exchange) => exchange,
            Scope::Unseen => return Answered::Unseen,
        };
        let in_exchange = |pending: &Pending| exchange.is_some() && pending.exchange == exchange;
        let position = match (same.iter().position(in_exchange), scope) {
            (Some(position), _) => Some(position),
            (None, Scope::Exchange(_) | Scope::Unseen) => None,
            (None, Scope::Session(_)) => match same {
                [] => None,
                [_] => Some(0),
                several => {
                    let live = |pending: &Pending| !pending.cancelled;
                    if several.iter().filter(|pending| live(pending)).count() != 1 {
                        return Answered::Ambiguous;
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
                Answered::Request(pending)
            }
            None if self.answered.contains(&key) => Answered::Again,
            None => Answered::Unknown,
        }
    }

    /// `sender` asked to cancel its request.
    pub fn cancel(&mut self, sender: Direction, id: &str) {
        if let Some(pending) = self.open.get_mut(&(sender, typed(id))).and_then(|same| same.last_mut()) {
            pending.cancelled = true;
        }
    }

    /// The exchange was redirected: its requests were not taken and will be sent again.
    pub fn redirected(&mut self, exchange: ExchangeNumber) {
        self.open.retain(|_, same| {
            let before = same.len();
            same.retain(|pending| pending.exchange != Some(exchange));
            self.count -= before - same.len();
            !same.is_empty()
        });
    }

    /// Drops from the order what waits no longer. Clients that always ask with the same id have it there many times: it stays once for each request that
    /// is open.
    fn forget_answered(&mut self) {
        let mut left: FxHashMap<&Key, usize> = self.open.iter().map(|(key, same)| (key, same.len())).collect();
        let mut kept = VecDeque::with_capacity(self.count);
        for key in std::mem::take(&mut self.order).into_iter().rev() {
            if let Some(left) = left.get_mut(&key).filter(|left| **left > 0) {
                *left -= 1;
                kept.push_front(key);
            }
        }
        self.order = kept;
    }

    fn take(&mut self, key: &Key, position: usize) -> Option<Pending> {
        let same = self.open.get_mut(key)?;
        let pending = (position < same.len()).then(|| same.remove(position));
        if same.is_empty() {
            self.open.remove(key);
        }
        self.count -= usize::from(pending.is_some());
        pending
    }
}

/// Whether two ids, as sent, are equal: of one type and value.
pub fn is_same_id(one: &str, other: &str) -> bool {
    one == other || typed(one) == typed(other)
}

fn typed(id: &str) -> Id {
    if id.bytes().all(|byte| byte.is_ascii_digit())
        && !(id.len() > 1 && id.starts_with('0'))
        && let Ok(number) = id.parse()
    {
        return Id::Number(number);
    }
    match id.starts_with('"').then(|| serde_json::from_str(id)) {
        Some(Ok(text)) => Id::Text(text),
        _ => Id::Other(id.into()),
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
        let pending = Pending { number, time: Time(0), method: None, tool: None, exchange, cancelled: false };
        pairing.request(sender, id, pending, LIMIT)
    }

    fn answer(pairing: &mut Pairing, sender: Direction, id: &str, scope: Scope) -> Result<u64, Answered> {
        match pairing.answer(sender, id, scope, LIMIT) {
            Answered::Request(pending) => Ok(pending.number.0),
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
        assert_eq!(answer(&mut pairing, S2C, "1", Scope::Session(None)), Err(Answered::Again));
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
        assert_eq!(answer(&mut pairing, S2C, "1", Scope::Exchange(ExchangeNumber(12))), Err(Answered::Again));
        assert_eq!(answer(&mut pairing, S2C, "1", Scope::Exchange(ExchangeNumber(10))), Ok(1));
    }

    #[test]
    fn no_pairing_is_made_on_a_guess() {
        let mut pairing = Pairing::default();
        request(&mut pairing, C2S, "1", 1, None);
        assert!(request(&mut pairing, C2S, "1", 2, None), "in flight");
        assert_eq!(answer(&mut pairing, S2C, "1", Scope::Session(None)), Err(Answered::Ambiguous));
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
        assert_eq!(answer(&mut pairing, S2C, "12", Scope::Session(None)), Err(Answered::Unknown));
        assert_eq!(answer(&mut pairing, S2C, "13", Scope::Session(None)), Ok(13));
    }
}
