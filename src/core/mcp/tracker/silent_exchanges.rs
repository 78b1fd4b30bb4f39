//! The sessions of exchanges that carry no message: a DELETE, a GET that was refused, a 401 or 404.
//!
//! An exchange with a message belongs to the session of that message. Any other needs evidence,
//! strongest first:
//!
//! - its session id, in the request or assigned by the response;
//! - the endpoint that an HTTP+SSE stream announced;
//! - for servers without sessions: the client's address, the server, the target and the era;
//! - its connection, if that carried no other session.
//!
//! An exchange can precede its session: a server refuses a GET before the client sends
//! `initialize`. So an exchange without a session is remembered when it ends. It joins a session
//! that is opened later
//!
//! - by its id, or at the target of the exchange by the same client;
//! - at the target to which the exchange was redirected;
//! - on its connection.
//!
//! An exchange without evidence has no session.

use std::collections::VecDeque;
use std::net::IpAddr;

use super::{Tracker, TrackerEvent, TrackerSink};
use crate::decode::secrets::comparable;
use crate::decode::{ConnectionId, Exchange, ExchangeNumber, uri};
use crate::mcp::SessionNumber;
use crate::mcp::session_index::{ExchangeEvidence, path};

/// Exchanges remembered because their session may be opened later. A client opens its session
/// within a few requests. Above, the oldest is forgotten. The store buffers
/// [`crate::capture::Limits::undecided`] bytes of packets for the connection of each.
const REMEMBERED: usize = 256;

/// Limit of the bytes of a remembered target or redirect, each. Real ones are short.
const TEXT: usize = 4_096;

/// Exchanges that ended without a session, oldest first.
#[derive(Debug, Default)]
pub(super) struct SilentExchanges {
    exchanges: VecDeque<ExchangeEvidence>,
}

impl SilentExchanges {
    /// Removes and returns the exchanges for which `is_it` is true.
    fn take(&mut self, is_it: impl Fn(&ExchangeEvidence) -> bool) -> Vec<ExchangeEvidence> {
        if !self.exchanges.iter().any(&is_it) {
            return Vec::new();
        }
        let (taken, rest): (Vec<_>, Vec<_>) = std::mem::take(&mut self.exchanges).into_iter().partition(is_it);
        self.exchanges = rest.into();
        taken
    }
}

impl Tracker {
    /// Assigns an open exchange to its session, if its id names one. A stream without messages may
    /// stay open for hours.
    pub fn assign_by_id(&mut self, exchange: ExchangeNumber, sink: &mut TrackerSink<'_>) {
        let Some(evidence) = self.exchanges.get_mut(&exchange).filter(|evidence| evidence.session.is_none()) else {
            return;
        };
        let Some(id) = &evidence.session_id else { return };
        let named = self.session_index.by_session_id(evidence.server.port(), id);
        if let Some(session) = named.filter(|session| self.sessions.contains_key(session)) {
            evidence.session = Some(session);
            let connection = evidence.connection;
            self.belongs(exchange, connection, session, sink);
        }
    }

    /// Takes the end of an exchange of which no text is held. If it has no session yet, it is
    /// assigned to one, or remembered. Returns a connection of which no exchange is
    /// remembered any more.
    pub fn exchange_ended(&mut self, exchange: &Exchange, sink: &mut TrackerSink<'_>) -> Option<ConnectionId> {
        self.end_waits(exchange, sink);
        let exchange = exchange.number;
        self.session_index.exchange_ended(exchange);
        let evidence = self.exchanges.remove(&exchange).filter(|evidence| evidence.session.is_none())?;
        let by_target = || self.session_index.find(&evidence, false);
        let found = evidence.may_be_mcp().then(by_target).flatten().or_else(|| self.only_session_on(&evidence));
        if let Some(session) = found.filter(|session| self.sessions.contains_key(session)) {
            self.belongs(exchange, evidence.connection, session, sink);
            return None;
        }
        if [Some(&*evidence.target), evidence.redirected_to.as_deref()].iter().flatten().all(|text| text.len() <= TEXT)
        {
            self.silent.exchanges.push_back(*evidence);
        }
        let is_full = self.silent.exchanges.len() > REMEMBERED;
        let forgotten = if is_full { self.silent.exchanges.pop_front()?.connection } else { return None };
        (!self.remembers(forgotten)).then_some(forgotten)
    }

    /// Whether an ended exchange of this connection may still join a session.
    pub fn remembers(&self, connection: ConnectionId) -> bool {
        self.silent.exchanges.iter().any(|evidence| evidence.connection == connection)
    }

    /// Forgets the exchanges of a closed connection that nothing else could assign.
    pub fn forget_on(&mut self, connection: ConnectionId) {
        self.silent.exchanges.retain(|evidence| evidence.connection != connection || evidence.may_be_mcp());
    }

    /// Assigns the remembered exchanges that led to the first one of this session.
    pub(super) fn session_begins(
        &mut self,
        first: &ExchangeEvidence,
        session: SessionNumber,
        sink: &mut TrackerSink<'_>,
    ) {
        let mut taken = VecDeque::from(self.silent.take(|earlier| earlier.leads_to(first)));
        // A redirect may lead to another one.
        while let Some(evidence) = taken.pop_front() {
            self.belongs(evidence.exchange, evidence.connection, session, sink);
            taken.extend(self.silent.take(|earlier| earlier.redirected_to.is_some() && earlier.leads_to(&evidence)));
        }
    }

    /// Assigns the remembered exchanges of a connection to the first session that it carries.
    pub(super) fn first_carried(
        &mut self,
        connection: ConnectionId,
        session: SessionNumber,
        sink: &mut TrackerSink<'_>,
    ) {
        for evidence in self.silent.take(|earlier| earlier.connection == connection && earlier.session_id.is_none()) {
            sink(TrackerEvent::Belongs(evidence.exchange, session));
        }
    }

    /// Emits that an exchange belongs to a session, and that its connection carries the session.
    pub(super) fn belongs(
        &mut self,
        exchange: ExchangeNumber,
        connection: ConnectionId,
        session: SessionNumber,
        sink: &mut TrackerSink<'_>,
    ) {
        sink(TrackerEvent::Belongs(exchange, session));
        self.carries(connection, session, sink);
    }

    /// The only session that the connection of an exchange carried. A session id that names another
    /// session counts more.
    fn only_session_on(&self, evidence: &ExchangeEvidence) -> Option<SessionNumber> {
        let carried = self.carried.get(&evidence.connection).filter(|_| evidence.session_id.is_none())?;
        carried.front().copied().filter(|_| carried.len() == 1)
    }
}

impl ExchangeEvidence {
    /// Whether client, server and target are evidence. Of a successful GET that accepts no events
    /// they are not: the server may have pages for browsers at the same target.
    fn may_be_mcp(&self) -> bool {
        let is_page = matches!(self.method.as_str(), "GET" | "HEAD") && matches!(self.status, Some(200..=299 | 304));
        !self.lacks_head() && (!is_page || self.accepts_events || self.session_id.is_some())
    }

    /// Whether this earlier exchange belongs to the session that `first` opens.
    fn leads_to(&self, first: &ExchangeEvidence) -> bool {
        if self.session_id.is_some() {
            return self.session_id == first.session_id && self.server.port() == first.server.port();
        }
        if !self.may_be_mcp() || self.client.ip() != first.client.ip() {
            return false;
        }
        let Some(to) = &self.redirected_to else {
            return self.server == first.server && path(&self.target) == path(&first.target);
        };
        let is_host = |host: &str| match host.parse::<IpAddr>() {
            Ok(address) => address == first.server.ip(),
            Err(_) => first.host.as_deref() == Some(host),
        };
        path(&comparable(&uri::resolved(&self.target, to))) == path(&first.target)
            && uri::host(to).map_or(self.server == first.server, is_host)
    }
}
