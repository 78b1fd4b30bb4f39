//! Answers requests of the server from the recording.

use serde_json::Value;

use super::{PendingRequest, Runner};
use crate::compare::Answer;
use crate::decode::Direction;
use crate::replay::edit::with_member;
use crate::replay::flow::{Giver, Use};
use crate::replay::messages::METHOD_NOT_FOUND;
use crate::replay::rounds::Question;
use crate::replay::translate::Era;

/// The most times that one call is continued with input. It stops a server that always
/// asks for more.
const ROUNDS: u32 = 16;

impl Runner<'_, '_> {
    /// The response to a server request, as recorded.
    pub(super) fn reply(&mut self, method: &str, params: Option<&str>, id: &str) -> String {
        let recorded = self.recorded_reply(method, params);
        match recorded {
            Some((name, value)) => format!(r#"{{"jsonrpc":"2.0","id":{id},"{name}":{value}}}"#),
            None if method == "ping" => format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#),
            None => {
                self.result
                    .notes
                    .push(format!("the server sent {method}, for which the recording contains no response"));
                let text = Value::from(format!("the replayed recording contains no response to {method}"));
                format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{METHOD_NOT_FOUND},"message":{text}}}}}"#)
            }
        }
    }

    /// A recorded `result` or `error` for a server request. It prefers an unused one with
    /// the same parameters, then the next unused one of the method, then a used one with
    /// the same parameters.
    fn recorded_reply(&mut self, method: &str, params: Option<&str>) -> Option<(&'static str, String)> {
        let recording = self.recording;
        let wanted = params.and_then(|params| serde_json::from_str::<Value>(params).ok());
        let known = || recording.plan.server_requests.iter().enumerate().filter(|(_, known)| known.method == method);
        let question = recording.plan.question(params);
        if let Some(reply) = self.round_reply(method, wanted.as_ref()) {
            return Some(("result", reply));
        }
        let found = known()
            .find(|(at, known)| !self.used_replies[*at] && known.question == question)
            .or_else(|| known().find(|(at, _)| !self.used_replies[*at]))
            .or_else(|| known().find(|(_, known)| known.question == question));
        let (at, request) = found?;
        self.used_replies[at] = true;
        self.resolve_values(Giver::Request(request.number), request.number, params);
        let mut value = |name| Some((name, self.recorded(Direction::ClientToServer, request.answer, name)?));
        let (name, value) = value("result").or_else(|| value("error"))?;
        // An error contains no values of the server.
        let uses = recording.flow.replies.get(&at).filter(|_| name == "result");
        Some((name, self.with_values(value, uses.map(Vec::as_slice).unwrap_or_default(), (request.answer, ""))))
    }

    /// The client's recorded response to an input request inside a result, chosen in the same way.
    fn round_reply(&mut self, method: &str, wanted: Option<&Value>) -> Option<String> {
        let recording = self.recording;
        let questions = &recording.rounds.questions;
        let known = || questions.iter().enumerate().filter(|(_, known)| known.method == method);
        let is_same = |known: &Question| known.params.as_ref() == wanted;
        let (at, question) = known()
            .find(|(at, known)| !self.used_questions[*at] && is_same(known))
            .or_else(|| known().find(|(at, _)| !self.used_questions[*at]))
            .or_else(|| known().find(|(_, known)| is_same(known)))?;
        self.used_questions[at] = true;
        let (step, pointer) = &question.location;
        let uses = recording.flow.uses.get(step).into_iter().flatten();
        let inside = |used: &Use| {
            let path = used.path.strip_prefix(pointer).filter(|path| path.is_empty() || path.starts_with('/'))?;
            Some(Use { path: path.to_owned(), ..used.clone() })
        };
        let place = (recording.plan.steps[*step].number, &**pointer);
        Some(self.with_values(question.reply.clone(), &uses.filter_map(inside).collect::<Vec<_>>(), place))
    }

    /// Continues a call if a server of the newer era asks for input in its result
    /// (basic/patterns "multi round-trip requests"), while the recording is of the older era.
    /// Returns whether it did.
    pub(super) fn answer_input_request(&mut self, pending: &PendingRequest, answer: &Answer) -> bool {
        let Answer::Result(result) = answer else { return false };
        let asks = result.get("resultType").and_then(Value::as_str) == Some("input_required");
        let crossed = (self.recording.era(), self.dialect.era()) == (Era::Legacy, Era::Modern);
        if !asks || !crossed || pending.rounds >= ROUNDS {
            return false;
        }
        let mut responses = serde_json::Map::new();
        for (key, request) in result.get("inputRequests").and_then(Value::as_object).into_iter().flatten() {
            let method = request["method"].as_str().unwrap_or_default();
            let Some(("result", reply)) = self.recorded_reply(method, Some(&request["params"].to_string())) else {
                return false;
            };
            responses.insert(key.clone(), serde_json::from_str(&reply).unwrap_or_default());
        }
        let params = pending.params.clone().unwrap_or_else(|| "{}".to_owned());
        let mut params = with_member(&params, "inputResponses", &Value::Object(responses).to_string());
        if let Some(state) = result.get("requestState") {
            params = with_member(&params, "requestState", &state.to_string());
        }
        let id = self.request(pending.step, &pending.method, Some(params), pending.rounds + 1);
        if let Some(step) = pending.step {
            self.ids[step] = id;
        }
        true
    }
}
