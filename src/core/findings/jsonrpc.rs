//! Rules about JSON-RPC messages, and about requests and their responses.

pub(super) mod batch;
pub(super) mod envelope;
pub(super) mod error_data;
pub(super) mod errors;
pub(super) mod ids;

use super::message_facts::MessageFacts;
use super::{Finding, History, Report, stdio};
use crate::decode::jsonrpc::InvalidText;
use crate::mcp::Revisions;
use crate::mcp::revision::Revision::V2024_11_05;
use crate::mcp::tracker::Oddity;

pub use ids::{UNANSWERED, unanswered};

/// Reports what the tracker noticed while it parsed the envelope and paired the message.
pub(super) fn report_oddity(oddity: &Oddity, facts: &MessageFacts<'_>, history: &History, found: &mut Vec<Finding>) {
    let message = facts.message;
    let mut add = |rule, text: String| Report::at_message(rule, message, found).add(text);
    let on_pipe = stdio::pipe_rule(message);
    let id = facts.id();
    match oddity {
        Oddity::NoMessage(InvalidText::NotUtf8(at)) => {
            let rule = on_pipe.unwrap_or(&envelope::NOT_UTF8);
            let text = format!("invalid UTF-8 from byte {at} on");
            let mut report = Report::at_message(rule, message, found);
            // 2024-11-05 does not mention encodings.
            if facts.revisions().within(Revisions::only(V2024_11_05)) && on_pipe.is_none() {
                return report.add_as(super::Severity::Warning, text);
            }
            report.add(text);
        }
        // A line with several messages has a more specific rule.
        Oddity::NoMessage(InvalidText::NotJson(..))
            if on_pipe.is_some() && stdio::framing::messages_on(message) > 1 => {}
        // Headers before all messages are one mistake, so they are listed once.
        Oddity::NoMessage(InvalidText::NotJson(..))
            if on_pipe.is_some() && message.raw.starts_with(b"Content-Length:") =>
        {
            let text = "a header of LSP: in MCP each line is a message without a header";
            let rule = on_pipe.unwrap_or(&envelope::INVALID_JSON);
            Report::at_message(rule, message, found).add_once(rule.severity, "a Content-Length header", text);
        }
        Oddity::NoMessage(InvalidText::NotJson(at, why)) => {
            add(on_pipe.unwrap_or(&envelope::INVALID_JSON), format!("invalid JSON at byte {at}: {why}"));
        }
        Oddity::NoMessage(InvalidText::TooDeep) => {
            add(on_pipe.unwrap_or(&envelope::NOT_A_MESSAGE), "JSON nested deeper than the limit".to_owned());
        }
        Oddity::NoMessage(InvalidText::NotAMessage) if batch::is_empty(message) => {
            add(&batch::EMPTY, "an empty array".to_owned());
        }
        Oddity::NoMessage(InvalidText::NotAMessage) => {
            let text = "valid JSON, but not a request, notification or response".to_owned();
            add(on_pipe.unwrap_or(&envelope::NOT_A_MESSAGE), text);
        }
        // Not a fault of its sender. The loss, or the limit, has a finding of its own.
        Oddity::NotWhole => {}
        Oddity::VersionField => add(&envelope::VERSION, "no \"jsonrpc\":\"2.0\"".to_owned()),
        Oddity::DuplicateMember => {
            add(&envelope::DUPLICATE_KEY, "a member name occurs twice; the last one counts".to_owned());
        }
        Oddity::ResultAndError => add(&envelope::RESULT_AND_ERROR, format!("the response to id {id} has both")),
        Oddity::NullId => add(&ids::NULL, "a request with the id null cannot be answered".to_owned()),
        // Up to 2025-11-25 the id is also reused, which has a more specific rule.
        Oddity::IdInFlight if facts.revisions().within(Revisions::LEGACY) => {}
        Oddity::IdInFlight => add(&ids::IN_FLIGHT, format!("id {id} is still open")),
        Oddity::UnknownId => match history.requests.intended_request(message) {
            Some(request) if ids::is_coerced(&request.id, id) => {
                let text = format!(
                    "the request (message {}) has the id {}, but the response has {id}",
                    request.number.0, request.id
                );
                Report::at_message(&ids::TYPE_CHANGED, message, found).add_about(&[request.number], text);
            }
            _ if history.may_lack_messages() => {
                let text = format!("no request with id {id} was captured; bytes of the session are missing");
                Report::at_message(&ids::UNKNOWN, message, found).add_as(super::Severity::Warning, text);
            }
            _ => add(&ids::UNKNOWN, format!("no request of the other side has id {id}")),
        },
        // A second request with this id may be missing.
        Oddity::AnsweredAgain if history.may_lack_messages() => {
            let text = format!("the request with id {id} was already answered; bytes of the session are missing");
            Report::at_message(&ids::DUPLICATE, message, found).add_as(super::Severity::Warning, text);
        }
        Oddity::AnsweredAgain => add(&ids::DUPLICATE, format!("the request with id {id} was already answered")),
        Oddity::Ambiguous => {
            add(
                &ids::AMBIGUOUS,
                format!("several open requests have id {id}; the response is paired with none of them"),
            );
        }
    }
}
