//! JSON lines: one object a line. `type` comes first, then the other members in the order of
//! `docs/cli.md`. Members without a value are left out.
//!
//! Every character that could move a terminal's cursor or reverse its text is escaped. So a line is
//! safe to look at, and a parser reads the same text. Messages are most of the output, so lines are
//! written straight into a buffer that the caller reuses.

mod summary;

#[cfg(test)]
mod tests;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::capture::{Time, above_tls};
use crate::decode::exchange::Exchange;
use crate::export::json::{Object, write_string};
use crate::findings::{Finding, Rule, Severity};
use crate::mcp::capability::Declarer;
use crate::mcp::note::{NoteKind, WaitEnd};
use crate::mcp::{Message, MessageNumber, Note, Party, Peers, Session, SessionNumber, Transport};
use crate::store::{FindingRow, ListedSession};
use crate::view::expectations::Judgement;
use crate::view::explain::{Cause, Explanation};
use crate::view::layers::Layer;
use crate::view::overview::Overview;
use crate::view::steps::Step;
use crate::view::times::Times;
use crate::view::timing::{Medians, Timing};

pub use summary::{Summary, write_summary};

/// Writes the `message` line of a message.
pub fn write_message(out: &mut Vec<u8>, message: &Message) {
    write_call(out, message, None);
}

/// Writes the `message` line of a message, with the timing of its call. Timings need a store.
pub fn write_call(out: &mut Vec<u8>, message: &Message, timing: Option<&Timing>) {
    // Quotes and backslashes make a message about a sixth longer. Reserving room for them avoids
    // moving the line while it grows.
    out.reserve(message.raw.len() + message.raw.len() / 4 + 512);
    let mut line = Object::line(out, "message");
    line.number("session", message.session.0);
    line.number("number", message.number.0);
    line.time("time", message.time);
    line.word("transport", message.transport.name());
    line.word("direction", message.direction.name());
    line.word("kind", message.kind.name());
    line.maybe(&message.id, |line, id| line.json("id", id));
    line.maybe(&message.method, |line, method| line.text("method", method));
    match message.raw.text() {
        Some(raw) => line.text("raw", raw),
        None => line.word("raw_base64", &STANDARD.encode(&*message.raw)),
    }
    if let Some((number, index)) = message.batch {
        line.object("batch", |batch| {
            batch.number("number", number);
            batch.number("index", index);
        });
    }
    line.maybe(&message.operation, |line, first| {
        line.object("operation", |operation| {
            operation.number("first", first.0);
            operation.maybe(&message.link, |operation, link| {
                operation.number("continues", link.previous.0);
                operation.word("why", link.why.name());
                if link.why.is_likely() {
                    operation.truth("likely", true);
                }
            });
        });
    });
    line.maybe(&message.answers, |line, number| line.number("answers", number.0));
    line.maybe(&message.answered_by, |line, number| line.number("answered_by", number.0));
    line.maybe(&message.latency, |line, nanoseconds| line.signed("latency_ns", *nanoseconds));
    if let Some(timing) = timing {
        line.object("timing", |object| write_timing(object, timing));
    }
    // The packets of a pipe are chunks that the wrapper read. Their numbers are of no
    // use to anybody.
    if message.transport != Transport::Stdio {
        line.numbers("packets", message.packets.iter().map(|packet| packet.0));
    }
    line.word("carrier", message.carrier.name());
    line.maybe(&message.exchange, |line, number| line.number("exchange", number.0));
    line.maybe(&message.sse_id, |line, id| line.text("sse_id", id));
    line.maybe(&message.line, |line, number| line.number("line", *number));
    if message.redelivered {
        line.truth("redelivered", true);
    }
    if !message.findings.is_empty() {
        line.array("findings", &message.findings, |out, rule| write_string(out, rule));
    }
    line.end_line();
}

fn write_timing(object: &mut Object<'_>, timing: &Timing) {
    object.maybe(&timing.upload, |object, time| object.signed("upload_ns", *time));
    object.maybe(&timing.network, |object, (time, _)| object.signed("network_ns", *time));
    object.signed("server_ns", timing.server);
    object.signed("stream_ns", timing.stream);
}

/// Writes the `overview` line of a session.
pub fn write_overview(out: &mut Vec<u8>, session: SessionNumber, overview: &Overview, times: &Times) {
    let mut line = Object::line(out, "overview");
    line.number("session", session.0);
    line.maybe(&overview.requested_revision, |line, (version, _)| line.text("revision_asked", version));
    line.maybe(&overview.selected_revision, |line, (version, _)| line.text("revision_given", version));
    line.maybe(&overview.instructions, |line, (text, _)| line.text("instructions", text));
    for (name, side) in [("client_capabilities", Declarer::Client), ("server_capabilities", Declarer::Server)] {
        line.objects(name, overview.capabilities(side), |object, usage| {
            object.word("capability", usage.capability.path());
            object.maybe(&usage.declared, |object, number| object.number("declared", number.0));
            object.number("used", usage.used.map_or(0, |(times, _)| times));
        });
    }
    line.array("extensions", overview.negotiated(), write_string);
    line.objects("lists", &overview.lists, |object, (name, listed)| {
        object.word("list", name);
        object.number("items", listed.items);
        object.number("bytes", listed.bytes);
        object.number("tokens", listed.tokens());
        object.number("message", listed.message.0);
    });
    line.objects("calls", &times.calls, |object, call| {
        object.text("call", &call.name);
        object.number("timed", call.timed);
        object.signed("latency_ns", call.latency);
        let Medians { upload, network, server, stream } = call.parts;
        for (name, time) in
            [("upload_ns", upload), ("network_ns", network), ("server_ns", server), ("stream_ns", stream)]
        {
            object.maybe(&time, |object, time| object.signed(name, *time));
        }
    });
    line.objects("timeline", &overview.timeline, |object, (time, what, number)| {
        object.time("time", *time);
        object.text("what", what);
        object.number("message", number.0);
    });
    line.text("end", &overview.end);
    line.end_line();
}

/// Writes the `explanation` line of a session. `masked` hides secrets in a text, and `next` is the
/// command that shows a cause.
pub fn write_explanation(
    out: &mut Vec<u8>,
    session: SessionNumber,
    explanation: &Explanation,
    masked: &dyn Fn(&str) -> String,
    next: &dyn Fn(&Cause) -> String,
) {
    let mut line = Object::line(out, "explanation");
    line.number("session", session.0);
    line.objects("causes", &explanation.causes, |object, cause| {
        object.word("symptom", cause.symptom.name());
        object.text("sentence", &masked(&cause.sentence));
        object.objects("evidence", &cause.evidence, |object, evidence| {
            object.text("place", &evidence.place);
            object.maybe(&evidence.time, |object, time| object.time("time", *time));
            object.text("text", &masked(&evidence.text));
        });
        object.array("next", &[masked(&cause.advice), next(cause)], |out, text| write_string(out, text));
        object.maybe(&cause.message, |object, message| object.number("message", message.0));
    });
    line.array("also", &explanation.also, |out, text| write_string(out, &masked(text)));
    line.array("checked", &explanation.checked, |out, text| write_string(out, text));
    line.end_line();
}

/// Writes the `exchange` line of an HTTP exchange. Only a store gives its session.
pub fn write_exchange(out: &mut Vec<u8>, exchange: &Exchange, session: Option<SessionNumber>) {
    let Exchange { request, response, .. } = exchange;
    let mut line = Object::line(out, "exchange");
    line.number("number", exchange.number.0);
    line.maybe(&session, |line, session| line.number("session", session.0));
    line.number("connection", exchange.connection.0);
    line.maybe(&exchange.h2_stream, |line, stream| line.number("h2_stream", *stream));
    line.maybe(&exchange.method, |line, method| line.text("method", method));
    line.maybe(&exchange.target, |line, target| line.text("target", target));
    line.text("http_version", exchange.http_version);
    line.maybe(&exchange.status, |line, status| line.number("status", *status));
    line.array("request_headers", request.fields.iter(), write_field);
    line.array("response_headers", response.fields.iter(), write_field);
    line.number("request_body_bytes", request.body_bytes);
    line.number("response_body_bytes", response.body_bytes);
    line.numbers("request_packets", request.packets.iter().map(|packet| packet.0));
    line.numbers("response_packets", response.packets.iter().map(|packet| packet.0));
    for (started, ended, half) in
        [("request_started", "request_ended", request), ("response_started", "response_ended", response)]
    {
        line.maybe(&half.started, |line, time| line.time(started, *time));
        line.maybe(&half.ended, |line, time| line.time(ended, *time));
    }
    line.truth("complete", request.complete && response.complete);
    line.maybe(&request.body_sha256, |line, hash| line.hexadecimal("request_body_sha256", hash));
    line.maybe(&response.body_sha256, |line, hash| line.hexadecimal("response_body_sha256", hash));
    line.end_line();
}

fn write_field(out: &mut Vec<u8>, (name, value): (&str, &str)) {
    out.push(b'[');
    write_string(out, name);
    out.push(b',');
    write_string(out, value);
    out.push(b']');
}

/// Writes the `session` line of a session that has ended.
pub fn write_session(out: &mut Vec<u8>, session: &Session) {
    session_line(out, session, false, None);
}

/// Writes the `session` line of a stored session. While it lives, requests without a response are
/// `open` and not `unanswered`.
pub fn write_stored_session(out: &mut Vec<u8>, listed: &ListedSession, now: Time) {
    session_line(out, &listed.session, listed.is_live(now), listed.capture.info.replay_of);
}

fn session_line(out: &mut Vec<u8>, session: &Session, is_live: bool, replay_of: Option<SessionNumber>) {
    let mut line = Object::line(out, "session");
    line.number("number", session.number.0);
    line.word("transport", session.transport.name());
    line.maybe(&session.protocol_version, |line, version| line.text("protocol_version", version));
    line.maybe(&session.session_id, |line, id| line.text("session_id", id));
    line.maybe(&session.client, |line, client| line.object("client", |object| write_party(object, client)));
    line.maybe(&session.server, |line, server| line.object("server", |object| write_party(object, server)));
    line.object("peers", |object| write_peers(object, session));
    line.maybe(&session.name, |line, name| line.text("name", name));
    line.maybe(&replay_of, |line, number| line.number("replay_of", number.0));
    line.time("started", session.started);
    line.time("ended", session.ended);
    line.number("messages", session.messages);
    line.number("requests", session.outcomes.requests());
    line.number("responses", session.responses);
    line.number("notifications", session.notifications);
    line.number("ok", session.outcomes.ok);
    line.number("tool_errors", session.outcomes.tool_errors);
    line.number("errors", session.outcomes.errors);
    line.number("cancelled", session.outcomes.cancelled);
    line.number(if is_live { "open" } else { "unanswered" }, session.outcomes.unanswered);
    line.number("server_requests", session.server_requests);
    line.number("invalid", session.invalid);
    line.float("completeness", rounded_share(session.completeness()));
    line.maybe(&session.exit, |line, exit| {
        line.object("exit", |object| {
            object.maybe(&exit.code, |object, code| object.signed("code", *code));
            object.maybe(&exit.signal, |object, signal| object.signed("signal", *signal));
        });
    });
    line.end_line();
}

fn write_party(object: &mut Object<'_>, party: &Party) {
    object.text("name", &party.name);
    object.text("version", &party.version);
}

fn write_peers(object: &mut Object<'_>, session: &Session) {
    match &session.peers {
        Peers::Network { client, server, host } => {
            object.display("client", client);
            object.display("server", server);
            object.maybe(host, |object, host| object.text("host", host));
            object.maybe(&above_tls::process(&[*client, *server]), |object, process| {
                object.number("above_tls", *process)
            });
        }
        Peers::Process { process, command } => {
            object.array("command", command, |out, argument| write_string(out, argument));
            object.number("pid", *process);
            // Earlier versions had the name only here.
            object.maybe(&session.name, |object, name| object.text("name", name));
        }
    }
}

/// A share from 0 to 1 with six digits. It is 1 only where nothing at all is missing.
fn rounded_share(share: f64) -> f64 {
    let rounded = (share.clamp(0.0, 1.0) * 1e6).round() / 1e6;
    if share < 1.0 { rounded.min(0.999_999) } else { rounded }
}

/// Writes the line of a note: `stderr`, `ended`, `refused`, `redirected`, `unanswered`
/// or `connection`.
pub fn write_note(out: &mut Vec<u8>, note: &Note) {
    let name = match note.kind {
        NoteKind::Stderr { .. } => "stderr",
        NoteKind::Ended { .. } => "ended",
        NoteKind::Refused(_) => "refused",
        NoteKind::Redirected(_) => "redirected",
        NoteKind::Unanswered { .. } => "unanswered",
        NoteKind::Connection { .. } => "connection",
    };
    let mut line = Object::line(out, name);
    line.maybe(&note.session, |line, session| line.number("session", session.0));
    line.time("time", note.time);
    let numbers = |line: &mut Object<'_>, name, messages: &[MessageNumber]| {
        line.numbers(name, messages.iter().map(|message| message.0));
    };
    match &note.kind {
        NoteKind::Stderr { line: number, text } => {
            line.number("line", *number);
            line.text("text", text);
        }
        NoteKind::Ended { exit, pending } => {
            line.maybe(&exit.code, |line, code| line.signed("status", *code));
            line.maybe(&exit.signal, |line, signal| line.signed("signal", *signal));
            numbers(&mut line, "pending", pending);
        }
        NoteKind::Refused(http) | NoteKind::Redirected(http) => {
            line.number("exchange", http.exchange.0);
            line.text("method", &http.method);
            line.text("target", &http.target);
            line.number("status", http.status);
            line.text("reason", &http.reason);
            line.text(if matches!(note.kind, NoteKind::Refused(_)) { "text" } else { "location" }, &http.detail);
            numbers(&mut line, "answers", &http.requests);
        }
        NoteKind::Unanswered { request, waited, end, is_certain } => {
            line.number("request", request.0);
            line.signed("waited_ns", *waited);
            line.word("end", end.name());
            line.truth("certain", *is_certain);
            if let WaitEnd::Cancelled(message) = end {
                line.number("cancelled_by", message.0);
            }
        }
        NoteKind::Connection { from, to, failure } => {
            line.display("from", from);
            line.display("to", to);
            line.word("what", failure.name());
        }
    }
    if !note.packets.is_empty() && !matches!(note.kind, NoteKind::Stderr { .. }) {
        line.numbers("packets", note.packets.iter().map(|packet| packet.0));
    }
    line.end_line();
}

/// Writes the `finding` line of a finding.
pub fn write_finding(out: &mut Vec<u8>, finding: &Finding) {
    write_finding_of(out, finding.rule.id, finding.severity, finding.rule.spec, finding);
}

/// Writes the `finding` line of a stored finding with the severity that a project gives it. This
/// program need not know its rule.
pub fn write_finding_row(out: &mut Vec<u8>, row: &FindingRow, severity: Severity) {
    let finding = Finding {
        session: row.session,
        messages: row.messages.clone(),
        packets: row.packets.clone(),
        text: row.text.clone(),
        repeated: row.repeated,
        ..Finding::of(&Rule::BLANK)
    };
    write_finding_of(out, &row.rule, severity, &row.spec, &finding);
}

/// Writes the `expectation` line of a judged expectation.
pub fn write_judgement(out: &mut Vec<u8>, judgement: &Judgement) {
    let mut line = Object::line(out, "expectation");
    line.text("expectation", &judgement.expectation);
    line.truth("holds", judgement.holds);
    line.text("text", &judgement.sentence);
    if !judgement.breaches.is_empty() {
        line.objects("breaches", &judgement.breaches, |object, breach| {
            object.number("session", breach.session.0);
            object.number("message", breach.message.0);
            if !breach.packets.is_empty() {
                object.numbers("packets", breach.packets.iter().map(|packet| packet.0));
            }
            object.text("text", &breach.text);
        });
    }
    if judgement.more > 0 {
        line.number("more", judgement.more);
    }
    line.end_line();
}

fn write_finding_of(out: &mut Vec<u8>, rule: &str, severity: Severity, spec: &str, finding: &Finding) {
    let mut line = Object::line(out, "finding");
    line.text("rule", rule);
    line.word("severity", severity.name());
    line.maybe(&finding.session, |line, session| line.number("session", session.0));
    if !finding.messages.is_empty() {
        line.numbers("messages", finding.messages.iter().map(|message| message.0));
    }
    if !finding.packets.is_empty() {
        line.numbers("packets", finding.packets.iter().map(|packet| packet.0));
    }
    if finding.repeated > 0 {
        line.number("repeated", finding.repeated);
    }
    line.text("text", &finding.text);
    line.text("spec", spec);
    line.end_line();
}

/// Writes the `step` line of a row of the step table.
pub fn write_step(out: &mut Vec<u8>, step: &Step) {
    let mut line = Object::line(out, "step");
    line.number("step", step.number as u64);
    line.number("session", step.session.0);
    line.word("layer", step.layer);
    line.text("from", &step.from);
    line.text("to", &step.to);
    line.maybe(&step.port, |line, port| line.number("port", *port));
    line.numbers("packets", step.packets.iter().map(|packet| packet.0));
    line.text("detail", &step.detail);
    line.maybe(&step.role, |line, role| line.word("role", role));
    line.numbers("messages", step.messages.iter().map(|message| message.0));
    line.end_line();
}

/// Writes the `layer` line of a layer of a message.
pub fn write_layer(out: &mut Vec<u8>, layer: &Layer) {
    let mut line = Object::line(out, "layer");
    line.word("layer", layer.layer);
    line.text("protocol", &layer.protocol);
    line.object("fields", |fields| {
        for field in &layer.fields {
            fields.entry(&field.name, |out| write_string(out, &field.value));
        }
    });
    line.maybe(&layer.stream, |line, stream| line.number("stream", stream.0));
    line.maybe(&layer.range, |line, (start, _)| line.number("start", *start));
    line.maybe(&layer.range, |line, (_, end)| line.number("end", *end));
    line.numbers("packets", layer.packets.iter().map(|packet| packet.0));
    line.end_line();
}
