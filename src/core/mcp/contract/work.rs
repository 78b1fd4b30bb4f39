//! The cost of a check, counted before the check is done.
//!
//! A validator recurses along schema and value together. A schema of a hundred bytes can make that
//! endless (`{"$ref": "#"}`) or exponential (each definition refers twice to the next). So the same
//! steps are first counted here, without recursion and without validation, and only up to the
//! bounds. A check that passes costs the validator about as many steps.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use serde_json::Value;

use super::UncheckedReason;

/// Limit of the steps of a check. It allows a schema of a thousand nodes over a value of a hundred.
const STEPS: usize = 100_000;

/// Limit of nested steps. The validator uses stack for each.
const DEPTH: usize = 128;

/// Keywords whose schemas apply to the same value.
const IN_PLACE: [&str; 5] = ["not", "if", "then", "else", "contentSchema"];
/// Keywords with an array of schemas for the same value.
const IN_PLACE_LISTS: [&str; 3] = ["allOf", "anyOf", "oneOf"];
/// Keywords with an object of schemas for the same value.
const IN_PLACE_MAPS: [&str; 2] = ["dependentSchemas", "dependencies"];
/// Keywords whose schema applies to members of an object.
const MEMBERS: [&str; 3] = ["additionalProperties", "unevaluatedProperties", "propertyNames"];
/// Keywords whose schema applies to elements of an array.
const ELEMENTS: [&str; 4] = ["items", "additionalItems", "unevaluatedItems", "contains"];
/// Keywords with an object of schemas that apply only by reference.
const STORES: [&str; 2] = ["$defs", "definitions"];
/// Keywords that are references.
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

/// Counts the cost of checks with one schema. It stores where the anchors of the schema are.
pub struct CheckCost {
    anchors: HashMap<String, String>,
}

impl CheckCost {
    /// Prepares a schema. An error if a reference leaves the schema, or if following
    /// references exceeds [`DEPTH`].
    pub fn of(schema: &Value) -> Result<CheckCost, UncheckedReason> {
        let mut anchors = HashMap::new();
        let mut open = vec![(String::new(), schema)];
        while let Some((place, value)) = open.pop() {
            for anchor in ["$anchor", "$dynamicAnchor"] {
                if let Some(name) = value.get(anchor).and_then(Value::as_str) {
                    match anchors.entry(name.to_owned()) {
                        // With two equal anchors, the meaning depends on the path to the reference.
                        Entry::Occupied(_) => return Err(UncheckedReason::Reference(format!("#{name}"))),
                        Entry::Vacant(free) => free.insert(place.clone()),
                    };
                }
            }
            match value {
                Value::Object(members) => {
                    open.extend(members.iter().map(|(name, value)| {
                        (format!("{place}/{}", name.replace('~', "~0").replace('/', "~1")), value)
                    }))
                }
                Value::Array(elements) => {
                    open.extend(elements.iter().enumerate().map(|(index, value)| (format!("{place}/{index}"), value)));
                }
                _ => {}
            }
        }
        let work = CheckCost { anchors };
        work.follow(schema)?;
        Ok(work)
    }

    /// Visits every subschema once in the order of a compiler: references are followed
    /// where they occur.
    fn follow(&self, root: &Value) -> Result<(), UncheckedReason> {
        let mut seen = std::collections::HashSet::new();
        let mut open = vec![(root, 0)];
        while let Some((schema, depth)) = open.pop() {
            if depth > DEPTH {
                return Err(UncheckedReason::TooLarge);
            }
            if !seen.insert(std::ptr::from_ref(schema)) {
                continue;
            }
            let Value::Object(keywords) = schema else { continue };
            for (keyword, value) in keywords {
                let keyword = keyword.as_str();
                let inside = |value| (value, depth + 1);
                if REFERENCES.contains(&keyword) {
                    open.push((self.resolve(root, value)?, depth + 1));
                } else if keyword == "$id" && !std::ptr::eq(schema, root) {
                    // References below `$id` have another base.
                    return Err(UncheckedReason::Reference(value.to_string()));
                } else if IN_PLACE.contains(&keyword) || MEMBERS.contains(&keyword) || ELEMENTS.contains(&keyword) {
                    match value {
                        Value::Array(elements) => open.extend(elements.iter().map(inside)),
                        _ => open.push((value, depth + 1)),
                    }
                } else if IN_PLACE_LISTS.contains(&keyword) || keyword == "prefixItems" {
                    open.extend(value.as_array().into_iter().flatten().map(inside));
                } else if IN_PLACE_MAPS.contains(&keyword)
                    || STORES.contains(&keyword)
                    || matches!(keyword, "properties" | "patternProperties")
                {
                    open.extend(value.as_object().into_iter().flat_map(|map| map.values()).map(inside));
                }
            }
        }
        Ok(())
    }

    /// The schema that a reference names. An error if it leaves this schema.
    fn resolve<'v>(&self, root: &'v Value, reference: &Value) -> Result<&'v Value, UncheckedReason> {
        let outside = || {
            UncheckedReason::Reference(
                reference.as_str().unwrap_or("a value that is no text").chars().take(100).collect(),
            )
        };
        let fragment = reference.as_str().and_then(|text| text.strip_prefix('#')).ok_or_else(outside)?;
        let place = match self.anchors.get(fragment) {
            Some(place) => place.clone(),
            None => percent_decoded(fragment),
        };
        root.pointer(&place).ok_or_else(outside)
    }

    /// Counts the steps of checking a value. An error if they exceed the bounds.
    pub fn check_cost(&self, root: &Value, value: &Value) -> Result<(), UncheckedReason> {
        let mut steps = 0;
        let mut open = vec![(root, value, 0)];
        while let Some((schema, value, depth)) = open.pop() {
            steps += 1;
            if steps + open.len() > STEPS || depth > DEPTH {
                return Err(UncheckedReason::TooMuchWork);
            }
            let Value::Object(keywords) = schema else { continue };
            for (keyword, inside) in keywords {
                let keyword = keyword.as_str();
                if REFERENCES.contains(&keyword) {
                    open.push((self.resolve(root, inside)?, value, depth + 1));
                } else if IN_PLACE.contains(&keyword) {
                    open.push((inside, value, depth + 1));
                } else if IN_PLACE_LISTS.contains(&keyword) {
                    open.extend(inside.as_array().into_iter().flatten().map(|schema| (schema, value, depth + 1)));
                } else if IN_PLACE_MAPS.contains(&keyword) {
                    let schemas = inside.as_object().into_iter().flat_map(|map| map.values());
                    open.extend(schemas.map(|schema| (schema, value, depth + 1)));
                } else if keyword == "enum" {
                    steps += inside.as_array().map_or(0, Vec::len);
                } else if let Value::Object(members) = value {
                    if keyword == "properties" {
                        let schemas = inside.as_object().into_iter().flatten();
                        let both = schemas.filter_map(|(name, schema)| Some((schema, members.get(name)?, depth + 1)));
                        open.extend(both);
                    } else if keyword == "patternProperties" {
                        for schema in inside.as_object().into_iter().flat_map(|map| map.values()) {
                            open.extend(members.values().map(|member| (schema, member, depth + 1)));
                            if open.len() > STEPS {
                                return Err(UncheckedReason::TooMuchWork);
                            }
                        }
                    } else if MEMBERS.contains(&keyword) {
                        open.extend(members.values().map(|member| (inside, member, depth + 1)));
                    }
                } else if let Value::Array(elements) = value {
                    if keyword == "uniqueItems" {
                        steps += elements.len();
                    }
                    match inside {
                        Value::Array(schemas) if matches!(keyword, "prefixItems" | "items") => {
                            open.extend(
                                schemas.iter().zip(elements).map(|(schema, element)| (schema, element, depth + 1)),
                            );
                        }
                        _ if ELEMENTS.contains(&keyword) => {
                            open.extend(elements.iter().map(|element| (inside, element, depth + 1)));
                        }
                        _ => {}
                    }
                }
            }
        }
        Ok(())
    }
}

/// A fragment of a URI, percent-decoded (RFC 6901 section 6).
fn percent_decoded(fragment: &str) -> String {
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut rest = fragment.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        let digit = |at: usize| after.get(at).and_then(|byte| char::from(*byte).to_digit(16));
        (bytes, rest) = match (byte, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                bytes.push((high * 16 + low) as u8);
                (bytes, &after[2..])
            }
            _ => {
                bytes.push(*byte);
                (bytes, after)
            }
        };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
