//! The shape tables compared with the official schemas: the same verdict on generated instances of
//! every definition.
//!
//! `shapes/<revision>.txt` holds the verdicts of the official `schema.json` files, made with the
//! crate jsonschema. Every run compares them with the tables. The schema files are no part of this
//! project.
//!
//! With `MCP_SCHEMA_DIR=FOLDER` the verdicts are also made anew and have to equal the stored ones.
//! `FOLDER/<revision>/schema.json` are the files of
//! `github.com/modelcontextprotocol/modelcontextprotocol` (folder `schema`). With
//! `MCP_SCHEMA_WRITE=1` as well they are stored:
//!
//! ```sh
//! MCP_SCHEMA_DIR=../modelcontextprotocol/schema MCP_SCHEMA_WRITE=1 cargo test --test it
//! the_record_is
//! ```
//!
//! A line of a file is a definition, `+` or `-`, and an instance. A line that begins with a tab is
//! a JSON Pointer into the instance above it, and one verdict for each change of [`CHANGES`] there.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use mcptap_core::internal::mcp::Revision;
use mcptap_core::internal::mcp::shape::{self, Mismatch, MismatchKind, Role};
use serde_json::Value;

/// The values that replace each part of an instance. The first change removes the part.
const CHANGES: [&str; 10] = ["", "null", "true", "7", "2.0", "1.5", "-1", "\"x\"", "[]", "{}"];

fn record(revision: Revision) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/shapes").join(format!("{revision}.txt"))
}

/// Whether the tables find no mismatch. The official schemas use the format `byte`, which JSON
/// Schema does not define. Mismatches of base64 are left out of the comparison.
fn fits(mismatches: &[Mismatch]) -> bool {
    mismatches.iter().all(|mismatch| mismatch.kind == MismatchKind::Format && mismatch.expected.starts_with("base64"))
}

/// The verdict of the tables; `None` if they have no such definition.
fn verdict(revision: Revision, definition: &str, instance: &Value) -> Option<bool> {
    let text = instance.to_string();
    if let Some(method) = definition.split_once(' ').map(|(_, method)| method) {
        return shape::defines_method(revision, method)
            .then(|| fits(&shape::check(revision, Role::Method(method), &text)));
    }
    shape::check_definition(revision, definition, &text).map(|mismatches| fits(&mismatches))
}

/// The instance with one change at one place. `None` if that place cannot be removed.
fn changed(instance: &Value, place: &str, change: &str) -> Option<Value> {
    let mut instance = instance.clone();
    if change.is_empty() {
        let (above, last) = place.rsplit_once('/')?;
        match instance.pointer_mut(above)? {
            Value::Object(members) => members.remove(&last.replace("~1", "/").replace("~0", "~"))?,
            Value::Array(elements) => elements.remove(last.parse().ok()?),
            _ => return None,
        };
    } else {
        *instance.pointer_mut(place)? = serde_json::from_str(change).ok()?;
    }
    Some(instance)
}

fn sign(verdict: bool) -> char {
    if verdict { '+' } else { '-' }
}

/// The file of one revision with the verdicts of the tables, and the number of verdicts.
fn again(revision: Revision, recorded: &str) -> (String, usize) {
    let mut lines = String::new();
    let mut last = (String::new(), Value::Null);
    let mut verdicts = 0;
    for line in recorded.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        match fields[..] {
            ["", place, _] => {
                let (definition, instance) = &last;
                lines += &format!("\t{place}\t");
                for change in CHANGES {
                    let changed = changed(instance, place, change);
                    let verdict = changed.and_then(|changed| verdict(revision, definition, &changed));
                    lines.push(verdict.map_or(' ', sign));
                    verdicts += 1;
                }
            }
            [definition, _, instance] => {
                last = (definition.to_owned(), serde_json::from_str(instance).expect("an instance"));
                let verdict = verdict(revision, definition, &last.1).map_or('?', sign);
                lines += &format!("{definition}\t{verdict}\t{instance}");
                verdicts += 1;
            }
            _ => panic!("a line of a record: {line}"),
        }
        lines.push('\n');
    }
    (lines, verdicts)
}

fn differences(left: &str, right: &str) -> String {
    let mut above = "";
    let mut told = format!("{} and {} lines", left.lines().count(), right.lines().count());
    for (left, right) in left.lines().zip(right.lines()) {
        if !left.starts_with('\t') {
            above = left;
        }
        if left != right && told.len() < 5_000 {
            told += &format!("\nin {above}\n{left}\n{right}");
        }
    }
    told
}

#[test]
fn the_tables_agree_with_the_record() {
    for revision in Revision::ALL {
        let recorded = fs::read_to_string(record(revision)).expect("the record");
        let (tables, verdicts) = again(revision, &recorded);
        assert!(verdicts > 4_000, "{revision}: {verdicts} verdicts");
        assert!(tables == recorded, "{revision}: {}", differences(&recorded, &tables));
    }
}

/// A result inside its response gets the same verdict as alone.
#[test]
fn answers_have_the_shape_of_their_result() {
    for revision in Revision::ALL {
        let recorded = fs::read_to_string(record(revision)).expect("the record");
        let lines: Vec<&str> = recorded.lines().filter(|line| !line.starts_with('\t')).collect();
        let mut compared = BTreeSet::new();
        for line in &lines {
            let [definition, verdict, instance] = line.split('\t').collect::<Vec<_>>()[..] else { continue };
            let Some(asked) = definition.strip_suffix("Result") else { continue };
            let request = format!("{asked}Request ");
            let methods: BTreeSet<&str> =
                lines.iter().filter_map(|line| line.strip_prefix(&request)?.split('\t').next()).collect();
            for method in methods {
                let text = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{instance}}}"#);
                let mismatches = shape::check(revision, Role::AnswerTo(method), &text);
                assert_eq!(sign(fits(&mismatches)).to_string(), verdict, "{revision} {method} {instance}");
                compared.insert(method.to_owned());
            }
        }
        assert!(compared.len() >= 7, "{revision}: {compared:?}");
    }
}

#[cfg(feature = "schema")]
mod official;

#[cfg(feature = "schema")]
#[test]
fn the_record_is_what_the_official_schemas_say() {
    let Some(folder) = std::env::var_os("MCP_SCHEMA_DIR") else { return };
    for revision in Revision::ALL {
        let name = revision.name();
        let text = fs::read_to_string(Path::new(&folder).join(name).join("schema.json")).expect("a schema file");
        let made = official::Official::new(revision, serde_json::from_str(&text).expect("JSON")).record();
        if std::env::var_os("MCP_SCHEMA_WRITE").is_some() {
            fs::write(record(revision), &made).expect("the record is written");
        }
        let recorded = fs::read_to_string(record(revision)).expect("the record");
        assert!(made == recorded, "{revision}: {}", differences(&recorded, &made));
    }
}
