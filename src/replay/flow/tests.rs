use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::replay::test_recordings;

fn flow(text: &str) -> Flow {
    test_recordings::analyzed(text).flow
}

/// The values that a second call sends back, if the first response was `old` and is now `new`.
fn handed_back(old: Value, sent: Value, new: Value) -> Vec<(String, Value)> {
    let flow = flow(&format!(
        r#"-> {{"id":1,"method":"tools/call","params":{{"name":"open","arguments":{{"title":"printer-17a"}}}}}}
           <- {{"id":1,"result":{old}}}
           -> {{"id":2,"method":"tools/call","params":{sent}}}"#
    ));
    let values: HashMap<usize, Value> = flow.resolve(Giver::Answer(0), &old, &new).into_iter().collect();
    let uses = flow.uses.get(&1).cloned().unwrap_or_default();
    uses.into_iter().filter_map(|used| Some((used.path, values.get(&used.origin)?.clone()))).collect()
}

#[test]
fn a_word_of_a_longer_text_is_replaced() {
    let flow = flow(
        r#"
        -> {"id":1,"method":"tools/call","params":{"name":"open","arguments":{"title":"printer-17a"}}}
        <- {"id":1,"result":{"content":[{"type":"text","text":"Opened ticket T-4711."}]}}
        -> {"id":2,"method":"tools/call","params":{"name":"say","arguments":{"text":"T-4711 is T-47110, not printer-17a: close T-4711."}}}
        "#,
    );
    let sent = r#"{"arguments":{"text":"T-4711 is T-47110, not printer-17a: close T-4711."}}"#;
    let [used] = flow.uses[&1].as_slice() else { panic!("{:?}", flow.uses) };
    let old = json!({"content": [{"type": "text", "text": "Opened ticket T-4711."}]});
    let new = json!({"content": [{"type": "text", "text": "Opened ticket T-9."}]});
    let (_, value) = flow.resolve(Giver::Answer(0), &old, &new).pop().unwrap();
    let old = &flow.origins[used.origin].value;
    let renewed = |sent| renew(sent, &[Renewal { used, old, new: &value }]);
    let wanted = r#"{"arguments":{"text":"T-9 is T-47110, not printer-17a: close T-9."}}"#;
    assert_eq!(renewed(sent), (wanted.to_owned(), vec![0]));
    let edited = r#"{"arguments":{"text":"none"}}"#;
    assert_eq!(renewed(edited), (edited.to_owned(), vec![]));
}

#[test]
fn an_identifier_of_the_server_is_replaced() {
    let back =
        handed_back(json!({"ticket": "T-4711"}), json!({"arguments": {"id": "T-4711"}}), json!({"ticket": "T-9"}));
    assert_eq!(back, [("/arguments/id".to_owned(), json!("T-9"))]);
    let text = |ticket: &str| json!({"content": [{"text": format!("opened {ticket}, thank you")}]});
    let sent = json!({"ticket": "T-4711"});
    assert_eq!(handed_back(text("T-4711"), sent.clone(), text("X-1")), [("/ticket".to_owned(), json!("X-1"))]);
    assert_eq!(handed_back(text("T-4711"), sent.clone(), json!({"content": [{"text": "no more tickets, sorry"}]})), []);
    let inner = |ticket: &str| json!({"content": [{"text": json!({"ticket": ticket}).to_string()}]});
    assert_eq!(handed_back(inner("T-4711"), sent, inner("X-1")), [("/ticket".to_owned(), json!("X-1"))]);
}

#[test]
fn server_requests_and_notifications_supply_values_too() {
    let flow = flow(
        r#"
        -> {"id":1,"method":"tools/call","params":{"name":"a"}}
        <- {"id":"s","method":"elicitation/create","params":{"mode":"url","elicitationId":"e-4711"}}
        -> {"id":"s","result":{"action":"accept"}}
        <- {"method":"notifications/resources/updated","params":{"uri":"note://1/a"}}
        <- {"method":"notifications/resources/updated","params":{"uri":"note://1/b"}}
        <- {"id":1,"result":{}}
        -> {"id":2,"method":"resources/read","params":{"uri":"note://1/b"}}
        -> {"id":3,"method":"tools/call","params":{"name":"done","arguments":{"of":"e-4711"}}}
        "#,
    );
    let givers: Vec<Giver> = flow.origins.iter().map(|origin| origin.giver).collect();
    assert_eq!(givers, [Giver::Notification(MessageNumber(5)), Giver::Request(MessageNumber(2))]);
    assert_eq!(
        flow.notifications,
        HashMap::from([(("notifications/resources/updated".to_owned(), 2), MessageNumber(5))])
    );
    let (old, new) = (json!({"uri": "note://1/b"}), json!({"uri": "note://2/b"}));
    assert_eq!(flow.resolve(givers[0], &old, &new), [(0, json!("note://2/b"))]);
}

#[test]
fn client_responses_send_values_back_too() {
    let flow = flow(
        r#"
        -> {"id":1,"method":"tools/call","params":{"name":"open"}}
        <- {"id":1,"result":{"ticket":"T-4711"}}
        -> {"id":2,"method":"tools/call","params":{"name":"close"}}
        <- {"id":"s","method":"elicitation/create","params":{"message":"Which? Not T-4712."}}
        -> {"id":"s","result":{"action":"accept","content":{"ticket":"T-4711","why":"as T-4712"}}}
        <- {"id":2,"result":{}}
        "#,
    );
    let taken: Vec<_> = flow.replies[&0].iter().map(|used| (&*used.path, flow.origins[used.origin].giver)).collect();
    assert_eq!(taken, [("/content/ticket", Giver::Answer(0)), ("/content/why", Giver::Request(MessageNumber(4)))]);
    assert!(flow.uses.is_empty());
}

#[test]
fn accidental_matches_are_left_alone() {
    let unchanged = |old: Value, sent: Value, new: Value| assert_eq!(handed_back(old, sent, new), []);
    unchanged(json!({"count": 3}), json!({"count": 3}), json!({"count": 4}));
    unchanged(json!({"word": "printer"}), json!({"word": "printer"}), json!({"word": "scanner"}));
    unchanged(json!({"echo": "printer-17a"}), json!({"x": "printer-17a"}), json!({"echo": "other-18b"}));
    // The type of the value changed.
    unchanged(json!({"ticket": "T-4711"}), json!({"id": "T-4711"}), json!({"ticket": null}));
    // The old value still occurs, at another place.
    let uris = |uris: [&str; 2]| json!({"found": uris});
    unchanged(uris(["n://1", "n://2"]), json!({"uri": "n://1"}), uris(["n://2", "n://1"]));
    let told = json!({"ticket": "T-9", "text": "T-9 waits behind T-4711."});
    unchanged(json!({"ticket": "T-4711", "text": ""}), json!({"id": "T-4711"}), told);
}

#[test]
fn a_token_of_the_protocol_may_be_short() {
    let back = handed_back(json!({"nextCursor": "2"}), json!({"cursor": "2"}), json!({"nextCursor": "b"}));
    assert_eq!(back, [("/cursor".to_owned(), json!("b"))]);
}

#[test]
fn an_element_of_a_list_is_found_by_its_name() {
    let list = |names: &[(&str, &str)]| json!({"resources": names.iter().map(|(name, uri)| json!({"name": name, "uri": uri})).collect::<Vec<_>>()});
    let old = list(&[("a", "note://1/a"), ("b", "note://1/b")]);
    let sent = json!({"uri": "note://1/b"});
    let back = handed_back(old.clone(), sent.clone(), list(&[("b", "note://2/b"), ("a", "note://2/a")]));
    assert_eq!(back, [("/uri".to_owned(), json!("note://2/b"))]);
    assert_eq!(handed_back(old, sent, list(&[("a", "note://2/a")])), [], "b is gone: nothing stands for it");
}

/// The parameters of the last call as they are sent to a server that answers `new` where the
/// recorded one answered `old`, call by call.
fn sent(answers: &[(Value, Value)], params: &Value) -> String {
    let mut recording = String::new();
    for (id, (old, _)) in answers.iter().enumerate() {
        recording += &format!(
            "-> {{\"id\":{id},\"method\":\"tools/call\",\"params\":{{\"name\":\"open\"}}}}\n<- {{\"id\":{id},\"result\":{old}}}\n"
        );
    }
    recording += &format!("-> {{\"id\":99,\"method\":\"tools/call\",\"params\":{params}}}");
    let flow = flow(&recording);
    let resolved =
        answers.iter().enumerate().flat_map(|(step, (old, new))| flow.resolve(Giver::Answer(step), old, new));
    let values: HashMap<usize, Value> = resolved.collect();
    let uses = flow.uses.get(&answers.len()).map(Vec::as_slice).unwrap_or_default();
    let chosen = uses.iter().filter_map(|used| Some((used, used.choose(&values)?.0)));
    let renewals: Vec<_> =
        chosen.map(|(used, (origin, new))| Renewal { used, old: &flow.origins[origin].value, new }).collect();
    renew(&params.to_string(), &renewals).0
}

fn check(answers: &[(Value, Value)], params: Value, wanted: Value) {
    assert_eq!(sent(answers, &params), wanted.to_string());
}

#[test]
fn a_part_of_a_uri_or_of_nested_json_is_replaced_wherever_it_is_joined() {
    let text = |id: &str| json!({"content": [{"type": "text", "text": json!({"uri": format!("res://box/{id}?v=1")}).to_string()}]});
    check(
        &[(text("7f3a9c21"), text("b0b1b2b3"))],
        json!({"a": "/v1/7f3a9c21", "b": ["7f3a9c21/f", "res://box/7f3a9c21?v=1"], "c": "{\"id\":\"7f3a9c21\"}"}),
        json!({"a": "/v1/b0b1b2b3", "b": ["b0b1b2b3/f", "res://box/b0b1b2b3?v=1"], "c": "{\"id\":\"b0b1b2b3\"}"}),
    );
    let prose = |one: &str, other: &str| json!({"text": format!("moved {one} to {other}; 3 of {one}:{other}")});
    check(
        &[(prose("7f3a9c21", "aaaa1111"), prose("b0b1b2b3", "c0c1c2c3"))],
        json!({"x": "aaaa1111/7f3a9c21"}),
        json!({"x": "c0c1c2c3/b0b1b2b3"}),
    );
}

#[test]
fn words_and_plain_numbers_in_texts_stay() {
    let status = |word: &str| json!({"status": word, "text": format!("it was a {word}")});
    let words = json!({"status": "success", "text": "success/f"});
    check(&[(status("success"), status("failed"))], words.clone(), words);
    let order = |number: u64| json!({"order": number});
    check(
        &[(order(48_151_623), order(9_000_000))],
        json!({"id": 48_151_623, "text": "order/48151623"}),
        json!({"id": 9_000_000, "text": "order/48151623"}),
    );
    let order = |number: u64| json!({"order": number});
    check(
        &[(order(481_516), order(77))],
        json!({"order": 481_516, "offset": 481_516}),
        json!({"order": 77, "offset": 481_516}),
    );
}

#[test]
fn the_latest_value_of_the_first_place_counts() {
    let tag = |tag: &str| json!({"tag": tag});
    let (again, list) = (|one: &str, other: &str| (tag(one), tag(other)), |id: &str| json!({"found": [id]}));
    let sent = json!({"x": "aaaa1111/f"});
    check(&[again("aaaa1111", "b1b1b1b1"), again("aaaa1111", "c1c1c1c1")], sent.clone(), json!({"x": "c1c1c1c1/f"}));
    let at_another_place = (list("aaaa1111"), list("d1d1d1d1"));
    check(&[again("aaaa1111", "b1b1b1b1"), at_another_place.clone()], sent.clone(), json!({"x": "b1b1b1b1/f"}));
    // The first place supplies nothing.
    check(&[(tag("aaaa1111"), json!({})), at_another_place], sent, json!({"x": "d1d1d1d1/f"}));
}

proptest! {
    /// The law: calls that use ids of the recorded server, in any position joined to characters
    /// that are not of identifiers, are sent with the ids of the new server only.
    #[test]
    fn a_server_with_fresh_ids_gets_its_own_ids_only(
        ids in prop::collection::vec(("o[0-9a-f]{6,30}1", "n[0-9a-f]{6,30}2", 0..5_usize), 1..6),
        pieces in prop::collection::vec((any::<prop::sample::Index>(), "[a-z]{0,5}[/:=?&#.,;() @+*\"\\]\\[{}<>|~]{1,3}"), 1..12),
    ) {
        let answer = |id: &str, form: usize| match form {
            0 => json!({"id": id}),
            1 => json!({"content": [{"text": format!("opened {id}, thank you.")}]}),
            2 => json!({"content": [{"text": json!({"deep": [{"id": id}]}).to_string()}]}),
            3 => json!({"uri": format!("res://box/{id}/f?x=1")}),
            _ => json!({"content": [{"text": json!({"link": format!("see https://example/{id}")}).to_string()}]}),
        };
        let answers: Vec<_> = ids.iter().map(|(old, new, form)| (answer(old, *form), answer(new, *form))).collect();
        let distinct: HashSet<&str> = ids.iter().map(|(old, ..)| &**old).collect();
        prop_assume!(distinct.len() == ids.len());
        let (mut text, mut wanted) = (String::new(), String::new());
        for (id, joint) in &pieces {
            let (old, new, _) = &ids[id.index(ids.len())];
            text += &format!("{joint}{old}/");
            wanted += &format!("{joint}{new}/");
        }
        let params = |text: &str| json!({"name": "use", "arguments": {"deep": [{"text": text}]}});
        prop_assert_eq!(sent(&answers, &params(&text)), params(&wanted).to_string());
    }
}
