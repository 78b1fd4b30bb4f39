//! The requests of a session that have no response so far, found by what later messages name.

use std::collections::BTreeMap;

use super::{Digest, LinkableRequest, OPEN};
use crate::capture::Time;
use crate::capture::steps::step;
use crate::decode::Direction;
use crate::mcp::MessageNumber;
use crate::mcp::number_index::NumberIndex;

/// What a later message names of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Name {
    Id(Digest),
    /// Its `_meta.progressToken`.
    Progress(Digest),
    /// The hash of its tool and arguments, until an equal call repeats it.
    Call(u64),
}

/// At most [`OPEN`] requests. The oldest are evicted.
#[derive(Debug, Default)]
pub(super) struct OpenRequests {
    requests: BTreeMap<MessageNumber, LinkableRequest>,
    /// By sender and name, so that no message has to go through all requests.
    names: NumberIndex<(Direction, Name)>,
}

impl OpenRequests {
    pub(super) fn insert(&mut self, number: MessageNumber, request: LinkableRequest) {
        if self.is_full()
            && let Some(oldest) = self.requests.keys().next().copied()
        {
            self.remove(oldest);
        }
        names(&request).for_each(|name| self.names.insert((request.sender, name), number));
        self.requests.insert(number, request);
    }

    pub(super) fn remove(&mut self, number: MessageNumber) -> Option<LinkableRequest> {
        let request = self.requests.remove(&number)?;
        for name in names(&request) {
            self.names.remove(&(request.sender, name), number);
        }
        Some(request)
    }

    pub(super) fn get_mut(&mut self, number: MessageNumber) -> Option<&mut LinkableRequest> {
        self.requests.get_mut(&number)
    }

    /// The requests of this sender with this name, in order.
    pub(super) fn named(
        &self,
        sender: Direction,
        name: Name,
    ) -> impl DoubleEndedIterator<Item = (MessageNumber, &LinkableRequest)> {
        let numbers = self.names.of(&(sender, name)).inspect(|_| step());
        numbers.filter_map(|number| Some((number, self.requests.get(&number)?)))
    }

    /// Notes which call repeats this one. No later call does.
    pub(super) fn set_repeated(&mut self, number: MessageNumber, by: (MessageNumber, Time)) {
        if let Some(request) = self.requests.get_mut(&number) {
            request.repeated_by = Some(by);
            if let Some(call) = request.call {
                self.names.remove(&(request.sender, Name::Call(call)), number);
            }
        }
    }

    /// Takes the hash of a call, so that no later call repeats it.
    pub(super) fn take_call(&mut self, number: MessageNumber) -> Option<u64> {
        let request = self.requests.get_mut(&number)?;
        let call = request.call.take()?;
        self.names.remove(&(request.sender, Name::Call(call)), number);
        Some(call)
    }

    /// Whether requests were evicted, or the next one evicts one.
    pub(super) fn is_full(&self) -> bool {
        self.requests.len() >= OPEN
    }

    pub(super) fn contains(&self, number: MessageNumber) -> bool {
        self.requests.contains_key(&number)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (MessageNumber, &LinkableRequest)> {
        self.requests.iter().map(|(number, request)| (*number, request))
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        assert!(self.names.len() <= 3 * self.requests.len());
        self.requests.len()
    }
}

/// The names of a request.
fn names(request: &LinkableRequest) -> impl Iterator<Item = Name> + use<> {
    let names = [Some(Name::Id(request.id)), request.progress.map(Name::Progress), request.call.map(Name::Call)];
    names.into_iter().flatten()
}
