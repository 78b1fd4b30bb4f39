//! Laws over random filters and random messages.

use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::select;
use rusqlite::functions::FunctionFlags;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, params, params_from_iter};

use super::*;
use crate::capture::PacketNumber;
use crate::decode::ConnectionId;
use crate::decode::exchange::{Exchange, Half};
use crate::filter::fields::Type;
use crate::filter::path::Step;
use crate::findings::Severity;
use crate::mcp::Party;
use crate::mcp::facts;
use crate::mcp::operations::{Link, Why};

/// Few words, so that filters hit; among them what SQL, JSON and regular expressions stumble over.
const WORDS: &[&str] =
    &["add", "Add", "", "a'b", "a\"b\\", "ü天", "%", "x\0y", "tools/call", "1", "null", "(?-i)a", "\n"];

const TEXTS: &[&str] = &[
    CALL,
    FAILED,
    REFUSED,
    r#"{"method":"tools/call","id":"a\u0064d","params":{"name":"add","arguments":{"add":"Add","n":1.0,"x":null}}}"#,
    r#"{"method":"notifications/progress","params":{"list":[1,"add",true,[2],{"add":-1e3}]}}"#,
    r#"{"id":1,"result":{"add":"\ud800","isError":false}}"#,
    r#"{"id":1.0,"error":{"code":-32602,"message":"ADD ü天 (?-i)a"},"error":{"code":1}}"#,
    r#"{"id":null,"result":{}} trailing"#,
    "[1,2]",
    "no JSON at all: add %",
    "",
];

fn word() -> impl Strategy<Value = String> {
    select(WORDS).prop_map(str::to_owned)
}

fn maybe<T: std::fmt::Debug + Clone>(some: impl Strategy<Value = T>) -> impl Strategy<Value = Option<T>> {
    proptest::option::of(some)
}

fn a_message() -> impl Strategy<Value = (Message, Option<String>)> {
    let small = || maybe(0..4_u64);
    let facts = (small(), small(), small(), small(), maybe(-2..3_i64), any::<bool>(), 0..4_usize);
    let operation = maybe(0..6_u64);
    let place =
        (maybe(word()), prop::collection::vec(0..5_u64, 0..3), maybe(word()), 0..4_usize, -1..3_i64, any::<bool>());
    (select(TEXTS), facts, place, any::<bool>(), operation).prop_map(|(text, facts, place, broken, operation)| {
        let (exchange, batch, line, answers, latency, redelivered, transport) = facts;
        let (tool, packets, sse_id, carrier, time, finding) = place;
        let mut message = Message {
            exchange: exchange.map(ExchangeNumber),
            batch: batch.map(|number| (number, 0)),
            line,
            answers: answers.map(MessageNumber),
            answered_by: answers.map(MessageNumber),
            latency,
            redelivered,
            transport: Transport::NAMES[transport].0,
            carrier: Carrier::NAMES[carrier].0,
            packets: packets.into_iter().map(PacketNumber).collect(),
            sse_id,
            time: Time(time),
            link: operation.map(|first| Link {
                operation: MessageNumber(first),
                previous: MessageNumber(0),
                why: Why::Cursor,
            }),
            findings: if finding { vec!["add", "jsonrpc-id"] } else { vec![] },
            ..message(0, text)
        };
        if tool.is_some() {
            message.method = Some("tools/call".into());
        }
        if broken {
            message.raw = [&*message.raw, b"\xff"].concat().into();
        }
        let tool = tool.filter(|_| message.method.as_deref() == Some("tools/call"));
        (message, tool)
    })
}

fn a_session() -> impl Strategy<Value = Session> {
    let party = || maybe(word().prop_map(|name| Party { name, version: String::new() }));
    let peers = prop_oneof![
        maybe(word()).prop_map(|host| Peers::Network {
            client: "127.0.0.1:1".parse().unwrap(),
            server: "[::1]:3".parse().unwrap(),
            host,
        }),
        maybe(word()).prop_map(|name| Peers::Process { process: 2, command: vec![], name }),
    ];
    (party(), party(), maybe(word()), maybe(word()), peers, -1..2_i64).prop_map(
        |(client, server, protocol_version, session_id, peers, started)| Session {
            client,
            server,
            protocol_version,
            session_id,
            peers,
            started: Time(started),
            ..session()
        },
    )
}

fn an_exchange(number: u64) -> impl Strategy<Value = Exchange> {
    let fields = || {
        let field = (select(&["add", "ADD", "x"][..]), word());
        prop::collection::vec(field, 0..3)
            .prop_map(|fields| Half { fields: fields.into_iter().collect(), ..Half::default() })
    };
    (maybe(word()), maybe(word()), maybe(0..3_u16), 0..3_u32, fields(), fields()).prop_map(
        move |(method, target, status, connection, request, response)| Exchange {
            number: ExchangeNumber(number),
            connection: ConnectionId(connection),
            method,
            target,
            status,
            request,
            response,
            ..Exchange::default()
        },
    )
}

fn a_field() -> impl Strategy<Value = Field> {
    let step = prop_oneof![
        select(&["add", "content", "code", "arguments", "list", "n", "x", "a b", "0"][..])
            .prop_map(|name| Step::Member(name.into())),
        (0..3_u32).prop_map(Step::Index),
        Just(Step::Each),
    ];
    let path = (select(&path::ROOTS[..]), prop::collection::vec(step, 0..4)).prop_map(|(root, mut steps)| {
        steps.insert(0, Step::Member(root.into()));
        Field::Path(Path::new(steps).unwrap())
    });
    prop_oneof![
        6 => select(FIELDS.iter().collect::<Vec<_>>()).prop_map(Field::Known),
        1 => select(&["add", "x"][..]).prop_map(|name| Field::Header(name.into())),
        4 => path,
    ]
}

fn a_value(field: &Field) -> BoxedStrategy<Value> {
    match field.kind() {
        Type::Text => word().prop_map(Value::Text).boxed(),
        Type::Word => select(field.values()).prop_map(|word| Value::Text(word.into())).boxed(),
        Type::Flag => any::<bool>().prop_map(Value::Flag).boxed(),
        Type::Number | Type::Size | Type::Duration | Type::Time => {
            prop_oneof![4 => -1..6_i64, 1 => any::<i64>()].prop_map(Value::Integer).boxed()
        }
        Type::Id | Type::Json => prop_oneof![
            Just(Scalar::Null),
            any::<bool>().prop_map(Scalar::Bool),
            select(&["1", "1.0", "-32602", "0", "-1000", "2"][..]).prop_map(|number| Scalar::Number(number.into())),
            word().prop_map(Scalar::Text),
        ]
        .prop_map(Value::Json)
        .boxed(),
    }
}

fn a_test(field: &Field) -> BoxedStrategy<Test> {
    use Comparison::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
    let operators = field.kind().operators();
    let comparisons: Vec<Comparison> = [Equal, NotEqual, Less, LessOrEqual, Greater, GreaterOrEqual]
        .into_iter()
        .filter(|c| operators.contains(&c.symbol()))
        .collect();
    let compare =
        (select(comparisons), a_value(field)).prop_map(|(comparison, value)| Test::Compare(comparison, value));
    if !operators.contains(&"in") {
        return compare.boxed();
    }
    let within = prop::collection::vec(a_value(field), 1..3).prop_map(Test::In);
    if !operators.contains(&"contains") {
        return prop_oneof![4 => compare, 1 => within].boxed();
    }
    let contains = word().prop_map(Test::Contains);
    let matches = select(&["add", "^a", "(?-i)^A", "[0-9]", "ü.$", ""][..])
        .prop_map(|regex| Test::Matches(Pattern::new(regex).unwrap()));
    prop_oneof![4 => compare, 1 => within, 1 => contains, 1 => matches].boxed()
}

fn a_term() -> impl Strategy<Value = Expr> {
    let has =
        a_field().prop_filter_map("asks for yes", |field| (field.kind() != Type::Flag).then_some(Expr::Has(field)));
    let test = a_field().prop_flat_map(|field| a_test(&field).prop_map(move |test| Expr::Test(field.clone(), test)));
    prop_oneof![1 => has, 6 => test, 1 => word().prop_map(|word| Expr::Text(Search::new(&word).unwrap()))]
}

fn an_expression() -> impl Strategy<Value = Expr> {
    a_term().prop_recursive(4, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 2..4).prop_map(Expr::All),
            prop::collection::vec(inner.clone(), 2..4).prop_map(Expr::Any),
            inner.prop_map(|term| Expr::Not(Box::new(term))),
        ]
    })
}

/// The tables as far as a condition speaks of them, with the functions of a store.
fn store() -> Connection {
    let connection = Connection::open_in_memory().unwrap();
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    let same = |context: &rusqlite::functions::Context<'_>| context.get::<rusqlite::types::Value>(0);
    connection.create_scalar_function("text", 1, flags, same).unwrap();
    connection.create_scalar_function("numbers", 1, flags, same).unwrap();
    // No text is packed here.
    for name in [FUNCTION, TEXT_FUNCTION, TEXT_FUNCTION] {
        connection
            .create_scalar_function(name, 2, flags, |context| {
                let term: Arc<Term> = context.get_or_create_aux(1, |value| {
                    Ok::<_, Box<dyn std::error::Error + Send + Sync>>(Term::parse(value.as_str()?)?)
                })?;
                Ok(match context.get_raw(0) {
                    ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(term.matches(bytes)),
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
        Peers::Process { process, name, .. } => (None, Some((process, name))),
    };
    connection
        .execute(
            "INSERT INTO session VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            params![
                session.started.0,
                session.session_id,
                session.client.as_ref().map(|party| &party.name),
                session.server.as_ref().map(|party| &party.name),
                process.and_then(|(_, name)| name.as_ref()),
                session.protocol_version,
                network.as_ref().and_then(|(_, _, host)| host.as_ref()),
                process.map(|(process, _)| process),
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
    let status = facts::status(message).map_or(0, |status| code("status", status.name()).unwrap() + 1);
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
    let parameters = params_from_iter(condition.parameters.iter().map(|parameter| match parameter {
        Parameter::Integer(number) => rusqlite::types::Value::from(*number),
        Parameter::Text(text) => rusqlite::types::Value::from(text.clone()),
    }));
    let mut statement = connection.prepare(&sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    statement
        .query_map(parameters, |row| row.get(0))
        .unwrap()
        .map(|row| row.unwrap_or_else(|error| panic!("{sql}: {error}")))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn what_is_printed_reads_the_same(expression in an_expression()) {
        let printed = expression.to_string();
        let read = Filter::parse(&printed).map_err(|error| TestCaseError::fail(error.render(200)))?;
        prop_assert_eq!(read.expression(), &expression, "{}", printed);
    }

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
            let filter = Filter { expression };
            let condition = filter.condition(1);
            let passing: Vec<i64> = (0..)
                .zip(&messages)
                .filter(|(_, (message, tool))| {
                    filter.matches(&Row {
                        message,
                        tool: tool.as_deref(),
                        answered: message.answered_by.is_some(),
                        findings: &message.findings,
                        severities: if message.findings.is_empty() { &[] } else { &[Severity::Error] },
                        session: session.as_ref(),
                        exchange: exchanges.iter().find(|exchange| Some(exchange.number) == message.exchange),
                    })
                })
                .map(|(position, _)| position)
                .collect();
            if let Some(texts) = filter.text_condition(1) {
                let having = chosen_from("message_text", &connection, &texts);
                prop_assert!(passing.iter().all(|id| having.contains(id)), "{}\n{}", filter, texts.sql);
            }
            prop_assert_eq!(chosen(&connection, &condition), passing, "{}\n{}", filter, condition.sql);
        }
    }

    #[test]
    fn nothing_panics(pieces in prop::collection::vec(prop_oneof![
        select(&["and", "or", "not", "(", ")", "{", "}", ",", "=", "!=", "~", "in", "contains", "matches", "\"", "\\", "!",
            "&&", "tool", "latency", "200ms", "kind", "request", "params", ".a", "[0]", "[\"", "\"]", "[*]", " ", "天",
            "\u{202e}"][..])
            .prop_map(str::to_owned),
        "\\PC{0,3}",
    ], 0..24), bytes in prop::collection::vec(any::<u8>(), 0..32)) {
        fuzz_filter(pieces.concat().as_bytes());
        fuzz_filter(pieces.join(" ").as_bytes());
        fuzz_filter(&bytes);
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
            tool: None,
            answered: false,
            findings: &[],
            severities: &[],
            session: None,
            exchange: None,
        };
        assert_eq!(chosen(&connection, &filter.condition(1)).len(), usize::from(filter.matches(&row)));
    }
}
