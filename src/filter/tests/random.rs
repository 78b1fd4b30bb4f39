//! Random filters, messages and facts, and the laws of the language tested with them.

use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::capture::PacketNumber;
use crate::decode::ConnectionId;
use crate::decode::exchange::{Exchange, Half};
use crate::filter::fields::Type;
use crate::filter::path::Selector;
use crate::mcp::Party;
use crate::mcp::link::{Link, Why};

/// A few words, so that filters often match. Some are hard for SQL, JSON or regular expressions.
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

/// Some value of a strategy, or none.
pub(crate) fn maybe<T: std::fmt::Debug + Clone>(some: impl Strategy<Value = T>) -> impl Strategy<Value = Option<T>> {
    proptest::option::of(some)
}

/// A message with random facts, and the tool that it calls.
pub(crate) fn a_message() -> impl Strategy<Value = (Message, Option<String>)> {
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
            transport: Transport::ALL[transport],
            carrier: Carrier::ALL[carrier],
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
        message.tool = tool.as_deref().map(Into::into);
        (message, tool)
    })
}

/// A session over pipes or a network, with random names.
pub(crate) fn a_session() -> impl Strategy<Value = Session> {
    let party = || maybe(word().prop_map(|name| Party { name, version: String::new() }));
    let peers = prop_oneof![
        maybe(word()).prop_map(|host| Peers::Network {
            client: "127.0.0.1:1".parse().unwrap(),
            server: "[::1]:3".parse().unwrap(),
            host,
        }),
        Just(Peers::Process { process: 2, command: vec![] }),
    ];
    (party(), party(), maybe(word()), maybe(word()), maybe(word()), peers, -1..2_i64).prop_map(
        |(client, server, protocol_version, session_id, name, peers, started)| Session {
            client,
            server,
            protocol_version,
            session_id,
            peers,
            name,
            started: Time(started),
            ..session()
        },
    )
}

/// An HTTP exchange with this number and random heads.
pub(crate) fn an_exchange(number: u64) -> impl Strategy<Value = Exchange> {
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
            .prop_map(|name| Selector::Name(name.into())),
        (0..3_u32).prop_map(Selector::Index),
        Just(Selector::Wildcard),
    ];
    let path = (select(&path::ROOTS[..]), prop::collection::vec(step, 0..4)).prop_map(|(root, mut steps)| {
        steps.insert(0, Selector::Name(root.into()));
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
        .filter(|c| operators.contains(&c.name()))
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

/// An expression of a few random terms.
pub(crate) fn an_expression() -> impl Strategy<Value = Expr> {
    a_term().prop_recursive(4, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 2..4).prop_map(Expr::All),
            prop::collection::vec(inner.clone(), 2..4).prop_map(Expr::Any),
            inner.prop_map(|term| Expr::Not(Box::new(term))),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_printed_filter_parses_as_the_same_tree(expression in an_expression()) {
        let printed = expression.to_string();
        let read = Filter::parse(&printed).map_err(|error| TestCaseError::fail(error.render(200)))?;
        prop_assert_eq!(read.expression(), &expression, "{}", printed);
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
