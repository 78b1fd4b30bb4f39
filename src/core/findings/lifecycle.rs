//! Rules about the handshake of the revisions up to 2025-11-25: its order, and the revision it agrees on.

pub(super) mod versions;

use super::report::Report;
use super::rule::{ANSWERS, ASKS, NOTIFICATIONS, REQUESTS, RESULTS};
use super::seen::Seen;
use super::{Check, Rule, Severity};
use crate::capture::Time;
use crate::decode::Direction;
use crate::mcp::MessageNumber;
use crate::mcp::meta;
use crate::mcp::method::Method;
use crate::mcp::revision::{Revision, Revisions};

/// The rules of this file.
pub(super) const RULES: &[&Rule] = &[
    &FIRST,
    &BEFORE_READY,
    &SERVER_BEFORE_INITIALIZED,
    &INITIALIZED_MISSING,
    &INITIALIZED_EARLY,
    &REPEATED,
    &CANCELLED,
    &VERSION_UNKNOWN,
    &VERSION_CHANGED,
];

static FIRST: Rule = Rule {
    id: "lifecycle-initialize-first",
    severity: Severity::Error,
    revisions: Revisions::LEGACY,
    layer: "lifecycle",
    title: "The first message of the client is not initialize",
    spec: "basic/lifecycle \"Initialization\": \"The initialization phase MUST be the first interaction between client and server\"",
    why: "Nothing was agreed: servers that check answer every request with an error.",
    example: "tools/call as the first line on a server's stdin",
    remedy: "Send initialize, wait for its result, send notifications/initialized, and only then anything else.",
    checks: &[Check::Any(ASKS, &[], first)],
};

/// Whether what follows may have a handshake behind it that the capture does not hold, or holds later: the header tells what was agreed on.
fn was_negotiated_before(seen: &Seen<'_, '_>) -> bool {
    !seen.history.is_whole() || seen.carried.is_some_and(|carried| carried.version.is_some())
}

fn first(seen: &Seen<'_, '_>, report: &mut Report<'_>) {
    let is_first = seen.is_from_client() && seen.history.messages[Direction::ClientToServer as usize] == 0;
    // A request that speaks for itself, and those that only the stateless revisions have, need no handshake.
    let is_modern = seen.meta().get(meta::VERSION).is_some()
        || seen.method.definition().is_some_and(|method| method.revisions.within(Revisions::MODERN));
    let may_be_first = matches!(seen.method, Method::Initialize | Method::Ping);
    if is_first && !is_modern && !may_be_first && !was_negotiated_before(seen) {
        report.say(format!("{} is the first message of the client", seen.method_name()));
    }
}

static BEFORE_READY: Rule = Rule {
    id: "lifecycle-request-before-ready",
    severity: Severity::Warning,
    revisions: Revisions::LEGACY,
    layer: "lifecycle",
    title: "The client sent a request before initialize was answered",
    spec: "basic/lifecycle \"Initialization\": \"The client SHOULD NOT send requests other than pings before the server has responded\"",
    why: "The server may not be ready, and the client does not know yet what it can do.",
    example: "initialize and tools/list in one write",
    remedy: "Wait for the result of initialize.",
    checks: &[Check::Any(ANSWERS, &[Method::Initialize], before_ready)],
};

/// Looked for when the answer comes: only then it is known that the capture would have held it before. On another connection it may be told before and
/// have been captured later.
fn before_ready(seen: &Seen<'_, '_>, report: &mut Report<'_>) {
    say_early(seen.history.handshake.early.0, seen, report);
}

/// Where clocks differ, or packets changed places, times do not say what was sent first.
fn say_early(early: Option<(MessageNumber, Time)>, seen: &Seen<'_, '_>, report: &mut Report<'_>) {
    let is_early = |time: Time| time <= seen.message.time && !seen.history.awaits_bytes;
    if let Some((early, _)) = early.filter(|(_, time)| is_early(*time)) {
        report.say_with(&[early], format!("message {} was sent before this answer", early.0));
    }
}

static SERVER_BEFORE_INITIALIZED: Rule = Rule {
    id: "lifecycle-server-request-before-initialized",
    severity: Severity::Warning,
    revisions: Revisions::LEGACY,
    layer: "lifecycle",
    title: "The server sent a request before notifications/initialized",
    spec: "basic/lifecycle \"Initialization\": \"The server SHOULD NOT send requests other than pings and logging before receiving the initialized notification\"",
    why: "The client may not be ready to answer it.",
    example: "roots/list right behind the result of initialize",
    remedy: "Wait for notifications/initialized.",
    checks: &[Check::Message(REQUESTS, &[], server_before_initialized)],
};

fn server_before_initialized(seen: &Seen<'_, '_>, report: &mut Report<'_>) {
    let handshake = &seen.history.handshake;
    // A client that went on without the notification, which is said, will not send it any more.
    let is_open = handshake.initialize.is_some() && handshake.initialized.is_none() && !handshake.went_on;
    if !seen.is_from_client() && is_open && !seen.history.may_miss() && seen.method != Method::Ping {
        report.say(format!("{} came before notifications/initialized", seen.method_name()));
    }
}

static INITIALIZED_MISSING: Rule = Rule {
    id: "lifecycle-initialized-missing",
    severity: Severity::Error,
    revisions: Revisions::LEGACY,
    layer: "lifecycle",
    title: "The client went on without sending notifications/initialized",
    spec: "basic/lifecycle \"Initialization\": \"the client MUST send an initialized notification\"",
    why: "Servers that wait for it never become ready, and never send what they would send by themselves.",
    example: "tools/list right behind the result of initialize; or the notification under LSP's name, initialized",
    remedy: "Send notifications/initialized, with the prefix, after the result of initialize.",
    checks: &[Check::Message(REQUESTS, &[], initialized_missing)],
};

/// At the first request behind the handshake only: what comes later is the same omission.
fn initialized_missing(seen: &Seen<'_, '_>, report: &mut Report<'_>) {
    let handshake = &seen.history.handshake;
    let (Some(initialize), Some(answered)) = (&handshake.initialize, handshake.answered) else { return };
    let is_due =
        seen.is_from_client() && handshake.initialized.is_none() && !handshake.went_on && !seen.history.may_miss();
    // With an id it is a request, which has a rule of its own.
    if is_due && !matches!(seen.method, Method::Ping | Method::Initialize | Method::Initialized) {
        report.say_with(
            &[initialize.number, answered],
            format!("{} came without notifications/initialized before it", seen.method_name()),
        );
    }
}

static INITIALIZED_EARLY: Rule = Rule {
    id: "lifecycle-initialized-early",
    severity: Severity::Error,
    revisions: Revisions::LEGACY,
    layer: "lifecycle",
    title: "notifications/initialized was sent before initialize succeeded",
    spec: "basic/lifecycle \"Initialization\": \"After successful initialization, the client MUST send an initialized notification\"",
    why: "The client says that it agreed to something it has not read.",
    example: "initialize and notifications/initialized in one write",
    remedy: "Wait for the result of initialize; after an error do not send it.",
    checks: &[
        Check::Any(ANSWERS, &[Method::Initialize], initialized_early),
        Check::Message(NOTIFICATIONS, &[Method::Initialized], initialized_anyway),
    ],
};

fn initialized_early(seen: &Seen<'_, '_>, report: &mut Report<'_>) {
    say_early(seen.history.handshake.early.1, seen, report);
}

fn initialized_anyway(seen: &Seen<'_, '_>, report: &mut Report<'_>) {
    let handshake = &seen.history.handshake;
    if let (Some(initialize), None, Some(refused)) = (&handshake.initialize, handshake.answered, handshake.refused) {
        report.say_with(&[initialize.number, refused], "initialize was answered with an error");
    }
}

static REPEATED: Rule = Rule {
    id: "lifecycle-initialize-repeated",
    severity: Severity::Error,
    revisions: Revisions::LEGACY,
    layer: "lifecycle",
    title: "A second initialize in a session that was initialized",
    spec: "basic/lifecycle \"Initialization\"",
    why: "Servers answer an error or forget what the first one agreed on, subscriptions too.",
    example: "initialize with the Mcp-Session-Id of a session that lives",
    remedy: "Begin a new session: a new process, or a POST without Mcp-Session-Id.",
    checks: &[Check::Message(REQUESTS, &[Method::Initialize], repeated)],
};

fn repeated(seen: &Seen<'_, '_>, report: &mut Report<'_>) {
    let handshake = &seen.history.handshake;
    if let (Some(initialize), true) = (&handshake.initialize, handshake.answered.is_some()) {
        report.say_with(&[initialize.number], format!("message {} initialized it before", initialize.number.0));
    }
}

static CANCELLED: Rule = Rule {
    id: "lifecycle-initialize-cancelled",
    severity: Severity::Error,
    revisions: Revisions::LEGACY,
    layer: "lifecycle",
    title: "The client cancelled its initialize request",
    spec: "basic/utilities/cancellation \"Behavior Requirements\": \"The initialize request MUST NOT be cancelled by clients\"",
    why: "Whether a session exists is unknown to both sides.",
    example: "notifications/cancelled with the requestId of initialize",
    remedy: "Close the connection or end the process instead.",
    checks: &[Check::Message(NOTIFICATIONS, &[Method::Cancelled], cancelled)],
};

fn cancelled(seen: &Seen<'_, '_>, report: &mut Report<'_>) {
    let Some(initialize) = &seen.history.handshake.initialize else { return };
    if seen.is_from_client() && seen.body().get("requestId") == Some(initialize.id.as_str()) {
        report.say_with(&[initialize.number], format!("the request {} is initialize", initialize.id));
    }
}

static VERSION_UNKNOWN: Rule = Rule {
    id: "lifecycle-version-unknown",
    severity: Severity::Warning,
    layer: "lifecycle",
    title: "A protocol version that was never published",
    spec: "basic/lifecycle \"Version Negotiation\"; 2026-07-28 basic/versioning",
    why: "The server answers with one of its own or refuses; nobody else speaks that version.",
    example: "\"protocolVersion\":\"2024-09\"",
    remedy: "Ask for 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25 or 2026-07-28, the newest that you implement.",
    checks: &[Check::Any(REQUESTS, &[], version_asked), Check::Any(RESULTS, &[Method::Initialize], version_given)],
    ..Rule::BLANK
};

/// Offered by the official TypeScript SDK 1.x and never published.
const PRERELEASE: &str = "2024-10-07";

fn judge_version(version: &str, report: &mut Report<'_>) {
    if version == PRERELEASE {
        report.say_as(Severity::Info, "2024-10-07 is a pre-release");
    } else if Revision::named(version).is_none() {
        report.say(format!("{version:?} is no published version"));
    }
}

fn version_asked(seen: &Seen<'_, '_>, report: &mut Report<'_>) {
    let version = match seen.method {
        Method::Initialize => seen.body().text("protocolVersion"),
        _ => seen.meta().text(meta::VERSION),
    };
    if let Some(version) = version {
        judge_version(&version, report);
    }
}

fn version_given(seen: &Seen<'_, '_>, report: &mut Report<'_>) {
    if let Some(version) = seen.body().text("protocolVersion") {
        judge_version(&version, report);
    }
}

static VERSION_CHANGED: Rule = Rule {
    id: "lifecycle-version-changed",
    severity: Severity::Info,
    revisions: Revisions::LEGACY,
    layer: "lifecycle",
    title: "The server answered with another version than the client asked for",
    spec: "basic/lifecycle \"Version Negotiation\": \"Otherwise, the server MUST respond with another protocol version it supports\"",
    why: "It is legal, and decides which rules hold: features of the newer version are not there.",
    example: "2025-11-25 asked for, 2025-06-18 given",
    remedy: "Nothing, unless you expected the newer one: then update the side that is behind.",
    checks: &[Check::Any(RESULTS, &[Method::Initialize], version_changed)],
};

fn version_changed(seen: &Seen<'_, '_>, report: &mut Report<'_>) {
    let asked = seen.history.handshake.initialize.as_ref().and_then(|initialize| initialize.version.as_deref());
    let given = seen.body().text("protocolVersion");
    if let (Some(asked), Some(given)) = (asked, given)
        && asked != given
    {
        report.say(format!("{asked} asked for, {given} given"));
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{fires, session, silent};

    const LIST: &str = r#"> {"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;

    #[test]
    fn initialize_comes_first() {
        fires("lifecycle-initialize-first", &[LIST]);
        silent("lifecycle-initialize-first", &["~", LIST]);
        silent("lifecycle-initialize-first", &session("2025-06-18", &[LIST]));
    }

    #[test]
    fn requests_wait_for_the_handshake() {
        let all = session("2025-06-18", &[LIST]);
        let [initialize, answer, initialized, list] = [0, 1, 2, 3].map(|at| all[at].as_str());
        fires("lifecycle-request-before-ready", &[initialize, list, answer, initialized]);
        fires("lifecycle-initialized-missing", &[initialize, answer, list]);
        fires("lifecycle-initialized-early", &[initialize, initialized, answer, list]);
        let roots = r#"< {"jsonrpc":"2.0","id":7,"method":"roots/list"}"#;
        fires("lifecycle-server-request-before-initialized", &[initialize, answer, roots, initialized]);
        for rule in [
            "lifecycle-request-before-ready",
            "lifecycle-initialized-missing",
            "lifecycle-initialized-early",
            "lifecycle-server-request-before-initialized",
        ] {
            silent(rule, &[initialize, answer, initialized, list, roots]);
        }
    }

    #[test]
    fn a_session_is_initialized_once() {
        let all = session("2025-06-18", &[]);
        let again = all[0].replace("\"id\":0", "\"id\":5");
        fires("lifecycle-initialize-repeated", &[&all[0], &all[1], &all[2], &again]);
        // A client may try again after an error.
        let refused = r#"< {"jsonrpc":"2.0","id":0,"error":{"code":-32602,"message":"x"}}"#.to_owned();
        silent("lifecycle-initialize-repeated", &[&all[0], &refused, &again]);
        let cancel = |id: u32| {
            format!(r#"> {{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#)
        };
        fires("lifecycle-initialize-cancelled", &[&all[0], &cancel(0)]);
        silent("lifecycle-initialize-cancelled", &session("2025-06-18", &[LIST, &cancel(1)]));
    }

    #[test]
    fn versions() {
        fires("lifecycle-version-unknown", &session("2024-09", &[]));
        assert_eq!(fires("lifecycle-version-unknown", &session("2024-10-07", &[])).severity.name(), "info");
        silent("lifecycle-version-unknown", &session("2025-03-26", &[]));
        let mut changed = session("2025-03-26", &[]);
        changed[0] = changed[0].replace("2025-03-26", "2025-11-25");
        fires("lifecycle-version-changed", &changed);
        silent("lifecycle-version-changed", &session("2025-03-26", &[]));
    }
}
