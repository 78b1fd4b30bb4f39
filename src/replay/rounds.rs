//! Requests of 2026-07-28 that were asked back (basic/patterns "multi round-trip requests"), for a server of the older era, which asks by itself.
//!
//! ```text
//!  recorded                                             to a server up to 2025-11-25
//!  → 1 tools/call                                       → 1 tools/call
//!  ← 1 input_required  {"k": elicitation/create …}      ← elicitation/create …
//!  → 2 tools/call      inputResponses {"k": …}          → its answer: what was recorded under "k"
//!  ← 2 the result                                       ← 1 the result
//! ```

use std::collections::{HashMap, HashSet};

use anyhow::Result;
use serde_json::Value;

use super::plan::{Plan, Step, StepIndex};
use super::texts::Texts;
use crate::compare::difference::escaped;
use crate::decode::Direction;
use crate::mcp::MessageNumber;

/// A question inside a result, and how the client answered it.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// Its method.
    pub method: String,
    /// Its `params`.
    pub params: Option<Value>,
    /// The client's result, as JSON text.
    pub reply: String,
    /// The request that it stood in, and where in its `params` (a JSON Pointer).
    pub stood: (StepIndex, String),
}

/// Which requests go on with an earlier one, and what was asked between them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rounds {
    /// By request: the one that it goes on with.
    continues: HashMap<StepIndex, StepIndex>,
    /// By request: the one that goes on with it.
    continued: HashMap<StepIndex, StepIndex>,
    /// All questions, in order.
    pub questions: Vec<Question>,
}

impl Rounds {
    /// Of a recording and its plan: `continued` says which requests go on with which answers.
    ///
    /// # Errors
    /// The recording cannot be read.
    pub fn read(texts: &mut Texts, plan: &Plan, continued: &[(MessageNumber, MessageNumber)]) -> Result<Rounds> {
        let mut rounds = Rounds::default();
        let asking: HashSet<MessageNumber> = continued.iter().map(|(_, answer)| *answer).collect();
        let answer = |(at, step): (StepIndex, &Step)| Some((step.answer?.number, at));
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
                let stood = (at, format!("/inputResponses/{}", escaped(key)));
                rounds.questions.push(Question { method: method.to_owned(), params, reply, stood });
            }
        }
        Ok(rounds)
    }

    /// Whether a request goes on with an earlier one: to a server that asks by itself it is not sent.
    pub fn is_continuation(&self, step: StepIndex) -> bool {
        self.continues.contains_key(&step)
    }

    /// The last of the requests that go on with this one: its answer is that of all of them.
    pub fn last(&self, step: StepIndex) -> StepIndex {
        let mut last = step;
        // Each goes on with an earlier one: there is an end.
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
    use crate::replay::talk;

    #[test]
    fn a_call_that_was_asked_back_is_one() {
        let mut messages = talk::read(
            r#"
            -> {"id":1,"method":"tools/call","params":{"name":"book"}}
            <- {"id":1,"result":{"resultType":"input_required","requestState":"s","inputRequests":{"k":{"method":"elicitation/create","params":{"message":"?"}}}}}
            -> {"id":2,"method":"tools/call","params":{"name":"book","requestState":"s","inputResponses":{"k":{"action":"accept"}}}}
            <- {"id":2,"result":{"resultType":"complete","content":[]}}
            "#,
        );
        let number = MessageNumber;
        messages[2].link = Some(Link { operation: number(1), previous: number(2), why: Why::RequestState });
        let rounds = talk::recorded(&messages).rounds;
        assert_eq!([0, 1].map(|step| (rounds.is_continuation(step), rounds.last(step))), [(false, 1), (true, 1)]);
        let question = &rounds.questions[0];
        assert_eq!((&*question.method, &*question.reply), ("elicitation/create", r#"{"action":"accept"}"#));
        assert_eq!(question.stood, (1, "/inputResponses/k".to_owned()));
    }
}
