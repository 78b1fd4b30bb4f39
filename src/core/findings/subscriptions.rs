//! Rules about streams of notifications (2026-07-28 basic/patterns/subscriptions).

use super::history::{Filter, Subscription};
use super::mcp_exchange::is_success;
use super::{Check, History, McpExchange, MessageContext, NOTIFICATIONS, RESULTS, Report, Rule, Severity};
use crate::decode::{Exchange, Kind};
use crate::mcp::{Method, Revisions, Transport, meta};

pub(super) const RULES: &[&Rule] = &[&ACK_FIRST, &ID, &TYPE_UNREQUESTED, &REQUEST_SCOPED, &CLOSED_ABRUPTLY];

const LISTEN: Method = Method::SubscriptionsListen;

/// The notifications of a subscription.
const ON_SUBSCRIPTIONS: [Method; 6] = [
    Method::ToolsListChanged,
    Method::PromptsListChanged,
    Method::ResourcesListChanged,
    Method::ResourcesUpdated,
    Method::TasksNotification,
    Method::SubscriptionsAcknowledged,
];

/// The subscription of a message. Over HTTP the response of the subscription carries the message.
/// On a pipe the message contains the subscription's id.
fn stream<'s>(context: &MessageContext<'s, '_>) -> Option<&'s Subscription> {
    let subscriptions = &context.history.subscriptions;
    match context.exchange {
        Some(mcp) => subscriptions.opened_by(mcp.request()?.number),
        None => subscriptions.stream(context.meta().get(meta::SUBSCRIPTION)?),
    }
}

static ACK_FIRST: Rule = Rule {
    id: "subscription-ack-first",
    severity: Severity::Error,
    revisions: Revisions::MODERN,
    title: "The first message of a subscription is not its acknowledgement",
    spec: "2026-07-28 basic/patterns/subscriptions \"Acknowledgment\"",
    why: "The client does not know which notifications will follow, and may drop the earlier ones.",
    example: "notifications/tools/list_changed as the first event of the stream",
    remedy: "Send notifications/subscriptions/acknowledged before anything else.",
    checks: &[
        Check::Message(NOTIFICATIONS, &[], ack_first),
        Check::Message(RESULTS, &[Method::SubscriptionsListen], ended_unacknowledged),
    ],
};

fn ack_first(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let is_other = context.method != Method::SubscriptionsAcknowledged && !context.is_from_client();
    let is_other = is_other && !context.history.may_lack_messages();
    if let Some(stream) = stream(context).filter(|stream| is_other && stream.acknowledged.is_none()) {
        let text = format!("{} came before the acknowledgement of {}", context.method_name(), stream.id);
        report.add_about(&[stream.number], text);
    }
}

fn ended_unacknowledged(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let stream = context.request.and_then(|request| context.history.subscriptions.opened_by(request.number));
    if let Some(stream) = stream.filter(|stream| stream.acknowledged.is_none() && !context.history.has_gaps) {
        report.add_about(&[stream.number], format!("the subscription {} ended without an acknowledgement", stream.id));
    }
}

static ID: Rule = Rule {
    id: "subscription-id",
    severity: Severity::Error,
    revisions: Revisions::MODERN,
    title: "A notification does not name its subscription, or names one that does not exist",
    spec: "2026-07-28 basic/index \"_meta\"; basic/patterns/subscriptions \"Receiving Notifications\"",
    why: "The client cannot tell which subscription it belongs to, and drops it.",
    example: "\"io.modelcontextprotocol/subscriptionId\":\"1\" when the request had the id 1",
    remedy: "Repeat the id of the subscriptions/listen request, with its JSON type.",
    checks: &[Check::Message(NOTIFICATIONS, &ON_SUBSCRIPTIONS, id)],
};

fn id(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    if context.is_from_client() {
        return;
    }
    // A server that refused the first request of this era may be an older one, which
    // needs no subscription.
    if context.exchange.is_none()
        && !context.history.stateless.server_supports_it
        && context.history.subscriptions.is_empty()
    {
        return;
    }
    let Some(id) = context.meta().get(meta::SUBSCRIPTION) else {
        return report.add(format!("{} has no {}", context.method_name(), meta::SUBSCRIPTION));
    };
    let subscriptions = &context.history.subscriptions;
    let is_all = context.history.is_whole() && !subscriptions.is_truncated;
    match stream(context) {
        Some(stream) if stream.id != id => {
            report.add_about(&[stream.number], format!("the id is {id}, but the request has the id {}", stream.id));
        }
        Some(_) => {}
        None if context.exchange.is_some_and(|mcp| mcp.request().is_some_and(|it| it.method != LISTEN)) => {
            report.add(format!("{} came on the response of another request", context.method_name()));
        }
        None if context.exchange.is_none() && is_all => report.add(format!("no subscription has the id {id}")),
        None => {}
    }
}

static TYPE_UNREQUESTED: Rule = Rule {
    id: "subscription-type-unrequested",
    severity: Severity::Error,
    revisions: Revisions::MODERN,
    title: "The server sent a notification that the subscription did not request",
    spec: "2026-07-28 basic/patterns/subscriptions \"Opening a Stream\"",
    why: "The client did not request it, and may not be allowed to see it.",
    example: "notifications/prompts/list_changed for a filter {\"toolsListChanged\":true}",
    remedy: "Send to each subscription only what its filter names.",
    checks: &[Check::Message(NOTIFICATIONS, &ON_SUBSCRIPTIONS, type_unrequested)],
};

fn type_unrequested(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let Some(stream) = stream(context).filter(|_| !context.is_from_client()) else { return };
    let filter = &stream.filter;
    let switch = match context.method {
        Method::ToolsListChanged => Some(Filter::TYPES[0]),
        Method::PromptsListChanged => Some(Filter::TYPES[1]),
        Method::ResourcesListChanged => Some(Filter::TYPES[2]),
        _ => None,
    };
    let unrequested = match context.method {
        Method::ResourcesUpdated => {
            let uri = context.body().text("uri").unwrap_or_default();
            (!filter.has_resource(&uri)).then(|| uri.into_owned())
        }
        Method::SubscriptionsAcknowledged => {
            let granted = Filter::read(context.body().get("notifications").unwrap_or_default());
            let kind = granted.types.iter().find(|name| !filter.types.contains(name)).map(|name| (*name).to_owned());
            kind.or_else(|| granted.resources.into_iter().find(|uri| !filter.has_resource(uri)))
        }
        _ => switch.filter(|name| !filter.types.contains(name)).map(str::to_owned),
    };
    if let Some(unrequested) = unrequested {
        report.add_about(&[stream.number], format!("the subscription {} does not request {unrequested}", stream.id));
    }
}

static REQUEST_SCOPED: Rule = Rule {
    id: "subscription-request-scoped",
    severity: Severity::Error,
    revisions: Revisions::MODERN,
    title: "Progress or a log message was sent on a subscription",
    spec: "2026-07-28 server/utilities/logging; basic/transports/streamable-http \"Receiving Messages\"",
    why: "It belongs to a request. The part of the client that waits for that request does not see it.",
    example: "notifications/message on the stream of subscriptions/listen",
    remedy: "Send it on the response of its request.",
    checks: &[Check::Message(NOTIFICATIONS, &[Method::Progress, Method::LogMessage], request_scoped)],
};

fn request_scoped(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    if let Some(stream) = stream(context).filter(|_| !context.is_from_client()) {
        report.add_about(&[stream.number], format!("{} came on the subscription {}", context.method_name(), stream.id));
    }
}

static CLOSED_ABRUPTLY: Rule = Rule {
    id: "subscription-closed-abruptly",
    severity: Severity::Info,
    revisions: Revisions::MODERN,
    title: "The server ended a subscription without a result",
    spec: "2026-07-28 basic/patterns/subscriptions \"Graceful Closure\" (SHOULD)",
    why: "The client cannot distinguish this from a broken connection, and subscribes again.",
    example: "the stream of subscriptions/listen ends without a result",
    remedy: "Send the result of subscriptions/listen before the stream ends.",
    checks: &[Check::Exchange(closed_abruptly)],
};

fn closed_abruptly(exchange: &Exchange, mcp: &McpExchange, history: &History, report: &mut Report<'_>) {
    let Some(request) = mcp.request().filter(|request| request.method == Method::SubscriptionsListen) else {
        return;
    };
    // According to basic/patterns/cancellation the server sends notifications/cancelled here.
    // Either is accepted.
    let cancelled = |passed: &&super::mcp_exchange::ExchangeMessage| {
        passed.method == Method::Cancelled && passed.kind == Kind::Notification
    };
    let is_announced = mcp.received.iter().any(|passed| cancelled(&passed)) || mcp.is_truncated();
    let is_open = history.requests.get(request.number).is_some();
    let is_stream = history.transport == Transport::StreamableHttp && is_success(exchange);
    // An incomplete response was closed by the client, or bytes were lost.
    if is_open && is_stream && !is_announced && exchange.response.complete && !history.has_gaps {
        report.add("the stream ended without a result");
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{fires, modern, post, silent};

    fn listen(id: &str) -> String {
        let params = modern(r#""notifications":{"toolsListChanged":true,"resourceSubscriptions":["file:///a"]}"#);
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"subscriptions/listen","params":{params}}}"#)
    }

    fn notification(method: &str, id: &str, more: &str) -> String {
        let meta = format!(r#""_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}"#);
        format!(r#"{{"jsonrpc":"2.0","method":"notifications/{method}","params":{{{meta}{more}}}}}"#)
    }

    fn acknowledged(id: &str, filter: &str) -> String {
        notification("subscriptions/acknowledged", id, &format!(r#","notifications":{filter}"#))
    }

    fn on_pipe(messages: &[String]) -> Vec<String> {
        let request = format!("> {}", listen("1"));
        std::iter::once(request).chain(messages.iter().map(|message| format!("< {message}"))).collect()
    }

    const GRANTED: &str = r#"{"toolsListChanged":true}"#;

    #[test]
    fn subscriptions_on_a_pipe() {
        let ack = acknowledged("1", GRANTED);
        let changed = notification("tools/list_changed", "1", "");
        let updated = notification("resources/updated", "1", r#","uri":"file:///a/b""#);
        let good = on_pipe(&[ack.clone(), changed.clone(), updated]);
        for rule in super::RULES {
            silent(rule.id, &good);
        }
        fires("subscription-ack-first", &on_pipe(std::slice::from_ref(&changed)));
        fires("subscription-id", &on_pipe(&[ack.clone(), notification("tools/list_changed", "\"1\"", "")]));
        let bare = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#.to_owned();
        fires("subscription-id", &on_pipe(&[ack.clone(), bare]));
        let rule = "subscription-type-unrequested";
        fires(rule, &on_pipe(&[ack.clone(), notification("prompts/list_changed", "1", "")]));
        fires(rule, &on_pipe(&[ack.clone(), notification("resources/updated", "1", r#","uri":"file:///b""#)]));
        fires(rule, &on_pipe(&[acknowledged("1", r#"{"promptsListChanged":true}"#)]));
        let log = notification("message", "1", r#","level":"info","data":1"#);
        fires("subscription-request-scoped", &on_pipe(&[ack, log]));
    }

    #[test]
    fn subscriptions_over_http() {
        let stream = |events: &[String]| {
            let headers = "MCP-Protocol-Version: 2026-07-28\nMcp-Method: subscriptions/listen\n";
            let events: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
            [post(headers, &listen("1")), format!("< 200\nContent-Type: text/event-stream\n\n{events}")]
        };
        let ack = acknowledged("1", GRANTED);
        let done = r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":1}}}"#;
        fires("subscription-closed-abruptly", &stream(std::slice::from_ref(&ack)));
        let good = stream(&[ack.clone(), notification("tools/list_changed", "1", ""), done.to_owned()]);
        for rule in super::RULES {
            silent(rule.id, &good);
        }
        fires("subscription-id", &stream(&[ack, notification("tools/list_changed", "2", "")]));
        fires("subscription-ack-first", &stream(&[done.to_owned()]));
    }
}
