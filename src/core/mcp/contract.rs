//! The contract of a server: the JSON schemas that it published for its tools, and the checks of
//! values against them.
//!
//! A schema comes from the capture, so it may be hostile. Its size and depth are bounded before it
//! is compiled. References are never fetched. Patterns run in an engine of linear time. The work of
//! each check is counted beforehand (`contract/work.rs`). A check that exceeds a bound returns
//! [`Verdict::Unchecked`] with the reason, which the rule `tools-schema-unchecked` reports.

mod fuzz;
#[cfg(feature = "schema")]
mod validator;
#[cfg(feature = "schema")]
mod work;

use std::fmt;

use rustc_hash::FxHashMap;

pub use self::fuzz::fuzz_contract;
use super::revision::Revision;
use crate::decode::json::{Object, member, string};

/// Limit of the bytes of a schema. The largest seen in practice are a tenth of it.
pub const SCHEMA_BYTES: usize = 256 << 10;

/// Limit of the bytes of a value that is checked. The validator copies the value, and larger copies
/// would be noticeably slow.
pub const VALUE_BYTES: usize = 4 << 20;

/// Limit of remembered tools of a session. Models cannot use more than a few hundred.
pub const TOOLS: usize = 4096;

/// Limit of the bytes of remembered schemas of a session.
pub const LISTING_BYTES: usize = 8 << 20;

/// Limit of reported violations of one value.
pub const VIOLATIONS: usize = 16;

/// The schemas of one tool, as the JSON text that was published.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tool {
    /// `inputSchema`.
    pub input: Option<String>,
    /// `outputSchema`.
    pub output: Option<String>,
    /// `execution.taskSupport` (2025-11-25).
    pub task_support: TaskSupport,
}

/// Whether calls of a tool may run as tasks (2025-11-25
/// basic/utilities/tasks "Tool-Level Negotiation").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TaskSupport {
    /// Calls must not run as tasks. This is the default.
    #[default]
    Forbidden,
    /// The client decides.
    Optional,
    /// Calls must run as tasks.
    Required,
}

impl TaskSupport {
    /// Reads the value of `execution` from its JSON text.
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
    /// Whether the last page was read, and no tool exceeded the limits. Only then an unlisted tool
    /// is unknown to the server.
    pub is_complete: bool,
}

impl Tools {
    /// Adds a page: the result of a `tools/list`, and its tools. The first page begins
    /// a new listing.
    ///
    /// A `nextCursor` means that there are more pages. Without it the listing
    /// is complete (server/utilities/pagination).
    pub fn add_page(&mut self, result: &Object<'_>, tools: &[Object<'_>], first_page: bool) {
        if first_page {
            *self = Tools::default();
        }
        let all = tools.iter().all(|tool| self.add(tool));
        self.is_complete = all && result.get("nextCursor").is_none_or(|cursor| cursor == "null");
    }

    /// Adds a tool. False if it exceeds the limits. An entry without a name is ignored.
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
}

/// The outcome of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The value holds.
    Holds,
    /// The value breaks the schema. These are the first `VIOLATIONS` violations.
    Broken(Vec<Violation>),
    /// The schema is invalid, with the reason.
    NoSchema(String),
    /// The check was not done, with the reason.
    Unchecked(UncheckedReason),
}

/// A place where a value breaks its schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The place, as a JSON Pointer into the value.
    pub path: String,
    /// The violated requirement. It does not contain the value, which may be a secret.
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() { f.write_str(&self.text) } else { write!(f, "{}: {}", self.path, self.text) }
    }
}

/// The reason why a value could not be checked against a schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UncheckedReason {
    /// The schema or the value exceeds the bounds on size or depth.
    TooLarge,
    /// The check would take too long: the schema multiplies work, or refers to itself without end.
    TooMuchWork,
    /// A reference leaves the schema. References are never fetched.
    Reference(String),
    /// The dialect (`$schema`) is unknown.
    Dialect(String),
    /// A pattern is too large, or needs an engine that is not of linear
    /// time (look-around, back-reference).
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

/// Checks values against schemas. Compiled schemas are cached, because many calls use one tool and
/// many sessions use one server.
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
    /// Checks whether a text is a usable schema. Returns `Holds`, `NoSchema` or `Unchecked`.
    pub fn schema(&mut self, revision: Revision, schema: &str) -> Verdict {
        #[cfg(feature = "schema")]
        return self.compiled.schema(revision, schema);
        #[cfg(not(feature = "schema"))]
        return not_built(revision, schema, "");
    }

    /// Checks a value against a schema. Both are JSON text.
    ///
    /// Before 2025-11-25 no dialect was the default. Then a schema without `$schema` that is
    /// invalid in 2020-12 is read as draft 7. Formats are annotations and are not checked.
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

    fn add_page(tools: &mut Tools, result: &str, first_page: bool) {
        let result = Object::read(result);
        let listed = array(result.get("tools").unwrap_or_default(), TOOLS + 1);
        tools.add_page(&result, &listed.into_iter().map(Object::read).collect::<Vec<_>>(), first_page);
    }

    #[test]
    fn a_listing_is_complete_after_its_last_page() {
        let mut tools = Tools::default();
        add_page(
            &mut tools,
            r#"{"tools":[{"name":"a","inputSchema":{"type":"object"}},{"nameless":1}],"nextCursor":"2"}"#,
            true,
        );
        assert!(!tools.is_complete);
        add_page(&mut tools, r#"{"tools":[{"name":"b","inputSchema":{},"outputSchema":{"type":"object"}}]}"#, false);
        assert!(tools.is_complete);
        assert_eq!(tools.get("a").and_then(|tool| tool.input.as_deref()), Some(r#"{"type":"object"}"#));
        assert_eq!(tools.get("b").and_then(|tool| tool.output.as_deref()), Some(r#"{"type":"object"}"#));
        add_page(&mut tools, r#"{"tools":[{"name":"c"}]}"#, true);
        assert!(tools.get("a").is_none());
    }

    #[test]
    fn a_listing_is_bounded() {
        let many: Vec<String> = (0..TOOLS + 1).map(|number| format!(r#"{{"name":"{number}"}}"#)).collect();
        let mut tools = Tools::default();
        add_page(&mut tools, &format!(r#"{{"tools":[{}]}}"#, many.join(",")), true);
        assert!(!tools.is_complete);
        assert_eq!(tools.tools.len(), TOOLS);
    }
}
