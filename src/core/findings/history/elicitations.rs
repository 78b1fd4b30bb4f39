//! Elicitations that a server issued: the forms that wait for their answer, and the ids of those by URL, which come back in
//! notifications (2025-11-25).

use std::collections::{BTreeSet, VecDeque};

use crate::decode::json::{self, Object};
use crate::decode::jsonrpc::Kind;
use crate::findings::message_facts::MessageFacts;
use crate::mcp::MessageNumber;
use crate::mcp::method::Method;

/// Ids that are remembered, and bytes of one. Beyond that none is called unknown.
const REMEMBERED: usize = 1_024;
const ID: usize = 256;

/// Elicitations that wait at a time, and bytes of the schema of a form: one person answers them.
const OPEN: usize = 64;
const FORM: usize = 64 << 10;

/// An elicitation that waits for its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elicitation {
    request: MessageNumber,
    /// The schema of the answer, where it is a form.
    pub schema: Option<String>,
    /// Whether it is one by URL.
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
    is_cut: bool,
}

impl Elicitations {
    /// Whether the server surely never issued this id.
    pub fn is_unknown(&self, id: &str) -> bool {
        !self.is_cut && !self.issued.contains(id)
    }

    /// What this request asked for.
    pub fn by_request(&self, number: MessageNumber) -> Option<&Elicitation> {
        self.open.iter().find(|form| form.request == number)
    }

    pub(super) fn observe(&mut self, facts: &MessageFacts<'_>) {
        match (facts.message.kind, facts.method) {
            (Kind::Request, Method::ElicitationCreate) => {
                self.issue(facts.body());
                if self.open.len() == OPEN {
                    self.open.pop_front();
                }
                self.open.push_back(Elicitation::of(facts.message.number, facts.body()));
            }
            (Kind::Response, Method::ElicitationCreate) => {
                self.open.retain(|form| Some(form.request) != facts.message.answers);
            }
            // URLElicitationRequiredError: the elicitations stand in the error of any request.
            (Kind::Error, _) if facts.body().get("code") == Some("-32042") => {
                let data = facts.body().object("data");
                let listed = json::array(data.get("elicitations").unwrap_or_default(), REMEMBERED);
                listed.into_iter().for_each(|elicitation| self.issue(&Object::read(elicitation)));
            }
            _ => {}
        }
    }

    fn issue(&mut self, params: &Object<'_>) {
        let Some(id) = params.text("elicitationId") else { return };
        if self.issued.len() < REMEMBERED && id.len() <= ID {
            self.issued.insert(id.into_owned());
        } else {
            self.is_cut = true;
        }
    }
}
