//! Compiles tables to shapes: resolves names, copies spread members, and flattens unions.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;

use super::language::{ObjectClause, ShapeTable, Type};

/// A shape, as an index into the arena.
pub type Id = usize;

/// The requirements for a JSON value.
#[derive(Clone, Debug)]
pub enum Shape {
    Any,
    Null,
    Boolean,
    /// A number, optionally within bounds.
    Number {
        /// Whether it must be an integer as in JSON Schema: without a fraction, so
        /// `1.0` is allowed.
        whole: bool,
        low: Option<i64>,
        high: Option<i64>,
    },
    String(Format),
    /// One of these strings.
    Texts(Vec<&'static str>),
    /// Exactly this integer.
    Code(i64),
    List {
        element: Id,
        /// The maximum length.
        most: Option<usize>,
    },
    Object(Object),
    /// One of several shapes.
    Union(Union),
}

words! {
    /// The format of a string, with its name, an article and its standard.
    pub enum Format {
        Plain = "a string",
        Uri = "a URI (RFC 3986)",
        UriTemplate = "a URI template (RFC 6570)",
        Base64 = "base64 (RFC 4648)",
    }
}

/// The required and optional members of an object.
#[derive(Clone, Debug, Default)]
pub struct Object {
    /// The members, at most 64: a walk marks the present ones in the bits of one word.
    pub members: Vec<Member>,
    /// The shape of all other members, if the definition prescribes one.
    pub others: Option<Id>,
}

/// A member of an object.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    pub name: &'static str,
    /// Whether the member is required.
    pub required: bool,
    pub value: Id,
}

/// One of several shapes.
#[derive(Clone, Debug)]
pub struct Union {
    /// The shapes. None of them is a union.
    pub branches: Vec<Id>,
    /// The discriminator: a member for which every object among the branches prescribes a string.
    pub tag: Option<&'static str>,
}

/// A request or notification.
#[derive(Clone, Debug)]
pub struct Method {
    pub message: Id,
    /// The shapes of whole responses, the usual one first. Empty for a notification.
    pub answers: Vec<Id>,
}

/// The shapes of one revision.
#[derive(Debug, Default)]
pub struct Arena {
    pub shapes: Vec<Shape>,
    /// Shapes with a name.
    pub definitions: BTreeMap<&'static str, Id>,
    /// Requests and notifications by method.
    pub methods: FxHashMap<&'static str, Method>,
}

/// Compiles the tables read so far. An error names the definition.
pub fn compile(table: &ShapeTable<'static>) -> Result<Arena, String> {
    let mut compiler = Compiler { table, arena: Arena::default(), open: BTreeSet::new() };
    for name in table.definitions.keys() {
        compiler.definition(name)?;
    }
    for (name, method) in &table.methods {
        let envelope = |id, member, value| {
            let mut entries = vec![required("jsonrpc", Type::Text("2.0"))];
            entries.extend(id);
            entries.extend(member);
            entries.push(value);
            Type::Object(entries)
        };
        let id = || Some(required("id", Type::Name("RequestId")));
        let params =
            ObjectClause::Member { name: "params", required: !method.optional, value: Type::Name(method.params) };
        let asks = !method.results.is_empty();
        let request = envelope(if asks { id() } else { None }, Some(required("method", Type::Text(name))), params);
        let message = compiler.lower(&request)?;
        let answers = method
            .results
            .iter()
            .map(|result| compiler.lower(&envelope(id(), None, required("result", Type::Name(result)))));
        let answers = answers.collect::<Result<_, _>>()?;
        compiler.arena.methods.insert(name, Method { message, answers });
    }
    Ok(compiler.arena)
}

fn required(name: &'static str, value: Type<'static>) -> ObjectClause<'static> {
    ObjectClause::Member { name, required: true, value }
}

struct Compiler<'a> {
    table: &'a ShapeTable<'static>,
    arena: Arena,
    /// Definitions that are being compiled. A recursive definition is an error, because a walk
    /// along it would recurse as deep as its input.
    open: BTreeSet<&'static str>,
}

impl Compiler<'_> {
    fn definition(&mut self, name: &'static str) -> Result<Id, String> {
        if let Some(id) = self.arena.definitions.get(name) {
            return Ok(*id);
        }
        let table = self.table;
        let definition = table.definitions.get(name).ok_or_else(|| format!("{name} is not defined"))?;
        if !self.open.insert(name) {
            return Err(format!("{name} needs itself"));
        }
        let id = self.lower(definition)?;
        self.open.remove(name);
        self.arena.definitions.insert(name, id);
        Ok(id)
    }

    fn lower(&mut self, written: &Type<'static>) -> Result<Id, String> {
        let shape = match written {
            Type::Name(name) => return self.definition(name),
            Type::Text(text) => Shape::Texts(vec![text]),
            Type::Code(code) => Shape::Code(*code),
            Type::List(element, most) => Shape::List { element: self.lower(element)?, most: *most },
            Type::Object(entries) => Shape::Object(self.object(entries)?),
            Type::Union(branches) => self.union(branches)?,
            Type::Word(word, (low, high)) => match *word {
                "any" => Shape::Any,
                "null" => Shape::Null,
                "boolean" => Shape::Boolean,
                "integer" | "number" => Shape::Number { whole: *word == "integer", low: *low, high: *high },
                "string" => Shape::String(Format::Plain),
                "uri" => Shape::String(Format::Uri),
                "uri-template" => Shape::String(Format::UriTemplate),
                "base64" => Shape::String(Format::Base64),
                "object" => Shape::Object(Object::default()),
                _ => return Err(format!("{word} is no word of the language")),
            },
        };
        self.arena.shapes.push(shape);
        Ok(self.arena.shapes.len() - 1)
    }

    /// A member that is defined again, directly or by a spread, replaces the earlier one.
    fn object(&mut self, entries: &[ObjectClause<'static>]) -> Result<Object, String> {
        let mut object = Object::default();
        for entry in entries {
            match entry {
                ObjectClause::Others(value) => object.others = Some(self.lower(value)?),
                ObjectClause::Member { name, required, value } => {
                    let value = self.lower(value)?;
                    object.set(Member { name, required: *required, value });
                }
                ObjectClause::Spread(name) => {
                    let id = self.definition(name)?;
                    let Shape::Object(spread) = &self.arena.shapes[id] else {
                        return Err(format!("{name} is no object"));
                    };
                    spread.members.iter().for_each(|member| object.set(*member));
                    object.others = spread.others.or(object.others);
                }
            }
        }
        if object.members.len() > 64 { Err("more than 64 members".to_owned()) } else { Ok(object) }
    }

    fn union(&mut self, written: &[Type<'static>]) -> Result<Shape, String> {
        let mut texts = Vec::new();
        let mut branches = Vec::new();
        for branch in written {
            let id = self.lower(branch)?;
            match &self.arena.shapes[id] {
                Shape::Texts(more) => texts.extend(more),
                Shape::Union(inner) => branches.extend(&inner.branches),
                _ => branches.push(id),
            }
        }
        if branches.is_empty() {
            return Ok(Shape::Texts(texts));
        }
        if !texts.is_empty() {
            self.arena.shapes.push(Shape::Texts(texts));
            branches.push(self.arena.shapes.len() - 1);
        }
        let tag = self.tag(&branches);
        Ok(Shape::Union(Union { branches, tag }))
    }

    fn tag(&self, branches: &[Id]) -> Option<&'static str> {
        let objects = branches.iter().filter_map(|id| match &self.arena.shapes[*id] {
            Shape::Object(object) => Some(object),
            _ => None,
        });
        let prescribes = |object: &Object, name| {
            object.member(name).is_some_and(|member| matches!(self.arena.shapes[member.value], Shape::Texts(_)))
        };
        let first = objects.clone().next()?;
        let names = first.members.iter().map(|member| member.name);
        let mut tags = names.filter(|name| objects.clone().all(|object| prescribes(object, name)));
        if objects.clone().count() > 1 { tags.next() } else { None }
    }
}

impl Arena {
    /// Whether a shape defines a member of this name, or prescribes a shape for other members.
    pub fn names(&self, shape: Id, member: &str) -> bool {
        match &self.shapes[shape] {
            Shape::Object(object) => object.others.is_some() || object.member(member).is_some(),
            Shape::Union(union) => union.branches.iter().any(|branch| self.names(*branch, member)),
            _ => true,
        }
    }
}

impl Object {
    pub fn member(&self, name: &str) -> Option<&Member> {
        self.members.iter().find(|member| member.name == name)
    }

    fn set(&mut self, member: Member) {
        match self.members.iter_mut().find(|stated| stated.name == member.name) {
            Some(stated) => *stated = member,
            None => self.members.push(member),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compiled(text: &'static str) -> Result<Arena, String> {
        let mut table = ShapeTable::default();
        table.apply(text)?;
        compile(&table)
    }

    #[test]
    fn mistakes_in_a_table_are_found() {
        assert_eq!(compiled("A = [A]").expect_err("a loop"), "A needs itself");
        assert_eq!(compiled("A = B").expect_err("a name"), "B is not defined");
        assert_eq!(compiled("A = strin").expect_err("a word"), "strin is no word of the language");
        assert_eq!(compiled("A = { ...B }\nB = string").expect_err("a spread"), "B is no object");
    }

    #[test]
    fn the_discriminator_is_the_string_that_every_object_prescribes() {
        let tag = |text| {
            let arena = compiled(text).expect("a table");
            match &arena.shapes[arena.definitions["A"]] {
                Shape::Union(union) => union.tag,
                _ => None,
            }
        };
        assert_eq!(tag(r#"A = { x: string, type: "a" } | { x: string, type: "b" } | string"#), Some("type"));
        assert_eq!(tag(r#"A = { type: "a" } | { type: string }"#), None);
        assert_eq!(tag(r#"A = { type: "a" } | string"#), None);
    }
}
