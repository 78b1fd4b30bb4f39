//! Which session a message belongs to (`docs/architecture.md`, "Sessions"; MCP basic/transports of each revision).
//!
//! In order of evidence: the pipes of a process; the session id that the server assigned; the endpoint that an HTTP+SSE stream announced; the
//! exchange (an answer is where its request was); the copy of a request that was redirected; and for servers that keep no session, the
//! client's address, the server and the target.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::numbers::{MessageNumber, SessionNumber};
use super::pairing::Scope;
use super::revision::Revision;
use super::session::Transport;
use crate::decode::exchange::{Exchange, ExchangeNumber};
use crate::decode::secrets::masked_uri;
use crate::decode::uri::{host_name, origin_form, resolved};
use crate::decode::{ConnectionId, Direction};

/// What an HTTP exchange says of where its messages belong.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// Its number.
    pub exchange: ExchangeNumber,
    /// The connection.
    pub connection: ConnectionId,
    /// The client's address.
    pub client: SocketAddr,
    /// The server's address.
    pub server: SocketAddr,
    /// The request target, in origin form: path and query, without secrets, which are masked in what is stored. Empty where the request was not seen.
    pub target: Arc<str>,
    /// The request method.
    pub method: String,
    /// Host of the request.
    pub host: Option<String>,
    /// `Mcp-Session-Id` of the request; of the response where the request, or its text, was not seen.
    pub session_id: Option<Arc<str>>,
    /// Whether that id is one that the response gave to a request that named none: its session begins here.
    pub is_assigned: bool,
    /// `MCP-Protocol-Version` of the request.
    pub version: Option<Arc<str>>,
    /// The request accepts `text/event-stream`.
    pub accepts_events: bool,
    /// The request resumes a stream (`Last-Event-ID`).
    pub resumes: bool,
    /// Status of the response, once seen.
    pub status: Option<u16>,
    /// `Mcp-Session-Id` of the response, once seen.
    pub assigned_id: Option<Arc<str>>,
    /// Where the response redirects to, once seen.
    pub redirected_to: Option<String>,
    /// The session of a redirected request with the same text, of which this is the copy, and the number of its first message.
    pub copy_of: Option<(SessionNumber, MessageNumber)>,
    /// The number of the first message that the request carried.
    pub first_message: Option<MessageNumber>,
    /// The session its messages belong to, once known.
    pub session: Option<SessionNumber>,
    /// Whether the request carried JSON-RPC.
    pub asked: bool,
    /// A fingerprint of the request's text, to recognise it when it is sent again to where a redirect points.
    pub text: Option<u64>,
}

impl Place {
    /// By the head of the request, or of the response where no request was seen.
    pub fn new(exchange: &Exchange, client: SocketAddr, server: SocketAddr) -> Place {
        let field = |name: &str| exchange.request.fields.get(name);
        // HTTP/2 names the host in a pseudo-header (RFC 9113 section 8.3.1).
        let host = field("host").or(field(":authority")).map(|host| host_name(host).to_owned());
        Place {
            exchange: exchange.number,
            connection: exchange.connection,
            client,
            server,
            target: masked_uri(origin_form(exchange.target.as_deref().unwrap_or_default())).into(),
            method: exchange.method.clone().unwrap_or_default(),
            host: host.filter(|host| host.parse::<IpAddr>().is_err()),
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
            asked: false,
            text: None,
        }
    }

    /// Whether the request was not seen, or of its head only a part is known, as behind a hole in an HTTP/2 connection.
    pub fn is_unknown(&self) -> bool {
        self.method.is_empty() || self.target.is_empty()
    }

    /// Whether what the request asked was not seen: answers on its stream belong to that.
    pub fn is_unasked(&self) -> bool {
        self.is_unknown() || self.method == "POST" && !self.asked
    }

    /// Where a response that travels in a direction of this exchange looks for its request.
    pub fn scope(&self, direction: Direction, transport: Transport, is_stateless: bool) -> Scope {
        let answers_here = transport != Transport::HttpSse;
        match direction {
            // A client's response comes in an exchange of its own.
            Direction::ClientToServer => Scope::Session(None),
            Direction::ServerToClient if answers_here && self.is_unknown() && !self.asked => Scope::Unseen,
            // What was asked there was not seen, so nothing that was seen is it.
            Direction::ServerToClient if is_stateless || answers_here && self.is_unasked() => {
                Scope::Exchange(self.exchange)
            }
            Direction::ServerToClient => Scope::Session(Some(self.exchange)),
        }
    }

    fn stateless(&self) -> Stateless {
        let revision = self.version.as_deref().and_then(Revision::named);
        let is_modern = revision.is_some_and(Revision::is_stateless);
        Stateless { client: self.client.ip(), server: self.server, target: self.target.clone(), is_modern }
    }

    /// Whether it is between the same two, at the same path. Where a session has an id, queries only say how to answer.
    fn is_near(&self, Stateless { client, server, target, .. }: &Stateless) -> bool {
        *client == self.client.ip() && *server == self.server && path(target) == path(&self.target)
    }
}

/// A client's address, a server and a target: all there is to tell the clients of a server that keeps no session. The query counts, since the endpoints of
/// HTTP+SSE differ in nothing else. So does the era: what names a revision without sessions in each request was not begun by an `initialize`, though a
/// client that sends one may run beside it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Stateless {
    client: IpAddr,
    server: SocketAddr,
    target: Arc<str>,
    is_modern: bool,
}

/// Redirected requests whose copies are awaited at once.
const REDIRECTS: usize = 4_096;

/// The ways to a session.
#[derive(Debug, Default)]
pub struct Places {
    by_id: FxHashMap<(u16, Arc<str>), SessionNumber>,
    by_endpoint: FxHashMap<(SocketAddr, Arc<str>), SessionNumber>,
    by_redirect: FxHashMap<(IpAddr, u64), (SessionNumber, MessageNumber)>,
    stateless: FxHashMap<Stateless, SessionNumber>,
    by_connection: FxHashMap<ConnectionId, SessionNumber>,
    /// Sessions that were opened by `initialize` and for which no answer told yet whether they have an id.
    unbound: FxHashMap<SessionNumber, Stateless>,
    /// Where sessions were opened that have an id.
    with_id: FxHashMap<SessionNumber, Stateless>,
    /// Open streams of HTTP+SSE.
    streams: FxHashMap<ExchangeNumber, Stream>,
}

/// A stream of HTTP+SSE.
#[derive(Debug)]
struct Stream {
    session: SessionNumber,
    client: IpAddr,
    server: SocketAddr,
    /// Where it was asked for, and where it wants messages to be posted; both without their query.
    paths: [String; 2],
}

fn path(target: &str) -> &str {
    target.split_once('?').map_or(target, |(path, _)| path)
}

impl Places {
    /// The session that an exchange's evidence names.
    pub fn find(&self, place: &Place, is_initialize: bool) -> Option<SessionNumber> {
        if let Some(session) = place.session {
            return Some(session);
        }
        if let Some(id) = &place.session_id {
            // The id is globally unique (basic/transports "Session Management"); the port keeps weak ones of several servers apart.
            return self.by_id.get(&(place.server.port(), id.clone())).copied().or_else(|| self.adopt(place));
        }
        if let Some(session) = self.by_endpoint.get(&(place.server, place.target.clone())) {
            return Some(*session);
        }
        if let Some((session, _)) = place.copy_of {
            return Some(session);
        }
        if let Some(session) = self.strayed(place) {
            return Some(session);
        }
        if is_initialize {
            return None;
        }
        if place.is_unknown() {
            // What else its connection carries is the only evidence.
            return self.by_connection.get(&place.connection).copied();
        }
        let key = place.stateless();
        let here = self.by_connection.get(&place.connection).copied();
        here.filter(|session| self.is_stateless(*session, &key) || self.omits_id(*session, &key))
            .or_else(|| self.stateless.get(&key).copied())
    }

    /// The session without an id that what this client sends to this target belongs to.
    pub fn without_id(&self, place: &Place) -> Option<SessionNumber> {
        self.stateless.get(&place.stateless()).copied()
    }

    /// The session of a GET or DELETE that names none: that to which POSTs of this client to this target belong, once one was taken. A
    /// client whose POST was not taken may go on to GET the stream of HTTP+SSE, which is another session.
    pub fn bodiless(&self, place: &Place) -> Option<SessionNumber> {
        let is_mcp = place.method == "DELETE" || place.method == "GET" && place.accepts_events;
        if !is_mcp || place.session_id.is_some() {
            return None;
        }
        let key = place.stateless();
        let here = self.by_connection.get(&place.connection).filter(|session| self.omits_id(**session, &key));
        here.or_else(|| self.stateless.get(&key)).filter(|session| !self.unbound.contains_key(session)).copied()
    }

    /// The session of a message that was posted to the path of an HTTP+SSE stream, or to that of its endpoint with another query: that of the only such
    /// stream which this client has open. What accepts events is no such message but the attempt at Streamable HTTP.
    fn strayed(&self, place: &Place) -> Option<SessionNumber> {
        if place.method != "POST" || place.accepts_events || place.session_id.is_some() {
            return None;
        }
        let here = |stream: &&Stream| stream.client == place.client.ip() && stream.server == place.server;
        let mut open = self.streams.values().filter(here);
        let only = open.next()?;
        let is_near = only.paths.iter().any(|near| near == path(&place.target));
        (is_near && open.all(|other| other.session == only.session)).then_some(only.session)
    }

    /// A session whose id was assigned in an answer that the capture does not hold: the only one of this client, server and path that
    /// waits for its id.
    fn adopt(&self, place: &Place) -> Option<SessionNumber> {
        if place.is_assigned {
            return None;
        }
        let mut waiting =
            self.unbound.iter().filter(|(_, waiting)| place.is_near(waiting)).map(|(session, _)| *session);
        let only = waiting.next()?;
        waiting.next().is_none().then_some(only)
    }

    /// Whether a session named by an id that nobody assigned so far may be one that was opened here and waits for its id.
    pub fn may_be_assigned(&self, place: &Place) -> bool {
        let is_open = place.session.is_none() && !place.is_assigned;
        let Some(id) = place.session_id.as_ref().filter(|_| is_open) else { return false };
        self.assigned(place.server.port(), id).is_none() && self.unbound.values().any(|waiting| place.is_near(waiting))
    }

    fn is_stateless(&self, session: SessionNumber, key: &Stateless) -> bool {
        self.stateless.get(key) == Some(&session) || self.unbound.get(&session) == Some(key)
    }

    /// Whether a request without a session id follows others of this session on its connection: then its client forgot the id.
    fn omits_id(&self, session: SessionNumber, key: &Stateless) -> bool {
        self.with_id.get(&session) == Some(key)
    }

    /// The exchange's messages belong to this session: what it says leads there from now on.
    pub fn bind(&mut self, place: &mut Place, session: SessionNumber, is_initialize: bool) {
        place.session = Some(session);
        if let Some(id) = place.session_id.clone() {
            self.assign(place.server.port(), id, session);
            if place.is_assigned {
                self.with_id.insert(session, place.stateless());
            }
        } else if !self.by_endpoint.contains_key(&(place.server, place.target.clone())) && self.strayed(place).is_none()
        {
            let key = place.stateless();
            // What comes on a stream that a client asked for, or on a WebSocket, belongs to that stream; another client may ask for one too.
            let posted = place.method != "GET" && !place.is_unknown();
            if is_initialize && posted {
                self.unbound.insert(session, key.clone());
            }
            if posted && !self.with_id.contains_key(&session) {
                self.stateless.insert(key, session);
            }
        }
        self.by_connection.insert(place.connection, session);
    }

    /// The server assigned an id: the session is found by it alone.
    pub fn assign(&mut self, port: u16, id: Arc<str>, session: SessionNumber) {
        if let Some(key) = self.unbound.remove(&session) {
            self.with_id.insert(session, key);
        }
        self.stateless.retain(|_, known| *known != session);
        self.by_id.entry((port, id)).or_insert(session);
    }

    /// The session with this id.
    pub fn assigned(&self, port: u16, id: &Arc<str>) -> Option<SessionNumber> {
        self.by_id.get(&(port, Arc::clone(id))).copied()
    }

    /// The answer to `initialize` came without an id: the server keeps no session.
    pub fn settle(&mut self, session: SessionNumber) {
        self.unbound.remove(&session);
    }

    /// The HTTP+SSE stream of an exchange announced where to post to.
    pub fn announce(&mut self, place: &Place, target: &str, session: SessionNumber) {
        self.by_endpoint.insert((place.server, target.into()), session);
        let paths = [&place.target, target].map(|target| path(target).to_owned());
        let stream = Stream { session, client: place.client.ip(), server: place.server, paths };
        self.streams.insert(place.exchange, stream);
    }

    /// What this client posts to this target, which names the session, belongs to it: the stream that announced the target was not seen.
    pub fn post_to(&mut self, place: &Place, session: SessionNumber) {
        self.by_endpoint.insert((place.server, place.target.clone()), session);
    }

    /// Whether the stream of this exchange announced where to post to.
    pub fn has_announced(&self, exchange: ExchangeNumber) -> bool {
        self.streams.contains_key(&exchange)
    }

    /// The exchange is over.
    pub fn over(&mut self, exchange: ExchangeNumber) {
        self.streams.remove(&exchange);
    }

    /// The session of an announced endpoint.
    pub fn announced(&self, server: SocketAddr, target: &str) -> Option<SessionNumber> {
        self.by_endpoint.get(&(server, target.into())).copied()
    }

    /// The session that this client's requests to an endpoint opened, since they were captured before the stream announced it.
    pub fn posted(&self, client: IpAddr, server: SocketAddr, target: &str) -> Option<SessionNumber> {
        let key = Stateless { client, server, target: target.into(), is_modern: false };
        self.stateless.get(&key).copied()
    }

    /// The request of this exchange was redirected: its copy belongs to the same session.
    pub fn redirect(&mut self, place: &Place) {
        if let (Some(text), Some(session), Some(first)) = (place.text, place.session, place.first_message) {
            // A copy follows its redirect at once: one that has not come by now does not come any more.
            if self.by_redirect.len() == REDIRECTS {
                self.by_redirect.clear();
            }
            self.by_redirect.insert((place.client.ip(), text), (session, first));
            // The id will be assigned where it leads, and may be named there before.
            if let (Some(Stateless { target, .. }), Some(to)) = (self.unbound.get_mut(&session), &place.redirected_to) {
                *target = masked_uri(&resolved(&place.target, to)).into();
            }
        }
    }

    /// Whether a text of this exchange repeats a redirected request.
    pub fn is_copy(&self, place: &Place, text: u64) -> bool {
        self.by_redirect.contains_key(&(place.client.ip(), text))
    }

    /// The redirected request that this one repeats: its session and its first message. Told once.
    pub fn copied(&mut self, place: &Place) -> Option<(SessionNumber, MessageNumber)> {
        self.by_redirect.remove(&(place.client.ip(), place.text?))
    }

    /// The connection is over.
    pub fn closed(&mut self, connection: ConnectionId) {
        self.by_connection.remove(&connection);
    }

    /// These sessions are forgotten.
    pub fn forget(&mut self, gone: impl Fn(SessionNumber) -> bool) {
        self.by_id.retain(|_, session| !gone(*session));
        self.by_endpoint.retain(|_, session| !gone(*session));
        self.by_redirect.retain(|_, (session, _)| !gone(*session));
        self.stateless.retain(|_, session| !gone(*session));
        self.by_connection.retain(|_, session| !gone(*session));
        self.unbound.retain(|session, _| !gone(*session));
        self.with_id.retain(|session, _| !gone(*session));
        self.streams.retain(|_, stream| !gone(stream.session));
    }
}
