//! Values that the server made up and the client handed back: ticket numbers, cursors, task ids, resource URIs, session tokens. The new server
//! makes up others, so the client has to hand back those.
//!
//! Nothing is replaced on a guess. The evidence is: the same value stood in a recorded answer (or request, or notification) of the server before the client first said it, at a place that
//! is known; and at the same place of the new one stands another value, while the old one is nowhere in it. Values that might be the same by
//! accident (words, small numbers) count only as members that the protocol itself hands back ([`TOKENS`]).

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

/// Members by which the protocol hands a value back, and what the server calls it: even a short value is evidence there.
const TOKENS: [(&str, &str); 6] = [
    ("cursor", "nextCursor"),
    ("taskId", "taskId"),
    ("requestState", "requestState"),
    ("subscriptionId", "subscriptionId"),
    ("elicitationId", "elicitationId"),
    ("uri", "uri"),
];

/// Bytes of a text that is searched for values.
const TEXT: usize = 64 << 10;

/// What of the server gave a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Giver {
    /// The answer to a step.
    Answer(StepIndex),
    /// Its request of this number.
    Request(MessageNumber),
    /// Its notification of this number.
    Notification(MessageNumber),
}

/// Where in a recorded message of the server a value first stood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The message.
    pub giver: Giver,
    /// JSON Pointer into its result, or its `params`.
    pub path: String,
    /// Where in the text at that place, which holds more than the value.
    pub inside: Inside,
    /// The value.
    pub value: Value,
}

/// Where in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inside {
    /// It is all of it.
    Whole,
    /// The text is JSON: a pointer into that.
    Json(String),
    /// The text is for people: the word of this index.
    Word(usize),
}

/// A place in a message of the client that takes the new server's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Use {
    /// JSON Pointer into `params`.
    pub path: String,
    /// The value is a word of the text there, and not all of it.
    pub is_word: bool,
    /// The index in [`Flow::origins`].
    pub origin: usize,
}

impl Use {
    /// `params` with the new value in the place of the old one.
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
            // What somebody wrote in its place stays.
            _ => params.to_owned(),
        }
    }
}

/// Where values came from and went to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// Each value once.
    pub origins: Vec<Origin>,
    /// By step: what it hands back.
    pub uses: HashMap<StepIndex, Vec<Use>>,
    /// The same of the client's answers, by the index of the server's request among those of the [plan](super::Plan::server_requests).
    pub replies: HashMap<usize, Vec<Use>>,
    /// By message of the server: what it gives.
    pub given: HashMap<Giver, Vec<usize>>,
    /// The notifications that give something, by method and how many of that method there were then: so they are found again.
    pub notifications: HashMap<(String, u64), MessageNumber>,
    /// There were more values than are looked for.
    pub is_full: bool,
}

impl Flow {
    /// The steps whose answers give the values that a step hands back.
    pub fn sources(&self, step: StepIndex) -> impl Iterator<Item = StepIndex> {
        let used = self.uses.get(&step).into_iter().flatten();
        used.filter_map(|used| match self.origins[used.origin].giver {
            Giver::Answer(step) => Some(step),
            Giver::Request(_) | Giver::Notification(_) => None,
        })
    }

    /// What a message of the server gives: each origin's new value, where the evidence holds.
    pub fn resolve<'a>(&'a self, giver: Giver, old: &'a Value, new: &'a Value) -> impl Iterator<Item = (usize, Value)> {
        let given = self.given.get(&giver).map(Vec::as_slice).unwrap_or_default();
        given.iter().filter_map(move |origin| Some((*origin, resolve(&self.origins[*origin], old, new)?)))
    }
}

/// Whether a value that occurs twice is the same thing both times: an identifier, not a word or a small number.
fn is_identifier(text: &str) -> bool {
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    let plain = !text.contains(|c: char| c.is_whitespace() || "{}[]\"<>".contains(c));
    plain && (text.contains("://") || (text.len() >= 6 && digits > 0 && (digits < text.len() || digits >= 8)))
}

pub(super) fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The value that stands in the new answer where the old one stood in the recorded; `None` where the evidence does not hold: it is of another kind,
/// or the old value is still said, at another place.
fn resolve(origin: &Origin, old: &Value, new: &Value) -> Option<Value> {
    let (was, is) = (reach(origin, old, old)?, reach(origin, old, new)?);
    debug_assert_eq!(text_of(&was), text_of(&origin.value));
    let same_kind = std::mem::discriminant(&was) == std::mem::discriminant(&is);
    (same_kind && (was == is || !still_occurs(origin, new))).then_some(is)
}

/// Whether the old value of an origin stands anywhere in what the server says now.
fn still_occurs(origin: &Origin, sent: &Value) -> bool {
    let old = text_of(&origin.value);
    // A short token may be the same as anything by accident, but not where it is called the same.
    let (is_identifier, own_name) = (is_identifier(&old), origin.path.rsplit('/').next());
    let mut found = false;
    scan_leaves(&sent.to_string(), &mut |_, name, text, is_string| {
        found |= text == old && (is_identifier || Some(name) == own_name);
        let may_hold = is_identifier && !found && is_string && text.len() <= TEXT && text.contains(&old);
        found |= may_hold && words(text).into_iter().any(|word| bare(word) == old);
    });
    found
}

/// Follows an origin into a result; `old` tells which element of a list is meant.
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
            // The same sentence around it: as many words, and the same ones beside it.
            let beside = |words: &[&str]| {
                let word = |at: Option<usize>| at.and_then(|at| words.get(at)).map(|word| (*word).to_owned());
                [word(index.checked_sub(2)), word(index.checked_sub(1)), word(Some(index + 1))]
            };
            let same = old.len() == new.len() && beside(&old) == beside(&new);
            new.get(*index).filter(|_| same).map(|word| Value::from(bare(word)))
        }
    }
}

/// Follows a path of `old` into `new`. An element of a list is the one that is called the same; where the names themselves are what the server
/// makes up, the one at the same place of a list of the same length.
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

    /// What a call hands back when the answer before it was `old` and is `new`.
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
    fn an_identifier_that_the_server_made_is_replaced() {
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
    fn requests_and_notifications_of_the_server_give_values_too() {
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
    fn answers_of_the_client_hand_values_back_too() {
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
    fn what_may_be_the_same_by_accident_is_left_alone() {
        let unchanged = |old: Value, sent: Value, new: Value| assert_eq!(handed_back(old, sent, new), []);
        unchanged(json!({"count": 3}), json!({"count": 3}), json!({"count": 4}));
        unchanged(json!({"word": "printer"}), json!({"word": "printer"}), json!({"word": "scanner"}));
        unchanged(json!({"echo": "printer-17a"}), json!({"x": "printer-17a"}), json!({"echo": "other-18b"}));
        // The old value's kind is another one now.
        unchanged(json!({"ticket": "T-4711"}), json!({"id": "T-4711"}), json!({"ticket": null}));
        // The old value is still there, at another place.
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
