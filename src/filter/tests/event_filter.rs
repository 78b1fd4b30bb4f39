//! Messages are held, in order, for the facts that the filter needs, and for nothing else.

use super::*;
use crate::decode::exchange::{Exchange, Half};
use crate::event::Event;
use crate::mcp::link::{Link, Why};

fn exchange(number: u64, status: u16) -> Event {
    let exchange = Exchange { number: ExchangeNumber(number), status: Some(status), ..Exchange::default() };
    Event::Exchange(Box::new(Exchange { request: Half::default(), ..exchange }))
}

/// The numbers of the messages that were emitted after each event, and at the end.
fn run(filter: &str, live: bool, events: Vec<Event>) -> Vec<Vec<u64>> {
    let mut stream = EventFilter::new(Filter::parse(filter).unwrap(), live);
    let mut out = Vec::new();
    for event in events.into_iter().map(Some).chain([None]) {
        let mut numbers = Vec::new();
        let mut sink = |event| {
            if let Event::Message(message) = event {
                numbers.push(message.number.0);
            }
        };
        match event {
            Some(event) => stream.push(event, &mut sink),
            None => stream.finish(&mut sink),
        }
        out.push(numbers);
    }
    out
}

fn conversation() -> Vec<Event> {
    let call = message(1, CALL);
    let failed = answer(2, &call, FAILED);
    let other = Message { exchange: None, ..message(3, "{}") };
    vec![
        Event::Message(Box::new(call)),
        Event::Message(Box::new(failed)),
        Event::Message(Box::new(other)),
        exchange(2, 200),
        Event::Session(Box::new(session())),
        exchange(1, 404),
    ]
}

#[test]
fn messages_with_all_facts_pass_immediately() {
    assert_eq!(
        run("tool = get_weather", false, conversation()),
        [vec![1], vec![2], vec![], vec![], vec![], vec![], vec![]]
    );
}

#[test]
fn messages_are_held_in_order_for_facts_of_their_exchange() {
    let expected = [vec![], vec![], vec![], vec![], vec![], vec![1], vec![]];
    assert_eq!(run("http.status >= 400", false, conversation()), expected);
    assert_eq!(run("http.status >= 400", true, conversation()), expected);
    let expected = [vec![], vec![], vec![], vec![], vec![], vec![2, 3], vec![]];
    assert_eq!(run("not http.status >= 400", false, conversation()), expected);
}

#[test]
fn messages_are_held_for_facts_of_the_session_only_in_a_file() {
    let expected = [vec![], vec![], vec![], vec![], vec![], vec![], vec![1, 2, 3]];
    assert_eq!(run("server = weather", false, conversation()), expected);
    let expected = [vec![], vec![], vec![], vec![], vec![], vec![], vec![1]];
    assert_eq!(run("answered", false, conversation()), expected);
    let live: Vec<u64> = run("server = weather", true, conversation()).concat();
    assert!(live.is_empty(), "a live capture answers at once, and the session was not known");
    let live: Vec<u64> = run("server = weather and http.status", true, conversation()).concat();
    assert_eq!(live, [1, 2], "they waited for their exchanges, and by then it was");
}

#[test]
fn a_late_link_takes_the_operation_of_the_message_with_it() {
    let number = MessageNumber;
    let link = |operation, previous, why| Link { operation: number(operation), previous: number(previous), why };
    let call = |at| Message { exchange: None, ..message(at, CALL) };
    let progress = Message { link: Some(link(2, 2, Why::Progress)), operation: Some(number(2)), ..call(3) };
    let done = Message { answers: Some(number(2)), ..call(4) };
    let messages = [call(1), call(2), progress, done, call(5)];
    let mut events: Vec<Event> = messages.into_iter().map(|message| Event::Message(Box::new(message))).collect();
    events.push(Event::Linked(SessionNumber(1), number(2), link(1, 1, Why::Retry)));
    let last = |filter| run(filter, false, events.clone()).pop().unwrap();
    assert_eq!(last("operation = 1"), [1, 2, 3, 4]);
    assert_eq!(last("operation = 2"), [0; 0]);
}
