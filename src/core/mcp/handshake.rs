//! The revision and the name by which a peer introduces itself.

use super::meta;
use super::session::Party;
use crate::decode::json::{Object, string};

/// The revision and the name that one message gives of its sender.
#[derive(Debug, Default, PartialEq)]
pub struct Handshake {
    /// `protocolVersion`, where it is a string.
    pub version: Option<String>,
    /// `clientInfo` or `serverInfo`, where it is an object.
    pub party: Option<Party>,
}

impl Handshake {
    /// Reads the params or the result of `initialize` (basic/lifecycle "Initialization").
    pub fn of_initialize(members: &Object<'_>) -> Handshake {
        let info = members.get("clientInfo").or(members.get("serverInfo"));
        Handshake { version: members.text("protocolVersion").map(Into::into), party: info.and_then(party) }
    }

    /// Reads `_meta` of any request or result of 2026-07-28 (basic/index "_meta").
    pub fn of_meta(members: &Object<'_>) -> Handshake {
        if !members.json().contains(meta::PREFIX) {
            return Handshake::default();
        }
        let meta = members.object("_meta");
        let info = meta.get(meta::CLIENT).or(meta.get(meta::SERVER));
        Handshake { version: meta.text(meta::VERSION).map(Into::into), party: info.and_then(party) }
    }
}

/// Reads a name and a version. A value that is not a string is given as JSON text.
fn party(info: &str) -> Option<Party> {
    let info = Some(Object::read(info)).filter(|_| info.starts_with('{'))?;
    let text = |name| match info.get(name) {
        None | Some("null") => String::new(),
        Some(value) => string(value).map_or_else(|| value.to_owned(), Into::into),
    };
    Some(Party { name: text("name"), version: text("version") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handshake_is_read_from_either_side() {
        let of = |text| Handshake::of_initialize(&Object::read(text));
        let party = Some(Party { name: "a".into(), version: "1".into() });
        let request = of(r#"{"protocolVersion":"2025-11-25","clientInfo":{"name":"a","version":1}}"#);
        assert_eq!(request, Handshake { version: Some("2025-11-25".into()), party: party.clone() });
        assert_eq!(of(r#"{"serverInfo":{"name":"a","version":"1"}}"#), Handshake { version: None, party });
        assert_eq!(of("[]"), Handshake::default());
    }

    #[test]
    fn meta_of_a_request_without_a_handshake_names_its_revision() {
        let of = |text| Handshake::of_meta(&Object::read(text));
        let text = r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"},"name":"x"}"#;
        assert_eq!(of(text).version.as_deref(), Some("2026-07-28"));
        assert_eq!(of(r#"{"_meta":{"progressToken":1}}"#), Handshake::default());
    }
}
