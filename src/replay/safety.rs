//! Decides what is not sent without permission: calls of destructive tools, and messages with
//! masked secrets.

use std::collections::HashMap;

use serde_json::Value;

use crate::compare::Label;
use crate::decode::mask::is_masked;

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

/// The path of a masked value in `params`, if there is one.
pub fn masked(params: &str) -> Option<String> {
    // Searching for the mask first avoids parsing most texts.
    memchr::memmem::find(params.as_bytes(), b"\"***")?;
    let value: Value = serde_json::from_str(params).ok()?;
    find(&value).map(|steps| steps.into_iter().rev().fold(String::new(), |path, step| format!("{path}/{step}")))
}

/// The path to a masked text, with the last step first.
fn find(value: &Value) -> Option<Vec<String>> {
    let below = |step: String, value: &Value| {
        let mut steps = find(value)?;
        steps.push(step);
        Some(steps)
    };
    match value {
        Value::String(text) if is_masked(text.as_bytes()) => Some(Vec::new()),
        Value::Object(members) => members.iter().find_map(|(name, value)| below(name.clone(), value)),
        Value::Array(elements) => {
            elements.iter().enumerate().find_map(|(index, value)| below(index.to_string(), value))
        }
        _ => None,
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
        assert_eq!(masked("{}"), None);
    }
}
