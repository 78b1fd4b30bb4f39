//! Streams whose request was not seen, since the capture begins in the middle of them or their heads were lost: which session they belong to.
//!
//! What else their connection carries is the best evidence (`Places::find`). A stream that stays open for hours has a connection of its own; then there is
//!
//! - the id of an answer, on a stream of HTTP+SSE: one session alone waits for it between this client and this server;
//! - the two addresses, where one session alone is known between them; one that was opened after the capture began has no stream that began before.
//!
//! Otherwise the stream opens a session, a stray. Where the first request between the two addresses does not open a session itself, it belongs to the stray.
//! An answer on such a stream, other than of HTTP+SSE, has no request: it was asked for on that stream, unseen.

use super::state::State;
use super::{Text, Tracker};
use crate::decode::Direction;
use crate::decode::jsonrpc::{Envelope, Kind};
use crate::decode::stack::Connected;
use crate::mcp::numbers::SessionNumber;
use crate::mcp::places::Place;
use crate::mcp::session::{Peers, Transport};

/// Whether what goes in a direction came on a stream whose request was not seen.
pub(super) fn is_midway(place: &Place, direction: Direction) -> bool {
    place.is_unknown() && direction == Direction::ServerToClient
}

impl Tracker {
    /// The session in memory that a text belongs to, of which `single` is the only message.
    pub(super) fn home(
        &self,
        place: &Place,
        text: &Text<'_>,
        single: Option<&Envelope>,
        initialize: bool,
        connected: &Connected,
    ) -> Option<SessionNumber> {
        let found = || self.places.find(place, initialize).filter(|number| self.sessions.contains_key(number));
        // The announcement of the stream may have been lost.
        let is_mute = place.method == "GET" && place.session_id.is_none() && !self.places.has_announced(place.exchange);
        match is_midway(place, text.direction) {
            true => self.asking(place, text, single).or_else(found).or_else(|| self.alone_between(place, connected)),
            false if is_mute => self.asking(place, text, single).or_else(found),
            false if initialize => found().or_else(|| self.overtaken(place, text)),
            false => found().or_else(|| self.stray_between(place)),
        }
    }

    /// The session without an id that this `initialize` begins, though what followed it on other connections was told first: whether a capture holds the
    /// beginning of a connection is known later where it does not.
    fn overtaken(&self, place: &Place, text: &Text<'_>) -> Option<SessionNumber> {
        let state = self.sessions.get(&self.places.without_id(place)?)?;
        let is_later = !state.is_initialized && state.session.session_id.is_none() && text.time < state.session.started;
        is_later.then_some(state.session.number)
    }

    /// The session of HTTP+SSE that alone waits for this answer, which came on a stream whose request was not seen.
    fn asking(&self, place: &Place, text: &Text<'_>, envelope: Option<&Envelope>) -> Option<SessionNumber> {
        let envelope = envelope.filter(|envelope| matches!(envelope.kind, Some(Kind::Response | Kind::Error)))?;
        let id = text.raw.part(envelope.id.clone()?)?;
        let asks = |state: &&State| {
            state.session.transport == Transport::HttpSse && state.pairing.awaits(Direction::ClientToServer, id)
        };
        only(self.between(place).filter(asks))
    }

    /// The session to which a text on a stream whose request was not seen belongs by its addresses.
    fn alone_between(&self, place: &Place, connected: &Connected) -> Option<SessionNumber> {
        let may_be = |state: &State| !(connected.is_midway && state.is_initialized);
        only(self.between(place)).filter(|number| self.sessions.get(number).is_some_and(may_be))
    }

    /// The stray that a request, which is known and opens no session, belongs to.
    fn stray_between(&self, place: &Place) -> Option<SessionNumber> {
        only(self.between(place)).filter(|number| self.sessions.get(number).is_some_and(|state| state.is_stray))
    }

    /// The sessions between a client's address and a server.
    fn between<'t>(&'t self, place: &'t Place) -> impl Iterator<Item = &'t State> {
        self.sessions.values().filter(|state| match &state.session.peers {
            Peers::Network { client, server, .. } => client.ip() == place.client.ip() && *server == place.server,
            Peers::Process { .. } => false,
        })
    }
}

fn only<'t>(mut states: impl Iterator<Item = &'t State>) -> Option<SessionNumber> {
    let number = states.next()?.session.number;
    states.next().is_none().then_some(number)
}
