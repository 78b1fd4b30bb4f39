//! Responses that every server must be able to give, for recordings that do not contain them.

use serde_json::{Value, json};

use super::script::Script;
use crate::compare::Answer;
use crate::decode::json::{member, string};
use crate::mcp::revision::{Revision, Revisions};
use crate::replay::translate::LEGACY;

/// The result for `ping` and `initialize`. Used when the recording has no such request, because it
/// began later or its era has no handshake.
pub fn result(script: &Script, method: &str, params: Option<&str>) -> Option<Value> {
    match method {
        "ping" => Some(json!({})),
        "initialize" => Some(initialize(script, params.unwrap_or("{}"))),
        _ => None,
    }
}

/// A result for `initialize`. It comes from the recorded `server/discover` if there is one.
/// Otherwise the capabilities are those that the recorded client used.
fn initialize(script: &Script, params: &str) -> Value {
    let discover = script.turns.iter().filter(|turn| turn.label.method == "server/discover");
    let discovered = discover.flat_map(|turn| &turn.server_messages).find_map(|scripted| {
        match Answer::of(script.message(scripted.message)) {
            Answer::Result(result) if result.get("capabilities").is_some() => Some(result),
            _ => None,
        }
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

/// The revision for `initialize`. "If the server supports the requested protocol version, it MUST
/// respond with the same version. Otherwise, the server MUST respond with another protocol version
/// it supports" (basic/lifecycle, "Version Negotiation").
///
/// The recorded revision is the only one that is surely supported. Without a recorded handshake,
/// any revision that has one is accepted.
fn revision(script: &Script, params: &str) -> String {
    let with_handshake = |name: &str| Revision::named(name).is_some_and(|known| Revisions::LEGACY.contains(known));
    let recorded = script.recording.session.protocol_version.clone().filter(|recorded| with_handshake(recorded));
    let requested = member(params, "protocolVersion").and_then(string).filter(|requested| with_handshake(requested));
    recorded.or_else(|| requested.map(|requested| requested.into_owned())).unwrap_or_else(|| LEGACY.to_owned())
}
