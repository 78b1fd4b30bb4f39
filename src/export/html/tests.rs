use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::capture::Time;
use crate::decode::ConnectionId;
use crate::decode::exchange::{Exchange, ExchangeNumber, Half};
use crate::event::Event;
use crate::export::testing::store;
use crate::findings::{self, Finding};
use crate::mcp::{MessageNumber, Party, Peers};
use crate::test_messages;
use crate::view::safe;

/// A page on which everything that a peer can choose is this text.
fn page(text: &str) -> String {
    let quoted = json!(text).to_string();
    let conversation = format!(
        r#"
        -> {{"jsonrpc":"2.0","id":{quoted},"method":"tools/call","params":{{"name":{quoted},"arguments":{{{quoted}:{quoted}}}}}}}
        <- {{"jsonrpc":"2.0","id":{quoted},"result":{{"content":[{{"type":"text","text":{quoted}}}]}}}}
        -> {{"jsonrpc":"2.0","id":2,"method":{quoted}}}
        <- {{"jsonrpc":"2.0","id":2,"error":{{"code":1,"message":{quoted}}}}}
        <- no {quoted}
        "#
    );
    let mut messages = test_messages::read(&conversation);
    messages[1].sse_id = Some(text.to_owned());
    messages[1].exchange = Some(ExchangeNumber(1));
    let party = Some(Party { name: text.to_owned(), version: text.to_owned() });
    let session = Session {
        client: party.clone(),
        server: party,
        session_id: Some(text.to_owned()),
        protocol_version: Some(text.to_owned()),
        peers: Peers::Process { process: 7, command: vec![text.to_owned()] },
        name: Some(text.to_owned()),
        connections: vec![ConnectionId(1)],
        ..test_messages::session(&messages)
    };
    let exchange = Exchange {
        number: ExchangeNumber(1),
        connection: ConnectionId(1),
        method: Some(text.to_owned()),
        target: Some(text.to_owned()),
        reason: Some(text.to_owned()),
        request: Half { started: Some(Time(1)), ..Half::default() },
        ..Exchange::default()
    };
    let rule = findings::rule("tools-call-unknown").expect("a rule");
    let messages_found = vec![MessageNumber(1)];
    let finding =
        Finding { session: Some(session.number), messages: messages_found, text: text.to_owned(), ..Finding::of(rule) };
    let belongs = Event::Belongs(exchange.number, session.number);
    let more = [Event::Exchange(Box::new(exchange)), belongs, Event::Finding(Box::new(finding))];
    let reader = store(&session, &messages, more);
    let mut out = Vec::new();
    write(&reader, std::slice::from_ref(&session), None, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// The page without its script and its style, which are not foreign and have markup in strings.
fn markup(page: &str) -> String {
    page.replace(SCRIPT, "").replace(STYLE, "")
}

/// The tags of a page without the values of their attributes: `details`, `a href`, `/a`.
fn tags(page: &str) -> Vec<String> {
    let page = markup(page);
    let tags = page.split('<').skip(1).map(|rest| rest.split_once('>').expect("tags end").0);
    tags.map(|tag| tag.split('"').step_by(2).collect()).collect()
}

fn hostile() -> impl Strategy<Value = String> {
    let parts = ["<", ">", "\"", "'", "&", "</pre>", "<script>", "-->", "\u{202e}", "\u{1b}[2J", "\u{2066}", "\\", "a"];
    prop_oneof![
        prop::collection::vec(prop::sample::select(parts.to_vec()), 1..6).prop_map(|parts| parts.concat()),
        ".{1,30}",
        any::<String>().prop_filter("there is none", |text| !text.is_empty()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// With any foreign text the page has the same tags, and nothing on it acts or hides.
    #[test]
    fn foreign_text_stays_text(text in hostile()) {
        let page = page(&text);
        prop_assert_eq!(tags(&page), tags(&self::page("a")));
        for line in markup(&page).lines() {
            prop_assert_eq!(safe::visible(line), line);
        }
    }
}

/// The script is one text of several files: none of them may end it.
#[test]
fn nothing_in_the_script_ends_it() {
    assert!(!SCRIPT.contains("</script") && !SCRIPT.contains("<!--"));
    assert!(!STYLE.contains("</style") && !STYLE.contains("url(") && !STYLE.contains("@import"));
    for acts in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "fetch(", "XMLHttpRequest"]
    {
        assert!(!SCRIPT.contains(acts), "{acts}");
    }
}
