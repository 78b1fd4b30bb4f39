//! What a server promised about its tools: the schemas that it published, and values held against them.
//!
//! A schema comes from the capture, so it may be hostile: its size and depth are bounded before it is compiled, references
//! are never fetched, patterns run in an engine of linear time, and the work of each check is counted beforehand
//! (`contract/work.rs`). What exceeds a bound is [`Verdict::Unchecked`], with the reason, and no fault of anybody.

#[cfg(feature = "schema")]
mod validator;
#[cfg(feature = "schema")]
mod work;

use std::fmt;

use rustc_hash::FxHashMap;

use super::revision::Revision;
use crate::decode::json::{Object, member, string};

/// Bytes of a schema that is looked at: the largest seen in the wild are a tenth of it.
pub const SCHEMA_BYTES: usize = 256 << 10;

/// Bytes of a value that is held against a schema. Beyond it the copy that the validator needs would be felt.
pub const VALUE_BYTES: usize = 4 << 20;

/// Tools of one session that are kept; models cannot use more than a few hundred.
pub const TOOLS: usize = 4096;

/// Bytes of schemas that are kept for one session.
pub const LISTING_BYTES: usize = 8 << 20;

/// Violations that are told of one value.
pub const VIOLATIONS: usize = 16;

/// The schemas of one tool, as JSON text exactly as published.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tool {
    /// `inputSchema`.
    pub input: Option<String>,
    /// `outputSchema`.
    pub output: Option<String>,
    /// `execution.taskSupport` (2025-11-25).
    pub task_support: TaskSupport,
}

/// Whether calls of a tool may run as tasks (2025-11-25 basic/utilities/tasks "Tool-Level Negotiation").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TaskSupport {
    /// They must not; what is said where nothing is said.
    #[default]
    Forbidden,
    /// As the client likes.
    Optional,
    /// They must.
    Required,
}

impl TaskSupport {
    /// Reads `execution`.
    fn read(execution: &str) -> TaskSupport {
        match member(execution, "taskSupport").and_then(string).as_deref() {
            Some("optional") => TaskSupport::Optional,
            Some("required") => TaskSupport::Required,
            _ => TaskSupport::Forbidden,
        }
    }
}

/// The tools of one session, as last listed.
#[derive(Clone, Debug, Default)]
pub struct Tools {
    tools: FxHashMap<String, Tool>,
    bytes: usize,
    /// The last page was read, and nothing was left out for want of room.
    complete: bool,
}

impl Tools {
    /// Takes in the result of a `tools/list`, and the tools in it: of the first page, which begins a new listing, or of a later one.
    ///
    /// server/utilities/pagination: a `nextCursor` says that there is more; without it the listing is complete.
    pub fn take(&mut self, result: &Object<'_>, tools: &[Object<'_>], first_page: bool) {
        if first_page {
            *self = Tools::default();
        }
        let all = tools.iter().all(|tool| self.add(tool));
        // Of a listing that is none nothing is known.
        let is_list = result.get("tools").is_some_and(|tools| tools.starts_with('['));
        self.complete = all && is_list && result.get("nextCursor").is_none_or(|cursor| cursor == "null");
    }

    /// Whether there was room for it. One without a name is no tool.
    fn add(&mut self, tool: &Object<'_>) -> bool {
        let Some(name) = tool.text("name") else { return true };
        let [input, output] = ["inputSchema", "outputSchema"].map(|name| tool.get(name).map(str::to_owned));
        let bytes = name.len() + input.as_ref().map_or(0, String::len) + output.as_ref().map_or(0, String::len);
        if self.tools.len() == TOOLS || self.bytes.saturating_add(bytes) > LISTING_BYTES {
            return false;
        }
        self.bytes += bytes;
        let task_support = tool.get("execution").map(TaskSupport::read).unwrap_or_default();
        self.tools.insert(name.into_owned(), Tool { input, output, task_support });
        true
    }

    /// The tool of this name.
    pub fn get(&self, name: &str) -> Option<&Tool> {
        self.tools.get(name)
    }

    /// Whether every tool is known: only then is one that is not listed unknown to the server.
    pub fn is_complete(&self) -> bool {
        self.complete
    }
}

/// What a check said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The value holds.
    Holds,
    /// It does not: the first `VIOLATIONS`.
    Broken(Vec<Violation>),
    /// The schema itself is none: what is wrong with it.
    NoSchema(String),
    /// Nothing can be said.
    Unchecked(UncheckedReason),
}

/// A place where a value breaks its schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The place, as a JSON Pointer into the value.
    pub path: String,
    /// What the schema says of it, without the value itself, which may be a secret.
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() { f.write_str(&self.text) } else { write!(f, "{}: {}", self.path, self.text) }
    }
}

/// Why a value could not be held against a schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UncheckedReason {
    /// The schema or the value is larger or deeper than the bounds.
    TooLarge,
    /// The check would take too long: the schema multiplies work or refers to itself without end.
    TooMuchWork,
    /// A reference that leaves the schema; nothing is fetched.
    Reference(String),
    /// A dialect (`$schema`) that is not known.
    Dialect(String),
    /// A pattern that no engine of linear time takes (look-around, back-reference) or that is too large.
    Pattern,
    /// The program was built without the feature `schema`.
    NotBuilt,
}

impl fmt::Display for UncheckedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UncheckedReason::TooLarge => f.write_str("the schema or the value is too large"),
            UncheckedReason::TooMuchWork => f.write_str("the schema asks for too much work"),
            UncheckedReason::Reference(reference) => {
                write!(f, "the schema refers to {reference}, and nothing is fetched")
            }
            UncheckedReason::Dialect(dialect) => write!(f, "the schema is written in the unknown dialect {dialect}"),
            UncheckedReason::Pattern => f.write_str("a pattern of the schema needs an engine without bounds"),
            UncheckedReason::NotBuilt => f.write_str("this program was built without schema checks"),
        }
    }
}

/// Schemas compiled once: many calls name one tool, and many sessions one server.
#[derive(Default)]
pub struct SchemaChecker {
    #[cfg(feature = "schema")]
    compiled: validator::SchemaCache,
}

impl fmt::Debug for SchemaChecker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SchemaChecker")
    }
}

impl SchemaChecker {
    /// Whether a text is a schema that can be checked against: `Holds`, `NoSchema` or `Unchecked`.
    pub fn schema(&mut self, revision: Revision, schema: &str) -> Verdict {
        #[cfg(feature = "schema")]
        return self.compiled.schema(revision, schema);
        #[cfg(not(feature = "schema"))]
        return not_built(revision, schema, "");
    }

    /// Holds a value against a schema, both as JSON text.
    ///
    /// Before 2025-11-25 no dialect was said to be the default: there a schema without `$schema` that is none of 2020-12
    /// is read as draft 7. Formats are annotations and are not checked.
    pub fn check(&mut self, revision: Revision, schema: &str, value: &str) -> Verdict {
        #[cfg(feature = "schema")]
        return self.compiled.check(revision, schema, value);
        #[cfg(not(feature = "schema"))]
        return not_built(revision, schema, value);
    }
}

#[cfg(not(feature = "schema"))]
fn not_built(_: Revision, _: &str, _: &str) -> Verdict {
    Verdict::Unchecked(UncheckedReason::NotBuilt)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::json::array;

    fn take(tools: &mut Tools, result: &str, first_page: bool) {
        let result = Object::read(result);
        let listed = array(result.get("tools").unwrap_or_default(), TOOLS + 1);
        tools.take(&result, &listed.into_iter().map(Object::read).collect::<Vec<_>>(), first_page);
    }

    #[test]
    fn a_listing_is_complete_after_its_last_page() {
        let mut tools = Tools::default();
        take(
            &mut tools,
            r#"{"tools":[{"name":"a","inputSchema":{"type":"object"}},{"nameless":1}],"nextCursor":"2"}"#,
            true,
        );
        assert!(!tools.is_complete());
        take(&mut tools, r#"{"tools":[{"name":"b","inputSchema":{},"outputSchema":{"type":"object"}}]}"#, false);
        assert!(tools.is_complete());
        assert_eq!(tools.get("a").and_then(|tool| tool.input.as_deref()), Some(r#"{"type":"object"}"#));
        assert_eq!(tools.get("b").and_then(|tool| tool.output.as_deref()), Some(r#"{"type":"object"}"#));
        take(&mut tools, r#"{"tools":[{"name":"c"}]}"#, true);
        assert!(tools.get("a").is_none());
    }

    #[test]
    fn a_listing_is_bounded() {
        let many: Vec<String> = (0..TOOLS + 1).map(|number| format!(r#"{{"name":"{number}"}}"#)).collect();
        let mut tools = Tools::default();
        take(&mut tools, &format!(r#"{{"tools":[{}]}}"#, many.join(",")), true);
        assert!(!tools.is_complete());
        assert_eq!(tools.tools.len(), TOOLS);
    }
}
