//! The few members of params and results that decide what belongs together.

use memchr::memmem;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::session::Party;

/// Texts beyond this are not looked into here: handshakes and cancellations are small.
const LOOKED_INTO: usize = 1 << 20;

#[derive(Deserialize)]
struct Info {
    #[serde(default)]
    name: Option<serde_json::Value>,
    #[serde(default)]
    version: Option<serde_json::Value>,
}

impl Info {
    fn party(self) -> Party {
        let text = |value: Option<serde_json::Value>| match value {
            Some(serde_json::Value::String(text)) => text,
            Some(other) => other.to_string(),
            None => String::new(),
        };
        Party { name: text(self.name), version: text(self.version) }
    }
}

/// What `initialize` asks for, or its result gives.
#[derive(Debug, Default, PartialEq)]
pub struct Handshake {
    /// `protocolVersion`.
    pub version: Option<String>,
    /// `clientInfo` of params, `serverInfo` of a result.
    pub party: Option<Party>,
}

/// Reads params or result of `initialize`, leniently.
pub fn handshake(text: &[u8]) -> Handshake {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Members {
        #[serde(default)]
        protocol_version: Option<serde_json::Value>,
        #[serde(default, alias = "serverInfo")]
        client_info: Option<Info>,
    }
    let Some(members) = read::<Members>(text) else { return Handshake::default() };
    let version = members.protocol_version.and_then(|version| version.as_str().map(str::to_owned));
    Handshake { version, party: members.client_info.map(Info::party) }
}

/// What a request of revision 2026-07-28 says of itself in `_meta` (basic/index "_meta"), or a result of its server.
pub fn modern(text: &[u8]) -> Option<Handshake> {
    #[derive(Deserialize)]
    struct Meta {
        #[serde(default, rename = "io.modelcontextprotocol/protocolVersion")]
        version: Option<String>,
        #[serde(default, rename = "io.modelcontextprotocol/clientInfo", alias = "io.modelcontextprotocol/serverInfo")]
        info: Option<Info>,
    }
    #[derive(Deserialize)]
    struct Members {
        #[serde(default, rename = "_meta")]
        meta: Option<Meta>,
    }
    memmem::find(text, b"io.modelcontextprotocol/")?;
    let meta = read::<Members>(text)?.meta?;
    (meta.version.is_some() || meta.info.is_some())
        .then(|| Handshake { version: meta.version, party: meta.info.map(Info::party) })
}

/// The `requestId` that a `notifications/cancelled` names, as JSON text.
pub fn cancelled(params: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Members<'a> {
        #[serde(borrow)]
        request_id: &'a RawValue,
    }
    Some(read::<Members<'_>>(params)?.request_id.get().to_owned())
}

fn read<'a, T: Deserialize<'a>>(text: &'a [u8]) -> Option<T> {
    if text.len() > LOOKED_INTO { None } else { serde_json::from_slice(text).ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handshake_is_read_from_either_side() {
        let party = Some(Party { name: "a".into(), version: "1".into() });
        let asked = handshake(br#"{"protocolVersion":"2025-11-25","clientInfo":{"name":"a","version":1}}"#);
        assert_eq!(asked, Handshake { version: Some("2025-11-25".into()), party: party.clone() });
        assert_eq!(handshake(br#"{"serverInfo":{"name":"a","version":"1"}}"#), Handshake { version: None, party });
        assert_eq!(handshake(b"[]"), Handshake::default());
    }

    #[test]
    fn a_modern_request_says_its_revision() {
        let text = br#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"},"name":"x"}"#;
        assert_eq!(modern(text).and_then(|modern| modern.version).as_deref(), Some("2026-07-28"));
        assert_eq!(modern(br#"{"_meta":{"progressToken":1}}"#), None);
    }

    #[test]
    fn a_cancellation_names_a_typed_id() {
        assert_eq!(cancelled(br#"{"requestId":"7","reason":"x"}"#).as_deref(), Some("\"7\""));
        assert_eq!(cancelled(br#"{"requestId":7}"#).as_deref(), Some("7"));
        assert_eq!(cancelled(b"{}"), None);
    }
}
