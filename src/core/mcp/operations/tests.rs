use std::collections::HashMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::mcp::test_messages;

const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#;

/// The links of a conversation, each as "number: operation/previous reason".
///
/// `> …` is a message of the client, `< …` one of the server, `>3 …` one in exchange 3. `+ 5`
/// advances the time by five seconds. Responses are paired by sender and id, and by exchange.
fn links(steps: &[&str]) -> Vec<String> {
    links_of(steps, false)
}

fn links_of(steps: &[&str], is_shared: bool) -> Vec<String> {
    let mut operations = Operations::default();
    let mut open: HashMap<(Direction, Arc<str>, Option<ExchangeNumber>), Message> = HashMap::new();
    let (mut number, mut now) = (0, 0);
    let mut found = Vec::new();
    for step in steps {
        let (side, text) = step.split_once(' ').expect("a side");
        if side == "+" {
            now += text.parse::<i64>().expect("seconds") * 1_000_000_000;
            continue;
        }
        number += 1;
        let direction = if side.starts_with('>') { Direction::ClientToServer } else { Direction::ServerToClient };
        let mut message = test_messages::message(number, Time(now), direction, text);
        message.exchange = side[1..].parse().ok().map(ExchangeNumber);
        if let Some(id) = message.id.clone() {
            if message.kind == Kind::Request {
                open.insert((direction, id, message.exchange), message.clone());
            } else if let Some(request) = open.remove(&(direction.reversed(), id, message.exchange)) {
                message.answers = Some(request.number);
                message.method = request.method;
                message.tool = request.tool;
            }
        }
        found.extend(operations.link(&message, is_shared).map(|link| described(number, link)));
        assert!(operations.requests.len() <= OPEN && operations.tokens.len() <= OPEN);
        assert_eq!(operations.tokens.len(), operations.by_age.len());
    }
    found.extend(operations.late_links().into_iter().map(|(message, link)| described(message.0, link)));
    found
}

fn described(number: u64, Link { operation, previous, why }: Link) -> String {
    format!("{number}: {}/{} {}", operation.0, previous.0, why.name())
}

#[test]
fn pages_are_one_list() {
    let steps = [
        r#"> {"id":1,"method":"tools/list"}"#,
        r#"< {"id":1,"result":{"tools":[],"nextCursor":"a\u0062"}}"#,
        r#"> {"id":2,"method":"tools/list","params":{"cursor":"ab"}}"#,
        r#"< {"id":2,"result":{"tools":[],"nextCursor":"c"}}"#,
        r#"> {"id":3,"method":"tools/list","params":{"cursor":"c"}}"#,
        r#"< {"id":3,"result":{"tools":[]}}"#,
        // A cursor of another list, and a cursor that no response gave.
        r#"> {"id":4,"method":"prompts/list","params":{"cursor":"c"}}"#,
        r#"> {"id":5,"method":"tools/list","params":{"cursor":"zz"}}"#,
    ];
    assert_eq!(links(&steps), ["3: 1/2 cursor", "4: 1/3 answer", "5: 1/4 cursor", "6: 1/5 answer"]);
}

#[test]
fn a_cursor_that_two_answers_gave_links_to_neither() {
    let steps = [
        r#"> {"id":1,"method":"tools/list"}"#,
        r#"> {"id":2,"method":"tools/list"}"#,
        r#"< {"id":1,"result":{"tools":[],"nextCursor":"p2"}}"#,
        r#"< {"id":2,"result":{"tools":[],"nextCursor":"p2"}}"#,
        r#"> {"id":3,"method":"tools/list","params":{"cursor":"p2"}}"#,
    ];
    assert!(links(&steps).is_empty());
    // Two lists, one after the other, use the same cursor once each.
    let page = [
        r#"> {"id":1,"method":"tools/list"}"#,
        r#"< {"id":1,"result":{"tools":[],"nextCursor":"p2"}}"#,
        r#"> {"id":2,"method":"tools/list","params":{"cursor":"p2"}}"#,
        r#"< {"id":2,"result":{"tools":[]}}"#,
    ];
    assert_eq!(links(&[page, page].concat()), ["3: 1/2 cursor", "4: 1/3 answer", "7: 5/6 cursor", "8: 5/7 answer"]);
}

#[test]
fn input_that_was_required_comes_with_the_same_request() {
    let call = |id, more: &str| {
        format!(
            r#"> {{"id":{id},"method":"tools/call","params":{{"name":"book","arguments":{{"to":"Quito"}},{META}{more}}}}}"#
        )
    };
    let asks = r#"< {"id":1,"result":{"resultType":"input_required","requestState":"s1","inputRequests":{}}}"#;
    let (first, retry) = (call(1, ""), call(2, r#","requestState":"s1","inputResponses":{}"#));
    let done = r#"< {"id":2,"result":{"resultType":"complete","content":[]}}"#;
    assert_eq!(links(&[&first, asks, &retry, done]), ["3: 1/2 request-state", "4: 1/3 answer"]);
    // Without a state the params have to be the same.
    let asks = r#"< {"id":1,"result":{"resultType":"input_required","inputRequests":{"a":{}}}}"#;
    let retry = call(2, r#","inputResponses":{"a":{}}"#);
    assert_eq!(links(&[&first, asks, &retry]), ["3: 1/2 input-responses"]);
    let other = retry.replace("Quito", "Lima");
    assert!(links(&[&first, asks, &other]).is_empty());
    // Two equal requests: the repeated one may continue either.
    let twin = call(3, "");
    let asks_twin = asks.replace("\"id\":1", "\"id\":3");
    assert!(links(&[&first, &twin, asks, &asks_twin, &retry]).is_empty());
}

#[test]
fn a_task_and_the_requests_about_it() {
    let steps = [
        r#"> {"id":1,"method":"tools/call","params":{"name":"build","task":{"ttl":1}}}"#,
        r#"< {"id":1,"result":{"task":{"taskId":"t","status":"working"}}}"#,
        r#"< {"method":"notifications/tasks/status","params":{"taskId":"t","status":"input_required"}}"#,
        r#"< {"id":9,"method":"elicitation/create","params":{"message":"?","_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"}}}}"#,
        r#"> {"id":9,"result":{"action":"accept"}}"#,
        r#"> {"id":2,"method":"tasks/get","params":{"taskId":"t"}}"#,
        r#"< {"id":2,"result":{"taskId":"t","status":"completed"}}"#,
        r#"> {"id":3,"method":"tasks/result","params":{"taskId":"t"}}"#,
        r#"> {"id":4,"method":"tasks/get","params":{"taskId":"unknown"}}"#,
        // The client runs no task with this id.
        r#"< {"id":5,"method":"tasks/get","params":{"taskId":"t"}}"#,
    ];
    assert_eq!(
        links(&steps),
        ["3: 1/2 task", "4: 1/2 task", "5: 1/4 answer", "6: 1/2 task", "7: 1/6 answer", "8: 1/2 task"]
    );
    let modern = [
        r#"> {"id":1,"method":"tools/call","params":{"name":"build"}}"#,
        r#"< {"id":1,"result":{"resultType":"task","taskId":"u","status":"working"}}"#,
        r#"> {"id":2,"method":"tasks/update","params":{"taskId":"u","inputResponses":{}}}"#,
        r#"< {"method":"notifications/tasks","params":{"taskId":"u","status":"completed"}}"#,
    ];
    assert_eq!(links(&modern), ["3: 1/2 task", "4: 1/2 task"]);
}

#[test]
fn subscriptions_and_their_notifications() {
    let listens = [
        r#"> {"id":"l","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true}}}"#,
        r#"< {"method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"l"}}}"#,
        r#"< {"method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":1}}}"#,
        r#"< {"id":"l","result":{"resultType":"complete"}}"#,
        r#"< {"method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"l"}}}"#,
    ];
    assert_eq!(links(&listens), ["2: 1/1 subscription", "4: 1/1 answer"]);
    let subscribes = [
        r#"> {"id":1,"method":"resources/subscribe","params":{"uri":"a:b"}}"#,
        r#"< {"id":1,"result":{}}"#,
        r#"< {"method":"notifications/resources/updated","params":{"uri":"a:b"}}"#,
        r#"< {"method":"notifications/resources/updated","params":{"uri":"a:c"}}"#,
        r#"> {"id":2,"method":"resources/unsubscribe","params":{"uri":"a:b"}}"#,
        r#"< {"method":"notifications/resources/updated","params":{"uri":"a:b"}}"#,
        r#"> {"id":3,"method":"resources/subscribe","params":{"uri":"a:d"}}"#,
        r#"< {"id":3,"error":{"code":-32602,"message":"no"}}"#,
        r#"< {"method":"notifications/resources/updated","params":{"uri":"a:d"}}"#,
    ];
    assert_eq!(links(&subscribes), ["3: 1/1 subscription", "5: 1/1 subscription"]);
}

#[test]
fn a_call_soon_after_one_that_failed_is_likely_a_retry() {
    let call = r#"> {"id":1,"method":"tools/call","params":{"name":"add","arguments":{"a":"one"}}}"#;
    let failed = r#"< {"id":1,"result":{"content":[],"isError":true}}"#;
    let refused = r#"< {"id":1,"error":{"code":-32602,"message":"a is no number"}}"#;
    let again = r#"> {"id":2,"method":"tools/call","params":{"name":"add","arguments":{"a":"one"}}}"#;
    let other = again.replace("add", "sub");
    let corrected = again.replace("\"one\"", "1");
    assert_eq!(links(&[call, failed, "+ 20", again]), ["3: 1/2 retry"]);
    assert_eq!(links(&[call, refused, again]), ["3: 1/2 retry"]);
    assert!(links(&[call, failed, &other]).is_empty());
    assert!(links(&[call, failed, &corrected]).is_empty(), "other arguments are another call");
    assert!(links(&[call, failed, "+ 301", again]).is_empty());
    // The second call was sent before the first one failed.
    assert!(links(&[call, again, failed]).is_empty());
    // Two calls failed: the retry may belong to either.
    let second = call.replace("\"id\":1", "\"id\":7");
    let failed_too = failed.replace("\"id\":1", "\"id\":7");
    assert!(links(&[call, &second, failed, &failed_too, again]).is_empty());
    assert_eq!(links(&[call, &second, failed, "+ 301", &failed_too, again]), ["5: 2/4 retry"]);
    // Every repetition is one more step of the same operation.
    let third = again.replace("\"id\":2", "\"id\":3");
    let failed_again = failed.replace("\"id\":1", "\"id\":2");
    assert_eq!(links(&[call, failed, again, &failed_again, &third]), ["3: 1/2 retry", "4: 1/3 answer", "5: 1/4 retry"]);
}

#[test]
fn progress_and_cancellation_belong_to_their_call() {
    let call = |id: u32, token: &str| {
        format!(r#"{{"id":{id},"method":"tools/call","params":{{"name":"dig","_meta":{{"progressToken":{token}}}}}}}"#)
    };
    let progress = |token: &str| {
        format!(r#"{{"method":"notifications/progress","params":{{"progressToken":{token},"progress":1}}}}"#)
    };
    let cancel = |id: &str| format!(r#"{{"method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#);
    let answer = |id: u32| format!(r#"{{"id":{id},"result":{{"content":[]}}}}"#);
    let links_with = |steps: &[(&str, String)], is_shared| {
        let steps: Vec<String> = steps.iter().map(|(side, text)| format!("{side} {text}")).collect();
        links_of(&steps.iter().map(String::as_str).collect::<Vec<_>>(), is_shared)
    };
    let alone = |steps: &[(&str, String)]| links_with(steps, false);

    // A string is not a number. After the response nothing is open any more.
    let steps = [
        (">", call(1, "7")),
        ("<", progress("7")),
        ("<", progress(r#""7""#)),
        (">", progress("7")),
        (">", cancel(r#""1""#)),
        (">", cancel("1")),
        ("<", cancel("1")),
        ("<", answer(1)),
        ("<", progress("7")),
        (">", cancel("1")),
    ];
    assert_eq!(alone(&steps), ["2: 1/1 progress", "6: 1/1 cancel", "8: 1/1 answer"]);
    // An escape does not change the token.
    assert_eq!(alone(&[(">", call(1, r#""a""#)), ("<", progress(r#""\u0061""#))]), ["2: 1/1 progress"]);
    // Two requests gave the same token. Only the exchange decides between them.
    let twice = [(">1", call(1, "7")), (">2", call(2, "7")), ("<2", progress("7")), ("<9", progress("7"))];
    assert_eq!(alone(&twice), ["3: 2/2 progress"]);
    // A notification on another stream belongs to the request if there is only one client.
    let elsewhere = [(">1", call(1, "7")), ("<9", progress("7")), (">3", cancel("1"))];
    assert_eq!(alone(&elsewhere), ["2: 1/1 progress", "3: 1/1 cancel"]);
    assert!(links_with(&elsewhere, true).is_empty());

    // The progress token of a task is valid as long as the task. It proves nothing once another
    // request gives it.
    let task = (">", call(1, "7").replace("\"name\"", "\"task\":{},\"name\""));
    let created = ("<", r#"{"id":1,"result":{"task":{"taskId":"t","status":"working"}}}"#.to_owned());
    let steps = [task, created, ("<", progress("7")), (">", call(2, "7")), (">", call(3, "7")), ("<", progress("7"))];
    assert_eq!(alone(&steps), ["3: 1/2 progress"]);
    // Since 2026-07-28 a server may end a subscription.
    let listen = (">4", r#"{"id":5,"method":"subscriptions/listen"}"#.to_owned());
    assert_eq!(links_with(&[listen, ("<4", cancel("5"))], true), ["2: 1/1 cancel"]);
}

#[test]
fn an_elicitation_by_url_and_its_end() {
    let ends = |id: &str| {
        format!(r#"< {{"method":"notifications/elicitation/complete","params":{{"elicitationId":"{id}"}}}}"#)
    };
    let (one, two, three) = (ends("one"), ends("two"), ends("three"));
    let call = r#"> {"id":1,"method":"tools/call","params":{"name":"pay"}}"#;
    let asks = r#"< {"id":8,"method":"elicitation/create","params":{"mode":"url","elicitationId":"one"}}"#;
    assert_eq!(links(&[call, asks, r#"> {"id":8,"result":{"action":"accept"}}"#, &one, &two]), ["4: 2/2 elicitation"]);
    // The client refused the elicitation, so it cannot complete.
    assert!(links(&[call, asks, r#"> {"id":8,"error":{"code":-32602,"message":"no"}}"#, &one]).is_empty());
    // Two elicitations with the same id.
    assert!(links(&[call, asks, &asks.replace("\"id\":8", "\"id\":9"), &one]).is_empty());
    // The error that requires elicitations belongs to the call, and so does the call that is
    // repeated.
    let required = r#"< {"id":1,"error":{"code":-32042,"message":"pay","data":{"elicitations":[{"elicitationId":"one"},{"elicitationId":"two"}]}}}"#;
    let again = call.replace("\"id\":1", "\"id\":2");
    assert_eq!(
        links(&[call, required, &two, &one, &three, &again]),
        ["3: 1/2 elicitation", "4: 1/2 elicitation", "6: 1/2 retry"]
    );
}

#[test]
fn the_oldest_of_many_open_requests_are_evicted() {
    let mut steps = Vec::new();
    for id in 0..2 * OPEN {
        steps.push(format!(r#"> {{"id":{id},"method":"tools/list"}}"#));
        steps.push(format!(r#"< {{"id":{id},"result":{{"tools":[],"nextCursor":"c{id}"}}}}"#));
    }
    steps.push(r#"> {"id":"x","method":"tools/list","params":{"cursor":"c0"}}"#.to_owned());
    steps.push(format!(r#"> {{"id":"y","method":"tools/list","params":{{"cursor":"c{}"}}}}"#, 2 * OPEN - 1));
    let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
    assert_eq!(links(&steps), [format!("{}: {}/{} cursor", 4 * OPEN + 2, 4 * OPEN - 1, 4 * OPEN)]);
}

proptest! {
    /// A link always leads to an earlier message of an operation that began no later.
    #[test]
    fn links_lead_back(picked in prop::collection::vec((0..16_usize, 0..3_u8, any::<bool>()), 0..60)) {
        let shapes = [
            r#"{"id":I,"method":"tools/list","params":{"cursor":"I"}}"#,
            r#"{"id":I,"result":{"tools":[],"nextCursor":"I"}}"#,
            r#"{"id":I,"method":"tools/call","params":{"name":"add","inputResponses":{},"requestState":"I"}}"#,
            r#"{"id":I,"result":{"resultType":"input_required","requestState":"I"}}"#,
            r#"{"id":I,"result":{"task":{"taskId":"I"}}}"#,
            r#"{"id":I,"method":"tasks/get","params":{"taskId":"I"}}"#,
            r#"{"id":I,"error":{"code":-32602,"message":"no"}}"#,
            r#"{"id":I,"method":"subscriptions/listen"}"#,
            r#"{"method":"notifications/message","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":I}}}"#,
            r#"{"method":"notifications/tasks","params":{"taskId":"I"}}"#,
            r#"{"id":I,"method":"ping","params":{"_meta":{"progressToken":I}}}"#,
            r#"{"method":"notifications/progress","params":{"progressToken":I}}"#,
            r#"{"method":"notifications/cancelled","params":{"requestId":I}}"#,
            r#"{"id":I,"method":"elicitation/create","params":{"elicitationId":"I"}}"#,
            r#"{"id":I,"error":{"code":-32042,"message":"no","data":{"elicitations":[{"elicitationId":"I"}]}}}"#,
            r#"{"method":"notifications/elicitation/complete","params":{"elicitationId":"I"}}"#,
        ];
        let steps: Vec<String> = picked
            .into_iter()
            .map(|(shape, id, asks)| format!("{} {}", if asks { ">" } else { "<" }, shapes[shape].replace('I', &id.to_string())))
            .collect();
        for link in links(&steps.iter().map(String::as_str).collect::<Vec<_>>()) {
            let numbers: Vec<u64> =
                link.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect();
            prop_assert!(numbers[1] <= numbers[2] && numbers[2] < numbers[0], "{}", link);
        }
    }
}

#[test]
fn a_call_that_was_never_answered_is_likely_repeated_by_an_equal_one() {
    let call = r#"> {"id":1,"method":"tools/call","params":{"name":"build","arguments":{"n":1}}}"#;
    let again = &*call.replace("\"id\":1", "\"id\":2");
    let third = &*call.replace("\"id\":1", "\"id\":3");
    let other = &*again.replace("\"n\":1", "\"n\":2");
    let [answer, answer_again] = [1, 2].map(|id| format!(r#"< {{"id":{id},"result":{{"content":[]}}}}"#));
    let failed_again = r#"< {"id":2,"error":{"code":1,"message":""}}"#;
    let cancelled = r#"> {"method":"notifications/cancelled","params":{"requestId":1}}"#;
    assert_eq!(links(&[call, "+ 60", again, &answer_again]), ["2: 1/1 retry"]);
    assert_eq!(links(&[call, again, &answer_again]), ["2: 1/1 retry"], "after a lost connection");
    assert_eq!(links(&[call, "+ 60", again, "+ 60", third]), ["2: 1/1 retry", "3: 1/2 retry"]);
    assert_eq!(links(&[call, again, failed_again, third]), ["4: 2/3 retry", "2: 1/1 retry"]);
    assert!(links(&[call, again]).is_empty(), "two calls in progress");
    assert!(links(&[call, again, &answer, &answer_again]).is_empty(), "calls at the same time");
    assert!(links(&[call, again, &answer_again, &answer]).is_empty(), "answered late");
    assert!(links(&[call, other]).is_empty() && links(&[call, "+ 301", again]).is_empty());
    // A cancelled call is given up, whatever arrives later.
    assert_eq!(links(&[call, cancelled, again]), ["2: 1/1 cancel", "3: 1/2 retry"]);
    assert_eq!(links(&[call, cancelled, again, &answer]), ["2: 1/1 cancel", "3: 1/2 retry", "4: 1/1 answer"]);
    assert_eq!(
        links(&[call, cancelled, again, &answer_again, third])[2..],
        ["4: 1/3 answer"],
        "the second was answered"
    );
    // The second call was sent before the first one was cancelled.
    assert_eq!(links(&[call, "+ 2", again, cancelled]), ["3: 1/1 cancel", "2: 1/1 retry"]);
    let of_the_server = r#"< {"method":"notifications/cancelled","params":{"requestId":1}}"#;
    assert_eq!(links(&[call, of_the_server, "+ 2", again]), ["3: 1/1 retry"]);
}
