//! Assigns each message of the recorded server to the client's message that caused it.
//!
//! ```text
//!  recorded                               turns
//!  → 1 tools/call ask                     1 tools/call ask
//!  ← s elicitation/create                     asks elicitation/create
//!  → s result                                 answers, after the response to it
//!  ← 1 result
//!  ⇢ notifications/initialized            2 notifications/initialized
//!  ⇠ notifications/tools/list_changed         sends notifications/tools/list_changed
//! ```

use std::collections::{HashMap, HashSet};

use crate::capture::Time;
use crate::compare::Label;
use crate::decode::Direction;
use crate::decode::json::member;
use crate::decode::jsonrpc::Kind;
use crate::mcp::content::part;
use crate::mcp::meta;
use crate::mcp::{Carrier, Message, MessageNumber, Transport};
use crate::replay::Recording;
use crate::replay::translate::Era;

/// The index of a turn in its script.
pub type TurnIndex = usize;

/// The kind of a server message within its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The response to the request of the turn.
    Answer,
    /// A notification other than progress.
    Notification,
    /// Progress of the request, with the client's progress token.
    Progress,
    /// A request to the client.
    Request,
}

/// The stream on which a server message is sent over Streamable HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// The response to the request of the turn.
    Response,
    /// The stream of a GET, for messages that answer no request.
    ListeningStream,
    /// The response to the `subscriptions/listen` of another turn.
    Subscription(TurnIndex),
}

/// One message of the server.
#[derive(Clone, Debug, PartialEq)]
pub struct ScriptedMessage {
    /// The index of its message in the recording.
    pub message: usize,
    /// The role of the message in its turn.
    pub role: Role,
    /// The stream that carries the message.
    pub route: Route,
    /// The server's requests (indices of messages) that the client has to answer first.
    pub after: Vec<usize>,
    /// Nanoseconds between the moment when it could be sent and the moment when it was.
    pub delay: i64,
    /// Whether it was a server-sent event in the recording.
    pub is_event: bool,
}

/// A message of the client, and the server's messages that it caused.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    /// The message number of the client's message.
    pub number: MessageNumber,
    /// The index of the client's message in the recording.
    pub message: usize,
    /// The method and the subject of the client's message.
    pub label: Label,
    /// Whether it is a request. Otherwise it is a notification.
    pub is_request: bool,
    /// Other recorded messages that this turn includes.
    pub also: Vec<MessageNumber>,
    /// The messages of the server.
    pub server_messages: Vec<ScriptedMessage>,
}

impl Turn {
    /// Whether the recorded server answered the request.
    pub fn is_answered(&self) -> bool {
        self.server_messages.iter().any(|scripted| scripted.role == Role::Answer)
    }
}

/// All messages of the recorded server.
#[derive(Clone, Debug)]
pub struct Script {
    /// The recording that the script was made from.
    pub recording: Recording,
    /// One turn for each message of the client, in order.
    pub turns: Vec<Turn>,
    /// Server messages before the first message of the client.
    pub opening: Vec<ScriptedMessage>,
}

impl Script {
    /// Builds the script of a recording.
    pub fn new(recording: Recording) -> Script {
        let mut builder = ScriptBuilder::default();
        for (index, message) in recording.messages.iter().enumerate().filter(|(_, message)| !message.redelivered) {
            if let Some(request) = message.answers {
                builder.answers.entry(request).or_insert(index);
            }
        }
        for (index, message) in recording.messages.iter().enumerate().filter(|(_, message)| !message.redelivered) {
            match message.direction {
                Direction::ClientToServer => builder.client(index, message),
                Direction::ServerToClient => builder.server(index, message),
            }
        }
        let ScriptBuilder { turns, opening, .. } = builder;
        Script { recording, turns, opening }
    }

    /// The server messages of a turn, or those before the first turn.
    pub fn server_messages(&self, turn: Option<TurnIndex>) -> &[ScriptedMessage] {
        turn.map_or(&self.opening, |turn| &self.turns[turn].server_messages)
    }

    /// The recorded message at an index.
    pub fn message(&self, index: usize) -> &Message {
        &self.recording.messages[index]
    }

    /// The recorded parameters of a turn.
    pub fn params(&self, turn: TurnIndex) -> Option<&str> {
        part(&self.recording.messages[self.turns[turn].message], "params")
    }

    /// Whether the recording has a request of this method.
    pub fn has(&self, method: &str) -> bool {
        self.turns.iter().any(|turn| turn.is_request && turn.label.method == method)
    }

    /// The era of the recording. Without a recorded revision it follows from the first request.
    pub fn era(&self) -> Era {
        let modern = |turn: &Turn| turn.label.method == "server/discover";
        match &self.recording.session.protocol_version {
            Some(revision) => Era::of(revision),
            None if !self.has("initialize") && self.turns.iter().any(modern) => Era::Modern,
            None => Era::Legacy,
        }
    }
}

/// A request that is not answered yet.
#[derive(Debug)]
struct OpenRequest {
    turn: TurnIndex,
    /// Its progress token as JSON text.
    token: Option<String>,
}

/// The kind of thing that a server message refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum ReferenceKind {
    /// The task that a call became.
    Task,
    /// A request of the server.
    Request,
    /// An elicitation that the user completes at a URL.
    Elicitation,
}

/// Builds a script while the messages of the recording are read in order.
#[derive(Debug, Default)]
struct ScriptBuilder {
    turns: Vec<Turn>,
    opening: Vec<ScriptedMessage>,
    /// Requests without a response so far, in order.
    open: Vec<OpenRequest>,
    /// The turn of each request of the client.
    by_request: HashMap<MessageNumber, TurnIndex>,
    /// The task id, as JSON text, of requests that wait for a task.
    awaited_tasks: HashMap<TurnIndex, String>,
    /// The index of the response to each request of either side. Filled before the first turn.
    answers: HashMap<MessageNumber, usize>,
    /// The turn that caused something which later server messages refer to by name (JSON text).
    references: HashMap<(ReferenceKind, String), TurnIndex>,
    /// Requests of the server: the index of the message and its turn.
    server_requests: HashMap<MessageNumber, (usize, Option<TurnIndex>)>,
    /// For each turn: requests of the server that the client answered since the
    /// last server message.
    answered: HashMap<Option<TurnIndex>, Vec<usize>>,
    /// The time since which each turn could continue.
    ready_since: HashMap<Option<TurnIndex>, Time>,
    /// The first request of each exchange.
    exchanges: HashMap<crate::decode::exchange::ExchangeNumber, TurnIndex>,
    /// Turns whose response was taken. A second response to the same request is ignored.
    answered_turns: HashSet<TurnIndex>,
    /// The turn of the latest message of the client.
    last: Option<TurnIndex>,
}

impl ScriptBuilder {
    fn client(&mut self, index: usize, message: &Message) {
        match message.kind {
            Kind::Request | Kind::Notification => {
                let turn = self.turns.len();
                let is_request = message.kind == Kind::Request;
                let (number, label) = (message.number, Label::of(message));
                self.turns.push(Turn {
                    number,
                    message: index,
                    label,
                    is_request,
                    also: Vec::new(),
                    server_messages: Vec::new(),
                });
                self.ready_since.insert(Some(turn), message.time);
                self.last = Some(turn);
                if is_request {
                    let task = part(message, "params").and_then(|params| member(params, "taskId"));
                    self.awaited_tasks.extend(task.map(|task| (turn, task.to_owned())));
                    let meta = part(message, "params").and_then(|params| member(params, "_meta"));
                    let token = meta.and_then(|meta| member(meta, "progressToken")).map(str::to_owned);
                    self.open.push(OpenRequest { turn, token });
                    self.by_request.insert(message.number, turn);
                    if let Some(exchange) = message.exchange {
                        self.exchanges.entry(exchange).or_insert(turn);
                    }
                }
            }
            Kind::Response | Kind::Error => {
                if let Some((request, turn)) = message.answers.and_then(|request| self.server_requests.remove(&request))
                {
                    self.answered.entry(turn).or_default().push(request);
                    self.ready_since.insert(turn, message.time);
                }
            }
            Kind::Invalid => {}
        }
    }

    fn server(&mut self, index: usize, message: &Message) {
        match message.kind {
            Kind::Response | Kind::Error => {
                let turn = message.answers.and_then(|request| self.by_request.get(&request).copied());
                if let Some(turn) = turn.filter(|turn| self.answered_turns.insert(*turn)) {
                    let task = part(message, "result").and_then(|result| member(member(result, "task")?, "taskId"));
                    self.references.extend(task.map(|task| ((ReferenceKind::Task, task.to_owned()), turn)));
                    self.open.retain(|open| open.turn != turn);
                    self.add_message(Some(turn), Route::Response, Role::Answer, index, message);
                }
            }
            Kind::Request => {
                let (turn, route) = self.cause(message);
                self.add_message(turn, route, Role::Request, index, message);
                if let Some(turn) = turn {
                    let elicitation = part(message, "params").and_then(|params| member(params, "elicitationId"));
                    let names =
                        [(ReferenceKind::Request, message.id.as_deref()), (ReferenceKind::Elicitation, elicitation)];
                    let names = names.into_iter().filter_map(|(kind, name)| Some((kind, name?.to_owned())));
                    self.references.extend(names.map(|name| (name, turn)));
                }
                self.server_requests.insert(message.number, (index, turn));
            }
            Kind::Notification => match self.request_of_progress(message) {
                Some(turn) => self.add_message(Some(turn), Route::Response, Role::Progress, index, message),
                None => {
                    let (turn, route) = self.cause(message);
                    self.add_message(turn, route, Role::Notification, index, message);
                }
            },
            Kind::Invalid => {}
        }
    }

    /// Adds a server message to its turn, or to the opening if it has none.
    fn add_message(&mut self, turn: Option<TurnIndex>, route: Route, role: Role, index: usize, message: &Message) {
        let after = self.answered.remove(&turn).unwrap_or_default();
        let ready_since = self.ready_since.insert(turn, message.time);
        let delay = ready_since.map_or(0, |ready_since| message.time.since(ready_since).max(0));
        let is_event = message.transport == Transport::StreamableHttp && message.carrier == Carrier::SseEvent;
        let scripted = ScriptedMessage { message: index, role, route, after, delay, is_event };
        turn.map_or(&mut self.opening, |turn| &mut self.turns[turn].server_messages).push(scripted);
    }

    /// The open request whose progress a notification reports.
    fn request_of_progress(&self, message: &Message) -> Option<TurnIndex> {
        let is_progress = message.method.as_deref() == Some("notifications/progress");
        let token = member(part(message, "params").filter(|_| is_progress)?, "progressToken")?;
        self.open.iter().rev().find(|open| open.token.as_deref() == Some(token)).map(|open| open.turn)
    }

    /// The turn that a message refers to by name. It can name a task (then the request
    /// that waits for the task comes before the call that became it), a cancelled
    /// request, or a completed elicitation.
    fn referenced_turn(&self, message: &Message) -> Option<TurnIndex> {
        let params = part(message, "params")?;
        let known = |kind, name: &str| self.references.get(&(kind, name.to_owned())).copied();
        if let Some(task) = member(params, "_meta").and_then(|meta| member(member(meta, meta::RELATED_TASK)?, "taskId"))
        {
            let waits_for_task = |turn: &TurnIndex| self.awaited_tasks.get(turn).is_some_and(|known| known == task);
            let waiting = self.open.iter().rev().map(|open| open.turn).find(waits_for_task);
            return waiting.or_else(|| known(ReferenceKind::Task, task));
        }
        match message.method.as_deref()? {
            "notifications/tasks/status" => known(ReferenceKind::Task, member(params, "taskId")?),
            "notifications/cancelled" => known(ReferenceKind::Request, member(params, "requestId")?),
            "notifications/elicitation/complete" => known(ReferenceKind::Elicitation, member(params, "elicitationId")?),
            _ => None,
        }
    }

    fn is_listening(&self, turn: TurnIndex) -> bool {
        self.turns[turn].label.method == "subscriptions/listen"
    }

    /// The latest open request. One that was answered before the client answered this message is
    /// not the cause if there is another.
    fn latest_open(&self, message: &Message) -> Option<TurnIndex> {
        let open = || self.open.iter().rev().map(|open| open.turn).filter(|turn| !self.is_listening(*turn));
        let reply = self.answers.get(&message.number);
        let waited = |turn: &TurnIndex| match (self.answers.get(&self.turns[*turn].number), reply) {
            (Some(answer), Some(reply)) => answer > reply,
            _ => true,
        };
        open().find(waited).or_else(|| open().next())
    }

    /// The turn that caused a server message, and its route. The evidence is, in this order,
    /// the stream that carried it, a name in it, the latest open request, and the last message
    /// of the client.
    fn cause(&self, message: &Message) -> (Option<TurnIndex>, Route) {
        let latest = self.referenced_turn(message).or_else(|| self.latest_open(message)).or(self.last);
        let exchange = message.exchange.and_then(|exchange| self.exchanges.get(&exchange).copied());
        // "Notifications … MUST include the subscription id", which is the id of the
        // `subscriptions/listen` request.
        let listening = || self.open.iter().map(|open| open.turn).find(|turn| self.is_listening(*turn));
        let subscribed =
            part(message, "params").and_then(|params| member(member(params, "_meta")?, meta::SUBSCRIPTION));
        let listening =
            exchange.filter(|turn| self.is_listening(*turn)).or_else(|| subscribed.and_then(|_| listening()));
        if let Some(listening) = listening {
            return (latest, if latest == Some(listening) { Route::Response } else { Route::Subscription(listening) });
        }
        match exchange.filter(|turn| self.open.iter().any(|open| open.turn == *turn)) {
            Some(turn) => (Some(turn), Route::Response),
            // 2025-11-25 basic/transports "Listening for Messages from the Server": what comes on
            // the stream of a GET "SHOULD be unrelated to any concurrently-running JSON-RPC request
            // from the client".
            None if message.transport == Transport::StreamableHttp => (latest, Route::ListeningStream),
            None => (latest, Route::Response),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mock::session::tests::script;

    /// Each turn with its server messages.
    fn turns_of(text: &str) -> String {
        let script = script(text);
        let scripted = |scripted: &ScriptedMessage| {
            let method = script.message(scripted.message).method.clone().unwrap_or_default();
            let after = if scripted.after.is_empty() { String::new() } else { format!(" after {:?}", scripted.after) };
            format!("  {:?} {method} {:?}{after}\n", scripted.role, scripted.route)
        };
        let opening: String = script.opening.iter().map(scripted).collect();
        let turn =
            |turn: &Turn| format!("{}\n{}", turn.label, turn.server_messages.iter().map(scripted).collect::<String>());
        opening + &script.turns.iter().map(turn).collect::<String>()
    }

    #[test]
    fn server_requests_belong_to_the_call_that_waited_or_is_named() {
        insta::assert_snapshot!(turns_of(
            r#"
            -> {"id":1,"method":"tools/call","params":{"name":"a"}}
            -> {"id":2,"method":"tools/call","params":{"name":"b"}}
            <- {"id":"s","method":"elicitation/create","params":{"elicitationId":"e-1"}}
            <- {"id":2,"result":{"task":{"taskId":"t-1"}}}
            -> {"id":"s","result":{}}
            <- {"id":1,"result":{}}
            -> {"id":3,"method":"tasks/result","params":{"taskId":"t-1"}}
            -> {"id":4,"method":"tools/call","params":{"name":"c"}}
            <- {"id":"q","method":"sampling/createMessage","params":{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t-1"}}}}
            <- {"method":"notifications/elicitation/complete","params":{"elicitationId":"e-1"}}
            <- {"method":"notifications/cancelled","params":{"requestId":"q"}}
            <- {"method":"notifications/tasks/status","params":{"taskId":"t-1"}}
            "#
        ), @r"
        tools/call a
          Request elicitation/create Response
          Answer tools/call Response after [2]
          Notification notifications/elicitation/complete Response
        tools/call b
          Answer tools/call Response
          Notification notifications/tasks/status Response
        tasks/result
          Request sampling/createMessage Response
          Notification notifications/cancelled Response
        tools/call c
        ");
    }

    #[test]
    fn each_server_message_has_a_cause() {
        insta::assert_snapshot!(turns_of(
            r#"
            <- {"method":"notifications/message","params":{"data":"up"}}
            -> {"id":1,"method":"tools/call","params":{"name":"a","_meta":{"progressToken":"p"}}}
            -> {"id":2,"method":"tools/call","params":{"name":"b"}}
            <- {"method":"notifications/progress","params":{"progressToken":"p","progress":1}}
            <- {"id":"s","method":"elicitation/create","params":{}}
            -> {"id":"s","result":{}}
            <- {"id":1,"result":{}}
            <- {"id":2,"result":{}}
            <- {"id":2,"result":{"again":true}}
            -> {"method":"notifications/initialized"}
            <- {"method":"notifications/tools/list_changed"}
            "#
        ), @r"
          Notification notifications/message Response
        tools/call a
          Progress notifications/progress Response
          Answer tools/call Response
        tools/call b
          Request elicitation/create Response
          Answer tools/call Response after [4]
        notifications/initialized
          Notification notifications/tools/list_changed Response
        ");
    }
}
