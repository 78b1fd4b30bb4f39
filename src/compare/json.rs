//! A comparison as one JSON object.
//!
//! `same`, `old`, `new`, `counts` (`{outcome: count}`), `requests`, `volatile` (rules as `--ignore` takes them), `slower` (`{number, old_ns, new_ns}`), `unasked`
//! (`{method, before, now}`), `notes`. A request: `method`, `subject`, `outcome`, `why`, `old` and `new` (`{number, latency_ns}`),
//! `differences` (`{path, change, old, new}`; `change` is `changed`, `removed`, `added`). Members without a value are left out.

use serde_json::{Map, Value, json};

use super::difference::{Change, Difference};
use super::report::{Pair, Party, Report};

/// The report as JSON.
pub fn report(report: &Report) -> Value {
    let counts: Map<String, Value> =
        report.counts().into_iter().map(|(outcome, count)| (outcome.name().to_owned(), count.into())).collect();
    let unasked = |(method, before, now): &(String, u64, u64)| json!({"method": method, "before": before, "now": now});
    json!({
        "same": report.is_same(),
        "old": report.old,
        "new": report.new,
        "counts": counts,
        "requests": report.pairs.iter().map(pair).collect::<Vec<_>>(),
        "volatile": report.volatile.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "slower": report.slower().map(slower).collect::<Vec<_>>(),
        "unasked": report.unasked.iter().map(unasked).collect::<Vec<_>>(),
        "notes": report.notes,
    })
}

fn slower((pair, old, new): (&Pair, i64, i64)) -> Value {
    json!({"number": pair.old.map(|old| old.number), "old_ns": old, "new_ns": new})
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
