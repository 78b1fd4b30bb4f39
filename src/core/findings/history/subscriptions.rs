//! Subscriptions of a client: to single resources (up to 2025-11-25), and to streams
//! of notifications (2026-07-28).

use std::collections::{BTreeMap, VecDeque};

use crate::decode::Kind;
use crate::decode::json::{self, Object};
use crate::findings::message_facts::{Evidence, MessageFacts};
use crate::mcp::{MessageNumber, Method, meta};

use super::open_requests::OpenRequest;

/// Limits of remembered streams and resources, of the bytes of a URI or id, and of the bytes of all
/// URIs of a filter. Beyond them no notification is called unrequested.
const STREAMS: usize = 64;
const RESOURCES: usize = 1_024;
const TEXT: usize = 4_096;
const FILTER: usize = 64 << 10;

/// The filter of a stream: `notifications` of `subscriptions/listen` and of its acknowledgement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// The members that are true.
    pub types: Vec<&'static str>,
    /// The URIs in `resourceSubscriptions`.
    pub resources: Vec<String>,
    /// Whether the resources exceeded the limits. Then none is remembered.
    pub is_truncated: bool,
}

impl Filter {
    /// The boolean members.
    pub const TYPES: [&'static str; 3] = ["toolsListChanged", "promptsListChanged", "resourcesListChanged"];

    /// Reads a filter from its JSON text.
    pub fn read(text: &str) -> Filter {
        let filter = Object::read(text);
        let uris = json::array(filter.get("resourceSubscriptions").unwrap_or_default(), RESOURCES + 1);
        let is_truncated = uris.len() > RESOURCES || uris.iter().map(|uri| uri.len()).sum::<usize>() > FILTER;
        let uris = if is_truncated { Vec::new() } else { uris };
        Filter {
            types: Self::TYPES.into_iter().filter(|name| filter.get(name) == Some("true")).collect(),
            resources: uris.into_iter().filter_map(json::string).map(|uri| uri.into_owned()).collect(),
            is_truncated,
        }
    }

    /// Whether the filter covers this resource: the resource itself, or one that contains it ("a
    /// sub-resource of the one that the client actually subscribed to").
    pub fn has_resource(&self, uri: &str) -> bool {
        self.is_truncated || self.resources.iter().any(|known| covers(known, uri))
    }
}

fn covers(known: &str, uri: &str) -> bool {
    uri.starts_with(known)
}

/// A `subscriptions/listen` request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription {
    pub number: MessageNumber,
    /// The request id as JSON text, which is the id of the subscription.
    pub id: String,
    /// The requested notifications.
    pub filter: Filter,
    pub acknowledged: Option<MessageNumber>,
}

/// The subscriptions of a session.
#[derive(Debug, Default)]
pub struct Subscriptions {
    streams: VecDeque<Subscription>,
    /// Subscribed URIs, and whether the subscription is still active.
    resources: BTreeMap<String, bool>,
    /// Whether a limit was exceeded.
    pub is_truncated: bool,
}

impl Subscriptions {
    /// The latest stream with this id, open or closed.
    pub fn stream(&self, id: &str) -> Option<&Subscription> {
        self.streams.iter().rev().find(|stream| stream.id == id)
    }

    /// The stream that this request opened.
    pub fn opened_by(&self, number: MessageNumber) -> Option<&Subscription> {
        self.streams.iter().rev().find(|stream| stream.number == number)
    }

    /// Whether the client opened no stream.
    pub fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    /// Whether the client certainly never subscribed to this resource. With `now`, whether it
    /// certainly has no active subscription.
    pub fn is_unsubscribed(&self, uri: &str, now: bool) -> bool {
        let is_covered = |(known, active): (&String, &bool)| covers(known, uri) && (*active || !now);
        !self.is_truncated && !self.resources.iter().any(is_covered)
    }

    pub(super) fn observe(&mut self, facts: &MessageFacts<'_>, request: Option<&OpenRequest>) {
        match (facts.message.kind, facts.method) {
            (Kind::Request, Method::SubscriptionsListen) => {
                if self.streams.len() == STREAMS {
                    self.streams.pop_front();
                    self.is_truncated = true;
                }
                let id = facts.id().to_owned();
                self.is_truncated |= facts.in_force.evidence == Evidence::None || id.len() > TEXT;
                let filter = Filter::read(facts.body().get("notifications").unwrap_or_default());
                self.streams.push_back(Subscription { number: facts.message.number, id, filter, acknowledged: None });
            }
            (Kind::Notification, Method::SubscriptionsAcknowledged) => {
                let id = facts.meta().get(meta::SUBSCRIPTION).unwrap_or_default();
                if let Some(stream) = self.streams.iter_mut().rev().find(|stream| stream.id == id) {
                    stream.acknowledged.get_or_insert(facts.message.number);
                }
            }
            (Kind::Request, Method::ResourcesSubscribe) => {
                if let Some(uri) = facts.body().text("uri").filter(|uri| uri.len() <= TEXT) {
                    self.is_truncated |= self.resources.len() >= RESOURCES;
                    if !self.is_truncated {
                        self.resources.insert(uri.into_owned(), true);
                    }
                }
            }
            (Kind::Response, Method::ResourcesUnsubscribe) => {
                if let Some(active) = request.and_then(|request| self.resources.get_mut(request.subject.as_deref()?)) {
                    *active = false;
                }
            }
            _ => {}
        }
    }
}
