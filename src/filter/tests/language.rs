//! Filters and what they select, error messages, and completion.

use super::*;

#[test]
fn a_call_and_its_answers() {
    let call = message(1, CALL);
    let failed = answer(2, &call, FAILED);
    let refused = answer(3, &call, REFUSED);
    let cases = [
        // filter, the call, the failed result, the error
        ("", true, true, true),
        ("method = tools/call", true, true, true),
        ("method == tools/call && kind eq request", true, false, false),
        ("tool = get_weather", true, true, true),
        ("tool != get_weather", false, false, false),
        ("not tool = get_weather", false, false, false),
        ("kind in {response, error}", false, true, true),
        ("status != ok", false, true, true),
        ("status", false, true, true),
        ("status matches tool", false, true, false),
        ("id = 3", true, true, false),
        ("id = \"3\"", false, false, true),
        ("id = 3.0", false, false, false),
        ("id >= 3", true, true, false),
        ("latency > 1ms", false, false, true),
        ("latency = 1ms", false, true, false),
        ("direction = s2c", false, true, true),
        ("direction = →", true, false, false),
        ("packet = 12", false, true, false),
        ("packet != 12", true, false, true),
        ("packet >= 12", false, true, true),
        ("time > 2025-11-24T16:00:00.001Z", false, true, true),
        ("elapsed <= 2ms", true, true, false),
        ("size < 100", false, false, true),
        ("answers = 1", false, true, true),
        ("answered = false", true, false, false),
        ("not answered", true, true, true),
        ("redelivered", false, false, false),
        ("tcp.port = 8080 and ip.addr = ::1 and server = weather and host = localhost", true, true, true),
        ("revision >= 2025-06-18 and not revision > 2025-11-25", true, true, true),
        ("params.arguments.city = Quito", true, false, false),
        ("params.arguments.city contains quito", false, false, false),
        ("params.arguments.city matches ^quito$", true, false, false),
        ("params.arguments.city ~ \"(?-i)^quito$\"", false, false, false),
        ("params.arguments.days[1] = 2", true, false, false),
        ("params.arguments.days.1 < 2.5", true, false, false),
        ("params.arguments.days[*] = x", true, false, false),
        ("params.arguments.days[*] != x", false, false, false),
        ("params.arguments.days[*] = 3", false, false, false),
        ("params.arguments.days = 1", false, false, false),
        ("params.arguments.days != 1", true, false, false),
        ("params.arguments.* contains ui", true, false, false),
        ("params._meta[\"io.modelcontextprotocol/clientInfo\"].name = c", true, false, false),
        ("result.content[0].text ~ \"city: \\w+\\s$\"", false, true, false),
        ("result.isError = true", false, true, false),
        ("error.code < -32000", false, false, true),
        ("error", false, false, true),
        ("json.jsonrpc = \"2.0\"", true, true, true),
        ("json contains isError", false, true, false),
        ("quito", true, true, false),
        ("QUITO city", true, true, false),
        ("quito \"no such\"", false, true, false),
        ("quito or invalid", true, true, true),
        ("not (quito or invalid)", false, false, false),
        ("!quito", false, false, true),
        ("NOT quito AND error", false, false, true),
        ("\"error\"", false, true, true),
    ];
    for (filter, of_call, of_failed, of_refused) in cases {
        let found = [&call, &failed, &refused].map(|message| passes(filter, message));
        assert_eq!(found, [of_call, of_failed, of_refused], "{filter}");
    }
}

#[test]
fn odd_texts_have_no_values_and_can_be_searched() {
    let mut odd = message(1, "{}");
    odd.raw = b"\xff{\"params\":1} na\xc3\xafve".to_vec().into();
    assert!(passes("not params and not json and NAÏVE", &odd));
    odd.raw = br#"{"params":{"a":1},"params":{"a":2}}"#.to_vec().into();
    assert!(passes("params.a = 2 and not params.a = 1", &odd));
    odd.raw = br#"{"params":{"a":18446744073709551617}}"#.to_vec().into();
    assert!(passes("params.a > 18446744073709551616 and not params.a > 18446744073709551617", &odd));
}

#[test]
fn errors_point_at_the_column_and_name_the_expected_words() {
    let cases = [
        ("metod = tools/call", "there is no field metod\n  metod = tools/call\n  ^^^^^ expected method"),
        ("port = 80", "there is no field port\n  port = 80\n  ^^^^ expected tcp.port"),
        (
            "zzz > 1",
            "there is no field zzz\n  zzz > 1\n  ^^^ expected a field, or a path that begins with params, result, error or json",
        ),
        (
            "result.content[0",
            "result.content[0 is not a path\n  result.content[0\n  ^^^^^^^^^^^^^^^^ expected a path such as params.arguments.city, \
             result.content[0].text or params[\"two words\"]",
        ),
        ("tool =", "the filter ends too early\n  tool =\n        ^ expected a value, in quotes if it has blanks"),
        (
            "tool = add latency",
            "unexpected latency\n  tool = add latency\n             ^^^^^^^ expected \"and\", \"or\" or the end",
        ),
        (
            "latency > 200",
            "\"200\" is not a duration, the type of latency\n  latency > 200\n            ^^^ expected a duration such as 200ms, 1.5s, 30us or 2m",
        ),
        (
            "status = fine",
            "status has no value \"fine\"\n  status = fine\n           ^^^^ expected ok, error, tool-error or negative",
        ),
        (
            "kind in {request, eror}",
            "kind has no value \"eror\"\n  kind in {request, eror}\n                    ^^^^ expected error",
        ),
        (
            "kind in request",
            "unexpected request\n  kind in request\n          ^^^^^^^ expected values in braces, as in {1, 2}",
        ),
        (
            "kind in {}",
            "unexpected }\n  kind in {}\n           ^ expected request, notification, response, error, invalid",
        ),
        (
            "kind in {error",
            "the filter ends too early\n  kind in {error\n                ^ expected another value or }",
        ),
        (
            "number contains 1",
            "number is of type number, which does not support contains\n  number contains 1\n         ^^^^^^^^ expected =, !=, <, <=, >, >= or in",
        ),
        ("method ~ \"a(\"", "not a regular expression: unclosed group\n  method ~ \"a(\"\n           ^^^^"),
        ("(a or b", "this ( is not closed\n  (a or b\n  ^"),
        ("a or b)", "this ) has no matching (\n  a or b)\n        ^ expected \"and\", \"or\" or the end"),
        ("a or", "the filter ends too early\n  a or\n      ^ expected a field, a word to search for, not or ("),
        ("and b", "unexpected and\n  and b\n  ^^^ expected a field, a word to search for, not or ("),
        ("\"open", "this \" is not closed\n  \"open\n  ^"),
        ("\"a\" = 1", "a text in quotes is a search: it cannot be compared\n  \"a\" = 1\n  ^^^"),
        (
            "http.target = /mcp?a=b",
            "a value without quotes cannot contain this character\n  http.target = /mcp?a=b\n                      ^ expected quotes around the value",
        ),
        (
            "Invalid params",
            "unexpected params\n  Invalid params\n          ^^^^^^ expected \"and\", \"or\" or \"Invalid params\" to search for this text",
        ),
        (
            "method foo",
            "unexpected foo\n  method foo\n         ^^^ expected an operator such as = or \"method foo\" to search for this text",
        ),
        (
            "failed = 1",
            "there is no field failed\n  failed = 1\n  ^^^^^^ expected a field, or a path that begins with params, result, error or json",
        ),
    ];
    for (filter, rendered) in cases {
        assert_eq!(Filter::parse(filter).unwrap_err().render(100), rendered);
    }
}

#[test]
fn depth_length_and_terms_are_bounded() {
    let error = |filter: String| Filter::parse(&filter).unwrap_err();
    assert!(Filter::parse(&format!("{}a{}", "(".repeat(64), ")".repeat(64))).is_ok());
    let deep = error(format!("{}a{}", "(".repeat(4_000), ")".repeat(4_000)));
    assert_eq!((deep.column, deep.message.as_str()), (65, "nested deeper than 64"));
    assert_eq!(error("not ".repeat(2_000)).message, "nested deeper than 64");
    assert_eq!(error("!".repeat(2_000)).message, "nested deeper than 64");
    assert_eq!(error("a ".repeat(5_000)).message, "a filter has at most 8192 characters");
    assert_eq!(error("a ".repeat(513)).message, "a filter has at most 512 terms");
    assert_eq!(error(format!("number in {{{}}}", "1,".repeat(513))).message, "a filter has at most 512 terms");
    assert!(error(format!("params{} = 1", ".a".repeat(40))).message.starts_with("there is no field params.a"));
}

#[test]
fn a_shorthand_stands_for_its_filter_and_in_quotes_for_its_text() {
    for shorthand in fields::SHORTHANDS {
        let expected = Filter::parse(shorthand.filter).unwrap();
        assert_eq!(Filter::parse(shorthand.name).unwrap(), expected);
        let both = format!("tool = add and not {}", shorthand.name);
        assert_eq!(Filter::parse(&both), Filter::parse(&format!("tool = add and not ({})", shorthand.filter)));
        let quoted = Filter::parse(&format!("\"{}\"", shorthand.name)).unwrap();
        assert!(matches!(quoted.expression(), Expr::Text(_)));
    }
}

#[test]
fn completion_depends_on_the_context() {
    let offered = |filter: &str| {
        let texts: Vec<String> = complete(filter, filter.len()).into_iter().map(|completion| completion.text).collect();
        texts.join(" ")
    };
    assert_eq!(offered("la"), "latency");
    assert_eq!(offered("not (tcp."), "tcp.port tcp.connection");
    assert_eq!(offered("latency "), "= != < <= > >= in and or");
    assert_eq!(offered("kind = re"), "request response");
    assert_eq!(offered("kind in {request, e"), "error");
    assert_eq!(offered("kind = request a"), "and");
    assert_eq!(offered("method = tools/"), "tools/list tools/call");
    assert_eq!(offered("params.arguments.city ma"), "matches");
    assert_eq!(offered("tool = \"la"), "");
    assert_eq!(offered("tool = add ) ("), "");
    assert_eq!(complete("kind = request", 8)[0].start, 7);
    assert_eq!(complete("é", 1), []);
}

#[test]
fn a_filter_settles_with_its_last_field() {
    let settled = |filter: &str| Filter::parse(filter).unwrap().settled();
    assert_eq!(settled("tool = a or params.b"), Settled::WithMessage);
    assert_eq!(settled("tool = a or not http.status = 200"), Settled::WithExchange);
    assert_eq!(settled("http.header.accept and server = x"), Settled::AtEnd);
}

#[test]
fn the_examples_of_the_table_are_filters() {
    for definition in FIELDS {
        let filter = Filter::parse(definition.example).unwrap_or_else(|error| panic!("{error}"));
        assert!(filter.to_string().contains(definition.name), "{}", definition.example);
        for value in definition.values {
            Filter::parse(&format!("{} = {value}", definition.name)).unwrap();
        }
    }
}
