//! A comparison as one JSON object.
//!
//! Members: `same`, `old`, `new`, `counts` (`{outcome: count}`), `requests`, `volatile` (rules as
//! `--ignore` takes them), `slower` (`{number, old_ns, new_ns}`), `unasked` (`{method, before,
//! now}`), `replaced` and `notes`.
//!
//! Members of a request: `method`, `subject`, `outcome`, `why`, `old` and `new` (`{number,
//! latency_ns}`), and `differences` (`{path, change, old, new}`, where `change` is `changed`,
//! `removed` or `added`). Members without a value are left out.
//!
//! Members of a value in `replaced`: `old`, `new`, `given_by` (a message of the recording),
//! `uses` (`{message, path}`, in the recording), and `other` (`{new, given_by}`: another new
//! value for it).

use std::io;

use serde::ser::{Serialize, SerializeMap, Serializer as _};
use serde_json::{Map, Serializer, Value, json};

use super::difference::{Change, Difference};
use super::report::{Pair, Party, Replacement, Report};

/// Writes the report as JSON, with the latencies of many replays if there are any. Requests are
/// written one by one, because a long run can have any number of them.
pub fn write(report: &Report, latencies: Option<Value>, out: &mut dyn io::Write) -> io::Result<()> {
    let counts: Map<String, Value> =
        report.counts().into_iter().map(|(outcome, count)| (outcome.name().to_owned(), count.into())).collect();
    let unasked = |(method, before, now): &(String, u64, u64)| json!({"method": method, "before": before, "now": now});
    let mut serializer = Serializer::new(out);
    let mut object = serializer.serialize_map(None)?;
    object.serialize_entry("counts", &counts)?;
    if let Some(latencies) = latencies {
        object.serialize_entry("latencies", &latencies)?;
    }
    object.serialize_entry("new", &report.new)?;
    object.serialize_entry("notes", &report.notes)?;
    object.serialize_entry("old", &report.old)?;
    object.serialize_entry("replaced", &report.replaced.iter().map(replacement).collect::<Vec<_>>())?;
    object.serialize_entry("requests", &Requests(&report.pairs))?;
    object.serialize_entry("same", &report.is_same())?;
    object.serialize_entry("slower", &report.slower().map(slower).collect::<Vec<_>>())?;
    object.serialize_entry("unasked", &report.unasked.iter().map(unasked).collect::<Vec<_>>())?;
    object.serialize_entry("volatile", &report.volatile.iter().map(ToString::to_string).collect::<Vec<_>>())?;
    Ok(object.end()?)
}

struct Requests<'a>(&'a [Pair]);

impl Serialize for Requests<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(pair))
    }
}

fn slower((pair, old, new): (&Pair, i64, i64)) -> Value {
    json!({"number": pair.old.map(|old| old.number), "old_ns": old, "new_ns": new})
}

fn replacement(replacement: &Replacement) -> Value {
    let Replacement { old, new, given_by, other, uses } = replacement;
    let uses: Vec<Value> = uses.iter().map(|(message, path)| json!({"message": message, "path": path})).collect();
    let mut object = json!({"old": old, "new": new, "given_by": given_by, "uses": uses});
    if let Some((new, given_by)) = other {
        object["other"] = json!({"new": new, "given_by": given_by});
    }
    object
}

fn pair(pair: &Pair) -> Value {
    let mut object = Map::new();
    let mut put = |name: &str, value: Option<Value>| value.and_then(|value| object.insert(name.to_owned(), value));
    put("method", Some(pair.label.method.clone().into()));
    put("subject", pair.label.subject.clone().map(Value::from));
    put("outcome", Some(pair.outcome.name().into()));
    put("why", pair.why.clone().map(Value::from));
    put("old", pair.old.map(party));
    put("new", pair.new.map(party));
    let differences: Vec<Value> = pair.differences.iter().map(difference).collect();
    put("differences", Some(differences.into()).filter(|_| !pair.differences.is_empty()));
    Value::Object(object)
}

fn party(party: Party) -> Value {
    match party.latency {
        Some(latency) => json!({"number": party.number, "latency_ns": latency}),
        None => json!({"number": party.number}),
    }
}

fn difference(difference: &Difference) -> Value {
    let path = &difference.path;
    match &difference.change {
        Change::Changed(old, new) => json!({"path": path, "change": "changed", "old": old, "new": new}),
        Change::Removed(old) => json!({"path": path, "change": "removed", "old": old}),
        Change::Added(new) => json!({"path": path, "change": "added", "new": new}),
    }
}
