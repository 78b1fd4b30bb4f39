//! Translates messages between the two eras of the protocol.
//!
//! Up to 2025-11-25, a session begins with a handshake that contains the client's name and
//! capabilities. From 2026-07-28 on there is neither a handshake nor a session. Every request
//! contains the same data in `_meta` (basic/index "_meta").

use std::fmt;

use serde_json::Value;

use super::edit::{with_member, without_members};
use crate::compare::{Label, Rule};
use crate::decode::json::{member, string};
use crate::mcp::meta;

/// The first revision without a handshake.
pub const MODERN: &str = "2026-07-28";
/// The last revision with a handshake.
pub const LEGACY: &str = "2025-11-25";

/// Methods whose results contain a lifetime from 2026-07-28 on (server/utilities/caching).
const CACHED: [&str; 6] =
    ["server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read"];

/// An era of the protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Era {
    /// Sessions begin with `initialize`.
    #[default]
    Legacy,
    /// There are no sessions. Each request contains the data of the client.
    Modern,
}

impl Era {
    /// The era of a revision. Revisions are dates, so they can be compared as text.
    pub fn of(revision: &str) -> Era {
        if revision >= MODERN { Era::Modern } else { Era::Legacy }
    }
}

impl fmt::Display for Era {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Era::Legacy => "up to 2025-11-25",
            Era::Modern => "from 2026-07-28 on",
        })
    }
}

/// The data of a client about itself, as JSON texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientIdentity {
    /// The member `clientInfo`.
    pub info: String,
    /// The member `capabilities`.
    pub capabilities: String,
}

impl Default for ClientIdentity {
    fn default() -> ClientIdentity {
        let version = env!("CARGO_PKG_VERSION");
        ClientIdentity { info: format!(r#"{{"name":"mcptap","version":"{version}"}}"#), capabilities: "{}".to_owned() }
    }
}

impl ClientIdentity {
    /// Reads them from the parameters of `initialize`, or of any request of the newer era.
    pub fn of(params: &str) -> Option<ClientIdentity> {
        let meta = member(params, "_meta");
        let info = member(params, "clientInfo").or_else(|| member(meta?, meta::CLIENT));
        let capabilities = member(params, "capabilities").or_else(|| member(meta?, meta::CAPABILITIES));
        let default = ClientIdentity::default();
        (info.is_some() || capabilities.is_some()).then(|| ClientIdentity {
            info: info.map_or(default.info, str::to_owned),
            capabilities: capabilities.map_or(default.capabilities, str::to_owned),
        })
    }

    /// The parameters of `initialize`.
    pub fn initialize(&self, revision: &str) -> String {
        let revision = Value::from(revision);
        let ClientIdentity { info, capabilities } = self;
        format!(r#"{{"protocolVersion":{revision},"capabilities":{capabilities},"clientInfo":{info}}}"#)
    }
}

/// Translates the client's messages for the new server.
#[derive(Clone, Debug, Default)]
pub struct Dialect {
    /// The recorded revision.
    recorded: String,
    /// The revision of the new server.
    pub revision: String,
    /// The data of the client.
    pub client: ClientIdentity,
    /// The level of the last `logging/setLevel`, as JSON text.
    log_level: Option<String>,
}

/// The translation of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Translated {
    /// The message is sent with these parameters, if any.
    Send(Option<String>),
    /// The message is not sent, because other messages contain the same information. The
    /// text explains it.
    Implied(&'static str),
    /// The message is not sent, because the other era has nothing like it. The text explains it.
    Impossible(&'static str),
}

impl Dialect {
    /// A translation from the recorded revision to that of the new server.
    pub fn new(recorded: &str, revision: &str, client: ClientIdentity) -> Dialect {
        Dialect { recorded: recorded.to_owned(), revision: revision.to_owned(), client, log_level: None }
    }

    /// The era of the new server.
    pub fn era(&self) -> Era {
        Era::of(&self.revision)
    }

    /// Whether the recording is of the newer era and the server of the older one.
    pub fn leads_to_legacy(&self) -> bool {
        (Era::of(&self.recorded), self.era()) == (Era::Modern, Era::Legacy)
    }

    /// Translates one message of the client.
    pub fn translate(&mut self, label: &Label, is_request: bool, params: Option<&str>) -> Translated {
        match (Era::of(&self.recorded), self.era()) {
            (Era::Legacy, Era::Legacy) => Translated::Send(params.map(str::to_owned)),
            (Era::Modern, Era::Modern) => Translated::Send(params.map(|params| self.in_revision(params))),
            (Era::Legacy, Era::Modern) => self.translate_to_modern(&label.method, is_request, params.unwrap_or("{}")),
            (Era::Modern, Era::Legacy) => translate_to_legacy(&label.method, params),
        }
    }

    fn translate_to_modern(&mut self, method: &str, is_request: bool, params: &str) -> Translated {
        match method {
            "initialize" | "notifications/initialized" => {
                Translated::Implied("2026-07-28 has no handshake: every request contains its data")
            }
            "logging/setLevel" => {
                self.log_level = member(params, "level").map(str::to_owned);
                Translated::Implied("2026-07-28 has no logging/setLevel: every request names the level")
            }
            "ping" => Translated::Impossible("2026-07-28 has no ping"),
            "resources/subscribe" | "resources/unsubscribe" => {
                Translated::Impossible("2026-07-28 uses subscriptions/listen instead")
            }
            "tasks/get" | "tasks/result" | "tasks/list" | "tasks/cancel" => {
                Translated::Impossible("tasks of 2025-11-25 are incompatible with the 2026 extension")
            }
            "notifications/roots/list_changed" => {
                Translated::Impossible("2026-07-28 has no notification of changed roots")
            }
            "notifications/progress" => Translated::Impossible("in 2026-07-28 only servers report progress"),
            _ if is_request => Translated::Send(Some(self.with_meta(params))),
            _ => Translated::Send(Some(params.to_owned())),
        }
    }

    /// The parameters with the revision of the new server, if they name the recorded one. All other
    /// data stays as recorded, since it can differ between requests.
    fn in_revision(&self, params: &str) -> String {
        let meta = member(params, "_meta").unwrap_or_default();
        let named = member(meta, meta::VERSION).and_then(string);
        if self.recorded == self.revision || named.is_none_or(|named| named != self.recorded) {
            return params.to_owned();
        }
        let revision = Value::from(self.revision.as_str()).to_string();
        with_member(params, "_meta", &with_member(meta, meta::VERSION, &revision))
    }

    /// The parameters with the data that every request of the newer era contains: the revision, and
    /// the name and capabilities of the client (basic/index "_meta").
    pub fn with_meta(&self, params: &str) -> String {
        let mut meta = member(params, "_meta").unwrap_or("{}").to_owned();
        let revision = Value::from(self.revision.as_str()).to_string();
        for (name, value) in [(meta::CAPABILITIES, &self.client.capabilities), (meta::CLIENT, &self.client.info)] {
            if member(&meta, name).is_none() {
                meta = with_member(&meta, name, value);
            }
        }
        meta = with_member(&meta, meta::VERSION, &revision);
        if let Some(level) = &self.log_level {
            meta = with_member(&meta, meta::LOG_LEVEL, level);
        }
        with_member(params, "_meta", &meta)
    }
}

fn translate_to_legacy(method: &str, params: Option<&str>) -> Translated {
    match method {
        "server/discover" => Translated::Implied("initialize already returns what server/discover asks for"),
        "subscriptions/listen" => Translated::Impossible("up to 2025-11-25 there is no subscriptions/listen"),
        "tasks/get" | "tasks/update" | "tasks/cancel" => {
            Translated::Impossible("tasks of the 2026 extension are incompatible with 2025-11-25")
        }
        _ if params.is_some_and(|params| member(params, "inputResponses").is_some()) => Translated::Impossible(
            "up to 2025-11-25 the server sends its own request for input, and the call that this one continues was not recorded",
        ),
        _ => {
            let Some(params) = params else { return Translated::Send(None) };
            let Some(meta) = member(params, "_meta") else { return Translated::Send(Some(params.to_owned())) };
            let meta = without_members(meta, &|name| name.starts_with(meta::PREFIX));
            Translated::Send(Some(match meta.as_str() {
                "{}" => without_members(params, &|name| name == "_meta"),
                meta => with_member(params, "_meta", meta),
            }))
        }
    }
}

/// A result of the older era in the form of the newer one. `None` if it is a task.
pub fn modern_result(method: &str, result: &str) -> Option<String> {
    if member(result, "task").is_some() && member(result, "content").is_none() {
        return None;
    }
    let mut result = with_member(result, "resultType", r#""complete""#);
    if CACHED.contains(&method) {
        // The recording contains no lifetime, so the result expires at once and only this client
        // may cache it.
        result = with_member(&result, "cacheScope", r#""private""#);
        result = with_member(&result, "ttlMs", "0");
    }
    Some(result)
}

/// A result of the newer era in the form of the older one. `None` if it is a task.
pub fn legacy_result(result: &str) -> Option<String> {
    let is_task = member(result, "resultType").and_then(string).is_some_and(|kind| kind == "task");
    let is_new = |name: &str| matches!(name, "resultType" | "ttlMs" | "cacheScope");
    (!is_task).then(|| without_members(result, &is_new))
}

/// The result of `initialize` as a result of `server/discover`. Capabilities that need a
/// subscription are left out.
pub fn discovered(initialized: &str) -> Option<String> {
    let Ok(Value::Object(mut initialized_members)) = serde_json::from_str(initialized) else { return None };
    let mut capabilities = initialized_members.remove("capabilities")?;
    for capability in capabilities.as_object_mut()?.values_mut().filter_map(Value::as_object_mut) {
        capability.retain(|name, _| !matches!(&**name, "subscribe" | "listChanged"));
    }
    capabilities.as_object_mut()?.remove("tasks");
    let mut result = serde_json::json!({"supportedVersions": [MODERN], "capabilities": capabilities});
    if let Some(instructions) = initialized_members.remove("instructions") {
        result["instructions"] = instructions;
    }
    if let Some(server) = initialized_members.remove("serverInfo") {
        result["_meta"] = serde_json::json!({meta::SERVER: server});
    }
    modern_result("server/discover", &result.to_string())
}

/// Rules for members of results that only one era has. They differ because the eras differ.
pub fn set_aside(from: Era, to: Era) -> Vec<Rule> {
    if from == to {
        return Vec::new();
    }
    // The whole `_meta` is ignored. Otherwise an empty object would remain if it contained only the
    // server's name.
    let paths = ["/resultType", "/ttlMs", "/cacheScope", "/_meta"];
    paths.into_iter().filter_map(|path| path.parse().ok()).collect()
}

/// Header fields for a request over Streamable HTTP, besides those of every POST (2026-07-28
/// basic/transports/streamable-http).
pub fn headers(revision: Option<&str>, method: &str, params: Option<&str>) -> Vec<(String, String)> {
    let mut fields = Vec::new();
    let Some(revision) = revision else { return fields };
    // 2025-06-18 basic/transports: "the client MUST include the MCP-Protocol-Version:
    // <protocol-version> HTTP header on all subsequent requests"
    if revision >= "2025-06-18" {
        fields.push(("MCP-Protocol-Version".to_owned(), revision.to_owned()));
    }
    if Era::of(revision) == Era::Modern {
        fields.push(("Mcp-Method".to_owned(), method.to_owned()));
        let name = match method {
            "tools/call" | "prompts/get" => "name",
            "resources/read" => "uri",
            _ if method.starts_with("tasks/") => "taskId",
            _ => return fields,
        };
        if let Some(value) = params.and_then(|params| string(member(params, name)?)) {
            fields.push(("Mcp-Name".to_owned(), field_value(&value)));
        }
    }
    fields
}

/// The fields `Mcp-Param-{Name}` that a tool's `x-mcp-header` asks for, with the values
/// of the arguments.
pub fn parameter_headers(schema: &Value, arguments: &Value) -> Vec<(String, String)> {
    let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    let field = |(name, property): (&String, &Value)| {
        let header = property.get("x-mcp-header")?.as_str()?;
        let value = match arguments.get(name)? {
            Value::String(text) => text.clone(),
            value @ (Value::Bool(_) | Value::Number(_)) => value.to_string(),
            _ => return None,
        };
        Some((format!("Mcp-Param-{header}"), field_value(&value)))
    };
    properties.filter_map(field).collect()
}

/// The value of a header field. Text that a field cannot contain is encoded as "=?base64?…?=".
fn field_value(text: &str) -> String {
    use base64::Engine;
    let plain =
        text.bytes().all(|byte| matches!(byte, b' '..=b'~')) && text.trim() == text && !text.starts_with("=?base64?");
    if plain {
        text.to_owned()
    } else {
        format!("=?base64?{}?=", base64::engine::general_purpose::STANDARD.encode(text))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn label(method: &str) -> Label {
        Label { method: method.into(), subject: None }
    }

    #[test]
    fn a_request_of_the_older_era_gets_the_clients_data() {
        let client = ClientIdentity::of(r#"{"clientInfo":{"name":"x"},"capabilities":{"roots":{}}}"#).unwrap();
        let mut dialect = Dialect::new(LEGACY, MODERN, client);
        assert!(matches!(dialect.translate(&label("initialize"), true, None), Translated::Implied(_)));
        assert!(matches!(dialect.translate(&label("ping"), true, None), Translated::Impossible(_)));
        let level = dialect.translate(&label("logging/setLevel"), true, Some(r#"{"level":"debug"}"#));
        assert!(matches!(level, Translated::Implied(_)));
        let sent = dialect.translate(&label("tools/call"), true, Some(r#"{"name":"a","_meta":{"progressToken":1}}"#));
        let Translated::Send(Some(params)) = sent else { panic!("sent") };
        let meta = json!({"progressToken": 1, meta::VERSION: MODERN, meta::CLIENT: {"name": "x"},
            meta::CAPABILITIES: {"roots": {}}, meta::LOG_LEVEL: "debug"});
        assert_eq!(serde_json::from_str::<Value>(&params).unwrap(), json!({"name": "a", "_meta": meta}));
    }

    #[test]
    fn a_request_of_the_newer_era_loses_the_clients_data() {
        let mut dialect = Dialect::new(MODERN, LEGACY, ClientIdentity::default());
        let params = format!(r#"{{"name":"a","_meta":{{"{}":"2026-07-28","x":1}}}}"#, meta::VERSION);
        let sent = dialect.translate(&label("tools/call"), true, Some(&params));
        assert_eq!(sent, Translated::Send(Some(r#"{"name":"a","_meta":{"x":1}}"#.into())));
        let again = dialect.translate(&label("tools/call"), true, Some(r#"{"inputResponses":{}}"#));
        assert!(matches!(again, Translated::Impossible(_)));
    }

    #[test]
    fn data_in_a_request_stays_as_recorded() {
        let request = |revision: &str, more: &str| {
            format!(r#"{{"name":"a","_meta":{{"{}":"{revision}","{}":{more}}}}}"#, meta::VERSION, meta::CAPABILITIES)
        };
        let client = || ClientIdentity::of(r#"{"capabilities":{"roots":{}}}"#).unwrap();
        let mut same = Dialect::new(MODERN, MODERN, client());
        let mut next = Dialect::new(MODERN, "2027-01-01", client());
        for (recorded, spoken) in [
            (request(MODERN, r#"{"sampling":{}}"#), request("2027-01-01", r#"{"sampling":{}}"#)),
            // A request that caused an error must cause one again.
            (request("v999", "{}"), request("v999", "{}")),
            (r#"{"name":"a"}"#.to_owned(), r#"{"name":"a"}"#.to_owned()),
        ] {
            let sent = same.translate(&label("tools/call"), true, Some(&recorded));
            assert_eq!(sent, Translated::Send(Some(recorded.clone())));
            assert_eq!(next.translate(&label("tools/call"), true, Some(&recorded)), Translated::Send(Some(spoken)));
        }
        assert_eq!(same.translate(&label("server/discover"), true, None), Translated::Send(None));
    }

    #[test]
    fn results_get_the_members_of_the_other_era() {
        let modern = modern_result("tools/list", r#"{"tools":[]}"#).unwrap();
        let wanted = json!({"tools": [], "resultType": "complete", "ttlMs": 0, "cacheScope": "private"});
        assert_eq!(serde_json::from_str::<Value>(&modern).unwrap(), wanted);
        assert_eq!(legacy_result(&modern).as_deref(), Some(r#"{"tools":[]}"#));
        assert_eq!(
            modern_result("tools/call", r#"{"content":[]}"#).unwrap(),
            r#"{"resultType":"complete","content":[]}"#
        );
        assert_eq!(modern_result("tools/call", r#"{"task":{"taskId":"1"}}"#), None);
        assert_eq!(legacy_result(r#"{"resultType":"task","taskId":"1"}"#), None);
        let initialized_members = r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true},"tasks":{}},"serverInfo":{"name":"x"}}"#;
        let discovered: Value = serde_json::from_str(&discovered(initialized_members).unwrap()).unwrap();
        assert_eq!(
            (&discovered["capabilities"], &discovered["supportedVersions"]),
            (&json!({"tools": {}}), &json!([MODERN]))
        );
        assert_eq!(discovered["_meta"][meta::SERVER], json!({"name": "x"}));
    }

    #[test]
    fn header_fields_follow_the_revision() {
        let fields = |revision| headers(Some(revision), "tools/call", Some(r#"{"name":"größe"}"#));
        assert!(fields("2025-03-26").is_empty());
        assert_eq!(fields("2025-06-18"), [("MCP-Protocol-Version".into(), "2025-06-18".into())]);
        let names: Vec<_> =
            fields(MODERN).into_iter().skip(1).map(|(name, value)| format!("{name}: {value}")).collect();
        assert_eq!(names, ["Mcp-Method: tools/call", "Mcp-Name: =?base64?Z3LDtsOfZQ==?="]);
        let schema = json!({"properties": {"region": {"x-mcp-header": "Region"}, "n": {}}});
        let found = parameter_headers(&schema, &json!({"region": "eu", "n": 1}));
        assert_eq!(found, [("Mcp-Param-Region".to_owned(), "eu".to_owned())]);
    }
}
