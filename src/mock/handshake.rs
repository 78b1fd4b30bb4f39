//! How a client is received where the recording does not say it.

use serde_json::{Value, json};

use super::script::Script;
use crate::compare::Answer;
use crate::decode::json::{member, string};
use crate::mcp::revision::{Revision, Revisions};
use crate::replay::translate::LEGACY;

/// The result for a request that every server has to answer, where the recording has none: `ping`, and `initialize` of a recording that began
/// later or had no need of it.
pub fn result(script: &Script, method: &str, params: Option<&str>) -> Option<Value> {
    match method {
        "ping" => Some(json!({})),
        "initialize" => Some(initialize(script, params.unwrap_or("{}"))),
        _ => None,
    }
}

/// What `initialize` would have been answered: of a server without handshake what `server/discover` says, and otherwise what was used.
fn initialize(script: &Script, params: &str) -> Value {
    let discover = script.turns.iter().filter(|turn| turn.label.method == "server/discover");
    let discovered =
        discover.flat_map(|turn| &turn.lines).find_map(|line| match Answer::of(script.message(line.message)) {
            Answer::Result(result) if result.get("capabilities").is_some() => Some(result),
            _ => None,
        });
    let session = &script.recording.session;
    let server = session.server.clone().map_or_else(
        || json!({"name": "mcptap mock", "version": env!("CARGO_PKG_VERSION")}),
        |server| json!({"name": server.name, "version": server.version}),
    );
    let families = [
        ("tools", "tools/"),
        ("resources", "resources/"),
        ("prompts", "prompts/"),
        ("logging", "logging/"),
        ("completions", "completion/"),
    ];
    let is_used = |prefix: &str| script.turns.iter().any(|turn| turn.label.method.starts_with(prefix));
    let used: Value = families
        .iter()
        .filter(|(_, prefix)| is_used(prefix))
        .map(|(name, _)| ((*name).to_owned(), json!({})))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let mut result = json!({
        "protocolVersion": revision(script, params),
        "capabilities": discovered.as_ref().map_or(used, |discovered| discovered["capabilities"].clone()),
        "serverInfo": server,
    });
    if let Some(instructions) = discovered.as_ref().and_then(|discovered| discovered.get("instructions")) {
        result["instructions"] = instructions.clone();
    }
    result
}

/// "If the server supports the requested protocol version, it MUST respond with the same version. Otherwise, the server MUST respond with another
/// protocol version it supports" (basic/lifecycle, "Version Negotiation"). What is known to be supported is what was recorded; where nothing is
/// known of a handshake, any revision that has one.
fn revision(script: &Script, params: &str) -> String {
    let with_handshake = |name: &str| Revision::named(name).is_some_and(|known| Revisions::LEGACY.contains(known));
    let recorded = script.recording.session.protocol_version.clone().filter(|recorded| with_handshake(recorded));
    let requested = member(params, "protocolVersion").and_then(string).filter(|requested| with_handshake(requested));
    recorded.or_else(|| requested.map(|requested| requested.into_owned())).unwrap_or_else(|| LEGACY.to_owned())
}
