//! Finds the session of an HTTP exchange (`docs/architecture.md`, "Sessions"; MCP basic/transports
//! of each revision).
//!
//! Evidence, strongest first:
//!
//! - the session id that the server assigned;
//! - the endpoint that an HTTP+SSE stream announced;
//! - the original of a request that was sent again after a redirect;
//! - for servers without sessions: the client's address, the server, the target and the era.
//!
//! The pipes of a process need no search, and all messages of an exchange belong to one session.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::numbers::{MessageNumber, SessionNumber};
use super::pairing::Scope;
use super::revision::Revision;
use super::session::Transport;
use crate::decode::secrets::comparable;
use crate::decode::uri::{host_name, origin_form, resolved};
use crate::decode::{ConnectionId, Direction, Exchange, ExchangeNumber};

/// The evidence of an open HTTP exchange about the session that it belongs to.
#[derive(Clone, Debug, PartialEq)]
pub struct ExchangeEvidence {
    pub exchange: ExchangeNumber,
    pub connection: ConnectionId,
    pub client: SocketAddr,
    pub server: SocketAddr,
    /// The request target in origin form: path and query, with secrets masked. Empty where the
    /// request was not captured.
    pub target: Arc<str>,
    /// The request method. Empty where the request was not captured.
    pub method: String,
    /// The host name of the request; `None` for an IP address.
    pub host: Option<String>,
    /// `Mcp-Session-Id` of the request. Where the request or its text was not captured, that
    /// of the response.
    pub session_id: Option<Arc<str>>,
    /// Whether the response assigned this id, because the request had none. Its
    /// session begins here.
    pub is_assigned: bool,
    /// `MCP-Protocol-Version` of the request.
    pub version: Option<Arc<str>>,
    /// Whether the request accepts `text/event-stream`.
    pub accepts_events: bool,
    /// Whether the request resumes a stream (`Last-Event-ID`).
    pub resumes: bool,
    /// The status of the response, once captured.
    pub status: Option<u16>,
    /// `Mcp-Session-Id` of the response, once captured.
    pub assigned_id: Option<Arc<str>>,
    /// The target of the redirect, if the response is one.
    pub redirected_to: Option<String>,
    /// For the copy of a redirected request: the session of the original, and the number
    /// of its first message.
    pub copy_of: Option<(SessionNumber, MessageNumber)>,
    /// The number of the first message of the request.
    pub first_message: Option<MessageNumber>,
    /// The session of its messages, once known.
    pub session: Option<SessionNumber>,
    /// Whether a text of the request was tracked.
    pub has_request_text: bool,
    /// A hash of the request's text. It recognises the copy that a client sends to the target
    /// of a redirect.
    pub text_hash: Option<u64>,
}

impl ExchangeEvidence {
    /// Reads the head of the request, or of the response where no request was captured.
    pub fn new(exchange: &Exchange, client: SocketAddr, server: SocketAddr) -> ExchangeEvidence {
        let field = |name: &str| exchange.request.fields.get(name);
        // HTTP/2 names the host in a pseudo-header (RFC 9113 section 8.3.1).
        let host = field("host").or(field(":authority")).map(|host| host_name(host).to_owned());
        ExchangeEvidence {
            exchange: exchange.number,
            connection: exchange.connection,
            client,
            server,
            target: comparable(origin_form(exchange.target.as_deref().unwrap_or_default())).into(),
            method: exchange.method.clone().unwrap_or_default(),
            host: host.filter(|host| !is_address(host)),
            session_id: field("mcp-session-id").map(Arc::from),
            is_assigned: false,
            version: field("mcp-protocol-version").map(Arc::from),
            accepts_events: field("accept").is_some_and(|accept| accept.contains("text/event-stream")),
            resumes: field("last-event-id").is_some(),
            status: None,
            assigned_id: None,
            redirected_to: None,
            copy_of: None,
            first_message: None,
            session: None,
            has_request_text: false,
            text_hash: None,
        }
    }

    /// Whether the head of the request is missing, or incomplete after a gap in
    /// an HTTP/2 connection.
    pub fn lacks_head(&self) -> bool {
        self.method.is_empty() || self.target.is_empty()
    }

    /// Whether the server refused the request.
    pub fn is_refused(&self) -> bool {
        self.status.is_some_and(|status| status >= 400)
    }

    /// Whether the text of the request was not captured. Responses in this exchange may
    /// belong to that text.
    pub fn lacks_request_text(&self) -> bool {
        self.lacks_head() || self.method == "POST" && !self.has_request_text
    }

    /// The scope in which a response in this direction looks for its request.
    pub fn scope(&self, direction: Direction, transport: Transport, is_stateless: bool) -> Scope {
        let answers_here = transport != Transport::HttpSse;
        match direction {
            // A client's response travels in an exchange of its own.
            Direction::ClientToServer => Scope::Session(None),
            Direction::ServerToClient if answers_here && self.lacks_head() && !self.has_request_text => {
                Scope::NotCaptured
            }
            // The request in this exchange was not captured, so a request of another exchange is
            // not the one.
            Direction::ServerToClient if is_stateless || answers_here && self.lacks_request_text() => {
                Scope::Exchange(self.exchange)
            }
            Direction::ServerToClient => Scope::Session(Some(self.exchange)),
        }
    }

    fn client_target(&self) -> ClientTarget {
        let revision = self.version.as_deref().and_then(Revision::named);
        let is_modern = revision.is_some_and(Revision::is_stateless);
        ClientTarget { client: self.client.ip(), server: self.server, target: self.target.clone(), is_modern }
    }

    /// Whether client, server and path are the same. The query does not count where a
    /// session has an id.
    fn is_same_path(&self, ClientTarget { client, server, target, .. }: &ClientTarget) -> bool {
        *client == self.client.ip() && *server == self.server && path(target) == path(&self.target)
    }
}

/// The evidence for a server that keeps no session.
///
/// The query of the target counts, because the endpoints of HTTP+SSE differ in nothing else. The
/// era counts too: a request that names a revision without sessions does not belong to an
/// `initialize`, but clients of both eras may run beside each other.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ClientTarget {
    client: IpAddr,
    server: SocketAddr,
    target: Arc<str>,
    is_modern: bool,
}

/// Redirected requests whose copies have not arrived. A copy normally follows its redirect at once.
const REDIRECTS: usize = 4_096;

/// Limit of the ports of a session that redirect to others. In practice it is one, that of `http`.
const REDIRECTING_PORTS: usize = 8;

/// Maps from each kind of evidence to a session.
#[derive(Debug, Default)]
pub struct SessionIndex {
    by_id: FxHashMap<(u16, Arc<str>), SessionNumber>,
    /// The ports at which a session's requests were redirected. Its id is valid there too.
    redirecting: FxHashMap<SessionNumber, FxHashSet<u16>>,
    by_endpoint: FxHashMap<(SocketAddr, Arc<str>), SessionNumber>,
    by_redirect: FxHashMap<(IpAddr, u64), (SessionNumber, MessageNumber)>,
    by_target: FxHashMap<ClientTarget, SessionNumber>,
    by_connection: FxHashMap<ConnectionId, SessionNumber>,
    /// Sessions opened by `initialize` whose response has not shown yet whether they have an id.
    awaiting_id: FxHashMap<SessionNumber, ClientTarget>,
    /// Sessions with an id, and the target at which they were opened.
    with_id: FxHashMap<SessionNumber, ClientTarget>,
    /// Open HTTP+SSE streams.
    streams: FxHashMap<ExchangeNumber, EndpointStream>,
}

/// An open HTTP+SSE stream that announced its endpoint.
#[derive(Debug)]
struct EndpointStream {
    session: SessionNumber,
    client: IpAddr,
    server: SocketAddr,
    /// The path of the stream and the path of its endpoint, both without query.
    paths: [String; 2],
}

/// Whether a host is an IP address. Most are names, which no parser has to read.
fn is_address(host: &str) -> bool {
    let may_be = host.starts_with(|first: char| first.is_ascii_digit()) || host.contains(':');
    may_be && host.parse::<IpAddr>().is_ok()
}

/// The path of a target, without its query.
pub(super) fn path(target: &str) -> &str {
    target.split_once('?').map_or(target, |(path, _)| path)
}

impl SessionIndex {
    /// The session that the evidence of an exchange names.
    pub fn find(&self, evidence: &ExchangeEvidence, is_initialize: bool) -> Option<SessionNumber> {
        if let Some(session) = evidence.session {
            return Some(session);
        }
        if let Some(id) = &evidence.session_id {
            // A session id is globally unique (basic/transports "Session Management"). The port
            // keeps weak ids of several servers apart.
            return self.by_session_id(evidence.server.port(), id).or_else(|| self.only_awaiting_id(evidence));
        }
        if let Some(session) = self.by_endpoint.get(&(evidence.server, evidence.target.clone())) {
            return Some(*session);
        }
        if let Some((session, _)) = evidence.copy_of {
            return Some(session);
        }
        if let Some(session) = self.by_stream_path(evidence) {
            return Some(session);
        }
        if is_initialize {
            return None;
        }
        if evidence.lacks_head() {
            // Only the other messages of its connection are evidence.
            return self.by_connection.get(&evidence.connection).copied();
        }
        let key = evidence.client_target();
        let on_connection = self.by_connection.get(&evidence.connection).copied();
        on_connection
            .filter(|session| self.is_stateless(*session, &key) || self.omits_id(*session, &key))
            .or_else(|| self.by_target.get(&key).copied())
    }

    /// The session that a connection carried last.
    pub fn by_connection(&self, connection: ConnectionId) -> Option<SessionNumber> {
        self.by_connection.get(&connection).copied()
    }

    /// The session without an id of this client, server and target.
    pub fn without_id(&self, evidence: &ExchangeEvidence) -> Option<SessionNumber> {
        self.by_target.get(&evidence.client_target()).copied()
    }

    /// The session of a GET or DELETE without a session id: the one to which the POSTs of this
    /// client to this target belong, once the server accepted one.
    ///
    /// A client whose POST was refused may open an HTTP+SSE stream with GET, which
    /// is another session.
    pub fn of_bodiless_request(&self, evidence: &ExchangeEvidence) -> Option<SessionNumber> {
        let is_mcp = evidence.method == "DELETE" || evidence.method == "GET" && evidence.accepts_events;
        if !is_mcp || evidence.session_id.is_some() {
            return None;
        }
        let key = evidence.client_target();
        let on_connection =
            self.by_connection.get(&evidence.connection).filter(|session| self.omits_id(**session, &key));
        on_connection
            .or_else(|| self.by_target.get(&key))
            .filter(|session| !self.awaiting_id.contains_key(session))
            .copied()
    }

    /// The session of a POST to the path of an HTTP+SSE stream or of its endpoint, with another
    /// query. This client must have no other such stream open. A request that accepts events is
    /// none of these: it attempts Streamable HTTP.
    fn by_stream_path(&self, evidence: &ExchangeEvidence) -> Option<SessionNumber> {
        if evidence.method != "POST" || evidence.accepts_events || evidence.session_id.is_some() {
            return None;
        }
        let of_this_client =
            |stream: &&EndpointStream| stream.client == evidence.client.ip() && stream.server == evidence.server;
        let mut open = self.streams.values().filter(of_this_client);
        let only = open.next()?;
        let is_same_path = only.paths.iter().any(|stream_path| stream_path == path(&evidence.target));
        (is_same_path && open.all(|other| other.session == only.session)).then_some(only.session)
    }

    /// The session whose id was assigned in a response that was not captured. It must be the only
    /// one of this client, server and path that waits for an id.
    fn only_awaiting_id(&self, evidence: &ExchangeEvidence) -> Option<SessionNumber> {
        if evidence.is_assigned {
            return None;
        }
        let mut candidates =
            self.awaiting_id.iter().filter(|(_, target)| evidence.is_same_path(target)).map(|(session, _)| *session);
        let only = candidates.next()?;
        candidates.next().is_none().then_some(only)
    }

    /// Whether the session id of this exchange is unknown and may be the id of a session
    /// that waits for one.
    pub fn may_be_awaited_id(&self, evidence: &ExchangeEvidence) -> bool {
        let is_open = evidence.session.is_none() && !evidence.is_assigned;
        let Some(id) = evidence.session_id.as_ref().filter(|_| is_open) else { return false };
        self.by_session_id(evidence.server.port(), id).is_none()
            && self.awaiting_id.values().any(|target| evidence.is_same_path(target))
    }

    fn is_stateless(&self, session: SessionNumber, key: &ClientTarget) -> bool {
        self.by_target.get(key) == Some(&session) || self.awaiting_id.get(&session) == Some(key)
    }

    /// Whether this session has an id and was opened at the same target. Then the client sent the
    /// request without the id.
    fn omits_id(&self, session: SessionNumber, key: &ClientTarget) -> bool {
        self.with_id.get(&session) == Some(key)
    }

    /// Assigns the exchange to a session. From now on its evidence finds this session.
    pub fn bind(&mut self, evidence: &mut ExchangeEvidence, session: SessionNumber, is_initialize: bool) {
        evidence.session = Some(session);
        if let Some(id) = evidence.session_id.clone() {
            self.assign(evidence.server.port(), id, session);
            if evidence.is_assigned {
                self.with_id.insert(session, evidence.client_target());
            }
        } else if !self.by_endpoint.contains_key(&(evidence.server, evidence.target.clone()))
            && self.by_stream_path(evidence).is_none()
        {
            let key = evidence.client_target();
            // A stream that a client opened, or a WebSocket, is no evidence for other exchanges:
            // another client may open one with the same target.
            let is_posted = !matches!(evidence.method.as_str(), "GET" | "CONNECT") && !evidence.lacks_head();
            if is_initialize && is_posted {
                self.awaiting_id.insert(session, key.clone());
            }
            if is_posted && !self.with_id.contains_key(&session) {
                self.by_target.insert(key, session);
            }
        }
        self.by_connection.insert(evidence.connection, session);
    }

    /// Records the session id that the server assigned. From now on only the id finds the session.
    pub fn assign(&mut self, port: u16, id: Arc<str>, session: SessionNumber) {
        if let Some(key) = self.awaiting_id.remove(&session) {
            self.with_id.insert(session, key);
        }
        self.by_target.retain(|_, other| *other != session);
        for port in self.redirecting.get(&session).into_iter().flatten().copied().chain([port]) {
            self.by_id.entry((port, id.clone())).or_insert(session);
        }
    }

    /// The session with this id.
    pub fn by_session_id(&self, port: u16, id: &Arc<str>) -> Option<SessionNumber> {
        self.by_id.get(&(port, Arc::clone(id))).copied()
    }

    /// Records that the response to `initialize` had no id: the server keeps no session.
    pub fn stop_awaiting_id(&mut self, session: SessionNumber) {
        self.awaiting_id.remove(&session);
    }

    /// Records the endpoint that an HTTP+SSE stream announced.
    pub fn announce(&mut self, evidence: &ExchangeEvidence, target: &str, session: SessionNumber) {
        self.by_endpoint.insert((evidence.server, target.into()), session);
        let paths = [&evidence.target, target].map(|target| path(target).to_owned());
        let stream = EndpointStream { session, client: evidence.client.ip(), server: evidence.server, paths };
        self.streams.insert(evidence.exchange, stream);
    }

    /// Records the target of this exchange as the endpoint of a session whose announcement
    /// was not captured.
    pub fn add_endpoint(&mut self, evidence: &ExchangeEvidence, session: SessionNumber) {
        self.by_endpoint.insert((evidence.server, evidence.target.clone()), session);
    }

    /// Whether the stream of this exchange announced its endpoint.
    pub fn has_announced(&self, exchange: ExchangeNumber) -> bool {
        self.streams.contains_key(&exchange)
    }

    /// Forgets the stream of an exchange that ended.
    pub fn exchange_ended(&mut self, exchange: ExchangeNumber) {
        self.streams.remove(&exchange);
    }

    /// The session of an announced endpoint.
    pub fn by_announced_endpoint(&self, server: SocketAddr, target: &str) -> Option<SessionNumber> {
        self.by_endpoint.get(&(server, target.into())).copied()
    }

    /// The session that requests to an endpoint opened because they were captured
    /// before its announcement.
    pub fn by_posted_target(&self, client: IpAddr, server: SocketAddr, target: &str) -> Option<SessionNumber> {
        let key = ClientTarget { client, server, target: target.into(), is_modern: false };
        self.by_target.get(&key).copied()
    }

    /// Records that the request of this exchange was redirected, so that its copy is assigned to
    /// the same session.
    pub fn add_redirect(&mut self, evidence: &ExchangeEvidence) {
        if let (Some(text), Some(session), Some(first)) = (evidence.text_hash, evidence.session, evidence.first_message)
        {
            // A copy follows its redirect at once. A copy that has not arrived by now will not
            // come.
            if self.by_redirect.len() == REDIRECTS {
                self.by_redirect.clear();
            }
            self.by_redirect.insert((evidence.client.ip(), text), (session, first));
            let ports = self.redirecting.entry(session).or_default();
            if ports.len() < REDIRECTING_PORTS {
                ports.insert(evidence.server.port());
            }
            // The server at the target of the redirect assigns the id, and requests there may name
            // it first.
            if let (Some(ClientTarget { target, .. }), Some(to)) =
                (self.awaiting_id.get_mut(&session), &evidence.redirected_to)
            {
                *target = comparable(&resolved(&evidence.target, to)).into();
            }
        }
    }

    /// Whether a text with this hash repeats a redirected request of this client.
    pub fn repeats_redirected(&self, evidence: &ExchangeEvidence, text: u64) -> bool {
        self.by_redirect.contains_key(&(evidence.client.ip(), text))
    }

    /// Removes and returns the redirected request that this exchange repeats: its session
    /// and its first message.
    pub fn take_original(&mut self, evidence: &ExchangeEvidence) -> Option<(SessionNumber, MessageNumber)> {
        self.by_redirect.remove(&(evidence.client.ip(), evidence.text_hash?))
    }

    /// Forgets a closed connection.
    pub fn connection_closed(&mut self, connection: ConnectionId) {
        self.by_connection.remove(&connection);
    }

    /// Forgets the sessions for which `is_gone` is true.
    pub fn forget(&mut self, is_gone: impl Fn(SessionNumber) -> bool) {
        self.by_id.retain(|_, session| !is_gone(*session));
        self.by_endpoint.retain(|_, session| !is_gone(*session));
        self.by_redirect.retain(|_, (session, _)| !is_gone(*session));
        self.redirecting.retain(|session, _| !is_gone(*session));
        self.by_target.retain(|_, session| !is_gone(*session));
        self.by_connection.retain(|_, session| !is_gone(*session));
        self.awaiting_id.retain(|session, _| !is_gone(*session));
        self.with_id.retain(|session, _| !is_gone(*session));
        self.streams.retain(|_, stream| !is_gone(stream.session));
    }
}
