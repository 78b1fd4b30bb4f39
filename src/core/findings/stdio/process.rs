//! Rules about the end of a server's process (basic/lifecycle "Shutdown";
//! 2026-07-28 basic/transports/stdio "Shutdown").

use crate::capture::pipe::Exit;
use crate::decode::Direction;
use crate::findings::{Check, History, Report, Rule, Severity};
use crate::mcp::Method;

pub(in crate::findings) const RULES: &[&Rule] = &[&EXIT_WITH_PENDING, &SHUTDOWN_FORCED];

static EXIT_WITH_PENDING: Rule = Rule {
    id: "stdio-exit-with-pending",
    severity: Severity::Warning,
    title: "The server's process ended while requests were unanswered",
    spec: "basic/lifecycle \"Shutdown\"; 2026-07-28 basic/transports/stdio \"Unexpected Termination\"",
    why: "These requests will never be answered. Usually the server crashed, and stderr shows the reason.",
    example: "tools/call, then exit status 1",
    remedy: "Look at the last lines of stderr. A tool that fails should return an error instead of ending the process.",
    checks: &[Check::End(exit_with_pending)],
    ..Rule::BLANK
};

fn exit_with_pending(history: &History, report: &mut Report<'_>) {
    let Some(exit) = history.process.exit else { return };
    // A subscription stays open as long as its client wants.
    let open = history.requests.iter().filter(|request| {
        request.sender == Direction::ClientToServer
            && request.cancelled.is_none()
            && request.bad_answer.is_none()
            && request.method != Method::SubscriptionsListen
    });
    let unanswered: Vec<_> = open.take(MESSAGES + 1).map(|request| request.number).collect();
    if unanswered.is_empty() {
        return;
    }
    let count = match unanswered.len() {
        1 => "1 request".to_owned(),
        more if more > MESSAGES => format!("more than {MESSAGES} requests"),
        more => format!("{more} requests"),
    };
    let text = format!("the server ended with {} while {count} waited", words(exit));
    let text = match history.process.last_line() {
        Some(line) => format!("{text}; stderr ends with: {line}"),
        None => text,
    };
    match history.process.stdin_closed {
        // The client closed stdin without waiting for the responses.
        Some(_) => report.add_as_about(Severity::Info, &unanswered, format!("{text}; the client had closed stdin")),
        None => report.add_about(&unanswered, text),
    }
}

/// Limit of requests that one finding names.
const MESSAGES: usize = 64;

fn words(exit: Exit) -> String {
    match (exit.code, exit.signal) {
        (Some(code), _) => format!("status {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "an unknown status".to_owned(),
    }
}

static SHUTDOWN_FORCED: Rule = Rule {
    id: "stdio-shutdown-forced",
    severity: Severity::Info,
    title: "The server did not exit when its stdin was closed, and was ended by a signal",
    spec: "basic/lifecycle \"Shutdown\" stdio: the client closes stdin, waits, then sends SIGTERM, then SIGKILL; 2026-07-28 basic/transports/stdio: servers SHOULD exit promptly",
    why: "Hosts wait two seconds for each such server when they quit. A server that also ignores SIGTERM keeps running.",
    example: "stdin closed, two seconds without an exit, then SIGTERM",
    remedy: "Exit when reading stdin returns end of file. Stop timers and threads that keep the process alive.",
    checks: &[Check::End(shutdown_forced)],
    ..Rule::BLANK
};

/// A host that sends a signal sooner (in nanoseconds) did not wait for the server to exit.
const PATIENCE: i64 = 1_000_000_000;

/// The numbers and names of SIGTERM and SIGKILL. A shell reports them as exit status 128
/// plus the number.
const FORCED: [(i32, &str); 2] = [(15, "SIGTERM"), (9, "SIGKILL")];

fn shutdown_forced(history: &History, report: &mut Report<'_>) {
    let process = &history.process;
    let (Some(closed), Some(exit), Some(exited)) = (process.stdin_closed, process.exit, process.exited) else { return };
    let is = |signal: i32| exit.signal == Some(signal) || exit.code == Some(128 + signal);
    let forced = FORCED.iter().find(|(signal, _)| is(*signal));
    let waited = exited.since(closed);
    if let Some((_, name)) = forced.filter(|_| waited >= PATIENCE) {
        report.add(format!("{name} ended the server {} ms after stdin was closed", waited / 1_000_000));
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{fires, session, silent};

    const PING: &str = r#"> {"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    const PONG: &str = r#"< {"jsonrpc":"2.0","id":1,"result":{}}"#;

    fn conversation(steps: &[&str]) -> Vec<String> {
        session("2025-06-18", steps)
    }

    #[test]
    fn a_server_answers_before_it_ends() {
        let rule = "stdio-exit-with-pending";
        let found = fires(rule, &conversation(&[PING, "! 3"]));
        assert_eq!(
            (found.text.as_str(), found.severity.name()),
            ("the server ended with status 3 while 1 request waited", "warning")
        );
        assert_eq!(fires(rule, &conversation(&[PING, ">.", "! 0"])).severity.name(), "info");
        let text = fires(rule, &conversation(&["2 Traceback", PING, "2 KeyError: 'x'", "2 ", "! 1"])).text;
        assert_eq!(text, "the server ended with status 1 while 1 request waited; stderr ends with: KeyError: 'x'");
        silent(rule, &conversation(&[PING, PONG, "! 3"]));
        silent(rule, &conversation(&[PING]));
        let cancel = r#"> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
        silent(rule, &conversation(&[PING, cancel, "! 0"]));
    }

    #[test]
    fn a_server_ends_when_its_stdin_does() {
        let rule = "stdio-shutdown-forced";
        fires(rule, &conversation(&[PING, PONG, ">.", "+ 2000", "! 143"]));
        silent(rule, &conversation(&[PING, PONG, ">.", "! 143"]));
        silent(rule, &conversation(&[PING, PONG, ">.", "+ 2000", "! 0"]));
        silent(rule, &conversation(&[PING, PONG, "+ 2000", "! 143"]));
    }
}
