//! Message shapes: what each revision says about the members of every request, notification, result and error.
//!
//! The shapes stand in one table a revision (`shape/*.shapes`), each stating what it changed in the one before; the first
//! begins with the manual of the language. They say the same as the official `schema.json` files, and a test holds them
//! against each other; where they differ on purpose, that test names the definition and the reason.
//!
//! An object may have members that its shape does not name; a method that the revision does not know has no shape.

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

/// The tables, oldest first: each is read on top of those before it.
const TABLES: [&str; 5] = [
    include_str!("shape/2024-11-05.shapes"),
    include_str!("shape/2025-03-26.shapes"),
    include_str!("shape/2025-06-18.shapes"),
    include_str!("shape/2025-11-25.shapes"),
    include_str!("shape/2026-07-28.shapes"),
];

/// Mismatches that are reported of one message: a person reads a few, and what is wrong once is often wrong a million times.
pub const MISMATCHES: usize = 16;

/// What a message is checked as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role<'a> {
    /// A request or notification of this method.
    Method(&'a str),
    /// An answer with a result to a request of this method.
    AnswerTo(&'a str),
    /// An answer with an error.
    Error,
}

/// How a value differs from its shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MismatchKind {
    /// A required member is not there.
    Missing,
    /// A value of another type.
    Type,
    /// The type is right, the value is not among those allowed.
    Value,
    /// A string that does not follow its format: `uri`, `uri-template` or base64. The definitions name formats, and
    /// most validators do not look at them.
    Format,
}

/// A place where a message differs from its shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The value, as a JSON Pointer (RFC 6901) from the message; names of members are cut at 60 characters.
    pub path: String,
    /// The value in the text; where it is missing, the object that lacks it.
    pub range: Range<usize>,
    /// How it differs.
    pub kind: MismatchKind,
    /// What the shape says, such as `a string`.
    pub expected: String,
    /// What stands there: its type, or the start of the value itself.
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

/// How a message differs from its shape in this revision. Empty for a method that the revision does not know.
///
/// `text` is one JSON-RPC message, already known to be JSON: of another text nothing is said. Where a member name occurs
/// twice, both values are held against the shape. The cost is linear, at most `MISMATCHES` are reported, and for a valid
/// message nothing is allocated.
pub fn check(revision: Revision, role: Role<'_>, text: &str) -> Vec<Mismatch> {
    let start = place(text, if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 }).at;
    let arena = arena(revision);
    match role {
        Role::Method(method) => match arena.methods.get(method) {
            Some(method) => walk::walk(arena, method.message, text, start),
            None => Vec::new(),
        },
        Role::AnswerTo(method) => match arena.methods.get(method).map(|method| &*method.answers) {
            Some([common, others @ ..]) => answer(revision, arena, (*common, others), text, start),
            _ => Vec::new(),
        },
        Role::Error => match error(arena, text, start) {
            Some(shape) => walk::walk(arena, shape, text, start),
            None => Vec::new(),
        },
    }
}

/// How a value differs from a definition of the schema, such as `Tool`; `None` where the revision has none of this name.
pub fn check_definition(revision: Revision, name: &str, text: &str) -> Option<Vec<Mismatch>> {
    let arena = arena(revision);
    let shape = *arena.definitions.get(name)?;
    Some(walk::walk(arena, shape, text, place(text, 0).at))
}

/// Whether the revision's definition of a request or notification names this member of its params. Of a method that the revision does
/// not have, and of params that may have any members, so are all.
pub fn defines_param(revision: Revision, method: &str, name: &str) -> bool {
    let arena = arena(revision);
    let Some(method) = arena.methods.get(method) else { return true };
    let params = match &arena.shapes[method.message] {
        Shape::Object(message) => message.member("params"),
        _ => None,
    };
    params.is_none_or(|params| arena.names(params.value, name))
}

/// The first value from `at` on.
fn place(text: &str, at: usize) -> ValueCursor<'_> {
    let mut place = ValueCursor::trusting(text, at);
    place.blanks();
    place
}

/// Whether the revision defines a request or notification of this method.
pub fn defines_method(revision: Revision, method: &str) -> bool {
    arena(revision).methods.contains_key(method)
}

/// Methods of the revision that a result answers, or else those of its notifications.
pub fn methods(revision: Revision, requests: bool) -> impl Iterator<Item = &'static str> {
    let methods = arena(revision).methods.iter();
    methods.filter(move |(_, method)| method.answers.is_empty() != requests).map(|(name, _)| *name)
}

fn answer(revision: Revision, arena: &Arena, shapes: (Id, &[Id]), text: &str, start: usize) -> Vec<Mismatch> {
    let (common, others) = shapes;
    let member = |name| walk::find(walk::find(ValueCursor::trusting(text, start), "result")?, name);
    if revision.is_stateless() {
        // basic/index "ResultType": the member says which result it is; "the client MUST treat the absent field as
        // "complete"". One that an extension defines is for that extension to check.
        let kind = member("resultType").and_then(|mut place| text.get(place.value().ok()?));
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
        // 2025-11-25 basic/utilities/tasks: a task-augmented request is answered with a CreateTaskResult.
        Some(task) if !mismatches.is_empty() && member("task").is_some() => walk::walk(arena, *task, text, start),
        _ => mismatches,
    }
}

/// The shape of an error response, by its code.
fn error(arena: &Arena, text: &str, start: usize) -> Option<Id> {
    let code = walk::find(ValueCursor::trusting(text, start), "error").and_then(|error| walk::find(error, "code"));
    let code = code.and_then(|mut place| text.get(place.value().ok()?)?.parse().ok());
    let special = code.and_then(|code: i64| arena.errors.get(&code));
    let common = ["JSONRPCErrorResponse", "JSONRPCError"].iter().find_map(|name| arena.definitions.get(name));
    special.or(common).copied()
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
