//! Finds values that the server chose and the client sent back: ticket numbers, cursors, task ids,
//! resource URIs, session tokens. The new server chooses others, so the client has to send back
//! those.
//!
//! No value is replaced without evidence:
//!
//! * In the recording, the value occurred in a server message, at a known place, before the client
//!   first sent it.
//!
//! * The new server message has another value at the same place, and the old value occurs nowhere
//!   in it.
//!
//! * The value is an identifier. Words and small numbers could be equal by accident. They count
//!   only in members that the protocol itself sends back ([`TOKENS`]).

mod search;

use std::collections::HashMap;

use serde_json::Value;

use super::edit::replaced;
use super::plan::StepIndex;
use crate::compare::difference::{name_of, unescaped};
use crate::compare::rules::{bare, with_words, words};
use crate::decode::json::locate;
use crate::mcp::MessageNumber;

pub use search::Search;
use search::scan_leaves;

/// Members in which the protocol sends a value back: the client's name for it, and the server's.
/// Here even a short value is evidence.
const TOKENS: [(&str, &str); 6] = [
    ("cursor", "nextCursor"),
    ("taskId", "taskId"),
    ("requestState", "requestState"),
    ("subscriptionId", "subscriptionId"),
    ("elicitationId", "elicitationId"),
    ("uri", "uri"),
];

/// The longest text that is searched for values, in bytes.
const TEXT: usize = 64 << 10;

/// The server message that supplies a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Giver {
    /// The response to a step.
    Answer(StepIndex),
    /// The server's request with this number.
    Request(MessageNumber),
    /// The server's notification with this number.
    Notification(MessageNumber),
}

/// The place in a recorded server message where a value first occurred.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The server message that contains the value.
    pub giver: Giver,
    /// JSON Pointer into its result or its `params`.
    pub path: String,
    /// The place inside the text at that path, if the value is only a part of it.
    pub inside: Inside,
    /// The recorded value.
    pub value: Value,
}

/// A place inside a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inside {
    /// The value is the whole text.
    Whole,
    /// The text contains JSON. This is a pointer into it.
    Json(String),
    /// The text is for people. This is the index of a word.
    Word(usize),
}

/// A place in a client message that gets a value of the new server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Use {
    /// JSON Pointer into `params`, or into the result of a response.
    pub path: String,
    /// Whether the value is one word of the text there.
    pub is_word: bool,
    /// Index in [`Flow::origins`].
    pub origin: usize,
}

impl Use {
    /// The `params` with the old value replaced by the new one.
    pub fn renew(&self, params: &str, old: &Value, new: &Value) -> String {
        let here = || serde_json::from_str::<Value>(params.get(locate(params, &self.path)?)?).ok();
        match here() {
            Some(Value::String(text)) if self.is_word => {
                let (old, new) = (text_of(old), text_of(new));
                let text = with_words(&text, |word| (word == old).then_some(new.as_str()));
                replaced(params, &self.path, &Value::from(text).to_string())
            }
            Some(Value::String(text)) if text == text_of(old) => {
                replaced(params, &self.path, &Value::from(text_of(new)).to_string())
            }
            Some(here) if here == *old => replaced(params, &self.path, &new.to_string()),
            // A value that the user edited stays.
            _ => params.to_owned(),
        }
    }
}

/// The origins and the uses of all values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// The first place of each value.
    pub origins: Vec<Origin>,
    /// For each step, the values that it sends back.
    pub uses: HashMap<StepIndex, Vec<Use>>,
    /// For each response of the client, the values that it sends back. The key is an index in
    /// [`Plan::server_requests`](super::Plan::server_requests).
    pub replies: HashMap<usize, Vec<Use>>,
    /// For each server message, the origins in it (indices in `origins`).
    pub given: HashMap<Giver, Vec<usize>>,
    /// Notifications that supply a value, by method and by their count among those of the method.
    /// The same count identifies the notification of the new server.
    pub notifications: HashMap<(String, u64), MessageNumber>,
    /// The recording has more values than are followed.
    pub is_full: bool,
}

impl Flow {
    /// The steps whose responses supply the values that a step sends back.
    pub fn sources(&self, step: StepIndex) -> impl Iterator<Item = StepIndex> {
        let used = self.uses.get(&step).into_iter().flatten();
        used.filter_map(|used| match self.origins[used.origin].giver {
            Giver::Answer(step) => Some(step),
            Giver::Request(_) | Giver::Notification(_) => None,
        })
    }

    /// The new values that a server message supplies, where the evidence holds. Each comes with the
    /// index of its origin.
    pub fn resolve<'a>(&'a self, giver: Giver, old: &'a Value, new: &'a Value) -> impl Iterator<Item = (usize, Value)> {
        let given = self.given.get(&giver).map(Vec::as_slice).unwrap_or_default();
        given.iter().filter_map(move |origin| Some((*origin, resolve(&self.origins[*origin], old, new)?)))
    }
}

/// Whether a text is specific enough that two occurrences mean the same thing. Words and small
/// numbers are not.
fn is_identifier(text: &str) -> bool {
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    let plain = !text.contains(|c: char| c.is_whitespace() || "{}[]\"<>".contains(c));
    plain && (text.contains("://") || (text.len() >= 6 && digits > 0 && (digits < text.len() || digits >= 8)))
}

/// A string without its quotes, or any other value as JSON.
pub(super) fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The new value at the place of an origin. `None` if the evidence does not hold: the value has
/// another type, or the old value still occurs elsewhere.
fn resolve(origin: &Origin, old: &Value, new: &Value) -> Option<Value> {
    let (was, is) = (reach(origin, old, old)?, reach(origin, old, new)?);
    debug_assert_eq!(text_of(&was), text_of(&origin.value));
    let same_kind = std::mem::discriminant(&was) == std::mem::discriminant(&is);
    (same_kind && (was == is || !still_occurs(origin, new))).then_some(is)
}

/// Whether the old value of an origin occurs anywhere in a new server message.
fn still_occurs(origin: &Origin, sent: &Value) -> bool {
    let old = text_of(&origin.value);
    // A short token can be equal to anything by accident, so it counts only in a member of the same
    // name.
    let (is_identifier, own_name) = (is_identifier(&old), origin.path.rsplit('/').next());
    let mut found = false;
    scan_leaves(&sent.to_string(), &mut |_, name, text, is_string| {
        found |= text == old && (is_identifier || Some(name) == own_name);
        let may_hold = is_identifier && !found && is_string && text.len() <= TEXT && text.contains(&old);
        found |= may_hold && words(text).into_iter().any(|word| bare(word) == old);
    });
    found
}

/// The value at an origin in a new result. `old` is needed to find the corresponding
/// elements of lists.
fn reach(origin: &Origin, old: &Value, result: &Value) -> Option<Value> {
    let found = follow(&origin.path, old, result)?;
    match &origin.inside {
        Inside::Whole => Some(found.clone()),
        Inside::Json(path) => {
            let inner = |value: &Value| serde_json::from_str::<Value>(value.as_str()?).ok();
            let (old, new) = (inner(follow(&origin.path, old, old)?)?, inner(found)?);
            follow(path, &old, &new).cloned()
        }
        Inside::Word(index) => {
            let (old, new) = (words(follow(&origin.path, old, old)?.as_str()?), words(found.as_str()?));
            // The sentence must be the same: as many words, and the same neighbours.
            let beside = |words: &[&str]| {
                let word = |at: Option<usize>| at.and_then(|at| words.get(at)).map(|word| (*word).to_owned());
                [word(index.checked_sub(2)), word(index.checked_sub(1)), word(Some(index + 1))]
            };
            let same = old.len() == new.len() && beside(&old) == beside(&new);
            new.get(*index).filter(|_| same).map(|word| Value::from(bare(word)))
        }
    }
}

/// Follows a path of `old` in `new`. List elements correspond by name. If the server also chose the
/// names, they correspond by index, provided that both lists have the same length.
fn follow<'v>(path: &str, old: &Value, new: &'v Value) -> Option<&'v Value> {
    let (mut old, mut new) = (old, new);
    for step in path.split('/').skip(1) {
        let name = unescaped(step);
        (old, new) = match (old, new) {
            (Value::Array(olds), Value::Array(news)) => {
                let index: usize = name.parse().ok()?;
                let element = olds.get(index)?;
                let called = name_of(element).and_then(|name| news.iter().find(|new| name_of(new) == Some(name)));
                (element, called.or_else(|| news.get(index).filter(|_| olds.len() == news.len()))?)
            }
            (Value::Object(olds), Value::Object(news)) => (olds.get(&name)?, news.get(&name)?),
            _ => return None,
        };
    }
    Some(new)
}

#[cfg(test)]
mod tests {
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
        let values: HashMap<usize, Value> = flow.resolve(Giver::Answer(0), &old, &new).collect();
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
        let (_, value) = flow.resolve(Giver::Answer(0), &old, &new).next().unwrap();
        let renewed = used.renew(sent, &flow.origins[used.origin].value, &value);
        assert_eq!(renewed, r#"{"arguments":{"text":"T-9 is T-47110, not printer-17a: close T-9."}}"#);
        let edited = r#"{"arguments":{"text":"none"}}"#;
        assert_eq!(used.renew(edited, &flow.origins[used.origin].value, &value), edited);
    }

    #[test]
    fn an_identifier_of_the_server_is_replaced() {
        let back =
            handed_back(json!({"ticket": "T-4711"}), json!({"arguments": {"id": "T-4711"}}), json!({"ticket": "T-9"}));
        assert_eq!(back, [("/arguments/id".to_owned(), json!("T-9"))]);
        let text = |ticket: &str| json!({"content": [{"text": format!("opened {ticket}, thank you")}]});
        let sent = json!({"ticket": "T-4711"});
        assert_eq!(handed_back(text("T-4711"), sent.clone(), text("X-1")), [("/ticket".to_owned(), json!("X-1"))]);
        assert_eq!(
            handed_back(text("T-4711"), sent.clone(), json!({"content": [{"text": "no more tickets, sorry"}]})),
            []
        );
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
        assert_eq!(flow.resolve(givers[0], &old, &new).collect::<Vec<_>>(), [(0, json!("note://2/b"))]);
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
        let taken: Vec<_> =
            flow.replies[&0].iter().map(|used| (&*used.path, flow.origins[used.origin].giver)).collect();
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
}
