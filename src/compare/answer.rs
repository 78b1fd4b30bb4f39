//! The answer to a request, and the comparison of two answers. An answer is the result or the error
//! of a response, or the reason why there is no response.

use serde_json::Value;

use super::difference::{Change, Difference, differences};
use super::label::Label;
use super::report::Outcome;
use super::rules::{Rules, VARIES};
use crate::decode::jsonrpc::Kind;
use crate::mcp::Message;
use crate::mcp::content::part;

/// The answer to one request.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer<V = Value> {
    /// The result of a response.
    Result(V),
    /// A result in which a tool reports its own failure (`isError`).
    ToolError(V),
    /// A JSON-RPC error.
    Error(V),
    /// JSON that serde_json cannot read whole (more than 128 levels). Only its text
    /// can be compared.
    Unreadable(String),
    /// There was no response, for this reason.
    Nothing(String),
}

/// An answer whose value is JSON text. It waits in this form until it is compared: the text takes a
/// tenth of the memory of the parsed value.
pub type AnswerText = Answer<Box<str>>;

impl<V> Answer<V> {
    /// Converts the value and keeps the kind of answer. If that fails, the error is the answer.
    pub fn try_map<W>(&self, convert: impl FnOnce(&V) -> Result<W, Answer<W>>) -> Answer<W> {
        let converted = match self {
            Answer::Result(value) => convert(value).map(Answer::Result),
            Answer::ToolError(value) => convert(value).map(Answer::ToolError),
            Answer::Error(value) => convert(value).map(Answer::Error),
            Answer::Unreadable(text) => Ok(Answer::Unreadable(text.clone())),
            Answer::Nothing(why) => Ok(Answer::Nothing(why.clone())),
        };
        converted.unwrap_or_else(|failed| failed)
    }
}

impl AnswerText {
    /// Parses the value. Text that cannot be parsed becomes [`Answer::Unreadable`].
    pub fn read(&self) -> Answer {
        self.try_map(|text| serde_json::from_str(text).map_err(|_| Answer::Unreadable(text.to_string())))
    }
}

impl Answer {
    /// This answer with `text`, from which its value was parsed. Serialising the value again could
    /// give another text, because one number has many forms.
    pub fn to_text(&self, text: &str) -> AnswerText {
        self.try_map(|_| Ok(text.into()))
    }

    /// The answer in a response message.
    pub fn of(message: &Message) -> Answer {
        let is_error = message.kind == Kind::Error;
        Answer::parse(is_error, part(message, if is_error { "error" } else { "result" }).unwrap_or("null"))
    }

    /// Parses the JSON text of an `error` or a `result`.
    pub fn parse(is_error: bool, text: &str) -> Answer {
        match serde_json::from_str::<Value>(text) {
            Err(_) => Answer::Unreadable(text.to_owned()),
            Ok(error) if is_error => Answer::Error(error),
            Ok(result) if result.get("isError") == Some(&Value::Bool(true)) => Answer::ToolError(result),
            Ok(result) => Answer::Result(result),
        }
    }

    /// The value of the result or the error.
    pub fn value(&self) -> Option<&Value> {
        match self {
            Answer::Result(value) | Answer::ToolError(value) | Answer::Error(value) => Some(value),
            Answer::Unreadable(_) | Answer::Nothing(_) => None,
        }
    }

    /// A short description that completes the sentence "answered ...".
    fn summary(&self) -> String {
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

/// The result of comparing two answers.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The kind of difference, or that there is none.
    pub outcome: Outcome,
    /// The differences inside the two values. Empty where the outcome alone
    /// explains the difference.
    pub differences: Vec<Difference>,
    /// An explanation, where the outcome alone is not enough.
    pub why: Option<String>,
}

impl Verdict {
    fn new(outcome: Outcome, why: Option<String>) -> Verdict {
        Verdict { outcome, differences: Vec::new(), why }
    }
}

/// Compares the new answer to a request with the recorded one.
pub fn compare_answers(label: &Label, old: &Answer, new: &Answer, rules: &Rules) -> Verdict {
    match (old, new) {
        (Answer::Nothing(_), Answer::Nothing(_)) => Verdict::new(Outcome::Same, None),
        (Answer::Nothing(_), new) => Verdict::new(Outcome::Extra, Some(format!("answered {}", new.summary()))),
        (_, Answer::Nothing(why)) => Verdict::new(Outcome::Missing, Some(why.clone())),
        // JSON-RPC 2.0 section 5.1: the code "indicates the error type that occurred". The message
        // is for people and is not compared.
        (Answer::Error(old), Answer::Error(new)) if code(old) == code(new) => Verdict::new(Outcome::Same, None),
        // 2026-07-28 basic/versioning: a server of the older era may answer `server/discover` with
        // any error. All of them mean that the method is unknown, except the errors of the new era.
        (Answer::Error(old), Answer::Error(new))
            if label.method == "server/discover" && !is_modern(old) && !is_modern(new) =>
        {
            Verdict::new(Outcome::Same, None)
        }
        (Answer::Error(_), Answer::Error(_)) => {
            let why = format!("{} before, {} now", old.summary(), new.summary());
            Verdict::new(Outcome::Different, Some(why))
        }
        (Answer::Error(_), _) => Verdict::new(Outcome::Result, Some(format!("{} before", old.summary()))),
        (_, Answer::Error(_)) => Verdict::new(Outcome::Error, Some(new.summary())),
        (Answer::Result(_), Answer::ToolError(_)) => Verdict::new(Outcome::ToolError, Some(new.summary())),
        (Answer::Unreadable(_), _) | (_, Answer::Unreadable(_)) => texts(old, new),
        (Answer::Result(old) | Answer::ToolError(old), Answer::Result(new) | Answer::ToolError(new)) => {
            values(label, old, new, rules)
        }
    }
}

/// Whether only servers of 2026-07-28 use this code: HeaderMismatch,
/// MissingRequiredClientCapability and UnsupportedProtocolVersion.
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

/// Sets aside the times at which tasks were created and last changed, because they differ in every
/// run (utilities/tasks "Task"; the extension of 2026). A result can be a task, contain one in
/// `task`, or list several in `tasks`.
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
        compare_answers(&Label::default(), old, new, &Rules::default()).outcome
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
        let unknown =
            |old, new| compare_answers(&discover, &error(old, ""), &error(new, ""), &Rules::default()).outcome;
        assert_eq!(unknown(-32601, -32000), Outcome::Same, "both do not know it");
        assert_eq!(unknown(-32601, -32022), Outcome::Different, "one speaks another revision of that era");
        assert_eq!(outcome(&Answer::Unreadable("[1]".into()), &result(json!([1]))), Outcome::Same);
    }

    #[test]
    fn times_of_tasks_are_ignored() {
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
