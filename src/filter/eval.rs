//! Evaluation of a filter on one message.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::net::SocketAddr;

use super::Row;
use super::ast::{Comparison, Expr, Scalar, Test, Value};
use super::fields::{Field, FieldDefinition, FieldId};
use crate::decode::json;
use crate::decode::jsonrpc::Kind;
use crate::mcp::{Message, Peers, content};

/// One value of a field.
#[derive(Clone, Copy)]
enum Datum<'a> {
    Integer(i64),
    Flag(bool),
    Text(&'a str),
    /// The JSON text of a JSON-RPC id: `1` and `1.0` differ.
    Id(&'a str),
    /// The JSON text of a value inside the message: `1` and `1.0` are the same number.
    Json(&'a str),
}

type Predicate<'f> = &'f mut dyn FnMut(Datum<'_>) -> bool;

impl Expr {
    /// Whether the message passes.
    pub fn matches(&self, row: &Row<'_>) -> bool {
        match self {
            Expr::All(terms) => terms.iter().all(|term| term.matches(row)),
            Expr::Any(terms) => terms.iter().any(|term| term.matches(row)),
            Expr::Not(term) => !term.matches(row),
            Expr::Has(field) => evaluate(None, |predicate| any_value(field, row, predicate)),
            Expr::Test(field, test) => evaluate(Some(test), |predicate| any_value(field, row, predicate)),
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
        evaluate(test, |predicate| match field {
            Field::Path(path) => path.any(text, &mut |value| predicate(Datum::Json(value))),
            Field::Header(_) => predicate(Datum::Text(text)),
            Field::Known(definition) => match definition.key {
                FieldId::Id => predicate(Datum::Id(text)),
                FieldId::IpAddr | FieldId::TcpPort => {
                    text.parse().is_ok_and(|address| any_address(definition.key, &address, predicate))
                }
                _ => predicate(Datum::Text(text)),
            },
        })
    }
}

impl Test {
    /// Whether one of a field's words passes. The store tests each word in advance.
    pub(crate) fn passes_word(&self, word: &str) -> bool {
        passes(Datum::Text(word), self)
    }
}

/// Applies a test to all values of a field: none, one or many (packets, header fields, `[*]`). One
/// value that passes is enough.
///
/// `!=` is the exception, as in Wireshark: there has to be a value, and none may equal the given
/// one. `not (a = b)` also finds messages without a value. Without a test any value passes.
fn evaluate(test: Option<&Test>, any_value: impl Fn(Predicate<'_>) -> bool) -> bool {
    match test {
        None => any_value(&mut |_| true),
        Some(Test::Compare(Comparison::NotEqual, value)) => {
            any_value(&mut |_| true) && !any_value(&mut |datum| order(datum, value) == Some(Ordering::Equal))
        }
        Some(test) => any_value(&mut |datum| passes(datum, test)),
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

/// Applies a comparison. Values of different types have no order: only `!=` holds for them.
pub(super) fn holds(comparison: Comparison, order: Option<Ordering>) -> bool {
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
        // JSON-RPC 2.0 section 4: the id of a response "MUST be the same as the value of the id
        // member in the Request". Peers compare the text that they sent: 1.0 does not answer 1.
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

/// The text that `contains` and `matches` search: the content of a string, any other JSON
/// value as written.
fn text(datum: Datum<'_>) -> Option<Cow<'_, str>> {
    match datum {
        Datum::Text(text) => Some(Cow::Borrowed(text)),
        Datum::Id(value) | Datum::Json(value) => Some(json::string(value).unwrap_or(Cow::Borrowed(value))),
        Datum::Integer(_) | Datum::Flag(_) => None,
    }
}

/// Whether one of the field's values passes the predicate.
fn any_value(field: &Field, row: &Row<'_>, predicate: Predicate<'_>) -> bool {
    match field {
        Field::Known(definition) => any_known(definition, row, predicate),
        Field::Header(name) => row.exchange.is_some_and(|exchange| {
            let mut fields = exchange.request.fields.iter().chain(exchange.response.fields.iter());
            // RFC 9110 section 5.1: "Field names are case-insensitive".
            fields.any(|(known, value)| known.eq_ignore_ascii_case(name) && predicate(Datum::Text(value)))
        }),
        Field::Path(path) => {
            row.message.raw.text().is_some_and(|text| path.any(text, &mut |value| predicate(Datum::Json(value))))
        }
    }
}

fn any_known(definition: &FieldDefinition, row: &Row<'_>, predicate: Predicate<'_>) -> bool {
    let Row { message, answered, findings, severities, session, exchange } = *row;
    let integer = |value: u64| Datum::Integer(i64::try_from(value).unwrap_or(i64::MAX));
    let one = match definition.key {
        FieldId::Method => message.method.as_deref().map(Datum::Text),
        FieldId::Tool => message.tool.as_deref().map(Datum::Text),
        FieldId::Kind => Some(Datum::Text(message.kind.name())),
        FieldId::Id => message.id.as_deref().map(Datum::Id),
        FieldId::Status => content::status(message).map(|status| Datum::Text(status.name())),
        FieldId::Latency => message.latency.filter(|_| is_answer(message)).map(Datum::Integer),
        FieldId::Direction => Some(Datum::Text(message.direction.name())),
        FieldId::Number => Some(integer(message.number.0)),
        FieldId::Time => Some(Datum::Integer(message.time.0)),
        FieldId::Elapsed => session.map(|session| Datum::Integer(message.time.since(session.started))),
        FieldId::Size => Some(integer(message.raw.len() as u64)),
        FieldId::Session => Some(integer(message.session.0.into())),
        FieldId::SessionId => session.and_then(|session| session.session_id.as_deref()).map(Datum::Text),
        FieldId::Client => session.and_then(|session| session.client.as_ref()).map(|party| Datum::Text(&party.name)),
        FieldId::Revision => session.and_then(|session| session.protocol_version.as_deref()).map(Datum::Text),
        FieldId::Transport => Some(Datum::Text(message.transport.name())),
        FieldId::Carrier => Some(Datum::Text(message.carrier.name())),
        FieldId::Batch => message.batch.map(|(number, _)| integer(number)),
        FieldId::Operation => message.operation.map(|first| integer(first.0)),
        FieldId::Answers => message.answers.map(|request| integer(request.0)),
        FieldId::Answered => (message.kind == Kind::Request).then_some(Datum::Flag(answered)),
        FieldId::Redelivered => Some(Datum::Flag(message.redelivered)),
        FieldId::Line => message.line.map(integer),
        FieldId::SseId => message.sse_id.as_deref().map(Datum::Text),
        FieldId::Exchange => message.exchange.map(|exchange| integer(exchange.0)),
        FieldId::HttpMethod => exchange.and_then(|exchange| exchange.method.as_deref()).map(Datum::Text),
        FieldId::HttpTarget => exchange.and_then(|exchange| exchange.target.as_deref()).map(Datum::Text),
        FieldId::HttpStatus => exchange.and_then(|exchange| exchange.status).map(|status| integer(status.into())),
        FieldId::TcpConnection => exchange.map(|exchange| integer(exchange.connection.0.into())),
        FieldId::Packet => return message.packets.iter().any(|packet| predicate(integer(packet.0))),
        FieldId::Severity => return severities.iter().any(|severity| predicate(Datum::Text(severity.name()))),
        FieldId::Finding => return findings.iter().any(|rule| predicate(Datum::Text(rule))),
        FieldId::Host | FieldId::Process | FieldId::IpAddr | FieldId::TcpPort => {
            return session.is_some_and(|session| any_peer(definition.key, &session.peers, predicate));
        }
        FieldId::Server => {
            return session.is_some_and(|session| {
                let own = session.server.as_ref().map(|party| party.name.as_str());
                own.into_iter().chain(session.name.as_deref()).any(|name| predicate(Datum::Text(name)))
            });
        }
    };
    one.is_some_and(predicate)
}

/// Whether a value of a field about the addresses or the process of a session passes.
fn any_peer(key: FieldId, peers: &Peers, predicate: Predicate<'_>) -> bool {
    match (key, peers) {
        (FieldId::Host, Peers::Network { host, .. }) => {
            host.as_deref().is_some_and(|host| predicate(Datum::Text(host)))
        }
        (FieldId::IpAddr | FieldId::TcpPort, Peers::Network { client, server, .. }) => {
            [client, server].iter().any(|address| any_address(key, address, predicate))
        }
        (FieldId::Process, Peers::Process { process, .. }) => predicate(Datum::Integer((*process).into())),
        _ => false,
    }
}

fn any_address(key: FieldId, address: &SocketAddr, predicate: Predicate<'_>) -> bool {
    match key {
        FieldId::TcpPort => predicate(Datum::Integer(address.port().into())),
        _ => predicate(Datum::Text(&address.ip().to_string())),
    }
}

/// Whether the message has a latency. A request gets its latency only with its response, so a
/// filter on events cannot see it: `latency` is a field of responses everywhere.
fn is_answer(message: &Message) -> bool {
    matches!(message.kind, Kind::Response | Kind::Error)
}
