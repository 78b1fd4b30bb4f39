//! The rule about servers that do not agree to a version which they support.

use crate::findings::history::{content_hash, fingerprint};
use crate::findings::server_versions::{REFUSED, RefusedVersion, SERVERS};
use crate::findings::{Check, MessageContext, RESULTS, Report, Rule, Severity};
use crate::mcp::{MessageNumber, Method, Revision, Revisions};

pub(in crate::findings) const RULES: &[&Rule] = &[&NOT_HONOURED];

static NOT_HONOURED: Rule = Rule {
    id: "lifecycle-version-not-honoured",
    severity: Severity::Error,
    revisions: Revisions::LEGACY,
    title: "The server refused a version to which it agreed in another session",
    spec: "basic/lifecycle \"Version Negotiation\": \"If the server supports the requested protocol version, it MUST respond with the same version\"",
    why: "Features of one session are missing in the next, for no reason that the client could see.",
    example: "one session requests 2025-11-25 and gets it; the next requests it and gets 2025-03-26",
    remedy: "Agree to every requested version that the server supports.",
    checks: &[Check::Any(RESULTS, &[Method::Initialize], not_honoured)],
};

/// The finding is about the response with the other version, whichever response came first.
fn not_honoured(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let initialize = context.history.handshake.initialize.as_ref();
    let requested = initialize.and_then(|initialize| Revision::named(initialize.version.as_deref()?));
    let given = context.body().text("protocolVersion");
    let (Some(requested), Some(given)) = (requested, given) else { return };
    // The same program at the same host. One host name may have an old and a new program.
    let Some(server) = context.body().get("serverInfo").and_then(fingerprint) else { return };
    let host = context.exchange.and_then(|mcp| mcp.host.as_deref()).unwrap_or_default();
    let key = (server, content_hash(host), requested);
    let (message, versions) = (context.message, &mut *context.versions.borrow_mut());
    let text = |given: &str, by: MessageNumber| {
        format!(
            "{} was requested and {given} agreed on; message {} agreed to the requested version",
            requested.name(),
            by.0
        )
    };
    if requested.name() == given {
        if versions.agreed.len() < SERVERS {
            versions.agreed.entry(key).or_insert(message.number);
        }
        for before in versions.refused.remove(&key).unwrap_or_default() {
            let mut there = Report {
                session: Some(before.session),
                messages: &[before.answer],
                packets: &before.packets,
                span: Some(before.span),
                ..report.reborrow()
            };
            there.add(text(&before.given, message.number));
        }
    } else if let Some(by) = versions.agreed.get(&key) {
        report.add_about(&[*by], text(&given, *by));
    } else if versions.refused.contains_key(&key) || versions.refused.len() < SERVERS {
        let refused = versions.refused.entry(key).or_default();
        if refused.len() < REFUSED {
            let (session, answer, span) = (message.session, message.number, message.span);
            let (packets, given) = (message.packets.clone(), given.chars().take(40).collect());
            refused.push(RefusedVersion { session, answer, packets, span, given });
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{findings, fires, json, post, silent};
    use crate::mcp::{MessageNumber, SessionNumber};

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
    fn servers_agree_to_supported_versions() {
        let rule = "lifecycle-version-not-honoured";
        let [old, new] = ["2025-03-26", "2025-11-25"];
        let found = fires(rule, &[initialize(new, new, "a"), initialize(new, old, "a")].concat());
        assert_eq!((found.session, found.messages), (Some(SessionNumber(2)), vec![MessageNumber(2), MessageNumber(4)]));
        // A later response shows that the version is supported. The finding is about
        // the earlier one.
        let later = [initialize(new, old, "a"), initialize(new, new, "a"), initialize(new, new, "a")].concat();
        let found = fires(rule, &later);
        assert_eq!((found.session, found.messages), (Some(SessionNumber(1)), vec![MessageNumber(2)]));
        assert_eq!(
            found.text,
            "2025-11-25 was requested and 2025-03-26 agreed on; message 4 agreed to the requested version"
        );
        assert_eq!(findings(&later).iter().filter(|finding| finding.rule.id == rule).count(), 1);
        silent(rule, &[initialize(new, new, "a"), initialize(new, old, "b")].concat());
        silent(rule, &[initialize(old, old, "a"), initialize(new, old, "a")].concat());
        silent(rule, &[initialize(new, new, "a"), initialize(old, old, "a")].concat());
    }
}
