//! Facts to causes, the most likely one first.
//!
//! The order is that of the events: text between the messages and the server's end come before
//! their effects, such as requests without an answer.

use super::facts::{Facts, Named, StderrLine, Wait};
use super::{Cause, Evidence, Symptom};
use crate::capture::Time;
use crate::mcp::MessageNumber;
use crate::mcp::note::{Failure, HttpNote, WaitEnd};
use crate::store::FindingRow;
use crate::view::notes;
use crate::view::units::{count, duration};

/// Places of a cause that are shown, so that it fits on a screen.
const PLACES: usize = 3;

/// Nanoseconds after which a call counts as slow: the user notices that an assistant stands still.
const SLOW: i64 = 10_000_000_000;

/// Rules about text on the pipes that is no message.
const NOISE: [&str; 4] =
    ["stdio-stdout-not-mcp", "stdio-embedded-newline", "stdio-framing-noise", "stdio-stdin-not-mcp"];

/// The causes that the facts support.
pub(super) fn causes(facts: &Facts, symptom: Option<Symptom>) -> Vec<Cause> {
    let asked = |wanted| symptom == Some(wanted);
    let crash = crash(facts);
    let noise = noise(facts);
    // A server that names its error ended because of it. Otherwise the noise may be the reason.
    let (first, second) = if failure_line(facts).is_some() { (crash, noise) } else { (noise, crash) };
    let mut causes = vec![first, second];
    causes.push(wrong_scheme(facts));
    causes.push(refused(facts));
    causes.push(redirected(facts));
    causes.push(broken_connection(facts));
    causes.push(undeclared(facts));
    causes.push(unanswered(facts));
    let failed = failed(facts, &causes);
    causes.push(failed);
    causes.push(unread_page(facts));
    causes.push(refused_tool(facts, asked(Symptom::NeverCalled)));
    causes.push(slow(facts, asked(Symptom::Slow)));
    if asked(Symptom::NeverCalled) && !causes.iter().flatten().any(|cause| cause.symptom == Symptom::NeverCalled) {
        causes.push(never_called(facts));
    }
    causes.into_iter().flatten().collect()
}

/// Text on stdout or stdin that is no message.
fn noise(facts: &Facts) -> Option<Cause> {
    let findings: Vec<&FindingRow> = facts.of_rule(&NOISE).collect();
    let first = findings.first()?;
    let printed = |finding: &FindingRow| finding.messages.first().and_then(|number| facts.named(*number));
    let text = printed(first).map(|text| format!(": {}", text.about)).unwrap_or_default();
    let sentence = match &*first.rule {
        "stdio-embedded-newline" => format!("The server breaks a message into several lines{text}"),
        "stdio-stdin-not-mcp" => format!("The client writes text to stdin that is no message{text}"),
        _ => format!("The server prints text to stdout that is no message{text}"),
    };
    let of_text = |finding: &&FindingRow| printed(finding).map_or_else(|| of_finding(finding), of_message);
    let evidence = findings.iter().take(PLACES).map(of_text).collect();
    let advice =
        "Stdout belongs to the protocol. Print to stderr instead: logging, print and banners of libraries too.";
    cause(Symptom::Noise, sentence, evidence, advice, first.messages.first())
}

/// The line of stderr that names the error, searched from the end.
fn failure_line(facts: &Facts) -> Option<&StderrLine> {
    const WORDS: [&str; 6] = ["Error", "Exception", "panicked", "fatal", "error:", "not found"];
    facts.stderr.iter().rev().find(|line| WORDS.iter().any(|word| line.text.contains(word)))
}

fn crash(facts: &Facts) -> Option<Cause> {
    let ended = facts.ended.as_ref()?;
    let failed = ended.exit.code.is_some_and(|code| code != 0);
    let is_silent = facts.last_success.is_none() && facts.failures == 0;
    let error = failure_line(facts).filter(|_| failed || !ended.pending.is_empty());
    // Clients end servers with a signal. Without open requests that is no problem.
    if ended.pending.is_empty() && !(failed && (is_silent || error.is_some())) {
        return None;
    }
    let how = notes::ended(ended.exit);
    let open = ended.pending.first().and_then(|number| facts.named(*number));
    let when = match open {
        Some(open) => format!("while {} was open", naming(open)),
        None if is_silent => "before it answered anything".to_owned(),
        None => "in the session".to_owned(),
    };
    let why = error.map(|line| format!(": {}", line.text.trim())).unwrap_or_else(|| ".".to_owned());
    let mut evidence: Vec<Evidence> = open.map(of_message).into_iter().collect();
    evidence.extend(last_lines(facts, ended.time));
    let noun = count(ended.pending.len() as u64, "request");
    evidence.push(Evidence { place: "end".into(), time: Some(ended.time), text: format!("{how}, {noun} open") });
    let advice = match error {
        Some(_) => "Repair what the error names. A handler that fails should answer with isError, not end the server.",
        None => "The server wrote no error. Run its command in a terminal, and look why it ends.",
    };
    cause(Symptom::Crash, format!("The server ended {how} {when}{why}"), evidence, advice, ended.pending.first())
}

/// HTTP on a port of TLS, or the reverse.
fn wrong_scheme(facts: &Facts) -> Option<Cause> {
    let finding = facts.of_rule(&["http-to-tls-port", "tls-to-http-port"]).next()?;
    let mut text = finding.text.clone();
    if let Some(first) = text.get(..1).map(str::to_uppercase) {
        text.replace_range(..1, &first);
    }
    let advice = "Change the URL in the client's configuration.";
    cause(Symptom::Refused, format!("{text}."), vec![of_finding(finding)], advice, finding.messages.first())
}

/// Responses with a status of 400 or more, but for those that are part of a flow that went on.
fn refused(facts: &Facts) -> Option<Cause> {
    let forgotten = facts.of_rule(&["http-session-forgotten"]).next();
    let is_final = |(time, http): &&(Time, HttpNote)| {
        // A GET is refused by servers without a stream of their own, and a DELETE by those that
        // end sessions themselves.
        let matters = !matches!((&*http.method, http.status), ("GET" | "DELETE", 404 | 405));
        // A client that logs in after a 401 goes on.
        matters && facts.last_success.is_none_or(|success| success < *time)
    };
    let (time, http) = facts.refused.iter().find(is_final)?;
    let subject = subject(facts, http);
    let status = notes::status(http);
    // The body can be a JSON-RPC error, which is a message of its own.
    let answer = facts.failed.iter().find(|failed| failed.time == *time);
    let detail = match (answer, &*http.detail) {
        (Some(answer), "") => format!(": {}", answer.about),
        (None, "") => ".".to_owned(),
        (_, detail) => format!(": {detail}"),
    };
    let (did, advice) = match (forgotten, http.status) {
        (Some(_), _) => (
            "no longer knows the session that it had assigned: it answered",
            "The server restarted, or it ends idle sessions. A client must initialize again after this status.",
        ),
        (None, 401) => ("refused", "Give the client a valid token, or let it log in as WWW-Authenticate asks."),
        (None, 403) => (
            "refused",
            "The token is known but not sufficient, or the Origin or Host is not allowed. Ask for the scope it names.",
        ),
        (None, 404) => ("answered", "Check the path of the URL: the server has nothing there."),
        (None, 500..) => ("failed: it answered", "Look into the server's log at this time."),
        _ => ("refused", "The error names what the request lacks. \"mcptap check\" shows the rules that it breaks."),
    };
    let sentence = format!("The server {did} {subject} with {status}{detail}");
    let mut evidence: Vec<Evidence> =
        http.requests.first().and_then(|number| facts.named(*number)).map(of_message).into_iter().collect();
    evidence.push(of_http(*time, http));
    evidence.extend(answer.map(of_message));
    cause(Symptom::Refused, sentence, evidence, advice, http.requests.first())
}

/// A redirect after which nothing was answered.
fn redirected(facts: &Facts) -> Option<Cause> {
    let after = |(time, _): &&(Time, HttpNote)| facts.last_success.is_none_or(|success| success < *time);
    let (time, http) = facts.redirected.iter().find(after)?;
    let (subject, status) = (subject(facts, http), notes::status(http));
    let to = if http.detail.is_empty() { String::new() } else { format!(" to {}", http.detail) };
    let sentence = format!("The server redirected {subject} with {status}{to}, and no answer followed.");
    let advice = "Give the client the URL that the redirect names.";
    cause(Symptom::Refused, sentence, vec![of_http(*time, http)], advice, http.requests.first())
}

fn broken_connection(facts: &Facts) -> Option<Cause> {
    let (time, to, failure) = facts.broken_connections.first()?;
    let (sentence, advice) = match failure {
        Failure::Refused => (
            format!("The connection to {to} was refused: nobody listens there."),
            "Start the server, or correct the port in the client's configuration.",
        ),
        Failure::Reset => (
            format!("The connection with {to} was reset while an exchange was open."),
            "Look into the server's log, and at what stands between: proxies end connections too.",
        ),
    };
    let evidence = Evidence { place: "connection".into(), time: Some(*time), text: sentence.clone() };
    cause(Symptom::Refused, sentence, vec![evidence], advice, None)
}

/// A request for something that the server did not declare, which it refused.
fn undeclared(facts: &Facts) -> Option<Cause> {
    let is_refused = |finding: &&FindingRow| {
        let request = finding.messages.first().and_then(|number| facts.named(*number));
        request.is_some_and(|request| facts.failed.iter().any(|failed| failed.name == request.name))
    };
    let finding = facts.of_rule(&["capability-server-undeclared"]).find(is_refused)?;
    let request = finding.messages.first().and_then(|number| facts.named(*number))?;
    let answer = facts.failed.iter().find(|failed| failed.name == request.name)?;
    let sentence = format!(
        "The client sent {}, which the server refused because it did not declare the capability: {}.",
        naming(request),
        answer.about
    );
    let advice = "Declare the capability in the result of initialize, or do not ask for it.";
    let evidence = vec![of_finding(finding), of_message(answer)];
    cause(Symptom::NeverCalled, sentence, evidence, advice, Some(&request.number))
}

/// Requests without an answer, though the server lived.
fn unanswered(facts: &Facts) -> Option<Cause> {
    let wait = facts.waits.iter().find(|wait| wait.is_certain).or(facts.waits.first())?;
    let request = facts.named(wait.request)?;
    let what = naming(request);
    let mut sentence = match wait.is_certain {
        true => format!("The server never answered {what}. {}.", end_of_wait(wait)),
        false => format!(
            "No answer to {what} was captured. A part of the recording is missing, so whether the server answered is unknown."
        ),
    };
    if facts.unanswered > 1 {
        sentence.push_str(&format!(" {} were not answered in all.", count(facts.unanswered, "request")));
    }
    let mut evidence = vec![of_message(request)];
    evidence.extend(facts.stderr.iter().filter(|line| line.time >= request.time).take(2).map(of_line));
    if let WaitEnd::Cancelled(message) = wait.end {
        let text = "notifications/cancelled".to_owned();
        evidence.push(Evidence { place: place(message), time: Some(wait.time), text });
    }
    let advice = match evidence.iter().any(|place| place.place.starts_with("stderr")) {
        true => "The lines on stderr were written while the request waited. Answer with isError where a handler fails.",
        false => "The server wrote nothing while the request waited: look where its handler blocks.",
    };
    cause(Symptom::Hangs, sentence, evidence, advice, Some(&wait.request))
}

fn end_of_wait(wait: &Wait) -> String {
    let waited = duration(wait.waited);
    match wait.end {
        WaitEnd::Cancelled(_) => format!("The client waited {waited} and cancelled it"),
        WaitEnd::ResponseEnded => format!("The HTTP response ended after {waited} without it"),
        WaitEnd::ConnectionEnded => format!("The connection ended after {waited}"),
        WaitEnd::SessionEnded => format!("It was still open after {waited}, when the session ended"),
    }
}

/// Answers that are errors, but for those that are evidence of another cause.
fn failed(facts: &Facts, causes: &[Option<Cause>]) -> Option<Cause> {
    let places: Vec<&str> = causes.iter().flatten().flat_map(|cause| &cause.evidence).map(|one| &*one.place).collect();
    let others = facts.failed.iter().filter(|failed| !places.contains(&&*place(failed.number)));
    let others: Vec<&Named> = others.collect();
    let first = others.first()?;
    let mut sentence = format!("{} failed: {}.", naming(first), first.about);
    if facts.failures > 1 {
        sentence.push_str(&format!(" {} failed in all.", count(facts.failures, "request")));
    }
    let evidence = others.iter().take(PLACES).map(|failed| of_message(failed)).collect();
    let advice = "The server answered, so the error text is its own. Compare the arguments with the tool's schema.";
    cause(Symptom::Fails, sentence, evidence, advice, Some(&first.number))
}

/// A list whose next page was never asked for.
fn unread_page(facts: &Facts) -> Option<Cause> {
    let finding = facts.of_rule(&["pagination-unfinished"]).next()?;
    let list = finding.messages.first().and_then(|number| facts.named(*number));
    let list = list.map_or("a list", |list| &list.name);
    let tools =
        if list == "tools/list" { format!(" It knows {} only.", count(facts.tools, "tool")) } else { String::new() };
    let sentence = format!("The client never read the next page of {list}, although the server gave a cursor.{tools}");
    let advice = "Tools of later pages cannot be called by this client: put them on the first page.";
    cause(Symptom::NeverCalled, sentence, vec![of_finding(finding)], advice, finding.messages.first())
}

/// A listed tool that known clients refuse. It was not called.
fn refused_tool(facts: &Facts, is_asked: bool) -> Option<Cause> {
    let (list, refusal) = facts.refusals.first()?;
    if !is_asked && facts.calls > 0 {
        return None;
    }
    let sentence = format!(
        "The tool {} was listed but never called, and known clients refuse it: {}.",
        refusal.tool, refusal.reason
    );
    let evidence = vec![Evidence { place: place(*list), time: None, text: refusal.consequence.clone() }];
    cause(Symptom::NeverCalled, sentence, evidence, "Change the tool so that every client accepts it.", Some(list))
}

fn slow(facts: &Facts, is_asked: bool) -> Option<Cause> {
    let (latency, number) = facts.slowest?;
    if latency < SLOW && !is_asked {
        return None;
    }
    let request = facts.named(number)?;
    let sentence = format!("The slowest request was {}: it took {}.", naming(request), duration(latency));
    let advice = "\"mcptap layers\" of this message says whether the network or the server took the time.";
    cause(Symptom::Slow, sentence, vec![of_message(request)], advice, Some(&number))
}

/// The answer to "why is my tool never called?" if nothing else explains it.
fn never_called(facts: &Facts) -> Option<Cause> {
    let (sentence, advice, message) = match (facts.tool_list, facts.declares_tools) {
        (Some(list), _) if facts.calls == 0 => (
            format!(
                "The client listed {} (message {}) and called none. Why the model chose none is unknown: it is not on the wire.",
                count(facts.tools, "tool"),
                list.0
            ),
            "Make the names and descriptions say when to use the tools.",
            Some(list),
        ),
        (Some(list), _) if facts.uncalled_tools > 0 => {
            let mut names = facts.uncalled.join(", ");
            let others = facts.uncalled_tools - facts.uncalled.len() as u64;
            if others > 0 {
                names += &format!(" and {}", count(others, "other"));
            }
            (
                format!(
                    "The client listed {} (message {}) and never called {} of them: {names}. Why the model did not choose them is unknown: it is not on the wire.",
                    count(facts.tools, "tool"),
                    list.0,
                    facts.uncalled_tools,
                ),
                "Make the names and descriptions say when to use the tools.",
                Some(list),
            )
        }
        (Some(_), _) => return None,
        (None, Some((false, initialize))) => (
            format!(
                "The server did not declare the capability tools (message {}), so the client did not ask for them.",
                initialize.0
            ),
            "Declare tools in the result of initialize.",
            Some(initialize),
        ),
        (None, Some((true, _))) => (
            "The client never sent tools/list, although the server declared tools.".to_owned(),
            "Look whether the client ended or lost the session before it asked.",
            None,
        ),
        (None, None) => (
            "The session has no answered initialize, so no tools were listed.".to_owned(),
            "Find out first why the session does not start: \"mcptap explain\" without --symptom.",
            None,
        ),
    };
    cause(Symptom::NeverCalled, sentence, Vec::new(), advice, message.as_ref())
}

fn cause(
    symptom: Symptom,
    sentence: String,
    evidence: Vec<Evidence>,
    advice: &str,
    message: Option<&MessageNumber>,
) -> Option<Cause> {
    Some(Cause { symptom, sentence, evidence, advice: advice.to_owned(), message: message.copied() })
}

/// `tools/call add (message 9)`.
fn naming(message: &Named) -> String {
    format!("{} (message {})", message.name, message.number.0)
}

fn place(message: MessageNumber) -> String {
    format!("message {}", message.0)
}

/// The request that an HTTP response is about.
fn subject(facts: &Facts, http: &HttpNote) -> String {
    match http.requests.first().and_then(|number| facts.named(*number)) {
        Some(request) => naming(request),
        None => format!("{} {}", http.method, http.target).trim().to_owned(),
    }
}

fn of_message(message: &Named) -> Evidence {
    let text = format!("{}  {}", message.name, message.about).trim_end().to_owned();
    Evidence { place: place(message.number), time: Some(message.time), text }
}

fn of_line(line: &StderrLine) -> Evidence {
    Evidence { place: format!("stderr {}", line.line), time: Some(line.time), text: line.text.clone() }
}

fn of_http(time: Time, http: &HttpNote) -> Evidence {
    let detail = if http.detail.is_empty() { String::new() } else { format!("  {}", http.detail) };
    let text = format!("{}  {} {}{detail}", notes::status(http), http.method, http.target);
    Evidence { place: format!("exchange {}", http.exchange.0), time: Some(time), text }
}

fn of_finding(finding: &FindingRow) -> Evidence {
    let at = match (finding.messages.first(), finding.packets.first()) {
        (Some(message), _) => place(*message),
        (None, Some(packet)) => format!("packet {}", packet.0),
        (None, None) => "session".to_owned(),
    };
    Evidence { place: at, time: None, text: format!("{}: {}", finding.rule, finding.text) }
}

/// The last lines that the server wrote before it ended.
fn last_lines(facts: &Facts, end: Time) -> impl Iterator<Item = Evidence> {
    let lines: Vec<&StderrLine> = facts.stderr.iter().filter(|line| line.time <= end).collect();
    lines[lines.len().saturating_sub(PLACES)..].iter().map(|line| of_line(line)).collect::<Vec<_>>().into_iter()
}
