//! Translates a script for clients of the other era.
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
//! Messages that the other era does not have are left out, because its clients cannot ask for them.
//! A message that is made here has the number of the recorded message that it replaces.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::script::{Role, Route, Script, ScriptedMessage, Turn, TurnIndex};
use crate::decode::json::member;
use crate::decode::jsonrpc::{JsonRpcText, Kind};
use crate::mcp::content::part;
use crate::mcp::link::Why;
use crate::mcp::meta;
use crate::mcp::{Message, MessageNumber};
use crate::replay::Recording;
use crate::replay::edit::with_member;
use crate::replay::messages;
use crate::replay::translate::{
    ClientIdentity, Dialect, Era, LEGACY, MODERN, Translated, discovered, legacy_result, modern_result,
};

/// The requests that a server of 2026-07-28 may put into a result (basic/patterns/mrtr).
const INPUT_METHODS: [&str; 3] = ["elicitation/create", "sampling/createMessage", "roots/list"];

/// The script for clients of the other era.
pub fn translated(script: &Script) -> Script {
    let messages = script.recording.messages.clone();
    let mut translation = Translation { script, messages, turns: Vec::new(), opening: Vec::new() };
    match script.era() {
        Era::Legacy => translation.add_modern_turns(),
        Era::Modern => translation.add_legacy_turns(),
    }
    let Translation { messages, turns, opening, .. } = translation;
    Script { recording: Recording { session: script.recording.session.clone(), messages }, turns, opening }
}

struct Translation<'a> {
    script: &'a Script,
    messages: Vec<Message>,
    turns: Vec<Turn>,
    opening: Vec<ScriptedMessage>,
}

impl Translation<'_> {
    /// Adds a message that replaces the recorded message at `index`. Returns its own index.
    fn add(&mut self, index: usize, kind: Kind, raw: String) -> usize {
        let envelope = match messages::parse(raw.as_bytes()) {
            JsonRpcText::Single(envelope) => envelope,
            // The text was built from valid members. It fails to parse only if it is nested too
            // deeply.
            JsonRpcText::Batch(_) | JsonRpcText::Invalid(_) => Default::default(),
        };
        let method = envelope.method_name.clone().or_else(|| self.messages[index].method.clone());
        let message = Message { raw: raw.into(), envelope, kind, method, ..self.messages[index].clone() };
        self.messages.push(message);
        self.messages.len() - 1
    }

    /// Adds a response with this result.
    fn result(&mut self, index: usize, result: &str) -> usize {
        self.add(index, Kind::Response, format!(r#"{{"jsonrpc":"2.0","id":0,"result":{result}}}"#))
    }

    /// Adds a request.
    fn request(&mut self, index: usize, method: &str, params: &str) -> usize {
        let method = Value::from(method);
        self.add(index, Kind::Request, format!(r#"{{"jsonrpc":"2.0","id":0,"method":{method},"params":{params}}}"#))
    }

    /// Translates a recorded response. Returns the index of the message to send.
    fn answer(&mut self, index: usize, translate: impl FnOnce(&str) -> Option<String>) -> usize {
        match part(&self.messages[index], "result").map(translate) {
            None => index,
            Some(Some(result)) => self.result(index, &result),
            Some(None) => {
                let error =
                    json!({"code": -32603, "message": "the recorded response is a task of another protocol revision"});
                self.add(index, Kind::Error, format!(r#"{{"jsonrpc":"2.0","id":0,"error":{error}}}"#))
            }
        }
    }

    /// Translates the script for clients of 2026-07-28.
    fn add_modern_turns(&mut self) {
        let mut dialect = Dialect::new(LEGACY, MODERN, ClientIdentity::default());
        for (at, turn) in self.script.turns.iter().enumerate() {
            if turn.label.method == "initialize" {
                self.add_discover(turn);
            } else if matches!(
                dialect.translate(&turn.label, turn.is_request, self.script.params(at)),
                Translated::Send(_)
            ) {
                self.add_with_input_requests(at, turn);
            }
        }
    }

    /// Adds the recorded handshake as a `server/discover`.
    fn add_discover(&mut self, turn: &Turn) {
        let Some(scripted) = turn.server_messages.iter().find(|scripted| scripted.role == Role::Answer) else { return };
        let Some(result) = part(self.script.message(scripted.message), "result").and_then(discovered) else { return };
        let label = crate::compare::Label { method: "server/discover".to_owned(), subject: None };
        let message = self.request(turn.message, &label.method, "{}");
        let answer = ScriptedMessage { message: self.result(scripted.message, &result), ..scripted.clone() };
        self.turns.push(Turn { message, label, server_messages: vec![answer], ..turn.clone() });
    }

    /// Adds a turn in which the server's requests become input requests inside results.
    fn add_with_input_requests(&mut self, at: TurnIndex, turn: &Turn) {
        let mut turn = Turn { server_messages: Vec::new(), ..turn.clone() };
        let mut input_requests = Vec::new();
        for scripted in &self.script.turns[at].server_messages {
            if !input_requests.is_empty() && (scripted.role == Role::Answer || !scripted.after.is_empty()) {
                turn = self.input_required(turn, &std::mem::take(&mut input_requests), scripted.delay);
            }
            let method = self.messages[scripted.message].method.as_deref().unwrap_or_default();
            let scripted = ScriptedMessage { after: Vec::new(), ..scripted.clone() };
            match scripted.role {
                Role::Request if turn.is_request && INPUT_METHODS.contains(&method) => {
                    input_requests.push(scripted.message)
                }
                Role::Answer => {
                    let method = turn.label.method.clone();
                    let message = self.answer(scripted.message, |result| modern_result(&method, result));
                    turn.server_messages.push(ScriptedMessage { message, ..scripted });
                }
                // Notifications of changes go only to subscribers, and a recording of this era has
                // none.
                Role::Progress | Role::Notification
                    if scripted.route == Route::Response && !method.contains("changed") =>
                {
                    turn.server_messages.push(scripted);
                }
                Role::Request | Role::Progress | Role::Notification => {}
            }
        }
        self.turns.push(turn);
    }

    /// Ends a turn with a result that asks for input. Returns the turn that continues it once the
    /// client has answered.
    fn input_required(&mut self, mut turn: Turn, input_requests: &[usize], delay: i64) -> Turn {
        let number = self.messages[input_requests[0]].number;
        let state = json!(format!("mcptap-{}", number.0)).to_string();
        let input_request = |index: &usize| {
            let message = &self.messages[*index];
            let mut request = json!({"method": message.method.as_deref()});
            if let Some(params) = part(message, "params").and_then(|params| serde_json::from_str(params).ok()) {
                request["params"] = params;
            }
            (message.number.0.to_string(), request)
        };
        let requests: serde_json::Map<String, Value> = input_requests.iter().map(input_request).collect();
        let requests = Value::from(requests);
        let result = format!(r#"{{"resultType":"input_required","inputRequests":{requests},"requestState":{state}}}"#);
        let params = part(&self.messages[turn.message], "params").unwrap_or("{}").to_owned();
        let params = with_member(&with_member(&params, "requestState", &state), "inputResponses", "{}");
        let message = self.result(input_requests[0], &result);
        let scripted = ScriptedMessage {
            message,
            role: Role::Answer,
            route: Route::Response,
            after: Vec::new(),
            delay,
            is_event: false,
        };
        turn.server_messages.push(scripted);
        let method = turn.label.method.clone();
        let message = self.request(turn.message, &method, &params);
        let next = Turn {
            number,
            message,
            label: turn.label.clone(),
            is_request: true,
            also: Vec::new(),
            server_messages: Vec::new(),
        };
        self.turns.push(turn);
        next
    }

    /// Translates the script for clients up to 2025-11-25.
    fn add_legacy_turns(&mut self) {
        let continued = continued(self.script);
        let is_continuation: Vec<TurnIndex> = continued.values().copied().collect();
        let mut dialect = Dialect::new(MODERN, LEGACY, ClientIdentity::default());
        self.opening = self.script.opening.clone();
        for (at, turn) in self.script.turns.iter().enumerate() {
            let mut is_translated = || dialect.translate(&turn.label, turn.is_request, self.script.params(at));
            match &*turn.label.method {
                _ if is_continuation.contains(&at) => {}
                "subscriptions/listen" => self.add_subscribed(turn),
                // `initialize` is answered from its result.
                "server/discover" => self.add_turn(at, &continued),
                _ if matches!(is_translated(), Translated::Send(_)) => self.add_turn(at, &continued),
                _ => {}
            }
        }
    }

    /// Adds a turn together with the turns that continue it. Input requests become requests
    /// of the server.
    fn add_turn(&mut self, at: TurnIndex, continued: &HashMap<TurnIndex, TurnIndex>) {
        let mut turn = Turn { server_messages: Vec::new(), ..self.script.turns[at].clone() };
        let (mut part_of, mut after) = (Some(at), Vec::new());
        while let Some(at) = part_of {
            // A turn can only be continued by a later one, so the loop ends.
            part_of = continued.get(&at).copied().filter(|next| *next > at);
            turn.also.extend(part_of.map(|next| self.script.turns[next].number));
            for scripted in &self.script.turns[at].server_messages {
                let scripted = ScriptedMessage { after: std::mem::take(&mut after), ..scripted.clone() };
                if scripted.role != Role::Answer {
                    let route = if matches!(scripted.route, Route::Subscription(_)) {
                        Route::ListeningStream
                    } else {
                        scripted.route
                    };
                    turn.server_messages.push(ScriptedMessage { route, ..scripted });
                } else if part_of.is_some() {
                    after = self.add_server_requests(&scripted, &mut turn);
                } else {
                    let message = self.answer(scripted.message, legacy_result);
                    turn.server_messages.push(ScriptedMessage { message, ..scripted });
                }
            }
        }
        self.turns.push(turn);
    }

    /// Adds the input requests of a result as requests of the server. Returns their indices.
    fn add_server_requests(&mut self, scripted: &ScriptedMessage, turn: &mut Turn) -> Vec<usize> {
        let result = part(self.script.message(scripted.message), "result");
        let result: Value = result.and_then(|result| serde_json::from_str(result).ok()).unwrap_or_default();
        let mut server_requests = Vec::new();
        for request in result["inputRequests"].as_object().into_iter().flat_map(|requests| requests.values()) {
            let params = request.get("params").map_or_else(|| "{}".to_owned(), Value::to_string);
            let message = self.request(scripted.message, request["method"].as_str().unwrap_or_default(), &params);
            turn.server_messages.push(ScriptedMessage { message, role: Role::Request, ..scripted.clone() });
            server_requests.push(message);
        }
        server_requests
    }

    /// Adds the notifications of a subscription as plain notifications, after the previous turn.
    fn add_subscribed(&mut self, turn: &Turn) {
        let is_notification = |scripted: &&ScriptedMessage| {
            let method = self.script.message(scripted.message).method.as_deref();
            scripted.role == Role::Notification && method != Some("notifications/subscriptions/acknowledged")
        };
        let notifications = turn
            .server_messages
            .iter()
            .filter(is_notification)
            .map(|scripted| ScriptedMessage { route: Route::ListeningStream, ..scripted.clone() });
        self.turns.last_mut().map_or(&mut self.opening, |turn| &mut turn.server_messages).extend(notifications);
    }
}

/// For each turn that asked for input, the turn that continues it.
fn continued(script: &Script) -> HashMap<TurnIndex, TurnIndex> {
    let answers = script.turns.iter().enumerate().flat_map(|(at, turn)| {
        let lines = turn.server_messages.iter().filter(|scripted| scripted.role == Role::Answer);
        lines.map(move |scripted| (script.message(scripted.message).number, at))
    });
    let answers: HashMap<MessageNumber, TurnIndex> = answers.collect();
    let continues = |(at, turn): (TurnIndex, &Turn)| {
        let link = script.message(turn.message).link;
        let link = link.filter(|link| matches!(link.why, Why::RequestState | Why::InputResponses))?;
        Some((*answers.get(&link.previous)?, at))
    };
    script.turns.iter().enumerate().filter_map(continues).collect()
}

/// Whether `_meta` of a request names revision 2026-07-28 or later.
pub fn is_modern(params: Option<&str>) -> bool {
    let revision = params.and_then(|params| member(member(params, "_meta")?, meta::VERSION));
    revision.and_then(crate::decode::json::string).is_some_and(|revision| Era::of(&revision) == Era::Modern)
}
