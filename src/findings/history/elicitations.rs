//! Elicitations by URL that a server issued: their ids come back in notifications (2025-11-25).

use std::collections::BTreeSet;

use crate::decode::json::{self, Object};
use crate::decode::jsonrpc::Kind;
use crate::findings::seen::Facts;
use crate::mcp::method::Method;

/// Ids that are remembered, and bytes of one. Beyond that none is called unknown.
const REMEMBERED: usize = 1_024;
const ID: usize = 256;

/// The ids of one session.
#[derive(Debug, Default)]
pub struct Elicitations {
    issued: BTreeSet<String>,
    is_cut: bool,
}

impl Elicitations {
    /// Whether the server surely never issued this id.
    pub fn is_unknown(&self, id: &str) -> bool {
        !self.is_cut && !self.issued.contains(id)
    }

    pub(super) fn observe(&mut self, facts: &Facts<'_>) {
        match (facts.message.kind, facts.method) {
            (Kind::Request, Method::ElicitationCreate) => self.issue(facts.body()),
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
