//! A cache of compiled schemas, and checks of values by the crate `jsonschema`.

use std::hash::BuildHasher;
use std::sync::Arc;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{Draft, PatternOptions, ValidationError, Validator};
use rustc_hash::{FxBuildHasher, FxHashMap};
use serde_json::Value;

use super::work::CheckCost;
use super::{Revision, SCHEMA_BYTES, UncheckedReason, VALUE_BYTES, VIOLATIONS, Verdict, Violation};
use crate::decode::redact;

/// Limit of cached schemas. Beyond it all are discarded, and those in use are compiled again.
const CACHED: usize = 1024;

/// Limit of the bytes of a compiled pattern, and of its automaton.
const PATTERN_BYTES: usize = 1 << 20;

/// Limit of the characters of a violation's text. The list of an enumeration may be long.
const TEXT_CHARS: usize = 200;

/// Compiled schemas, by a hash of their text and of their default dialect.
#[derive(Default)]
pub struct SchemaCache {
    schemas: FxHashMap<u64, Vec<Arc<Schema>>>,
    count: usize,
}

struct Schema {
    text: String,
    default_dialect: bool,
    state: Result<CompiledSchema, Verdict>,
}

struct CompiledSchema {
    schema: Value,
    work: CheckCost,
    validator: Validator,
}

impl SchemaCache {
    pub fn schema(&mut self, revision: Revision, schema: &str) -> Verdict {
        if schema.len() > SCHEMA_BYTES {
            return Verdict::Unchecked(UncheckedReason::TooLarge);
        }
        self.get(revision, schema).state.as_ref().err().cloned().unwrap_or(Verdict::Holds)
    }

    pub fn check(&mut self, revision: Revision, schema: &str, value: &str) -> Verdict {
        if schema.len() > SCHEMA_BYTES || value.len() > VALUE_BYTES {
            return Verdict::Unchecked(UncheckedReason::TooLarge);
        }
        let schema = self.get(revision, schema);
        let ready = match &schema.state {
            Ok(ready) => ready,
            Err(verdict) => return verdict.clone(),
        };
        // serde_json refuses values nested deeper than 128. The validator would follow
        // them by recursion.
        let Ok(value) = serde_json::from_str(value) else { return Verdict::Unchecked(UncheckedReason::TooLarge) };
        if let Err(why) = ready.work.check_cost(&ready.schema, &value) {
            return Verdict::Unchecked(why);
        }
        let is_redacted = has_redacted(&value);
        let violations: Vec<Violation> = ready
            .validator
            .iter_errors(&value)
            .filter(|error| !is_redacted || !depends_on_redacted(error))
            .take(VIOLATIONS)
            .map(violation)
            .collect();
        if violations.is_empty() { Verdict::Holds } else { Verdict::Broken(violations) }
    }

    fn get(&mut self, revision: Revision, text: &str) -> Arc<Schema> {
        // 2025-11-25 basic/index "JSON Schema Usage": "When a schema does not include a $schema
        // field, it defaults to JSON Schema 2020-12".
        let default_dialect = revision >= Revision::V2025_11_25;
        let hash = FxBuildHasher.hash_one((text, default_dialect));
        let same = |schema: &&Arc<Schema>| schema.text == text && schema.default_dialect == default_dialect;
        if let Some(known) = self.schemas.get(&hash).and_then(|schemas| schemas.iter().find(same)) {
            return Arc::clone(known);
        }
        if self.count >= CACHED {
            self.schemas.clear();
            self.count = 0;
        }
        let schema = Arc::new(Schema { text: text.to_owned(), default_dialect, state: compile(text, default_dialect) });
        self.schemas.entry(hash).or_default().push(Arc::clone(&schema));
        self.count += 1;
        schema
    }
}

fn compile(text: &str, default_dialect: bool) -> Result<CompiledSchema, Verdict> {
    let unchecked = Verdict::Unchecked;
    let schema: Value = serde_json::from_str(text).map_err(|_| unchecked(UncheckedReason::TooLarge))?;
    if !schema.is_object() {
        return Err(Verdict::NoSchema("a schema must be an object".to_owned()));
    }
    let draft = match schema.get("$schema") {
        None => Some(Draft::Draft202012),
        Some(Value::String(dialect)) => match Draft::from_schema_uri(dialect) {
            Draft::Unknown => {
                return Err(unchecked(UncheckedReason::Dialect(dialect.chars().take(TEXT_CHARS).collect())));
            }
            draft => Some(draft),
        },
        Some(_) => return Err(Verdict::NoSchema("$schema is not a string".to_owned())),
    };
    let work = CheckCost::of(&schema).map_err(unchecked)?;
    let built = build(&schema, draft).or_else(|error| {
        let undeclared = draft == Some(Draft::Draft202012) && schema.get("$schema").is_none() && !default_dialect;
        if undeclared { build(&schema, Some(Draft::Draft7)).map_err(|_| error) } else { Err(error) }
    });
    match built {
        Ok(validator) => Ok(CompiledSchema { schema, work, validator }),
        Err(verdict) => Err(verdict),
    }
}

fn build(schema: &Value, draft: Option<Draft>) -> Result<Validator, Verdict> {
    let options = || {
        let options = jsonschema::options().offline().should_validate_formats(false);
        draft.map_or(options.clone(), |draft| options.with_draft(draft))
    };
    let linear = PatternOptions::regex().size_limit(PATTERN_BYTES).dfa_size_limit(PATTERN_BYTES);
    options().with_pattern_options(linear).build(schema).map_err(|error| {
        let any = PatternOptions::fancy_regex().size_limit(PATTERN_BYTES).dfa_size_limit(PATTERN_BYTES);
        match options().with_pattern_options(any).build(schema) {
            Ok(_) => Verdict::Unchecked(UncheckedReason::Pattern),
            Err(_) if is_large_pattern(error.instance()) => Verdict::Unchecked(UncheckedReason::Pattern),
            Err(_) => Verdict::NoSchema(violation(error).to_string()),
        }
    })
}

/// Whether this is a valid pattern that exceeds [`PATTERN_BYTES`] when it is compiled.
fn is_large_pattern(value: &Value) -> bool {
    let built = value.as_str().map(|pattern| regex::RegexBuilder::new(pattern).size_limit(PATTERN_BYTES).build());
    matches!(built, Some(Err(regex::Error::CompiledTooBig(_))))
}

/// Whether a violation in a value with redacted parts may exist only because of them. Redaction
/// keeps the members and the number of elements. So rules about those still count, unless a
/// condition chose them.
fn depends_on_redacted(error: &ValidationError<'_>) -> bool {
    use ValidationErrorKind::{AdditionalProperties, MaxItems, MaxProperties, MinItems, MinProperties, Required, Type};
    if error.evaluation_path().as_str().split('/').any(|step| matches!(step, "then" | "else")) {
        return true;
    }
    match (error.kind(), &**error.instance()) {
        (
            AdditionalProperties { .. }
            | MaxItems { .. }
            | MaxProperties { .. }
            | MinItems { .. }
            | MinProperties { .. }
            | Required { .. }
            | Type { .. },
            Value::Array(_) | Value::Object(_),
        ) => false,
        (_, instance) => has_redacted(instance),
    }
}

/// Whether a value is or contains the replacement of a redacted value.
fn has_redacted(value: &Value) -> bool {
    match value {
        Value::String(text) => redact::is_replacement(text.as_bytes()),
        Value::Array(elements) => elements.iter().any(has_redacted),
        Value::Object(members) => members.values().any(has_redacted),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn violation(error: ValidationError<'_>) -> Violation {
    let said = error.masked().to_string();
    let text = match said.char_indices().nth(TEXT_CHARS) {
        Some((end, _)) => format!("{}…", &said[..end]),
        None => said,
    };
    Violation { path: error.instance_path().as_str().to_owned(), text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(schema: &str, value: &str) -> Verdict {
        SchemaCache::default().check(Revision::V2025_11_25, schema, value)
    }

    fn broken(path: &str, text: &str) -> Verdict {
        Verdict::Broken(vec![Violation { path: path.to_owned(), text: text.to_owned() }])
    }

    #[test]
    fn arguments_are_held_against_their_schema() {
        let schema = r##"{"type":"object","properties":{"city":{"type":"string"},"days":{"$ref":"#/$defs/n"}},"required":["city"],"$defs":{"n":{"type":"integer","maximum":9}}}"##;
        assert_eq!(check(schema, r#"{"city":"Oslo","days":3}"#), Verdict::Holds);
        assert_eq!(
            check(schema, r#"{"city":"Oslo","days":30}"#),
            broken("/days", "value is greater than the maximum of 9")
        );
        assert_eq!(check(schema, r#"{"days":3}"#), broken("", "\"city\" is a required property"));
    }

    #[test]
    fn a_redacted_value_hides_only_what_depends_on_it() {
        let schema = r#"{"type":"object","properties":{"city":{},"days":{"type":"integer"}},"required":["city"],"additionalProperties":false,"not":{"minProperties":3}}"#;
        let redacted = |rest: &str| format!(r#"{{"days":"[redacted number 2]"{rest}}}"#);
        assert_eq!(check(schema, &redacted(r#","city":"Oslo""#)), Verdict::Holds);
        assert_eq!(check(schema, &redacted("")), broken("", "\"city\" is a required property"));
        let Verdict::Broken(violations) = check(schema, &redacted(r#","city":"Oslo","c":1"#)) else { panic!() };
        assert_eq!(violations.len(), 1, "not \"not\": {violations:?}");
        let schema = r#"{"if":{"properties":{"kind":{"const":"a"}}},"else":{"required":["x"]}}"#;
        assert_eq!(check(schema, r#"{"kind":"[redacted string 1]"}"#), Verdict::Holds);
        assert_eq!(check(schema, r#"{"kind":"b"}"#), broken("", "\"x\" is a required property"));
    }

    #[test]
    fn a_schema_may_be_none_or_out_of_reach() {
        let schema = |revision, text: &str| SchemaCache::default().schema(revision, text);
        let current = |text| schema(Revision::V2026_07_28, text);
        assert_eq!(current(r#"{"type":"object"}"#), Verdict::Holds);
        assert!(matches!(current(r#"{"type":"objekt"}"#), Verdict::NoSchema(_)));
        assert!(matches!(current("null"), Verdict::NoSchema(_)));
        assert!(matches!(current(r#"{"pattern":"("}"#), Verdict::NoSchema(_)));
        assert_eq!(current(r#"{"pattern":"^(?!a)b"}"#), Verdict::Unchecked(UncheckedReason::Pattern));
        let away = "https://example.com/schema.json";
        let refers = format!(r#"{{"properties":{{"a":{{"$ref":"{away}"}}}}}}"#);
        assert_eq!(current(&refers), Verdict::Unchecked(UncheckedReason::Reference(away.to_owned())));
        let dialect = format!(r#"{{"$schema":"{away}"}}"#);
        assert_eq!(current(&dialect), Verdict::Unchecked(UncheckedReason::Dialect(away.to_owned())));
        let tuple = r#"{"properties":{"a":{"items":[{"type":"string"}]}}}"#;
        assert!(matches!(current(tuple), Verdict::NoSchema(_)));
        assert_eq!(schema(Revision::V2025_06_18, tuple), Verdict::Holds);
    }

    #[test]
    fn hostile_schemas_end() {
        let too_much = Verdict::Unchecked(UncheckedReason::TooMuchWork);
        assert_eq!(check(r##"{"$ref":"#"}"##, "1"), too_much);
        assert_eq!(check(r##"{"anyOf":[{"$ref":"#"},{"$ref":"#"}]}"##, "1"), too_much);
        let doubling: Vec<String> = (0..40)
            .map(|n| {
                format!(r##""a{n}":{{"allOf":[{{"$ref":"#/$defs/a{m}"}},{{"$ref":"#/$defs/a{m}"}}]}}"##, m = n + 1)
            })
            .collect();
        let doubling = format!(r##"{{"$ref":"#/$defs/a0","$defs":{{{},"a40":true}}}}"##, doubling.join(","));
        assert_eq!(check(&doubling, "1"), too_much);
        let deep_value = "[".repeat(100) + &"]".repeat(100);
        assert_eq!(check(r##"{"allOf":[{"items":{"$ref":"#"}},{"items":{"$ref":"#"}}]}"##, &deep_value), too_much);
        assert_eq!(check("{}", &("[".repeat(1000) + &"]".repeat(1000))), Verdict::Unchecked(UncheckedReason::TooLarge));
        let chain: Vec<String> = (0..2000).map(|n| format!(r##""a{n}":{{"$ref":"#/$defs/a{}"}}"##, n + 1)).collect();
        let chain = format!(r##"{{"$ref":"#/$defs/a0","$defs":{{{},"a2000":true}}}}"##, chain.join(","));
        assert_eq!(check(&chain, "1"), Verdict::Unchecked(UncheckedReason::TooLarge));
        let nested = r#"{"not":"#.repeat(1000) + "true" + &"}".repeat(1000);
        assert_eq!(check(&nested, "1"), Verdict::Unchecked(UncheckedReason::TooLarge));
        let slow = format!(r#""{}!""#, "a".repeat(50_000));
        assert!(matches!(check(r#"{"pattern":"^(a+)+$"}"#, &slow), Verdict::Broken(_)));
        assert_eq!(
            check(r#"{"pattern":"((a{1000}){1000}){1000}"}"#, "1"),
            Verdict::Unchecked(UncheckedReason::Pattern)
        );
    }

    #[test]
    fn accepted_depth_fits_the_stack() {
        let chain: Vec<String> = (0..120).map(|n| format!(r##""a{n}":{{"$ref":"#/$defs/a{}"}}"##, n + 1)).collect();
        let chain = format!(r##"{{"$ref":"#/$defs/a0","$defs":{{{},"a120":{{"type":"string"}}}}}}"##, chain.join(","));
        assert!(matches!(check(&chain, "1"), Verdict::Broken(_)));
        let tree = r##"{"properties":{"next":{"$ref":"#"}},"additionalProperties":false}"##;
        let value = |inside: &str| r#"{"next":"#.repeat(60) + inside + &"}".repeat(60);
        assert_eq!(check(tree, &value("{}")), Verdict::Holds);
        assert!(matches!(check(tree, &value(r#"{"x":1}"#)), Verdict::Broken(_)));
    }

    #[test]
    fn compiled_schemas_are_bounded() {
        let mut compiled = SchemaCache::default();
        for number in 0..CACHED + 10 {
            compiled.schema(Revision::V2026_07_28, &format!(r#"{{"maximum":{number}}}"#));
        }
        assert_eq!(compiled.count, 10);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        /// Checks end for schemas with every keyword that multiplies work, whatever they refer to.
        #[test]
        fn any_schema_ends(keywords in proptest::collection::vec((0..12_usize, 0..6_usize, 0..6_usize), 1..30), depth in 0..40_usize) {
            let mut definitions = serde_json::json!({"0": {}, "1": {}, "2": {}, "3": {}, "4": {}, "5": {}});
            for (keyword, at, to) in keywords {
                let to = serde_json::json!({ "$ref": format!("#/$defs/{to}") });
                let both = serde_json::json!([to, to]);
                let (name, value) = match keyword {
                    0 => ("allOf", both),
                    1 => ("anyOf", both),
                    2 => ("oneOf", both),
                    3 => ("not", to),
                    4 => ("if", to),
                    5 => ("items", to),
                    6 => ("unevaluatedItems", to),
                    7 => ("additionalProperties", to),
                    8 => ("properties", serde_json::json!({ "a": to })),
                    9 => ("patternProperties", serde_json::json!({ "a": to, "^": to })),
                    10 => ("unevaluatedProperties", to),
                    _ => ("maximum", 0.into()),
                };
                definitions[at.to_string()][name] = value;
            }
            let schema = serde_json::json!({ "$ref": "#/$defs/0", "$defs": definitions }).to_string();
            for (open, close) in [("[", "]"), (r#"{"a":"#, "}")] {
                check(&schema, &(open.repeat(depth) + "1" + &close.repeat(depth)));
            }
        }
    }
}
