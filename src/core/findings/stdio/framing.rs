//! Rules about framing on pipes: one message a line, and nothing between the lines.

use serde_json::value::RawValue;

use crate::decode::jsonrpc::{self, JsonRpcText};
use crate::findings::{Check, INVALID, MessageContext, Report, Rule, Severity};
use crate::mcp::{Carrier, Message};

pub(in crate::findings) const RULES: &[&Rule] =
    &[&EMBEDDED_NEWLINE, &TWO_MESSAGES, &FRAMING_NOISE, &UNTERMINATED, &BYTES_LOST, &JSON_ON_STDERR];

/// Limit of nesting, and of the members of a batch, when it only matters whether a text
/// is a message.
const DEPTH: usize = 64;

pub(in crate::findings) static EMBEDDED_NEWLINE: Rule = Rule {
    id: "stdio-embedded-newline",
    severity: Severity::Error,
    title: "One message is spread over several lines",
    spec: "basic/transports \"stdio\": \"Messages are delimited by newlines, and MUST NOT contain embedded newlines\"",
    why: "The receiver reads each line separately. No line is a message, so the intended message is lost.",
    example: "a message printed with indentation: JSON.stringify(message, null, 2)",
    remedy: "Write JSON without line breaks, and one line break after it. Escape line breaks in strings as \\n.",
    checks: &[Check::Any(INVALID, &[], embedded_newline)],
    ..Rule::BLANK
};

fn is_message(text: &[u8]) -> bool {
    match jsonrpc::parse(text, DEPTH, DEPTH) {
        JsonRpcText::Single(_) => true,
        JsonRpcText::Batch(members) => members.iter().any(|(_, member)| member.is_ok()),
        JsonRpcText::Invalid(_) => false,
    }
}

fn is_line(context: &MessageContext<'_, '_>) -> bool {
    context.message.carrier == Carrier::Line && context.message.batch.is_none()
}

fn embedded_newline(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    if !is_line(context) {
        return;
    }
    let fragment = context.history.multiline.get(context.message.direction);
    if let Some(joined) = fragment.completed_by(&context.message.raw)
        && is_message(&joined)
    {
        let first = fragment.lines.first().map_or(0, |first| first.0);
        report.add_about(&fragment.lines, format!("the lines from message {first} to this one are one message"));
    }
}

static TWO_MESSAGES: Rule = Rule {
    id: "stdio-two-messages-one-line",
    severity: Severity::Error,
    title: "One line contains several messages",
    spec: "basic/transports \"stdio\": \"Messages are delimited by newlines\"",
    why: "The receiver parses the line as one text, which is not valid JSON. All messages on it are lost.",
    example: "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",…}",
    remedy: "Write each message and its line break in one write. Threads that share the pipe need a lock.",
    checks: &[Check::Any(INVALID, &[], two_messages)],
    ..Rule::BLANK
};

/// The number of messages with which an invalid line begins.
pub(in crate::findings) fn messages_on(line: &Message) -> usize {
    let Some(text) = line.raw.text() else { return 0 };
    if !text.trim_start().starts_with(['{', '[']) {
        return 0;
    }
    let values = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
    values.map_while(Result::ok).take_while(|value| is_message(value.get().as_bytes())).count()
}

fn two_messages(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let count = messages_on(context.message);
    if is_line(context) && count > 1 {
        report.add(format!("{count} messages are on one line"));
    }
}

/// Reported by a decoder.
pub(in crate::findings) static FRAMING_NOISE: Rule = Rule {
    id: "stdio-framing-noise",
    severity: Severity::Info,
    title: "CR LF, blank lines or a byte order mark between messages",
    spec: "basic/transports \"stdio\": \"Messages are delimited by newlines\"",
    why: "The official SDKs ignore it. A stricter peer does not.",
    example: "console.log on a runtime that writes CR LF; print() of a text that ends in a line break",
    remedy: "Write the message and one LF.",
    ..Rule::BLANK
};

/// Reported by a decoder.
pub(in crate::findings) static UNTERMINATED: Rule = Rule {
    id: "stdio-unterminated-line",
    severity: Severity::Warning,
    title: "A pipe was closed in the middle of a line",
    spec: "basic/transports \"stdio\": \"Messages are delimited by newlines\"",
    why: "The receiver waits for the end of the line. The last message is lost or incomplete.",
    example: "a server that exits while it writes its last response",
    remedy: "Write the line break with each message, and flush before the process exits.",
    ..Rule::BLANK
};

/// Reported by a decoder.
pub(in crate::findings) static BYTES_LOST: Rule = Rule {
    id: "stdio-bytes-lost",
    severity: Severity::Warning,
    title: "Bytes of a pipe are missing from the recording",
    spec: "basic/transports \"stdio\": \"Messages are delimited by newlines\"",
    why: "Messages in the gap are not shown, and messages around it may be incomplete.",
    example: "a server that writes faster than its output can be recorded",
    remedy: "With attach, enlarge the kernel buffer (--buffer). With wrap, make room on the disk.",
    ..Rule::BLANK
};

/// Reported by a decoder.
pub(in crate::findings) static JSON_ON_STDERR: Rule = Rule {
    id: "stdio-json-on-stderr",
    severity: Severity::Info,
    title: "A JSON-RPC message on stderr",
    spec: "basic/transports \"stdio\": \"The server MAY write UTF-8 strings to its standard error (stderr) for logging purposes\"",
    why: "Nobody reads messages on stderr. It is a log of messages, or a response on the wrong pipe.",
    example: "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}} on stderr",
    remedy: "Write messages to stdout. In logs, put a prefix before each message.",
    ..Rule::BLANK
};

#[cfg(test)]
mod tests {
    use crate::findings::testing::{findings, fires, session, silent};

    const PING: &str = r#"> {"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    const PONG: &str = r#"< {"jsonrpc":"2.0","id":1,"result":{}}"#;

    fn conversation(steps: &[&str]) -> Vec<String> {
        session("2025-06-18", steps)
    }

    #[test]
    fn a_message_is_one_line() {
        let rule = "stdio-embedded-newline";
        let pretty = ["< {", "<   \"jsonrpc\": \"2.0\",", "<   \"id\": 1,", "<   \"result\": {}", "< }"];
        let found = fires(rule, &conversation(&[&[PING], pretty.as_slice()].concat()));
        assert_eq!(found.messages.len(), 5, "{found:?}");
        fires(
            rule,
            &conversation(&[PING, "< {\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":1,\"message\":\"a", "< b\"}}"]),
        );
        // The single lines are reported only if they are not one message together. Then all
        // of them are.
        let lines = "stdio-stdout-not-mcp";
        silent(lines, &conversation(&[&[PING], pretty.as_slice()].concat()));
        let log = ["< {", "<   level: 1", "< }", "< done"];
        let found = findings(&conversation(&[&[PING], log.as_slice(), &[PONG, "< {", "<  a"]].concat()));
        let at: Vec<u64> = found.iter().filter(|f| f.rule.id == lines).map(|f| f.messages[0].0).collect();
        assert_eq!(at, [5, 6, 7, 8, 10, 11]);
        silent(rule, &conversation(&[PING, "< {", "< loading", PONG, "< }"]));
        silent(rule, &conversation(&[PING, "< {", "< \"a\": 1", "< }"]));
        silent(rule, &conversation(&[PING, PONG]));
    }

    #[test]
    fn a_line_is_one_message() {
        let rule = "stdio-two-messages-one-line";
        let found = fires(rule, &conversation(&[PING, &format!("{PONG} {}", &PONG[2..])]));
        assert!(found.text.starts_with("2 messages"), "{}", found.text);
        silent(rule, &conversation(&[PING, PONG]));
        silent(rule, &conversation(&[PING, &format!("{PONG} done")]));
    }

    #[test]
    fn nothing_is_between_lines() {
        let rule = "stdio-framing-noise";
        fires(rule, &conversation(&[PING, &format!("{PONG}\r")]));
        fires(rule, &conversation(&[PING, "< ", PONG]));
        fires(rule, &conversation(&["> \u{feff}{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}", PONG]));
        silent(rule, &conversation(&[PING, PONG]));
    }

    #[test]
    fn pipes_end_after_a_line() {
        let rule = "stdio-unterminated-line";
        let cut = format!("<_{}", &PONG[2..]);
        fires(rule, &conversation(&[PING, &cut, "<."]));
        silent(rule, &conversation(&[PING, PONG, "<."]));
        // The rest of the line may have followed after the end of the recording.
        silent(rule, &conversation(&[PING, &cut]));
    }

    #[test]
    fn a_loss_is_no_fault_of_the_server() {
        let rule = "stdio-bytes-lost";
        let cut = format!("<_{}", &PONG[2..9]);
        let steps = conversation(&[PING, &cut, "<?100", "< \"result\":{}}", PONG]);
        let found = fires(rule, &steps);
        assert!(found.text.starts_with("100 bytes of stdout"), "{}", found.text);
        silent("stdio-stdout-not-mcp", &steps);
        silent("jsonrpc-response-unknown-id", &steps);
        silent(rule, &conversation(&[PING, PONG]));
    }

    #[test]
    fn stderr_is_for_people() {
        let rule = "stdio-json-on-stderr";
        fires(rule, &conversation(&[PING, "2 {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}"]));
        silent(
            rule,
            &conversation(&[PING, PONG, "2 {\"level\":\"info\",\"method\":\"ping\"}", "2 sent {\"jsonrpc\":\"2.0\"}"]),
        );
    }
}
