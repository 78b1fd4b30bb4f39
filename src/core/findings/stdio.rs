//! Rules about the pipes of a server and its process.

pub(super) mod framing;
pub(super) mod process;

use super::{Rule, Severity};
use crate::decode::Direction;
use crate::mcp::{Carrier, Message};

pub(super) use framing::{BYTES_LOST, FRAMING_NOISE, JSON_ON_STDERR, UNTERMINATED};

pub(super) const RULES: &[&Rule] = &[&STDOUT, &STDIN];

static STDOUT: Rule = Rule {
    id: "stdio-stdout-not-mcp",
    severity: Severity::Error,
    title: "A line on the server's stdout is not a valid MCP message",
    spec: "basic/transports \"stdio\": \"The server MUST NOT write anything to its stdout that is not a valid MCP message\"",
    why: "Clients log a parse error for each such line, and some end the session.",
    example: "Server listening on stdio",
    remedy: "Write logs, banners and stack traces to stderr. Check libraries for print() too.",
    ..Rule::BLANK
};

static STDIN: Rule = Rule {
    id: "stdio-stdin-not-mcp",
    severity: Severity::Error,
    title: "A line on the server's stdin is not a valid MCP message",
    spec: "basic/transports \"stdio\": \"The client MUST NOT write anything to the server's stdin that is not a valid MCP message\"",
    why: "The server cannot answer it, and may exit.",
    example: "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":",
    remedy: "Write each message whole on one line.",
    ..Rule::BLANK
};

/// Whether a rule is about single lines that are not messages.
pub(super) fn is_about_single_line(rule: &Rule) -> bool {
    rule == &STDOUT || rule == &STDIN
}

/// The rule for an invalid message on a pipe. `None` if it was not sent on a pipe.
pub(super) fn pipe_rule(message: &Message) -> Option<&'static Rule> {
    match (message.carrier, message.direction) {
        (Carrier::Line, Direction::ServerToClient) => Some(&STDOUT),
        (Carrier::Line, Direction::ClientToServer) => Some(&STDIN),
        _ => None,
    }
}
