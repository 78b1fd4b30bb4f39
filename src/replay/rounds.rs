//! Calls of 2026-07-28 that the server answered with requests for input (basic/patterns "multi
//! round-trip requests"). A server of the older era sends such requests by itself.
//!
//! ```text
//!  recorded                                             to a server up to 2025-11-25
//!  → 1 tools/call                                       → 1 tools/call
//!  ← 1 input_required  {"k": elicitation/create …}      ← elicitation/create …
//!  → 2 tools/call      inputResponses {"k": …}          → its response, recorded under "k"
//!  ← 2 the result                                       ← 1 the result
//! ```

use std::collections::{HashMap, HashSet};

use anyhow::Result;
use serde_json::Value;

use super::plan::{Plan, PlannedMessage, StepIndex};
use super::texts::Texts;
use crate::compare::difference::escaped;
use crate::decode::Direction;
use crate::mcp::MessageNumber;

/// A request for input inside a result, and the client's response to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// The method of the request.
    pub method: String,
    /// The parameters of the request.
    pub params: Option<Value>,
    /// The client's result as JSON text.
    pub reply: String,
    /// The request that contained the client's result, and the JSON Pointer to it in `params`.
    pub location: (StepIndex, String),
}

/// Requests that continue an earlier one, and the requests for input between them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rounds {
    /// For each continuing request, the request that it continues.
    continues: HashMap<StepIndex, StepIndex>,
    /// For each continued request, the request that continues it.
    continued: HashMap<StepIndex, StepIndex>,
    /// All requests for input, in order.
    pub questions: Vec<Question>,
}

impl Rounds {
    /// Reads the rounds of a recording. `continued` lists continuing requests, each with the
    /// response that it continues.
    pub fn read(texts: &mut Texts, plan: &Plan, continued: &[(MessageNumber, MessageNumber)]) -> Result<Rounds> {
        let mut rounds = Rounds::default();
        let asking: HashSet<MessageNumber> = continued.iter().map(|(_, answer)| *answer).collect();
        let answer = |(at, step): (StepIndex, &PlannedMessage)| Some((step.answer?.number, at));
        let answers: HashMap<MessageNumber, StepIndex> =
            plan.steps.iter().enumerate().filter_map(answer).filter(|(number, _)| asking.contains(number)).collect();
        for (request, answer) in continued {
            let (Some(at), Some(before)) = (plan.step_of(*request), answers.get(answer).copied()) else { continue };
            rounds.continues.insert(at, before);
            rounds.continued.insert(before, at);
            let value =
                |text: Option<&str>| text.and_then(|text| serde_json::from_str::<Value>(text).ok()).unwrap_or_default();
            let params = value(texts.part(Direction::ClientToServer, *request, "params")?);
            let result = value(texts.part(Direction::ServerToClient, *answer, "result")?);
            for (key, reply) in params["inputResponses"].as_object().into_iter().flatten() {
                let request = &result["inputRequests"][key];
                let Some(method) = request["method"].as_str() else { continue };
                let (params, reply) = (request.get("params").cloned(), reply.to_string());
                let location = (at, format!("/inputResponses/{}", escaped(key)));
                rounds.questions.push(Question { method: method.to_owned(), params, reply, location });
            }
        }
        Ok(rounds)
    }

    /// Whether a request continues an earlier one. Servers of the older era do not get
    /// such a request.
    pub fn is_continuation(&self, step: StepIndex) -> bool {
        self.continues.contains_key(&step)
    }

    /// The last request of the chain that begins with this one. Its response is the response to
    /// the whole call.
    pub fn last(&self, step: StepIndex) -> StepIndex {
        let mut last = step;
        // A request can only be continued by a later one, so the loop ends.
        while let Some(next) = self.continued.get(&last).filter(|next| **next > last) {
            last = *next;
        }
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::link::{Link, Why};
    use crate::replay::test_recordings;

    #[test]
    fn continued_requests_form_one_call() {
        let mut messages = test_recordings::read(
            r#"
            -> {"id":1,"method":"tools/call","params":{"name":"book"}}
            <- {"id":1,"result":{"resultType":"input_required","requestState":"s","inputRequests":{"k":{"method":"elicitation/create","params":{"message":"?"}}}}}
            -> {"id":2,"method":"tools/call","params":{"name":"book","requestState":"s","inputResponses":{"k":{"action":"accept"}}}}
            <- {"id":2,"result":{"resultType":"complete","content":[]}}
            "#,
        );
        let number = MessageNumber;
        messages[2].link = Some(Link { operation: number(1), previous: number(2), why: Why::RequestState });
        let rounds = test_recordings::analyze(&messages).rounds;
        assert_eq!([0, 1].map(|step| (rounds.is_continuation(step), rounds.last(step))), [(false, 1), (true, 1)]);
        let question = &rounds.questions[0];
        assert_eq!((&*question.method, &*question.reply), ("elicitation/create", r#"{"action":"accept"}"#));
        assert_eq!(question.location, (1, "/inputResponses/k".to_owned()));
    }
}
