//! Decides what is not sent without permission: calls of destructive tools, and messages with
//! values that were masked or redacted.

use std::collections::HashMap;

use serde_json::Value;

use crate::compare::Label;
use crate::compare::difference::escaped;
use crate::decode::mask::is_masked;
use crate::decode::redact;

/// Paths that one message names.
const NAMED: usize = 8;

/// The effects of a tool according to its annotations (ToolAnnotations).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// `readOnlyHint` is true: the tool changes nothing.
    ReadOnly,
    /// `destructiveHint` is false: the tool only adds data.
    Additive,
    /// `destructiveHint` is true.
    Destructive,
}

/// The tools that may be called without asking.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// Do not call tools whose effects are unknown.
    pub safe: bool,
    /// Call all tools.
    pub allow_destructive: bool,
    /// Tools that are always called.
    pub allowed: Vec<String>,
}

/// The effects of tools by name.
#[derive(Clone, Debug, Default)]
pub struct Effects(HashMap<String, Effect>);

impl Effects {
    /// Adds the tools in a result of `tools/list`. If two servers disagree about a tool, it
    /// counts as destructive.
    pub fn add_tools(&mut self, result: &Value) {
        for tool in result.get("tools").and_then(Value::as_array).into_iter().flatten() {
            let hint = |name: &str| tool.get("annotations").and_then(|notes| notes.get(name)).and_then(Value::as_bool);
            // "destructiveHint: … This property is meaningful only when `readOnlyHint == false`"
            let effect = match (hint("readOnlyHint"), hint("destructiveHint")) {
                (Some(true), _) => Effect::ReadOnly,
                (_, Some(true)) => Effect::Destructive,
                (_, Some(false)) => Effect::Additive,
                _ => continue,
            };
            if let Some(name) = tool.get("name").and_then(Value::as_str) {
                let known = self.0.entry(name.to_owned()).or_insert(effect);
                if effect == Effect::Destructive {
                    *known = effect;
                }
            }
        }
    }

    /// The reason for not sending a request. `None` if it may be sent.
    pub fn reason_to_refuse(&self, label: &Label, policy: &Policy) -> Option<String> {
        if label.method != "tools/call" || policy.allow_destructive {
            return None;
        }
        let tool = label.subject.as_deref().unwrap_or_default();
        if policy.allowed.iter().any(|allowed| allowed == tool) {
            return None;
        }
        match self.0.get(tool) {
            Some(Effect::Destructive) => {
                Some(format!("{tool} is destructive (destructiveHint); use --allow {tool} to send it"))
            }
            Some(Effect::ReadOnly | Effect::Additive) => None,
            None if policy.safe => {
                Some(format!("the effects of {tool} are unknown (--safe); use --allow {tool} to send it"))
            }
            None => None,
        }
    }
}

/// The paths of masked and redacted values in `params`, which the recording does not have. `None`
/// if it has all.
pub fn masked(params: &str) -> Option<String> {
    // Searching for the marks first avoids parsing most texts.
    let has = |mark: &str| memchr::memmem::find(params.as_bytes(), mark.as_bytes()).is_some();
    if !has("\"***") && !has(redact::START) {
        return None;
    }
    let value: Value = serde_json::from_str(params).ok()?;
    let mut paths = Vec::new();
    find(&value, String::new(), &mut paths);
    let more = paths.len().saturating_sub(NAMED);
    paths.truncate(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    (!paths.is_empty()).then(|| paths.join(", ") + &more)
}

/// Adds the paths of masked texts and of texts with a redacted part.
fn find(value: &Value, path: String, found: &mut Vec<String>) {
    match value {
        Value::String(text) if is_masked(text.as_bytes()) || redact::has_replacement(text) => found.push(path),
        Value::Object(members) => {
            members.iter().for_each(|(name, value)| find(value, format!("{path}/{}", escaped(name)), found));
        }
        Value::Array(elements) => {
            elements.iter().enumerate().for_each(|(index, value)| find(value, format!("{path}/{index}"), found));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::replay::test_recordings;

    #[test]
    fn destructive_tools_are_not_called_unless_allowed() {
        let mut effects = Effects::default();
        effects.add_tools(&json!({"tools": [
            {"name": "look", "annotations": {"readOnlyHint": true, "destructiveHint": true}},
            {"name": "wipe", "annotations": {"destructiveHint": true}},
            {"name": "add", "annotations": {"destructiveHint": false}},
            {"name": "what"}]}));
        let sent = |tool: &str, policy: &Policy| {
            let call = format!(r#"-> {{"id":1,"method":"tools/call","params":{{"name":"{tool}"}}}}"#);
            effects.reason_to_refuse(&Label::of(&test_recordings::read(&call)[0]), policy).is_none()
        };
        let default = Policy::default();
        assert_eq!(["look", "wipe", "add", "what"].map(|tool| sent(tool, &default)), [true, false, true, true]);
        let safe = Policy { safe: true, ..Policy::default() };
        assert_eq!(["look", "wipe", "add", "what"].map(|tool| sent(tool, &safe)), [true, false, true, false]);
        assert!(sent("wipe", &Policy { allowed: vec!["wipe".into()], ..Policy::default() }));
        assert!(sent("wipe", &Policy { allow_destructive: true, ..Policy::default() }));
    }

    #[test]
    fn a_masked_value_is_found() {
        assert_eq!(masked(r#"{"a":[1,{"token":"*****"}]}"#).as_deref(), Some("/a/1/token"));
        assert_eq!(masked(r#"{"a":"**bold**"}"#), None);
        let redacted =
            r#"{"a":{"x/y":"by [redacted string 3 0123456789abcdef]"},"b":"[redacted number 1]","c":"*****"}"#;
        assert_eq!(masked(redacted).as_deref(), Some("/a/x~1y, /b, /c"));
        assert_eq!(masked(r#"{"a":"[redacted by me]"}"#), None);
        assert_eq!(masked("{}"), None);
    }
}
