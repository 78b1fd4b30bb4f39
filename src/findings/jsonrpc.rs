//! Rules about messages as JSON-RPC, and about their partners.

use super::{Rule, rules};
use crate::decode::Direction;
use crate::decode::jsonrpc::Fault;
use crate::mcp::message::{Carrier, Message};
use crate::mcp::tracker::Oddity;

rules! {
    /// Not JSON.
    INVALID_JSON = Error "jsonrpc-invalid-json", "The text of a message is not valid JSON", "JSON-RPC 2.0 section 5.1";
    /// Not UTF-8.
    NOT_UTF8 = Error "jsonrpc-not-utf8", "The text of a message is not valid UTF-8", "basic/transports";
    /// Some other JSON.
    NOT_A_MESSAGE = Error "jsonrpc-not-a-message", "A JSON value is not a request, notification or response", "JSON-RPC 2.0 sections 4 and 5";
    /// stdout.
    STDOUT = Error "stdio-stdout-not-mcp", "A line on the server's stdout is not a valid MCP message", "basic/transports \"stdio\"";
    /// stdin.
    STDIN = Error "stdio-stdin-not-mcp", "A line on the server's stdin is not a valid MCP message", "basic/transports \"stdio\"";
    /// `jsonrpc`.
    VERSION = Error "jsonrpc-version-field", "`jsonrpc` is missing or is not exactly \"2.0\"", "JSON-RPC 2.0 section 4";
    /// Both.
    RESULT_AND_ERROR = Error "jsonrpc-result-and-error", "A response has both `result` and `error`", "JSON-RPC 2.0 section 5";
    /// Null.
    ID_NULL = Error "jsonrpc-id-null", "The `id` of a request is null", "basic/index \"Requests\"";
    /// In flight.
    ID_IN_FLIGHT = Error "jsonrpc-id-in-flight", "The id of a request is that of another that is still unanswered", "basic/index \"Requests\"";
    /// Nobody asked.
    UNKNOWN_ID = Error "jsonrpc-response-unknown-id", "A response matches no request of the other side", "JSON-RPC 2.0 section 5";
    /// Twice.
    DUPLICATE = Error "jsonrpc-response-duplicate", "A request was answered twice", "JSON-RPC 2.0 section 5";
    /// Several fit.
    AMBIGUOUS = Warning "jsonrpc-response-ambiguous", "A response fits several open requests with the same id", "basic/index \"Requests\"";
    /// Nobody answered.
    UNANSWERED = Warning "jsonrpc-request-unanswered", "A request was neither answered nor cancelled before its session ended", "JSON-RPC 2.0 section 4";
    /// Twice the same name.
    DUPLICATE_KEY = Warning "jsonrpc-duplicate-key", "An object has a duplicate member name", "RFC 8259 section 4";
}

/// The rule that a message breaks, and its sentence.
pub fn judge(message: &Message, oddity: &Oddity) -> (&'static Rule, String) {
    let on_pipe = match (message.carrier, message.direction) {
        (Carrier::Line, Direction::ServerToClient) => Some(&STDOUT),
        (Carrier::Line, Direction::ClientToServer) => Some(&STDIN),
        _ => None,
    };
    let id = message.id.as_deref().unwrap_or("null");
    match oddity {
        Oddity::NoMessage(fault) => {
            let (rule, text) = match fault {
                Fault::NotUtf8(at) => (&NOT_UTF8, format!("no UTF-8 from byte {at} on")),
                Fault::NotJson(at, why) => (&INVALID_JSON, format!("no JSON at byte {at}: {why}")),
                Fault::TooDeep => (&NOT_A_MESSAGE, "JSON nested deeper than the limit".to_owned()),
                Fault::NotAMessage => (&NOT_A_MESSAGE, "JSON, but no request, notification or response".to_owned()),
            };
            (on_pipe.unwrap_or(rule), text)
        }
        Oddity::NotWhole => (on_pipe.unwrap_or(&NOT_A_MESSAGE), "bytes of the line are missing".to_owned()),
        Oddity::VersionField => (&VERSION, "no \"jsonrpc\":\"2.0\"".to_owned()),
        Oddity::DuplicateMember => (&DUPLICATE_KEY, "a member name occurs twice; the last one counts".to_owned()),
        Oddity::ResultAndError => (&RESULT_AND_ERROR, format!("the answer to id {id} has both")),
        Oddity::NullId => (&ID_NULL, "such a request cannot be answered".to_owned()),
        Oddity::IdInFlight => (&ID_IN_FLIGHT, format!("id {id} is still open")),
        Oddity::UnknownId => (&UNKNOWN_ID, format!("no request of the other side has id {id}")),
        Oddity::AnsweredAgain => (&DUPLICATE, format!("the request with id {id} was answered before")),
        Oddity::Ambiguous => (&AMBIGUOUS, format!("several open requests have id {id}; none is paired on a guess")),
    }
}
