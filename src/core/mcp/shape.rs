//! Shapes: what each revision prescribes for the members of every request, notification,
//! result and error.
//!
//! Each revision has one table of shapes (`shape/*.shapes`). A table contains only the changes to
//! the one before, and the first begins with the manual of the language. The tables agree with the
//! official `schema.json` files, and a test compares them. Where they differ on purpose, the test
//! names the definition and the reason.
//!
//! An object may have members that its shape does not name. A method that is unknown to the
//! revision has no shape.

mod compile;
mod format;
mod fuzz;
mod language;
#[cfg(test)]
mod tests;
mod walk;

use std::fmt;
use std::ops::Range;
use std::sync::LazyLock;

use compile::{Arena, Id, Shape};
pub use fuzz::fuzz_shape;
use language::ShapeTable;
use walk::ValueCursor;

use super::revision::Revision;

/// The tables, oldest first. Each one changes those before it.
const TABLES: [&str; 5] = [
    include_str!("shape/2024-11-05.shapes"),
    include_str!("shape/2025-03-26.shapes"),
    include_str!("shape/2025-06-18.shapes"),
    include_str!("shape/2025-11-25.shapes"),
    include_str!("shape/2026-07-28.shapes"),
];

/// Limit of reported mismatches of one message. A person reads a few, and one mistake may be
/// repeated a million times.
pub const MISMATCHES: usize = 16;

/// The definition against which a message is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role<'a> {
    /// A request or notification of this method.
    Method(&'a str),
    /// A response with a result to a request of this method.
    AnswerTo(&'a str),
}

/// The kind of difference between a value and its shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MismatchKind {
    /// A required member is missing.
    Missing,
    /// The value has another type.
    Type,
    /// The type is correct, but the value is not allowed.
    Value,
    /// A string has the wrong format: it should be `uri`, `uri-template` or base64. The definitions
    /// name formats, but most validators do not check them.
    Format,
}

/// A place where a message differs from its shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The place of the value in the message, as a JSON Pointer (RFC 6901). Names of members are
    /// cut at 60 characters.
    pub path: String,
    /// The bytes of the value in the text. If it is missing, those of the object that lacks it.
    pub range: Range<usize>,
    /// The kind of difference.
    pub kind: MismatchKind,
    /// The requirement of the shape, such as `a string`.
    pub expected: String,
    /// The actual value: its type, or its first characters.
    pub found: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.path.is_empty() { "the message" } else { &self.path };
        match self.kind {
            MismatchKind::Missing => write!(f, "{path} is missing ({})", self.expected),
            _ => write!(f, "{path}: {} expected, found {}", self.expected, self.found),
        }
    }
}

/// Compares a message with its shape in this revision. Empty for a method that the revision
/// does not define.
///
/// `text` is one JSON-RPC message that is known to be JSON. For other texts the result is
/// unspecified. If a member name occurs twice, both values are checked. The time is linear, at most
/// `MISMATCHES` are reported, and a valid message causes no allocation.
pub fn check(revision: Revision, role: Role<'_>, text: &str) -> Vec<Mismatch> {
    let start = cursor_at(text, if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 }).at;
    let arena = arena(revision);
    match role {
        Role::Method(method) => match arena.methods.get(method) {
            Some(method) => walk::walk(arena, method.message, text, start),
            None => Vec::new(),
        },
        Role::AnswerTo(method) => match arena.methods.get(method).map(|method| &*method.answers) {
            Some([common, others @ ..]) => check_response(revision, arena, (*common, others), text, start),
            _ => Vec::new(),
        },
    }
}

/// Compares a value with a definition of the schema, such as `Tool`. `None` if the revision has no
/// definition of this name.
pub fn check_definition(revision: Revision, name: &str, text: &str) -> Option<Vec<Mismatch>> {
    let arena = arena(revision);
    let shape = *arena.definitions.get(name)?;
    Some(walk::walk(arena, shape, text, cursor_at(text, 0).at))
}

/// Whether the params of this method may have this member by definition. Also true if the revision
/// does not define the method, or if its params may have any members.
pub fn defines_param(revision: Revision, method: &str, name: &str) -> bool {
    let arena = arena(revision);
    let Some(method) = arena.methods.get(method) else { return true };
    let params = match &arena.shapes[method.message] {
        Shape::Object(message) => message.member("params"),
        _ => None,
    };
    params.is_none_or(|params| arena.names(params.value, name))
}

/// A cursor at the first value from offset `at` on.
fn cursor_at(text: &str, at: usize) -> ValueCursor<'_> {
    let mut cursor = ValueCursor::trusting(text, at);
    cursor.blanks();
    cursor
}

/// Whether the revision defines a request or notification of this method.
pub fn defines_method(revision: Revision, method: &str) -> bool {
    arena(revision).methods.contains_key(method)
}

/// The names of all requests of the revision, or of all its notifications, in any order.
pub fn methods(revision: Revision, requests: bool) -> impl Iterator<Item = &'static str> {
    let methods = arena(revision).methods.iter();
    methods.filter(move |(_, method)| method.answers.is_empty() != requests).map(|(name, _)| *name)
}

fn check_response(revision: Revision, arena: &Arena, shapes: (Id, &[Id]), text: &str, start: usize) -> Vec<Mismatch> {
    let (common, others) = shapes;
    let member = |name| walk::find(walk::find(ValueCursor::trusting(text, start), "result")?, name);
    if revision.is_stateless() {
        // basic/index "ResultType": the member selects the definition; "the client MUST treat the
        // absent field as "complete"". The types of extensions are not checked here.
        let kind = member("resultType").and_then(|mut cursor| text.get(cursor.value().ok()?));
        return match (kind.map(walk::content).as_deref(), others.first()) {
            (Some("input_required"), Some(input_required)) => walk::walk(arena, *input_required, text, start),
            (None | Some("complete"), _) => walk::walk(arena, common, text, start),
            (Some(_), _) => arena
                .definitions
                .get("JSONRPCResultResponse")
                .map_or_else(Vec::new, |any| walk::walk(arena, *any, text, start)),
        };
    }
    let mismatches = walk::walk(arena, common, text, start);
    match others.first() {
        // 2025-11-25 basic/utilities/tasks: a task-augmented request is answered
        // with a CreateTaskResult.
        Some(task) if !mismatches.is_empty() && member("task").is_some() => walk::walk(arena, *task, text, start),
        _ => mismatches,
    }
}

fn arena(revision: Revision) -> &'static Arena {
    static ARENAS: LazyLock<Vec<Arena>> = LazyLock::new(|| {
        let mut table = ShapeTable::default();
        let arenas = TABLES.iter().map(|text| {
            table.apply(text)?;
            compile::compile(&table)
        });
        arenas.collect::<Result<_, String>>().expect("the tables are part of the program and a test reads them")
    });
    &ARENAS[revision as usize]
}
