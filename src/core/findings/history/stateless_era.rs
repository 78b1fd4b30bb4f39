//! Messages of the stateless era (2026-07-28) in a session, and the revisions that
//! its server supports.

use crate::decode::json::{self, Object};
use crate::decode::{Direction, Kind};
use crate::findings::message_facts::{Evidence, MessageFacts};
use crate::mcp::{MessageNumber, Method, meta};

use super::open_requests::OpenRequest;

/// Limits of the remembered revisions of a server, and of the bytes of a name.
const VERSIONS: usize = 32;
const NAME: usize = 64;

/// The stateless era in a session.
#[derive(Debug, Default)]
pub struct StatelessEra {
    /// The first request that states its revision, as those of 2026-07-28 do.
    pub first_request: Option<MessageNumber>,
    /// The first result of such a request.
    pub first_result: Option<MessageNumber>,
    /// Whether the server supports this era: a result had a `resultType`, or
    /// `server/discover` was answered.
    pub server_supports_it: bool,
    /// The revisions that the server supports, with the message that lists them (`server/discover`,
    /// or the data of -32022).
    pub supported: Option<(MessageNumber, Vec<String>)>,
    /// The last error that only servers of this era send, if no result followed it.
    pub refused: Option<MessageNumber>,
    /// Whether a request without `clientInfo`, and a result without `serverInfo`,
    /// were already seen.
    pub unnamed: [bool; 2],
}

impl StatelessEra {
    pub(super) fn observe(&mut self, facts: &MessageFacts<'_>, request: Option<&OpenRequest>) {
        let message = facts.message;
        let states_revision = facts.in_force.evidence == Evidence::Meta;
        match message.kind {
            Kind::Request if states_revision => {
                self.first_request.get_or_insert(message.number);
                self.unnamed[0] |= facts.meta().get(meta::CLIENT).is_none();
            }
            Kind::Response if states_revision && message.direction == Direction::ServerToClient => {
                self.first_result.get_or_insert(message.number);
                self.refused = None;
                self.server_supports_it |=
                    facts.body().get("resultType").is_some() || facts.method == Method::ServerDiscover;
                self.unnamed[1] |= facts.meta().get(meta::SERVER).is_none();
                if facts.method == Method::ServerDiscover {
                    self.set_supported(message.number, facts.body(), "supportedVersions");
                }
            }
            Kind::Error if request.is_some() && states_revision => {
                let code = facts.body().get("code");
                if matches!(code, Some("-32020" | "-32021" | "-32022")) {
                    self.refused = Some(message.number);
                    self.server_supports_it = true;
                }
                if code == Some("-32022") {
                    self.set_supported(message.number, &facts.body().object("data"), "supported");
                }
            }
            _ => {}
        }
    }

    fn set_supported(&mut self, number: MessageNumber, object: &Object<'_>, name: &str) {
        let listed = json::array(object.get(name).unwrap_or_default(), VERSIONS + 1);
        let names: Vec<String> = listed.iter().filter_map(|name| Some(json::string(name)?.into_owned())).collect();
        let is_whole = !names.is_empty() && names.len() <= VERSIONS && names.iter().all(|name| name.len() <= NAME);
        if is_whole {
            self.supported = Some((number, names));
        }
    }
}
