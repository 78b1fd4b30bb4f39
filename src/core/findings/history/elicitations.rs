//! Elicitations that a server issued: those that wait for a response, and the ids of those by URL,
//! which notifications repeat (2025-11-25).

use std::collections::{BTreeSet, VecDeque};

use crate::decode::Kind;
use crate::decode::json::{self, Object};
use crate::findings::message_facts::MessageFacts;
use crate::mcp::{MessageNumber, Method};

/// Limits of remembered ids and of the bytes of an id. Beyond them no id is called unknown.
const REMEMBERED: usize = 1_024;
const ID: usize = 256;

/// Limits of waiting elicitations and of the bytes of a form's schema. One person answers them.
const OPEN: usize = 64;
const FORM: usize = 64 << 10;

/// An elicitation that waits for its response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elicitation {
    request: MessageNumber,
    /// The schema of the response, if the elicitation is a form.
    pub schema: Option<String>,
    /// Whether the mode is `url`.
    pub is_url: bool,
}

impl Elicitation {
    pub(super) fn of(request: MessageNumber, params: &Object<'_>) -> Elicitation {
        let schema = params.get("requestedSchema").filter(|form| form.len() <= FORM).map(str::to_owned);
        Elicitation { request, schema, is_url: params.text("mode").is_some_and(|mode| mode == "url") }
    }
}

/// The elicitations of one session.
#[derive(Debug, Default)]
pub struct Elicitations {
    open: VecDeque<Elicitation>,
    issued: BTreeSet<String>,
    is_truncated: bool,
}

impl Elicitations {
    /// Whether the server certainly never issued this id.
    pub fn is_unknown(&self, id: &str) -> bool {
        !self.is_truncated && !self.issued.contains(id)
    }

    /// The waiting elicitation of this request.
    pub fn by_request(&self, number: MessageNumber) -> Option<&Elicitation> {
        self.open.iter().find(|form| form.request == number)
    }

    pub(super) fn observe(&mut self, facts: &MessageFacts<'_>) {
        match (facts.message.kind, facts.method) {
            (Kind::Request, Method::ElicitationCreate) => {
                self.remember_id(facts.body());
                if self.open.len() == OPEN {
                    self.open.pop_front();
                }
                self.open.push_back(Elicitation::of(facts.message.number, facts.body()));
            }
            (Kind::Response, Method::ElicitationCreate) => {
                self.open.retain(|form| Some(form.request) != facts.message.answers);
            }
            // URLElicitationRequiredError: the error of any request lists elicitations.
            (Kind::Error, _) if facts.body().get("code") == Some("-32042") => {
                let data = facts.body().object("data");
                let listed = json::array(data.get("elicitations").unwrap_or_default(), REMEMBERED);
                listed.into_iter().for_each(|elicitation| self.remember_id(&Object::read(elicitation)));
            }
            _ => {}
        }
    }

    fn remember_id(&mut self, params: &Object<'_>) {
        let Some(id) = params.text("elicitationId") else { return };
        if self.issued.len() < REMEMBERED && id.len() <= ID {
            self.issued.insert(id.into_owned());
        } else {
            self.is_truncated = true;
        }
    }
}
