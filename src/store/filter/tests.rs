//! SQL selects the messages that a filter on a stream selects.

use proptest::prelude::*;
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, params};

use super::condition::{FUNCTION, TEXT_FUNCTION};
use super::functions::term;
use super::*;
use crate::decode::exchange::{Exchange, Half};
use crate::filter::tests::random::{a_message, a_session, an_exchange, an_expression, maybe};
use crate::filter::tests::{CALL, message};
use crate::filter::{FIELDS, Row};
use crate::findings::Severity;
use crate::mcp::{Message, MessageNumber, Peers, Session, content};

/// The tables, as far as conditions refer to them, with the SQL functions of a store.
fn store() -> Connection {
    let connection = Connection::open_in_memory().unwrap();
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    let same = |context: &Context<'_>| context.get::<Value>(0);
    connection.create_scalar_function("text", 1, flags, same).unwrap();
    connection.create_scalar_function("numbers", 1, flags, same).unwrap();
    // No text is compressed here.
    for name in [FUNCTION, TEXT_FUNCTION] {
        connection
            .create_scalar_function(name, 2, flags, |context| {
                let term = term(context)?;
                Ok(match context.get_raw(0) {
                    ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(term.matches_subject(bytes)),
                    _ => None,
                })
            })
            .unwrap();
    }
    connection
        .execute_batch(
            "CREATE TABLE message (id INTEGER PRIMARY KEY, capture, number, session, time, transport, direction, kind,
                 json_id, method, subject, status, latency, answers, answered_by, size, carrier, exchange, batch, line, sse_id,
                 redelivered, packets);
             CREATE TABLE message_text (id INTEGER PRIMARY KEY, text);
             CREATE TABLE session (id INTEGER PRIMARY KEY, started, session_id, client_name, server_name, process_name,
                 protocol_version, host, process, client_address, server_address);
             CREATE TABLE exchange (id INTEGER PRIMARY KEY, connection, method, target, status, request_fields,
                 response_fields);
             CREATE TABLE link (message INTEGER PRIMARY KEY, operation);
             CREATE TABLE finding (id INTEGER PRIMARY KEY, rule);
             CREATE TABLE finding_message (message, finding, severity);
             INSERT INTO finding VALUES (1, 'add'), (2, 'jsonrpc-id');",
        )
        .unwrap();
    connection
}

const CAPTURE: i64 = 1 << 40;

fn insert_session(connection: &Connection, session: &Session) {
    let (network, process) = match &session.peers {
        Peers::Network { client, server, host } => (Some((client.to_string(), server.to_string(), host)), None),
        Peers::Process { process, .. } => (None, Some(process)),
    };
    connection
        .execute(
            "INSERT INTO session VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            params![
                session.started.0,
                session.session_id,
                session.client.as_ref().map(|party| &party.name),
                session.server.as_ref().map(|party| &party.name),
                session.name,
                session.protocol_version,
                network.as_ref().and_then(|(_, _, host)| host.as_ref()),
                process,
                network.as_ref().map(|(client, _, _)| client),
                network.as_ref().map(|(_, server, _)| server),
            ],
        )
        .unwrap();
}

fn insert_exchange(connection: &Connection, exchange: &Exchange) {
    let fields = |half: &Half| {
        let pairs: Vec<(&str, &str)> = half.fields.iter().collect();
        serde_json::to_string(&pairs).unwrap()
    };
    connection
        .execute(
            "INSERT INTO exchange VALUES (?, ?, ?, ?, ?, ?, ?)",
            params![
                CAPTURE | exchange.number.0 as i64,
                CAPTURE | i64::from(exchange.connection.0),
                exchange.method,
                exchange.target,
                exchange.status,
                fields(&exchange.request),
                fields(&exchange.response),
            ],
        )
        .unwrap();
}

fn insert_message(connection: &Connection, number: i64, message: &Message, tool: Option<&String>) {
    let code = |words: &str, word: &str| {
        let words = FIELDS.iter().find(|entry| entry.name == words).unwrap().values;
        words.iter().position(|candidate| *candidate == word).map(|position| position as i64)
    };
    let status = content::status(message).map_or(0, |status| code("status", status.name()).unwrap() + 1);
    let packets: Vec<u64> = message.packets.iter().map(|packet| packet.0).collect();
    let text = match std::str::from_utf8(&message.raw) {
        Ok(text) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
        Err(_) => ToSqlOutput::Borrowed(ValueRef::Blob(&message.raw)),
    };
    connection
        .execute(
            "INSERT INTO message VALUES (?, 1, ?, 1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            params![
                CAPTURE | number,
                message.number.0 as i64,
                message.time.0,
                code("transport", message.transport.name()),
                code("direction", message.direction.name()),
                code("kind", message.kind.name()),
                message.id,
                message.method,
                tool,
                status,
                message.latency,
                message.answers.map(|request| request.0 as i64),
                message.answered_by.map(|answer| answer.0 as i64),
                message.raw.len() as i64,
                code("carrier", message.carrier.name()),
                message.exchange.map(|exchange| exchange.0 as i64),
                message.batch.map(|(batch, _)| batch as i64),
                message.line.map(|line| line as i64),
                message.sse_id,
                message.redelivered,
                serde_json::to_string(&packets).unwrap(),
            ],
        )
        .unwrap();
    connection.execute("INSERT INTO message_text VALUES (?, ?)", params![CAPTURE | number, text]).unwrap();
    if let Some(link) = message.link {
        let operation = CAPTURE | link.operation.0 as i64;
        connection.execute("INSERT INTO link VALUES (?, ?)", params![CAPTURE | number, operation]).unwrap();
    }
    for finding in 1..=message.findings.len() as i64 {
        connection.execute("INSERT INTO finding_message VALUES (?, ?, 2)", params![CAPTURE | number, finding]).unwrap();
    }
}

fn chosen(connection: &Connection, condition: &Condition) -> Vec<i64> {
    chosen_from("message", connection, condition)
}

fn chosen_from(table: &str, connection: &Connection, condition: &Condition) -> Vec<i64> {
    let sql = format!("SELECT id & 0xFFFFFFFFFF FROM {table} WHERE {} ORDER BY id", condition.sql);
    let mut statement = connection.prepare(&sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    statement
        .query_map(params_from_iter(&condition.parameters), |row| row.get(0))
        .unwrap()
        .map(|row| row.unwrap_or_else(|error| panic!("{sql}: {error}")))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn sql_and_stream_agree(
        expressions in prop::collection::vec(an_expression(), 16),
        messages in prop::collection::vec(a_message(), 6),
        session in maybe(a_session()),
        exchanges in (maybe(an_exchange(0)), an_exchange(1), an_exchange(2)),
    ) {
        let exchanges: Vec<Exchange> = exchanges.0.into_iter().chain([exchanges.1, exchanges.2]).collect();
        let connection = store();
        session.iter().for_each(|session| insert_session(&connection, session));
        exchanges.iter().for_each(|exchange| insert_exchange(&connection, exchange));
        for (position, (message, tool)) in messages.iter().enumerate() {
            insert_message(&connection, position as i64, message, tool.as_ref());
        }
        let firsts: Vec<u64> =
            messages.iter().filter_map(|(message, _)| Some(message.link?.operation.0)).collect();
        let known = |position: u64, (mut message, tool): (Message, Option<String>)| {
            let first = |number: &MessageNumber| firsts.contains(&number.0);
            let own = message.link.map(|link| link.operation);
            message.operation =
                own.or(Some(MessageNumber(position)).filter(first)).or(message.answers.filter(first));
            (message, tool)
        };
        let messages: Vec<_> = (0..).zip(messages).map(|(position, message)| known(position, message)).collect();
        for expression in expressions {
            let filter = Filter::parse(&expression.to_string()).expect("what is printed reads the same");
            let condition = Condition::new(&filter, 1);
            prop_assert_eq!(condition.sql.matches('?').count(), condition.parameters.len(), "{}", condition.sql);
            let passing: Vec<i64> = (0..)
                .zip(&messages)
                .filter(|(_, (message, _))| {
                    filter.matches(&Row {
                        message,
                        answered: message.answered_by.is_some(),
                        findings: &message.findings,
                        severities: if message.findings.is_empty() { &[] } else { &[Severity::Error] },
                        session: session.as_ref(),
                        exchange: exchanges.iter().find(|exchange| Some(exchange.number) == message.exchange),
                    })
                })
                .map(|(position, _)| position)
                .collect();
            if let Some(texts) = Condition::of_text(&filter, 1) {
                let having = chosen_from("message_text", &connection, &texts);
                prop_assert!(passing.iter().all(|id| having.contains(id)), "{}\n{}", filter, texts.sql);
            }
            prop_assert_eq!(chosen(&connection, &condition), passing, "{}\n{}", filter, condition.sql);
        }
    }
}

#[test]
fn the_longest_chains_and_deepest_nestings_run_in_sqlite() {
    let connection = store();
    insert_message(&connection, 1, &message(1, CALL), None);
    for filter in [
        "quito ".repeat(512),
        vec!["number != 7"; 512].join(" or "),
        format!("{}number = 7{}", "not (".repeat(32), ")".repeat(32)),
        format!("{}number = 1", "!".repeat(64)),
    ] {
        let filter = Filter::parse(&filter).unwrap();
        let row = Row {
            message: &message(1, CALL),
            answered: false,
            findings: &[],
            severities: &[],
            session: None,
            exchange: None,
        };
        assert_eq!(chosen(&connection, &Condition::new(&filter, 1)).len(), usize::from(filter.matches(&row)));
    }
}
