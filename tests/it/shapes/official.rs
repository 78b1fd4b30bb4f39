//! Instances of the definitions of an official schema, and the verdict of the schema on them.

use std::collections::BTreeSet;

use mcptap_core::internal::mcp::Revision;
use mcptap_core::internal::mcp::shape;
use serde_json::{Map, Value, json};

use super::{CHANGES, changed, sign};

/// Intended deviations of the tables from the schema files: the place in the file, the value that
/// replaces it, and the reason.
const DEVIATIONS: &[(&str, &str, &str)] = &[
    (
        "/$defs/JSONValue",
        "{}",
        "the file lists string, integer, boolean, array and object; schema.ts, from which it is generated, says any JSON value",
    ),
    (
        "/definitions/ElicitResult/properties/content/additionalProperties/type/1",
        "\"number\"",
        "schema.ts says string | number | boolean; a form may ask for a number",
    ),
    (
        "/$defs/ElicitResult/properties/content/additionalProperties/anyOf/1/type/1",
        "\"number\"",
        "schema.ts says string | number | boolean | string[]; a form may ask for a number",
    ),
];

/// Definitions that the tables leave out, by the end of their name, and the reason.
const LEFT_OUT: &[(&str, &str)] = &[
    ("ClientRequest", "who may send a method is no matter of its shape"),
    ("ServerRequest", "likewise"),
    ("ClientNotification", "likewise"),
    ("ServerNotification", "likewise"),
    ("ClientResult", "a result is held against its request"),
    ("ServerResult", "likewise"),
    ("ResultResponse", "the envelope and a result, each carried by itself"),
    ("JSONRPCMessage", "what a message is, the reader of JSON-RPC decides"),
    ("JSONRPCBatchRequest", "likewise"),
    ("JSONRPCBatchResponse", "likewise"),
    ("Request", "an abstract base: all that extend it are carried"),
    ("PaginatedRequest", "likewise"),
    ("Notification", "likewise"),
    ("JSONArray", "any array"),
    ("JSONValue", "any value"),
];

/// One official schema file.
pub struct Official {
    revision: Revision,
    schema: Value,
    definitions: Map<String, Value>,
}

impl Official {
    pub fn new(revision: Revision, mut schema: Value) -> Official {
        for (place, instead, _) in DEVIATIONS {
            if let Some(found) = schema.pointer_mut(place) {
                *found = serde_json::from_str(instead).expect("JSON");
            }
        }
        let definitions = schema.get("$defs").or_else(|| schema.get("definitions")).and_then(Value::as_object);
        let definitions = definitions.expect("definitions").clone();
        Official { revision, schema, definitions }
    }

    /// The whole file of verdicts of this revision.
    pub fn record(&self) -> String {
        let mut lines = String::new();
        for (name, definition) in &self.definitions {
            match definition.pointer("/properties/method/const").and_then(Value::as_str) {
                // A definition without members of the envelope is part of other messages.
                Some(method) if shape::defines_method(self.revision, method) => {
                    let envelope = if name.ends_with("Request") { "JSONRPCRequest" } else { "JSONRPCNotification" };
                    self.instances(&mut lines, &format!("{name} {method}"), &[envelope, name]);
                }
                _ if is_left_out(name) => {}
                _ => self.instances(&mut lines, name, &[name]),
            }
        }
        lines
    }

    fn instances(&self, lines: &mut String, title: &str, names: &[&str]) {
        let validators: Vec<jsonschema::Validator> = names.iter().map(|name| self.validator(name)).collect();
        let holds = |instance: &Value| validators.iter().all(|validator| validator.is_valid(instance));
        let name = names[names.len() - 1];
        let mut whole = self.definitions[name].clone();
        if names.len() > 1 {
            whole["properties"]["jsonrpc"] = json!({"const": "2.0"});
            if name.ends_with("Request") {
                whole["properties"]["id"] = json!({"type": "integer"});
            }
        }
        let (small, full) = (self.build(&whole, 0), self.build(&whole, 2));
        let mut instances = vec![full.clone()];
        instances.extend(self.variations(&whole, 2));
        if let (Value::Object(_), Some(members)) = (&small, full.as_object()) {
            for (member, value) in members {
                let mut instance = small.clone();
                instance[member] = value.clone();
                instances.push(instance);
            }
        }
        instances.push(small);
        instances.extend(CHANGES[1..].iter().map(|change| serde_json::from_str(change).expect("JSON")));
        let unions = whole.get("anyOf").and_then(Value::as_array).map_or(1, Vec::len);
        let mut known = BTreeSet::new();
        let mut changed_through = BTreeSet::new();
        for instance in instances {
            if !known.insert(instance.to_string()) {
                continue;
            }
            *lines += &format!("{title}\t{}\t{instance}\n", sign(holds(&instance)));
            let fields: Vec<String> =
                instance.as_object().map_or_else(Vec::new, |members| members.keys().cloned().collect());
            // Every place is changed in the first instance, and in the first instance of each
            // branch of a union.
            if changed_through.len() < unions && changed_through.insert(fields) {
                for place in places(&instance) {
                    let verdicts = CHANGES
                        .map(|change| changed(&instance, &place, change).map_or(' ', |changed| sign(holds(&changed))));
                    *lines += &format!("\t{place}\t{}\n", verdicts.iter().collect::<String>());
                }
            }
        }
    }

    fn validator(&self, name: &str) -> jsonschema::Validator {
        let place = if self.schema.get("$defs").is_some() { "$defs" } else { "definitions" };
        let mut schema = self.schema.clone();
        schema["$ref"] = format!("#/{place}/{name}").into();
        jsonschema::options().offline().should_validate_formats(true).build(&schema).expect("an official schema")
    }

    fn resolved<'a>(&'a self, schema: &'a Value) -> &'a Value {
        let name = schema.get("$ref").and_then(Value::as_str).and_then(|place| place.rsplit('/').next());
        name.map_or(schema, |name| self.resolved(&self.definitions[name]))
    }

    /// An instance with the required members, and with all others down to a depth
    /// of `full` objects.
    fn build(&self, schema: &Value, full: usize) -> Value {
        let schema = self.resolved(schema);
        if let Some(value) = schema.get("const").or_else(|| schema.pointer("/enum/0")) {
            return value.clone();
        }
        for union in ["anyOf", "oneOf"] {
            if let Some(first) = schema.get(union).and_then(|branches| branches.get(0)) {
                return self.build(first, full);
            }
        }
        if let Some(parts) = schema.get("allOf").and_then(Value::as_array) {
            let parts = parts.iter().filter_map(|part| self.build(part, full).as_object().cloned());
            return Value::Object(parts.flatten().collect());
        }
        let kind = schema.get("type").and_then(|kind| kind.as_str().or_else(|| kind[0].as_str()));
        match (kind, schema.get("format").and_then(Value::as_str)) {
            (_, Some("uri")) => json!("file:///a"),
            (_, Some("uri-template")) => json!("file:///{a}"),
            (_, Some("byte")) => json!("YQ=="),
            (Some("string"), _) => json!("text"),
            (Some("integer"), _) => json!(1),
            (Some("number"), _) => json!(0.5),
            (Some("boolean"), _) => json!(false),
            (Some("null"), _) => Value::Null,
            (Some("array"), _) => json!([self.build(schema.get("items").unwrap_or(&Value::Null), full)]),
            (Some("object"), _) | (None, _) if schema.get("properties").is_some() || kind.is_some() => {
                Value::Object(self.members(schema, full))
            }
            _ => json!("anything"),
        }
    }

    fn members(&self, schema: &Value, full: usize) -> Map<String, Value> {
        let required = |name: &str| {
            schema
                .get("required")
                .and_then(Value::as_array)
                .is_some_and(|names| names.iter().any(|known| known == name))
        };
        let mut members = Map::new();
        for (name, value) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            if full > 0 || required(name) {
                // This string decides how a result is parsed.
                let value =
                    if name == "resultType" { json!("complete") } else { self.build(value, full.saturating_sub(1)) };
                members.insert(name.clone(), value);
            }
        }
        if let Some(others) = schema.get("additionalProperties").filter(|others| full > 0 && others.is_object()) {
            members.insert("other".to_owned(), self.build(others, full - 1));
        }
        members
    }

    /// Instances with the other branches of unions and the other values of enumerations, one
    /// at a time.
    fn variations(&self, schema: &Value, full: usize) -> Vec<Value> {
        let schema = self.resolved(schema);
        if let Some(values) = schema.get("enum").and_then(Value::as_array) {
            return values.clone();
        }
        if let Some(branches) = schema.get("anyOf").and_then(Value::as_array) {
            return branches.iter().flat_map(|branch| self.variations(branch, full)).collect();
        }
        if let Some(kinds) = schema.get("type").and_then(Value::as_array) {
            return kinds.iter().map(|kind| self.build(&json!({ "type": kind }), full)).collect();
        }
        let whole = self.build(schema, full);
        let mut variations = vec![whole.clone()];
        if let Some(elements) = schema.get("items") {
            variations = self.variations(elements, full).into_iter().map(|element| json!([element])).collect();
            variations.push(json!([]));
            if let Some(most) = schema.get("maxItems").and_then(Value::as_u64) {
                let element = self.build(elements, 0);
                variations.extend([most, most + 1].map(|count| Value::from(vec![element.clone(); count as usize])));
            }
        }
        if full > 0 {
            for (name, value) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
                for variation in self.variations(value, full - 1).into_iter().skip(1) {
                    let mut instance = whole.clone();
                    instance[name] = variation;
                    variations.push(instance);
                }
            }
            for variation in
                schema.get("additionalProperties").map_or_else(Vec::new, |others| self.variations(others, full - 1))
            {
                let mut instance = whole.clone();
                instance["other"] = variation;
                variations.push(instance);
            }
        }
        variations
    }
}

fn is_left_out(name: &str) -> bool {
    LEFT_OUT.iter().any(|(ending, _)| {
        name == *ending || *ending == "ResultResponse" && name.ends_with(ending) && name != "JSONRPCResultResponse"
    })
}

/// Every place inside an instance, as JSON Pointers.
fn places(instance: &Value) -> Vec<String> {
    let mut places = Vec::new();
    let mut open = vec![(String::new(), instance)];
    while let Some((place, value)) = open.pop() {
        let inside: Vec<(String, &Value)> = match value {
            Value::Object(members) => members
                .iter()
                .map(|(name, value)| (format!("{place}/{}", name.replace('~', "~0").replace('/', "~1")), value))
                .collect(),
            Value::Array(elements) => {
                elements.iter().enumerate().map(|(index, value)| (format!("{place}/{index}"), value)).collect()
            }
            _ => Vec::new(),
        };
        places.extend(inside.iter().map(|(place, _)| place.clone()));
        open.extend(inside);
    }
    places.sort();
    places
}
