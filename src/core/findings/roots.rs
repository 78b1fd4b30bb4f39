//! Rules about roots (client/roots).

use super::{Check, MessageContext, RESULTS, Report, Rule, Severity};
use crate::decode::json::{Object, array};
use crate::mcp::Method;

pub(super) const RULES: &[&Rule] = &[&URI_SCHEME];

/// Limit of checked roots. A person opens a few in an editor.
const CHECKED: usize = 1_024;

static URI_SCHEME: Rule = Rule {
    id: "roots-uri-scheme",
    severity: Severity::Error,
    title: "A root whose URI is not a file:// URI",
    spec: "client/roots \"Root\": \"uri: Unique identifier for the root. This MUST be a file:// URI in the current specification\"",
    why: "Servers refuse the root or read it as another kind of path, so it limits nothing.",
    example: "\"roots\":[{\"uri\":\"/home/user/project\"}]",
    remedy: "Send file:///home/user/project, with percent-encoding if needed.",
    checks: &[Check::Message(RESULTS, &[Method::RootsList], uri_scheme)],
    ..Rule::BLANK
};

fn uri_scheme(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    for root in array(context.body().get("roots").unwrap_or_default(), CHECKED) {
        let Some(uri) = Object::read(root).text("uri").map(|uri| uri.into_owned()) else { continue };
        // RFC 3986 section 3.1: schemes are case-insensitive.
        let is_file = uri.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case("file://"));
        if !is_file {
            return report.add(format!("the root {:?} is not a file:// URI", &uri[..uri.floor_char_boundary(80)]));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{fires, session, silent};

    #[test]
    fn roots_are_files() {
        let listed = |uri: &str| {
            let answer = format!(r#"> {{"jsonrpc":"2.0","id":1,"result":{{"roots":[{{"uri":"{uri}"}}]}}}}"#);
            session("2025-06-18", &[r#"< {"jsonrpc":"2.0","id":1,"method":"roots/list"}"#, &answer])
        };
        fires("roots-uri-scheme", &listed("/home/user"));
        fires("roots-uri-scheme", &listed("https://example.org"));
        silent("roots-uri-scheme", &listed("file:///home/user"));
        silent("roots-uri-scheme", &listed("FILE:///C:/x"));
    }
}
