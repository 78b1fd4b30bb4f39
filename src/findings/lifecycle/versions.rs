//! Which versions the servers of a capture are known to speak.

use std::hash::{Hash, Hasher};

use rustc_hash::{FxHashMap, FxHasher};

use crate::findings::history::fingerprint;
use crate::findings::report::Report;
use crate::findings::rule::RESULTS;
use crate::findings::seen::Seen;
use crate::findings::{Check, Rule, Severity};
use crate::mcp::MessageNumber;
use crate::mcp::method::Method;
use crate::mcp::revision::{Revision, Revisions};

/// The rules of this file.
pub(in crate::findings) const RULES: &[&Rule] = &[&NOT_HONOURED];

static NOT_HONOURED: Rule = Rule {
    id: "lifecycle-version-not-honoured",
    severity: Severity::Error,
    revisions: Revisions::LEGACY,
    layer: "lifecycle",
    title: "The server gave another version than the one asked for, which it gave elsewhere",
    spec: "basic/lifecycle \"Version Negotiation\": \"If the server supports the requested protocol version, it MUST respond with the same version\"",
    why: "What works in one session is missing in the next, for no reason that the client could see.",
    example: "2025-11-25 asked for and given in one session; asked for in the next, and 2025-03-26 given",
    remedy: "Answer with the version that was asked for wherever the server speaks it, whoever asks.",
    checks: &[Check::Any(RESULTS, &[Method::Initialize], not_honoured)],
};

/// Servers that are remembered: a capture of a proxy has many; a server that calls itself something else each time would be endless.
const SERVERS: usize = 1_024;

/// What the servers of a capture gave of what they were asked for.
#[derive(Debug, Default)]
pub struct Versions {
    /// By the server's name and version in short, the host in short, and the version asked for: the first answer that gave it.
    given: FxHashMap<(u64, u64, Revision), MessageNumber>,
}

fn hash(text: &str) -> u64 {
    let mut hasher = FxHasher::default();
    text.hash(&mut hasher);
    hasher.finish()
}

/// At the later of the two answers: whoever looks at the first can know nothing yet.
fn not_honoured(seen: &Seen<'_, '_>, report: &mut Report<'_>) {
    let initialize = seen.history.handshake.initialize.as_ref();
    let asked = initialize.and_then(|initialize| Revision::named(initialize.version.as_deref()?));
    let given = seen.body().text("protocolVersion");
    let (Some(asked), Some(given)) = (asked, given) else { return };
    // The same program at the same place: behind one name there may be an old and a new one.
    let Some(server) = seen.body().get("serverInfo").and_then(fingerprint) else { return };
    let host = seen.carried.and_then(|carried| carried.host.as_deref()).unwrap_or_default();
    let key = (server, hash(host), asked);
    let mut versions = seen.versions.borrow_mut();
    if asked.name() == given {
        if versions.given.len() < SERVERS {
            versions.given.entry(key).or_insert(seen.message.number);
        }
    } else if let Some(before) = versions.given.get(&key) {
        let text = format!("{} was asked for and {given} given; message {} gave it", asked.name(), before.0);
        report.say_with(&[*before], text);
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{fires, json, post, silent};

    fn initialize(asked: &str, given: &str, server: &str) -> [String; 2] {
        let client = r#""capabilities":{},"clientInfo":{"name":"c","version":"1"}"#;
        let params = format!(r#"{{"protocolVersion":"{asked}",{client}}}"#);
        let info = format!(r#""capabilities":{{}},"serverInfo":{{"name":"{server}","version":"1"}}"#);
        let result = format!(r#"{{"protocolVersion":"{given}",{info}}}"#);
        [
            post("", &format!(r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{params}}}"#)),
            json(200, "", &format!(r#"{{"jsonrpc":"2.0","id":0,"result":{result}}}"#)),
        ]
    }

    #[test]
    fn a_version_that_is_spoken_is_given_to_all_who_ask_for_it() {
        let rule = "lifecycle-version-not-honoured";
        let [old, new] = ["2025-03-26", "2025-11-25"];
        fires(rule, &[initialize(new, new, "a"), initialize(new, old, "a")].concat());
        silent(rule, &[initialize(new, new, "a"), initialize(new, old, "b")].concat());
        silent(rule, &[initialize(old, old, "a"), initialize(new, old, "a")].concat());
        silent(rule, &[initialize(new, new, "a"), initialize(old, old, "a")].concat());
    }
}
