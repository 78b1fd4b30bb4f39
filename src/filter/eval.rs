//! Judging one message.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::net::SocketAddr;

use super::Row;
use super::ast::{Comparison, Expr, Scalar, Test, Value};
use super::fields::{Entry, Field, Key};
use crate::decode::json;
use crate::decode::jsonrpc::Kind;
use crate::mcp::content;
use crate::mcp::{Message, Peers};

/// One value of a field.
#[derive(Clone, Copy)]
enum Datum<'a> {
    Integer(i64),
    Flag(bool),
    Text(&'a str),
    /// JSON text of a JSON-RPC id: `1` and `1.0` differ.
    Id(&'a str),
    /// JSON text of a value inside the message: `1` and `1.0` are one number.
    Json(&'a str),
}

type Asked<'f> = &'f mut dyn FnMut(Datum<'_>) -> bool;

impl Expr {
    /// Whether the filter lets this message through.
    pub fn matches(&self, row: &Row<'_>) -> bool {
        match self {
            Expr::All(terms) => terms.iter().all(|term| term.matches(row)),
            Expr::Any(terms) => terms.iter().any(|term| term.matches(row)),
            Expr::Not(term) => !term.matches(row),
            Expr::Has(field) => judge(None, |asked| any(field, row, asked)),
            Expr::Test(field, test) => judge(Some(test), |asked| any(field, row, asked)),
            Expr::Text(search) => search.is_match(&row.message.raw),
        }
    }

    /// See [`Filter::matches_subject`](super::Filter::matches_subject).
    pub(super) fn matches_subject(&self, subject: &[u8]) -> bool {
        let (field, test) = match self {
            Expr::Text(search) => return search.is_match(subject),
            Expr::Has(field) => (field, None),
            Expr::Test(field, test) => (field, Some(test)),
            Expr::All(_) | Expr::Any(_) | Expr::Not(_) => return false,
        };
        let Ok(text) = std::str::from_utf8(subject) else {
            return false;
        };
        judge(test, |asked| match field {
            Field::Path(path) => path.any(text, &mut |value| asked(Datum::Json(value))),
            Field::Header(_) => asked(Datum::Text(text)),
            Field::Known(entry) => match entry.key {
                Key::Id => asked(Datum::Id(text)),
                Key::IpAddr | Key::TcpPort => text.parse().is_ok_and(|address| any_address(entry.key, &address, asked)),
                _ => asked(Datum::Text(text)),
            },
        })
    }
}

impl Test {
    /// Whether one of a field's words passes: where there are few values, each can be asked beforehand.
    pub(crate) fn passes_word(&self, word: &str) -> bool {
        passes(Datum::Text(word), self)
    }
}

/// A field may have no value, one or many (packets, header fields, `[*]`): one that passes is enough.
///
/// "Differs" is the exception: there is a value and none is this one, as in Wireshark. `not (a = b)` is there for the
/// rest.
fn judge(test: Option<&Test>, any: impl Fn(Asked<'_>) -> bool) -> bool {
    match test {
        None => any(&mut |_| true),
        Some(Test::Compare(Comparison::NotEqual, value)) => {
            any(&mut |_| true) && !any(&mut |datum| order(datum, value) == Some(Ordering::Equal))
        }
        Some(test) => any(&mut |datum| passes(datum, test)),
    }
}

fn passes(datum: Datum<'_>, test: &Test) -> bool {
    match test {
        Test::Compare(comparison, value) => holds(*comparison, order(datum, value)),
        Test::In(values) => values.iter().any(|value| order(datum, value) == Some(Ordering::Equal)),
        Test::Contains(part) => text(datum).is_some_and(|text| text.contains(part.as_str())),
        Test::Matches(pattern) => text(datum).is_some_and(|text| pattern.is_match(&text)),
    }
}

/// Values of different types have no order: they differ, and nothing else.
fn holds(comparison: Comparison, order: Option<Ordering>) -> bool {
    match comparison {
        Comparison::Equal => order == Some(Ordering::Equal),
        Comparison::NotEqual => order != Some(Ordering::Equal),
        Comparison::Less => order == Some(Ordering::Less),
        Comparison::LessOrEqual => order.is_some_and(Ordering::is_le),
        Comparison::Greater => order == Some(Ordering::Greater),
        Comparison::GreaterOrEqual => order.is_some_and(Ordering::is_ge),
    }
}

fn order(datum: Datum<'_>, value: &Value) -> Option<Ordering> {
    match (datum, value) {
        (Datum::Integer(one), Value::Integer(other)) => Some(one.cmp(other)),
        (Datum::Flag(one), Value::Flag(other)) => Some(one.cmp(other)),
        (Datum::Text(one), Value::Text(other)) => Some(one.cmp(other.as_str())),
        (Datum::Json(one), Value::Json(other)) => order_json(one, other),
        // JSON-RPC 2.0 section 4: the answer's id "MUST be the same as the value of the id member in the Request", and
        // peers compare what they sent: 1.0 answers no 1.
        (Datum::Id(one), Value::Json(other)) => order_json(one, other).filter(|order| match other {
            Scalar::Number(other) => order.is_ne() || one == other,
            _ => true,
        }),
        _ => None,
    }
}

fn order_json(value: &str, other: &Scalar) -> Option<Ordering> {
    match (value, other) {
        ("null", Scalar::Null) => Some(Ordering::Equal),
        ("true", Scalar::Bool(other)) => Some(true.cmp(other)),
        ("false", Scalar::Bool(other)) => Some(false.cmp(other)),
        (_, Scalar::Text(other)) => Some(json::string(value)?.as_ref().cmp(other.as_str())),
        (_, Scalar::Number(other)) if value.starts_with(|c: char| c == '-' || c.is_ascii_digit()) => {
            match (value.parse::<i128>(), other.parse::<i128>()) {
                (Ok(one), Ok(other)) => Some(one.cmp(&other)),
                _ => value.parse::<f64>().ok()?.partial_cmp(&other.parse().ok()?),
            }
        }
        _ => None,
    }
}

/// What `contains` and `matches` look at: what a string says, any other JSON value as written.
fn text(datum: Datum<'_>) -> Option<Cow<'_, str>> {
    match datum {
        Datum::Text(text) => Some(Cow::Borrowed(text)),
        Datum::Id(value) | Datum::Json(value) => Some(json::string(value).unwrap_or(Cow::Borrowed(value))),
        Datum::Integer(_) | Datum::Flag(_) => None,
    }
}

/// Shows the values of a field until one passes.
fn any(field: &Field, row: &Row<'_>, asked: Asked<'_>) -> bool {
    match field {
        Field::Known(entry) => any_known(entry, row, asked),
        Field::Header(name) => row.exchange.is_some_and(|exchange| {
            let mut fields = exchange.request.fields.iter().chain(exchange.response.fields.iter());
            // RFC 9110 section 5.1: "Field names are case-insensitive".
            fields.any(|(known, value)| known.eq_ignore_ascii_case(name) && asked(Datum::Text(value)))
        }),
        Field::Path(path) => {
            row.message.raw.text().is_some_and(|text| path.any(text, &mut |value| asked(Datum::Json(value))))
        }
    }
}

fn any_known(entry: &Entry, row: &Row<'_>, asked: Asked<'_>) -> bool {
    let Row { message, tool, answered, findings, severities, session, exchange } = *row;
    let integer = |value: u64| Datum::Integer(i64::try_from(value).unwrap_or(i64::MAX));
    let one = match entry.key {
        Key::Method => message.method.as_deref().map(Datum::Text),
        Key::Tool => tool.map(Datum::Text),
        Key::Kind => Some(Datum::Text(message.kind.name())),
        Key::Id => message.id.as_deref().map(Datum::Id),
        Key::Status => content::status(message).map(|status| Datum::Text(status.name())),
        Key::Latency => message.latency.filter(|_| is_answer(message)).map(Datum::Integer),
        Key::Direction => Some(Datum::Text(message.direction.name())),
        Key::Number => Some(integer(message.number.0)),
        Key::Time => Some(Datum::Integer(message.time.0)),
        Key::Elapsed => session.map(|session| Datum::Integer(message.time.since(session.started))),
        Key::Size => Some(integer(message.raw.len() as u64)),
        Key::Session => Some(integer(message.session.0.into())),
        Key::SessionId => session.and_then(|session| session.session_id.as_deref()).map(Datum::Text),
        Key::Client => session.and_then(|session| session.client.as_ref()).map(|party| Datum::Text(&party.name)),
        Key::Revision => session.and_then(|session| session.protocol_version.as_deref()).map(Datum::Text),
        Key::Transport => Some(Datum::Text(message.transport.name())),
        Key::Carrier => Some(Datum::Text(message.carrier.name())),
        Key::Batch => message.batch.map(|(number, _)| integer(number)),
        Key::Operation => message.operation.map(|first| integer(first.0)),
        Key::Answers => message.answers.map(|request| integer(request.0)),
        Key::Answered => (message.kind == Kind::Request).then_some(Datum::Flag(answered)),
        Key::Redelivered => Some(Datum::Flag(message.redelivered)),
        Key::Line => message.line.map(integer),
        Key::SseId => message.sse_id.as_deref().map(Datum::Text),
        Key::Exchange => message.exchange.map(|exchange| integer(exchange.0)),
        Key::HttpMethod => exchange.and_then(|exchange| exchange.method.as_deref()).map(Datum::Text),
        Key::HttpTarget => exchange.and_then(|exchange| exchange.target.as_deref()).map(Datum::Text),
        Key::HttpStatus => exchange.and_then(|exchange| exchange.status).map(|status| integer(status.into())),
        Key::TcpConnection => exchange.map(|exchange| integer(exchange.connection.0.into())),
        Key::Packet => return message.packets.iter().any(|packet| asked(integer(packet.0))),
        Key::Severity => return severities.iter().any(|severity| asked(Datum::Text(severity.name()))),
        Key::Finding => return findings.iter().any(|rule| asked(Datum::Text(rule))),
        Key::Server | Key::Host | Key::Process | Key::IpAddr | Key::TcpPort => {
            return session.is_some_and(|session| {
                let account = session.server.as_ref().map(|party| party.name.as_str());
                any_peer(entry.key, account, &session.peers, asked)
            });
        }
    };
    one.is_some_and(asked)
}

/// The fields that say between whom a session is. `account` is the server's name by its own account.
fn any_peer(key: Key, account: Option<&str>, peers: &Peers, asked: Asked<'_>) -> bool {
    match (key, peers) {
        (Key::Server, Peers::Process { name, .. }) => {
            account.into_iter().chain(name.as_deref()).any(|name| asked(Datum::Text(name)))
        }
        (Key::Server, Peers::Network { .. }) => account.is_some_and(|name| asked(Datum::Text(name))),
        (Key::Host, Peers::Network { host, .. }) => host.as_deref().is_some_and(|host| asked(Datum::Text(host))),
        (Key::IpAddr | Key::TcpPort, Peers::Network { client, server, .. }) => {
            [client, server].iter().any(|address| any_address(key, address, asked))
        }
        (Key::Process, Peers::Process { process, .. }) => asked(Datum::Integer((*process).into())),
        _ => false,
    }
}

fn any_address(key: Key, address: &SocketAddr, asked: Asked<'_>) -> bool {
    match key {
        Key::TcpPort => asked(Datum::Integer(address.port().into())),
        _ => asked(Datum::Text(&address.ip().to_string())),
    }
}

/// A request's latency is its answer's; only the answer has it on a stream, so only the answer has it anywhere.
fn is_answer(message: &Message) -> bool {
    matches!(message.kind, Kind::Response | Kind::Error)
}
