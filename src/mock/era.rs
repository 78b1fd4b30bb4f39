//! The recorded server as one of the other era, where both say the same thing.
//!
//! ```text
//!  up to 2025-11-25                    2026-07-28
//!  → 1 initialize                      → server/discover
//!  ← 1 result                          ← the same of the server
//!  → 2 tools/call ask                  → tools/call ask
//!  ← s elicitation/create              ← input_required {"3": elicitation/create …}, requestState
//!  → s result                          → tools/call ask, requestState, inputResponses {"3": …}
//!  ← 2 result                          ← the result
//! ```
//!
//! What the other era has no words for is left out: it cannot be asked for, so it is not in the recording. A message that is made up has the number
//! of the recorded one that it stands for.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::script::{Line, Role, Script, Turn, TurnIndex, Way};
use crate::capture::Limits;
use crate::decode::json::member;
use crate::decode::jsonrpc::{self, Kind, Parsed};
use crate::mcp::content::part;
use crate::mcp::link::Why;
use crate::mcp::meta;
use crate::mcp::{Message, MessageNumber};
use crate::replay::Recording;
use crate::replay::edit::with_member;
use crate::replay::translate::{
    Client, Dialect, Era, LEGACY, MODERN, Translated, discovered, legacy_result, modern_result,
};

/// What a server may ask for in a result (2026-07-28 basic/patterns/mrtr).
const INPUT: [&str; 3] = ["elicitation/create", "sampling/createMessage", "roots/list"];

/// The same script for clients of the other era.
pub fn translated(script: &Script) -> Script {
    let messages = script.recording.messages.clone();
    let mut making = Making { script, messages, turns: Vec::new(), opening: Vec::new() };
    match script.era() {
        Era::Legacy => making.modern(),
        Era::Modern => making.legacy(),
    }
    let Making { messages, turns, opening, .. } = making;
    Script { recording: Recording { session: script.recording.session.clone(), messages }, turns, opening }
}

struct Making<'a> {
    script: &'a Script,
    messages: Vec<Message>,
    turns: Vec<Turn>,
    opening: Vec<Line>,
}

impl Making<'_> {
    /// Adds a message in the place of a recorded one.
    fn add(&mut self, place: usize, kind: Kind, raw: String) -> usize {
        let limits = Limits::default();
        let envelope = match jsonrpc::parse(raw.as_bytes(), limits.json_depth, limits.batch) {
            Parsed::Single(envelope) => envelope,
            // What was put together of members is a message, unless it lies too deep to be read.
            Parsed::Batch(_) | Parsed::Invalid(_) => Default::default(),
        };
        let method = envelope.method_name.clone().or_else(|| self.messages[place].method.clone());
        let message = Message { raw: raw.into(), envelope, kind, method, ..self.messages[place].clone() };
        self.messages.push(message);
        self.messages.len() - 1
    }

    /// Adds an answer with another result.
    fn result(&mut self, place: usize, result: &str) -> usize {
        self.add(place, Kind::Response, format!(r#"{{"jsonrpc":"2.0","id":0,"result":{result}}}"#))
    }

    /// Adds a request.
    fn request(&mut self, place: usize, method: &str, params: &str) -> usize {
        let method = Value::from(method);
        self.add(place, Kind::Request, format!(r#"{{"jsonrpc":"2.0","id":0,"method":{method},"params":{params}}}"#))
    }

    /// An answer as the other era gives it.
    fn answer(&mut self, place: usize, translate: impl FnOnce(&str) -> Option<String>) -> usize {
        match part(&self.messages[place], "result").map(translate) {
            None => place,
            Some(Some(result)) => self.result(place, &result),
            Some(None) => {
                let error =
                    json!({"code": -32603, "message": "the recorded answer is a task of another era of the protocol"});
                self.add(place, Kind::Error, format!(r#"{{"jsonrpc":"2.0","id":0,"error":{error}}}"#))
            }
        }
    }

    /// For clients of 2026-07-28.
    fn modern(&mut self) {
        let mut dialect = Dialect::new(LEGACY, MODERN, Client::default());
        for (at, turn) in self.script.turns.iter().enumerate() {
            if turn.label.method == "initialize" {
                self.discover(turn);
            } else if matches!(
                dialect.translate(&turn.label, turn.is_request, self.script.params(at)),
                Translated::Send(_)
            ) {
                self.ask_back(at, turn);
            }
        }
    }

    /// The handshake as `server/discover`.
    fn discover(&mut self, turn: &Turn) {
        let Some(line) = turn.lines.iter().find(|line| line.role == Role::Answer) else { return };
        let Some(result) = part(self.script.message(line.message), "result").and_then(discovered) else { return };
        let label = crate::compare::Label { method: "server/discover".to_owned(), subject: None };
        let message = self.request(turn.message, &label.method, "{}");
        let answer = Line { message: self.result(line.message, &result), ..line.clone() };
        self.turns.push(Turn { message, label, lines: vec![answer], ..turn.clone() });
    }

    /// A turn whose questions are asked in results.
    fn ask_back(&mut self, at: TurnIndex, turn: &Turn) {
        let mut turn = Turn { lines: Vec::new(), ..turn.clone() };
        let mut asks = Vec::new();
        for line in &self.script.turns[at].lines {
            if !asks.is_empty() && (line.role == Role::Answer || !line.after.is_empty()) {
                turn = self.input_required(turn, &std::mem::take(&mut asks), line.delay);
            }
            let method = self.messages[line.message].method.as_deref().unwrap_or_default();
            let line = Line { after: Vec::new(), ..line.clone() };
            match line.role {
                Role::Request if turn.is_request && INPUT.contains(&method) => asks.push(line.message),
                Role::Answer => {
                    let method = turn.label.method.clone();
                    let message = self.answer(line.message, |result| modern_result(&method, result));
                    turn.lines.push(Line { message, ..line });
                }
                // What changed is told to those who listen for it, and nobody of this recording does.
                Role::Progress | Role::Notification if line.way == Way::Own && !method.contains("changed") => {
                    turn.lines.push(line);
                }
                Role::Request | Role::Progress | Role::Notification => {}
            }
        }
        self.turns.push(turn);
    }

    /// Ends a turn with questions; the turn that goes on once they are answered.
    fn input_required(&mut self, mut turn: Turn, asks: &[usize], delay: i64) -> Turn {
        let number = self.messages[asks[0]].number;
        let state = json!(format!("mcptap-{}", number.0)).to_string();
        let asked = |place: &usize| {
            let message = &self.messages[*place];
            let mut request = json!({"method": message.method.as_deref()});
            if let Some(params) = part(message, "params").and_then(|params| serde_json::from_str(params).ok()) {
                request["params"] = params;
            }
            (message.number.0.to_string(), request)
        };
        let requests: serde_json::Map<String, Value> = asks.iter().map(asked).collect();
        let requests = Value::from(requests);
        let result = format!(r#"{{"resultType":"input_required","inputRequests":{requests},"requestState":{state}}}"#);
        let params = part(&self.messages[turn.message], "params").unwrap_or("{}").to_owned();
        let params = with_member(&with_member(&params, "requestState", &state), "inputResponses", "{}");
        let message = self.result(asks[0], &result);
        let line = Line { message, role: Role::Answer, way: Way::Own, after: Vec::new(), delay, is_event: false };
        turn.lines.push(line);
        let method = turn.label.method.clone();
        let message = self.request(turn.message, &method, &params);
        let next =
            Turn { number, message, label: turn.label.clone(), is_request: true, also: Vec::new(), lines: Vec::new() };
        self.turns.push(turn);
        next
    }

    /// For clients up to 2025-11-25.
    fn legacy(&mut self) {
        let continued = continued(self.script);
        let is_continuation: Vec<TurnIndex> = continued.values().copied().collect();
        let mut dialect = Dialect::new(MODERN, LEGACY, Client::default());
        self.opening = self.script.opening.clone();
        for (at, turn) in self.script.turns.iter().enumerate() {
            let mut is_said = || dialect.translate(&turn.label, turn.is_request, self.script.params(at));
            match &*turn.label.method {
                _ if is_continuation.contains(&at) => {}
                "subscriptions/listen" => self.unasked(turn),
                // Its answer is what `initialize` is answered with.
                "server/discover" => self.ask(at, &continued),
                _ if matches!(is_said(), Translated::Send(_)) => self.ask(at, &continued),
                _ => {}
            }
        }
    }

    /// A turn, and those that go on with it, in which the server asks by itself.
    fn ask(&mut self, at: TurnIndex, continued: &HashMap<TurnIndex, TurnIndex>) {
        let mut turn = Turn { lines: Vec::new(), ..self.script.turns[at].clone() };
        let (mut part_of, mut after) = (Some(at), Vec::new());
        while let Some(at) = part_of {
            // Each goes on with an earlier one: there is an end.
            part_of = continued.get(&at).copied().filter(|next| *next > at);
            turn.also.extend(part_of.map(|next| self.script.turns[next].number));
            for line in &self.script.turns[at].lines {
                let line = Line { after: std::mem::take(&mut after), ..line.clone() };
                if line.role != Role::Answer {
                    let way = if matches!(line.way, Way::Of(_)) { Way::Open } else { line.way };
                    turn.lines.push(Line { way, ..line });
                } else if part_of.is_some() {
                    after = self.questions(&line, &mut turn);
                } else {
                    let message = self.answer(line.message, legacy_result);
                    turn.lines.push(Line { message, ..line });
                }
            }
        }
        self.turns.push(turn);
    }

    /// What an answer asks for, as requests of the server.
    fn questions(&mut self, line: &Line, turn: &mut Turn) -> Vec<usize> {
        let result = part(self.script.message(line.message), "result");
        let result: Value = result.and_then(|result| serde_json::from_str(result).ok()).unwrap_or_default();
        let mut asked = Vec::new();
        for request in result["inputRequests"].as_object().into_iter().flat_map(|requests| requests.values()) {
            let params = request.get("params").map_or_else(|| "{}".to_owned(), Value::to_string);
            let message = self.request(line.message, request["method"].as_str().unwrap_or_default(), &params);
            turn.lines.push(Line { message, role: Role::Request, ..line.clone() });
            asked.push(message);
        }
        asked
    }

    /// What those heard who listened is told unasked, behind what was said before.
    fn unasked(&mut self, turn: &Turn) {
        let is_told = |line: &&Line| {
            let method = self.script.message(line.message).method.as_deref();
            line.role == Role::Notification && method != Some("notifications/subscriptions/acknowledged")
        };
        let told = turn.lines.iter().filter(is_told).map(|line| Line { way: Way::Open, ..line.clone() });
        self.turns.last_mut().map_or(&mut self.opening, |turn| &mut turn.lines).extend(told);
    }
}

/// By turn: the one that goes on with it, with the input that it asked for.
fn continued(script: &Script) -> HashMap<TurnIndex, TurnIndex> {
    let answers = script.turns.iter().enumerate().flat_map(|(at, turn)| {
        let lines = turn.lines.iter().filter(|line| line.role == Role::Answer);
        lines.map(move |line| (script.message(line.message).number, at))
    });
    let answers: HashMap<MessageNumber, TurnIndex> = answers.collect();
    let continues = |(at, turn): (TurnIndex, &Turn)| {
        let link = script.message(turn.message).link;
        let link = link.filter(|link| matches!(link.why, Why::RequestState | Why::InputResponses))?;
        Some((*answers.get(&link.previous)?, at))
    };
    script.turns.iter().enumerate().filter_map(continues).collect()
}

/// Whether a request says in `_meta` that it is of 2026-07-28 or later.
pub fn is_modern(params: Option<&str>) -> bool {
    let said = params.and_then(|params| member(member(params, "_meta")?, meta::VERSION));
    said.and_then(crate::decode::json::string).is_some_and(|revision| Era::of(&revision) == Era::Modern)
}
