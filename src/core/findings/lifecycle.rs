//! Rules about the handshake (revisions up to 2025-11-25): its order, and the agreed revision.

pub(super) mod versions;

use super::{ANSWERS, ASKS, Check, MessageContext, NOTIFICATIONS, REQUESTS, RESULTS, Report, Rule, Severity};
use crate::capture::Time;
use crate::decode::Direction;
use crate::mcp::{MessageNumber, Method, Revision, Revisions, Transport, meta};

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
    title: "The first message of the client is not initialize",
    spec: "basic/lifecycle \"Initialization\": \"The initialization phase MUST be the first interaction between client and server\"",
    why: "No revision was agreed on. Servers that check this answer every request with an error.",
    example: "tools/call as the first line on a server's stdin",
    remedy: "Send initialize, wait for its result, send notifications/initialized, and only then anything else.",
    checks: &[Check::Any(ASKS, &[], first)],
};

/// Whether a handshake may have come before that was not captured, or has not arrived yet. A header
/// with the revision shows that there was one.
fn was_negotiated_before(context: &MessageContext<'_, '_>) -> bool {
    !context.history.is_whole() || context.exchange.is_some_and(|mcp| mcp.version.is_some())
}

fn first(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let is_first = context.is_from_client() && context.history.messages[Direction::ClientToServer as usize] == 0;
    // Requests that state their revision, and methods of the stateless revisions,
    // need no handshake.
    let is_modern = context.meta().get(meta::VERSION).is_some()
        || context.method.definition().is_some_and(|method| method.revisions.within(Revisions::MODERN));
    let may_be_first = matches!(context.method, Method::Initialize | Method::Ping);
    if is_first && !is_modern && !may_be_first && !was_negotiated_before(context) {
        let method = context.method_name();
        match context.history.transport {
            // The beginning of a pipe, and of a stream of HTTP+SSE, was captured.
            Transport::Stdio | Transport::HttpSse => {
                report.add(format!("{method} is the first message of the client"));
            }
            // The handshake may have used a connection that ended before the capture began.
            _ => report.add_as(
                Severity::Warning,
                format!("{method} is the first captured message of the client; an earlier one may be missing"),
            ),
        }
    }
}

static BEFORE_READY: Rule = Rule {
    id: "lifecycle-request-before-ready",
    severity: Severity::Warning,
    revisions: Revisions::LEGACY,
    title: "The client sent a request before initialize was answered",
    spec: "basic/lifecycle \"Initialization\": \"The client SHOULD NOT send requests other than pings before the server has responded\"",
    why: "The server may not be ready, and the client does not know its capabilities yet.",
    example: "initialize and tools/list in one write",
    remedy: "Wait for the result of initialize.",
    checks: &[Check::Any(ANSWERS, &[Method::Initialize], before_ready)],
};

/// Checked when the response arrives, which proves that the capture contains this time. On another
/// connection, a later request may arrive before the response.
fn before_ready(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    report_early_message(context.history.handshake.early_request, context, report);
}

/// While packets may be out of order, capture times do not show what was sent first.
fn report_early_message(
    early: Option<(MessageNumber, Time)>,
    context: &MessageContext<'_, '_>,
    report: &mut Report<'_>,
) {
    let is_early = |time: Time| time <= context.message.time && !context.history.may_lack_messages();
    if let Some((early, _)) = early.filter(|(_, time)| is_early(*time)) {
        report.add_about(&[early], format!("message {} was sent before this response", early.0));
    }
}

static SERVER_BEFORE_INITIALIZED: Rule = Rule {
    id: "lifecycle-server-request-before-initialized",
    severity: Severity::Warning,
    revisions: Revisions::LEGACY,
    title: "The server sent a request before notifications/initialized",
    spec: "basic/lifecycle \"Initialization\": \"The server SHOULD NOT send requests other than pings and logging before receiving the initialized notification\"",
    why: "The client may not be ready to answer it.",
    example: "roots/list right after the result of initialize",
    remedy: "Wait for notifications/initialized.",
    checks: &[Check::Message(REQUESTS, &[], server_before_initialized)],
};

fn server_before_initialized(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let handshake = &context.history.handshake;
    // A client that continued without the notification will not send it any more. That has
    // its own rule.
    let is_open = handshake.initialize.is_some() && handshake.initialized.is_none() && !handshake.client_continued;
    if !context.is_from_client() && is_open && !context.history.may_lack_messages() && context.method != Method::Ping {
        report.add(format!("{} came before notifications/initialized", context.method_name()));
    }
}

static INITIALIZED_MISSING: Rule = Rule {
    id: "lifecycle-initialized-missing",
    severity: Severity::Error,
    revisions: Revisions::LEGACY,
    title: "The client continued without sending notifications/initialized",
    spec: "basic/lifecycle \"Initialization\": \"the client MUST send an initialized notification\"",
    why: "Servers that wait for it never become ready, and never send their own requests and notifications.",
    example: "tools/list right after the result of initialize; or initialized, the name of this notification in LSP",
    remedy: "Send notifications/initialized, with the prefix, after the result of initialize.",
    checks: &[Check::Message(REQUESTS, &[], initialized_missing)],
};

/// Reported only at the first request after the handshake. Later requests show the same omission.
fn initialized_missing(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let handshake = &context.history.handshake;
    let (Some(initialize), Some(answered)) = (&handshake.initialize, handshake.answered) else { return };
    let is_due = context.is_from_client()
        && handshake.initialized.is_none()
        && !handshake.client_continued
        && !context.history.may_lack_messages();
    // With an id it is a request, which has its own rule.
    if is_due && !matches!(context.method, Method::Ping | Method::Initialize | Method::Initialized) {
        let text = format!("{} came without notifications/initialized before it", context.method_name());
        report.add_about(&[initialize.number, answered], text);
    }
}

static INITIALIZED_EARLY: Rule = Rule {
    id: "lifecycle-initialized-early",
    severity: Severity::Error,
    revisions: Revisions::LEGACY,
    title: "notifications/initialized was sent before initialize succeeded",
    spec: "basic/lifecycle \"Initialization\": \"After successful initialization, the client MUST send an initialized notification\"",
    why: "The client confirms an agreement that it has not read.",
    example: "initialize and notifications/initialized in one write",
    remedy: "Wait for the result of initialize. After an error, do not send it.",
    checks: &[
        Check::Any(ANSWERS, &[Method::Initialize], initialized_early),
        Check::Message(NOTIFICATIONS, &[Method::Initialized], initialized_anyway),
    ],
};

fn initialized_early(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    report_early_message(context.history.handshake.early_initialized, context, report);
}

fn initialized_anyway(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let handshake = &context.history.handshake;
    if let (Some(initialize), None, Some(refused)) = (&handshake.initialize, handshake.answered, handshake.refused) {
        report.add_about(&[initialize.number, refused], "initialize was answered with an error");
    }
}

static REPEATED: Rule = Rule {
    id: "lifecycle-initialize-repeated",
    severity: Severity::Error,
    revisions: Revisions::LEGACY,
    title: "A second initialize in a session that is already initialized",
    spec: "basic/lifecycle \"Initialization\"",
    why: "Servers answer with an error, or forget what the first handshake agreed on, including subscriptions.",
    example: "initialize with the Mcp-Session-Id of an open session",
    remedy: "Begin a new session: a new process, or a POST without Mcp-Session-Id.",
    checks: &[Check::Message(REQUESTS, &[Method::Initialize], repeated)],
};

fn repeated(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let handshake = &context.history.handshake;
    if let (Some(initialize), true) = (&handshake.initialize, handshake.answered.is_some()) {
        let text = format!("message {} already initialized the session", initialize.number.0);
        report.add_about(&[initialize.number], text);
    }
}

static CANCELLED: Rule = Rule {
    id: "lifecycle-initialize-cancelled",
    severity: Severity::Error,
    revisions: Revisions::LEGACY,
    title: "The client cancelled its initialize request",
    spec: "basic/utilities/cancellation \"Behavior Requirements\": \"The initialize request MUST NOT be cancelled by clients\"",
    why: "Neither side knows whether a session exists.",
    example: "notifications/cancelled with the requestId of initialize",
    remedy: "Close the connection or end the process instead.",
    checks: &[Check::Message(NOTIFICATIONS, &[Method::Cancelled], cancelled)],
};

fn cancelled(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let Some(initialize) = &context.history.handshake.initialize else { return };
    if context.is_from_client() && context.body().get("requestId") == Some(initialize.id.as_str()) {
        report.add_about(&[initialize.number], format!("the request {} is initialize", initialize.id));
    }
}

static VERSION_UNKNOWN: Rule = Rule {
    id: "lifecycle-version-unknown",
    severity: Severity::Warning,
    title: "A protocol version that was never published",
    spec: "basic/lifecycle \"Version Negotiation\"; 2026-07-28 basic/versioning",
    why: "The server answers with one of its own versions, or refuses. Nobody else supports this version.",
    example: "\"protocolVersion\":\"2024-09\"",
    remedy: "Request the newest version that you implement: 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25 or 2026-07-28.",
    checks: &[Check::Any(REQUESTS, &[], requested_version), Check::Any(RESULTS, &[Method::Initialize], agreed_version)],
    ..Rule::BLANK
};

/// A version that the official TypeScript SDK 1.x offers, but that was never published.
const PRERELEASE: &str = "2024-10-07";

fn check_version(version: &str, report: &mut Report<'_>) {
    if version == PRERELEASE {
        report.add_as(Severity::Info, "2024-10-07 is a pre-release");
    } else if Revision::named(version).is_none() {
        report.add(format!("{version:?} is not a published version"));
    }
}

fn requested_version(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let version = match context.method {
        Method::Initialize => context.body().text("protocolVersion"),
        _ => context.meta().text(meta::VERSION),
    };
    if let Some(version) = version {
        check_version(&version, report);
    }
}

fn agreed_version(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    if let Some(version) = context.body().text("protocolVersion") {
        check_version(&version, report);
    }
}

static VERSION_CHANGED: Rule = Rule {
    id: "lifecycle-version-changed",
    severity: Severity::Info,
    revisions: Revisions::LEGACY,
    title: "The server answered with a version other than the requested one",
    spec: "basic/lifecycle \"Version Negotiation\": \"Otherwise, the server MUST respond with another protocol version it supports\"",
    why: "This is legal and decides which rules apply: features of the newer version are not available.",
    example: "2025-11-25 was requested, and 2025-06-18 agreed on",
    remedy: "Nothing, unless you expected the newer version. Then update the side that is behind.",
    checks: &[Check::Any(RESULTS, &[Method::Initialize], version_changed)],
};

fn version_changed(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let requested = context.history.handshake.initialize.as_ref().and_then(|initialize| initialize.version.as_deref());
    let given = context.body().text("protocolVersion");
    if let (Some(requested), Some(given)) = (requested, given)
        && requested != given
    {
        report.add(format!("{requested} was requested, {given} was agreed on"));
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
        let reborrow = all[0].replace("\"id\":0", "\"id\":5");
        fires("lifecycle-initialize-repeated", &[&all[0], &all[1], &all[2], &reborrow]);
        // A client may try again after an error.
        let refused = r#"< {"jsonrpc":"2.0","id":0,"error":{"code":-32602,"message":"x"}}"#.to_owned();
        silent("lifecycle-initialize-repeated", &[&all[0], &refused, &reborrow]);
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
