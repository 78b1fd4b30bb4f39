//! Message numbers by a key that several messages may share.

use std::collections::BTreeSet;
use std::hash::Hash;

use rustc_hash::FxHashMap;

use super::numbers::MessageNumber;

/// The numbers of the messages with each key.
///
/// Nearly every key has one message, so a hash table answers with one step however many keys it
/// has. Hostile traffic fills it up to the limit of open requests.
#[derive(Debug)]
pub struct NumberIndex<K>(FxHashMap<K, Numbers>);

impl<K> Default for NumberIndex<K> {
    fn default() -> Self {
        NumberIndex(FxHashMap::default())
    }
}

impl<K: Eq + Hash> NumberIndex<K> {
    /// Adds a message with this key.
    pub fn insert(&mut self, key: K, number: MessageNumber) {
        self.0.entry(key).or_default().insert(number);
    }

    /// Removes a message with this key.
    pub fn remove(&mut self, key: &K, number: MessageNumber) {
        if let Some(numbers) = self.0.get_mut(key) {
            numbers.remove(number);
            if numbers.is_empty() {
                self.0.remove(key);
            }
        }
    }

    /// The messages with this key, in order.
    pub fn of<'s>(&'s self, key: &K) -> impl DoubleEndedIterator<Item = MessageNumber> + Clone + use<'s, K> {
        self.0.get(key).into_iter().flat_map(Numbers::iter)
    }

    /// The number of keys.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

/// A set of message numbers, which mostly has one.
#[derive(Debug)]
pub enum Numbers {
    One(MessageNumber),
    /// None, or several.
    Set(BTreeSet<MessageNumber>),
}

impl Default for Numbers {
    fn default() -> Self {
        Numbers::Set(BTreeSet::new())
    }
}

impl Numbers {
    pub fn insert(&mut self, number: MessageNumber) {
        match self {
            Numbers::Set(numbers) if numbers.is_empty() => *self = Numbers::One(number),
            Numbers::Set(numbers) => _ = numbers.insert(number),
            Numbers::One(first) => *self = Numbers::Set([*first, number].into()),
        }
    }

    pub fn remove(&mut self, number: MessageNumber) {
        match self {
            Numbers::Set(numbers) => _ = numbers.remove(&number),
            Numbers::One(only) if *only == number => *self = Numbers::default(),
            Numbers::One(_) => {}
        }
    }

    /// The numbers, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = MessageNumber> + Clone {
        let (one, set) = match self {
            Numbers::One(number) => (Some(*number), None),
            Numbers::Set(numbers) => (None, Some(numbers)),
        };
        one.into_iter().chain(set.into_iter().flat_map(|numbers| numbers.iter().copied()))
    }

    pub fn len(&self) -> usize {
        match self {
            Numbers::One(_) => 1,
            Numbers::Set(numbers) => numbers.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_the_numbers_that_were_not_removed_in_order() {
        let mut index = NumberIndex::default();
        for (key, number) in [(1, 7), (2, 3), (1, 5), (1, 7), (1, 9)] {
            index.insert(key, MessageNumber(number));
        }
        let of = |index: &NumberIndex<i32>, key| index.of(&key).map(|number| number.0).collect::<Vec<_>>();
        assert_eq!((of(&index, 1), of(&index, 2), of(&index, 3)), (vec![5, 7, 9], vec![3], vec![]));
        assert_eq!(index.of(&1).next_back(), Some(MessageNumber(9)));
        index.remove(&2, MessageNumber(4));
        index.remove(&1, MessageNumber(7));
        assert_eq!((of(&index, 1), of(&index, 2)), (vec![5, 9], vec![3]));
        [(1, 5), (1, 9), (2, 3)].into_iter().for_each(|(key, number)| index.remove(&key, MessageNumber(number)));
        assert_eq!(index.len(), 0);
    }
}
