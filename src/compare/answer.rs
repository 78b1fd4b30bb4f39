//! One answer against another.

use std::fmt;

use serde_json::Value;

use super::difference::{Change, Difference, differences};
use super::report::Outcome;
use super::rules::{Rules, VARIES};
use crate::decode::json::{member, string};
use crate::decode::jsonrpc::Kind;
use crate::mcp::Message;
use crate::mcp::content::{self, part};

/// What a request is called: its method, and the tool, prompt or resource it is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label {
    /// The method.
    pub method: String,
    /// `params.name`, or `params.uri`.
    pub subject: Option<String>,
}

impl Label {
    /// Of a request or notification.
    pub fn of(message: &Message) -> Label {
        let method = message.method.as_deref().unwrap_or_default().to_owned();
        Label { subject: subject(&method, part(message, "params").unwrap_or_default()), method }
    }
}

/// What a request is about, where its method says that it is about something.
pub fn subject(method: &str, params: &str) -> Option<String> {
    let name = match method {
        "tools/call" | "prompts/get" => "name",
        "resources/read" | "resources/subscribe" | "resources/unsubscribe" => "uri",
        _ => return None,
    };
    Some(string(member(params, name)?)?.into_owned())
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.method)?;
        self.subject.as_ref().map_or(Ok(()), |subject| write!(f, " {subject}"))
    }
}

/// How a request was answered.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer<V = Value> {
    /// With a result.
    Result(V),
    /// With a result that says that the tool failed (`isError`).
    ToolError(V),
    /// With a JSON-RPC error.
    Error(V),
    /// With JSON that cannot be read whole (more than 128 levels): only its text can be compared.
    Unreadable(String),
    /// Not at all, for this reason.
    Nothing(String),
}

/// An answer as it is held until it is compared: its text takes a tenth of what the value does that is read from it.
pub type Held = Answer<Box<str>>;

impl<V> Answer<V> {
    /// The same answer with another form of its value.
    pub fn map<W>(self, other: impl FnOnce(V) -> W) -> Answer<W> {
        match self {
            Answer::Result(value) => Answer::Result(other(value)),
            Answer::ToolError(value) => Answer::ToolError(other(value)),
            Answer::Error(value) => Answer::Error(other(value)),
            Answer::Unreadable(text) => Answer::Unreadable(text),
            Answer::Nothing(why) => Answer::Nothing(why),
        }
    }
}

impl Held {
    /// The answer with its value.
    pub fn read(&self) -> Answer {
        let value = |text: &str| serde_json::from_str(text).map_err(|_| Answer::Unreadable(text.to_owned()));
        match self {
            Answer::Result(text) => value(text).map_or_else(|unreadable| unreadable, Answer::Result),
            Answer::ToolError(text) => value(text).map_or_else(|unreadable| unreadable, Answer::ToolError),
            Answer::Error(text) => value(text).map_or_else(|unreadable| unreadable, Answer::Error),
            Answer::Unreadable(text) => Answer::Unreadable(text.clone()),
            Answer::Nothing(why) => Answer::Nothing(why.clone()),
        }
    }
}

impl Answer {
    /// This answer, whose value was read from `text`, as that text. (Written anew it could be another: numbers have many forms.)
    pub fn held(&self, text: &str) -> Held {
        match self {
            Answer::Result(_) => Answer::Result(text.into()),
            Answer::ToolError(_) => Answer::ToolError(text.into()),
            Answer::Error(_) => Answer::Error(text.into()),
            Answer::Unreadable(text) => Answer::Unreadable(text.clone()),
            Answer::Nothing(why) => Answer::Nothing(why.clone()),
        }
    }

    /// Of an answer's message.
    pub fn of(message: &Message) -> Answer {
        let name = if message.kind == Kind::Error { "error" } else { "result" };
        let text = part(message, name).unwrap_or("null");
        let Ok(value) = serde_json::from_str(text) else { return Answer::Unreadable(text.to_owned()) };
        match content::status(message) {
            Some(content::Status::Error) => Answer::Error(value),
            Some(content::Status::ToolError) => Answer::ToolError(value),
            _ => Answer::Result(value),
        }
    }

    /// The result or error.
    pub fn value(&self) -> Option<&Value> {
        match self {
            Answer::Result(value) | Answer::ToolError(value) | Answer::Error(value) => Some(value),
            Answer::Unreadable(_) | Answer::Nothing(_) => None,
        }
    }

    /// The answer in words that follow "answered ".
    fn said(&self) -> String {
        match self {
            Answer::Error(error) => {
                let code = error.get("code").unwrap_or(&Value::Null);
                let text = error.get("message").and_then(Value::as_str).unwrap_or_default();
                format!("error {code} {text}")
            }
            Answer::ToolError(result) => {
                let text = result.pointer("/content/0/text").and_then(Value::as_str).unwrap_or_default();
                format!("tool error {text}")
            }
            Answer::Result(_) | Answer::Unreadable(_) => "a result".to_owned(),
            Answer::Nothing(why) => why.clone(),
        }
    }
}

/// What a comparison of two answers says.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// In one word.
    pub outcome: Outcome,
    /// Where they differ; empty where one look says it all.
    pub differences: Vec<Difference>,
    /// In a sentence, where the outcome alone does not say it.
    pub why: Option<String>,
}

impl Verdict {
    fn new(outcome: Outcome, why: Option<String>) -> Verdict {
        Verdict { outcome, differences: Vec::new(), why }
    }
}

/// Holds a new answer against the recorded one.
pub fn judge(label: &Label, old: &Answer, new: &Answer, rules: &Rules) -> Verdict {
    match (old, new) {
        (Answer::Nothing(_), Answer::Nothing(_)) => Verdict::new(Outcome::Same, None),
        (Answer::Nothing(_), new) => Verdict::new(Outcome::Extra, Some(format!("answered {}", new.said()))),
        (_, Answer::Nothing(why)) => Verdict::new(Outcome::Missing, Some(why.clone())),
        // JSON-RPC 2.0 section 5.1: the code "indicates the error type that occurred"; the message is for people.
        (Answer::Error(old), Answer::Error(new)) if code(old) == code(new) => Verdict::new(Outcome::Same, None),
        // 2026-07-28 basic/versioning: whatever is answered to `server/discover`, but for the errors of its own era, says that it is not known.
        (Answer::Error(old), Answer::Error(new))
            if label.method == "server/discover" && !is_modern(old) && !is_modern(new) =>
        {
            Verdict::new(Outcome::Same, None)
        }
        (Answer::Error(_), Answer::Error(_)) => {
            let why = format!("{} before, {} now", old.said(), new.said());
            Verdict::new(Outcome::Different, Some(why))
        }
        (Answer::Error(_), _) => Verdict::new(Outcome::Result, Some(format!("{} before", old.said()))),
        (_, Answer::Error(_)) => Verdict::new(Outcome::Error, Some(new.said())),
        (Answer::Result(_), Answer::ToolError(_)) => Verdict::new(Outcome::ToolError, Some(new.said())),
        (Answer::Unreadable(_), _) | (_, Answer::Unreadable(_)) => texts(old, new),
        (Answer::Result(old) | Answer::ToolError(old), Answer::Result(new) | Answer::ToolError(new)) => {
            values(label, old, new, rules)
        }
    }
}

/// HeaderMismatch, MissingRequiredClientCapability, UnsupportedProtocolVersion: only servers of 2026-07-28 know these codes.
fn is_modern(error: &Value) -> bool {
    code(error).is_some_and(|code| (-32022..=-32020).contains(&code))
}

fn code(error: &Value) -> Option<i64> {
    error.get("code")?.as_i64()
}

fn values(label: &Label, old: &Value, new: &Value, rules: &Rules) -> Verdict {
    if old == new {
        return Verdict::new(Outcome::Same, None);
    }
    let (mut old, mut new) = (old.clone(), new.clone());
    for side in [&mut old, &mut new] {
        rules.apply(label, side);
        set_times_aside(side);
    }
    let differences = differences(&old, &new, &|path| rules.is_unordered(label, path));
    let outcome = if differences.is_empty() { Outcome::Same } else { Outcome::Different };
    Verdict { outcome, differences, why: None }
}

/// Sets aside when tasks were created and last changed (utilities/tasks "Task"; the extension of 2026): no two runs agree about that. A result is
/// a task, has one, or lists some.
fn set_times_aside(result: &mut Value) {
    let is_task = |value: &Value| value.get("taskId").is_some_and(Value::is_string);
    let mut listed = Vec::new();
    if is_task(result) {
        listed.push(result);
    } else if let Value::Object(members) = result {
        for (name, value) in members {
            match (name.as_str(), value) {
                ("task", value) => listed.push(value),
                ("tasks", Value::Array(tasks)) => listed.extend(tasks),
                _ => {}
            }
        }
    }
    for task in listed.into_iter().filter(|value| is_task(value)) {
        for name in ["createdAt", "lastUpdatedAt"] {
            if let Some(time) = task.get_mut(name) {
                *time = Value::from(VARIES);
            }
        }
    }
}

fn texts(old: &Answer, new: &Answer) -> Verdict {
    let text = |answer: &Answer| match answer {
        Answer::Unreadable(text) => text.clone(),
        other => other.value().map(Value::to_string).unwrap_or_default(),
    };
    let (old, new) = (text(old), text(new));
    if old == new {
        return Verdict::new(Outcome::Same, None);
    }
    let change = Change::Changed(Value::String(old), Value::String(new));
    let differences = vec![Difference { path: String::new(), change }];
    Verdict { outcome: Outcome::Different, differences, why: None }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn outcome(old: &Answer, new: &Answer) -> Outcome {
        judge(&Label::default(), old, new, &Rules::default()).outcome
    }

    #[test]
    fn every_pair_of_answers_has_one_outcome() {
        let result = |value: Value| Answer::Result(value);
        let error = |code: i64, text: &str| Answer::Error(json!({"code": code, "message": text}));
        let tool_error = Answer::ToolError(json!({"isError": true, "content": []}));
        let nothing = Answer::Nothing("no answer within 30 s".into());
        assert_eq!(outcome(&result(json!(1)), &result(json!(1))), Outcome::Same);
        assert_eq!(outcome(&result(json!(1)), &result(json!(2))), Outcome::Different);
        assert_eq!(outcome(&result(json!(1)), &error(1, "")), Outcome::Error);
        assert_eq!(outcome(&error(1, ""), &result(json!(1))), Outcome::Result);
        assert_eq!(outcome(&error(1, "a"), &error(1, "b")), Outcome::Same, "errors are compared by code");
        assert_eq!(outcome(&error(1, "a"), &error(2, "a")), Outcome::Different);
        assert_eq!(outcome(&result(json!(1)), &tool_error), Outcome::ToolError);
        assert_eq!(outcome(&tool_error, &tool_error), Outcome::Same);
        assert_eq!(outcome(&result(json!(1)), &nothing), Outcome::Missing);
        assert_eq!(outcome(&nothing, &result(json!(1))), Outcome::Extra);
        assert_eq!(outcome(&nothing, &nothing), Outcome::Same);
        let discover = Label { method: "server/discover".into(), subject: None };
        let unknown = |old, new| judge(&discover, &error(old, ""), &error(new, ""), &Rules::default()).outcome;
        assert_eq!(unknown(-32601, -32000), Outcome::Same, "both do not know it");
        assert_eq!(unknown(-32601, -32022), Outcome::Different, "one speaks another revision of that era");
        assert_eq!(outcome(&Answer::Unreadable("[1]".into()), &result(json!([1]))), Outcome::Same);
    }

    #[test]
    fn when_a_task_was_created_is_no_difference() {
        let task =
            |at: &str, status: &str| json!({"taskId": "1", "status": status, "createdAt": at, "lastUpdatedAt": at});
        let shapes: [fn(Value) -> Value; 3] =
            [|task| task, |task| json!({"task": task}), |task| json!({"tasks": [{"taskId": "0"}, task]})];
        for within in shapes {
            let answer = |at, status| Answer::Result(within(task(at, status)));
            assert_eq!(outcome(&answer("10:00", "working"), &answer("11:00", "working")), Outcome::Same);
            assert_eq!(outcome(&answer("10:00", "working"), &answer("10:00", "failed")), Outcome::Different);
        }
        let without = Answer::Result(json!({"task": {"taskId": "1", "status": "working"}}));
        assert_eq!(outcome(&Answer::Result(json!({"task": task("", "working")})), &without), Outcome::Different);
        let ticket = |at: &str| Answer::Result(json!({"ticket": {"taskId": "1", "createdAt": at}}));
        assert_eq!(outcome(&ticket("10:00"), &ticket("11:00")), Outcome::Different, "what tools say is compared");
    }
}
