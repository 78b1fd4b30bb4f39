//! What the recorded server said, and because of what.
//!
//! ```text
//!  recorded                               turns
//!  → 1 tools/call ask                     1 tools/call ask
//!  ← s elicitation/create                     asks elicitation/create
//!  → s result                                 answers, once that is answered
//!  ← 1 result
//!  ⇢ notifications/initialized            2 notifications/initialized
//!  ⇠ notifications/tools/list_changed         tells notifications/tools/list_changed
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

/// What one line of the server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The answer to the turn's request.
    Answer,
    /// A notification.
    Notification,
    /// Progress of the request: it carries the client's token.
    Progress,
    /// A request to the client.
    Request,
}

/// Where a line goes, where a client has several ways to be reached (Streamable HTTP).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// With the answer to the turn's request.
    Own,
    /// On the stream that is open for what answers nothing.
    Open,
    /// With the request of another turn, a `subscriptions/listen`.
    Of(TurnIndex),
}

/// One message of the server.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// The index of its message in the recording.
    pub message: usize,
    /// What it is.
    pub role: Role,
    /// Where it goes.
    pub way: Way,
    /// The server's requests (indices of their messages) that were answered before it was said.
    pub after: Vec<usize>,
    /// Nanoseconds that the server let pass since it could have said it.
    pub delay: i64,
    /// It was an event of a stream.
    pub is_event: bool,
}

/// A message of the client, and what the server said because of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    /// Its number in the recording.
    pub number: MessageNumber,
    /// The index of its message.
    pub message: usize,
    /// What it is called.
    pub label: Label,
    /// Whether it is a request. Otherwise it is a notification.
    pub is_request: bool,
    /// Other messages of the recording that are played with it.
    pub also: Vec<MessageNumber>,
    /// What the server said.
    pub lines: Vec<Line>,
}

impl Turn {
    /// Whether the recorded server answered.
    pub fn is_answered(&self) -> bool {
        self.lines.iter().any(|line| line.role == Role::Answer)
    }
}

/// The server's part.
#[derive(Clone, Debug)]
pub struct Script {
    /// The recording.
    pub recording: Recording,
    /// What the client said, in order.
    pub turns: Vec<Turn>,
    /// What the server said before the client said anything.
    pub opening: Vec<Line>,
}

impl Script {
    /// Of a recording.
    pub fn new(recording: Recording) -> Script {
        let mut reading = Reading::default();
        for (index, message) in recording.messages.iter().enumerate().filter(|(_, message)| !message.redelivered) {
            if let Some(request) = message.answers {
                reading.answers.entry(request).or_insert(index);
            }
        }
        for (index, message) in recording.messages.iter().enumerate().filter(|(_, message)| !message.redelivered) {
            match message.direction {
                Direction::ClientToServer => reading.client(index, message),
                Direction::ServerToClient => reading.server(index, message),
            }
        }
        let Reading { turns, opening, .. } = reading;
        Script { recording, turns, opening }
    }

    /// The lines of a turn; without one those of the opening.
    pub fn lines(&self, turn: Option<TurnIndex>) -> &[Line] {
        turn.map_or(&self.opening, |turn| &self.turns[turn].lines)
    }

    /// A recorded message.
    pub fn message(&self, index: usize) -> &Message {
        &self.recording.messages[index]
    }

    /// The parameters of a turn as they were recorded.
    pub fn params(&self, turn: TurnIndex) -> Option<&str> {
        part(&self.recording.messages[self.turns[turn].message], "params")
    }

    /// Whether the recording has a request of this method.
    pub fn has(&self, method: &str) -> bool {
        self.turns.iter().any(|turn| turn.is_request && turn.label.method == method)
    }

    /// The era of the recording: where no revision was said, that of its way to begin.
    pub fn era(&self) -> Era {
        let modern = |turn: &Turn| turn.label.method == "server/discover";
        match &self.recording.session.protocol_version {
            Some(revision) => Era::of(revision),
            None if !self.has("initialize") && self.turns.iter().any(modern) => Era::Modern,
            None => Era::Legacy,
        }
    }
}

/// A turn that may still say something.
#[derive(Debug)]
struct Open {
    turn: TurnIndex,
    /// Its progress token, as JSON text.
    token: Option<String>,
}

/// What a server names in what it says by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Name {
    /// The task that a call became.
    Task,
    /// Its own request.
    Request,
    /// What it asked for at a URL.
    Elicitation,
}

#[derive(Debug, Default)]
struct Reading {
    turns: Vec<Turn>,
    opening: Vec<Line>,
    /// Requests without an answer so far, in order.
    open: Vec<Open>,
    by_request: HashMap<MessageNumber, TurnIndex>,
    /// By request about a task: the task, as JSON text.
    waits: HashMap<TurnIndex, String>,
    /// By request of either side: the index of the answer, known beforehand.
    answers: HashMap<MessageNumber, usize>,
    /// Whose turn it was that a server's own word names, as JSON text.
    named: HashMap<(Name, String), TurnIndex>,
    /// The server's requests: the index of the message, and whose turn it was.
    asked: HashMap<MessageNumber, (usize, Option<TurnIndex>)>,
    /// Since the last line of a turn: the server's requests of it that the client has answered.
    answered: HashMap<Option<TurnIndex>, Vec<usize>>,
    /// When a turn had reason to go on.
    ready: HashMap<Option<TurnIndex>, Time>,
    /// The requests that each exchange carried.
    exchanges: HashMap<crate::decode::exchange::ExchangeNumber, TurnIndex>,
    /// Numbers of answers that were taken: a second one to the same request answers nothing.
    done: HashSet<TurnIndex>,
    last: Option<TurnIndex>,
}

impl Reading {
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
                    lines: Vec::new(),
                });
                self.ready.insert(Some(turn), message.time);
                self.last = Some(turn);
                if is_request {
                    let task = part(message, "params").and_then(|params| member(params, "taskId"));
                    self.waits.extend(task.map(|task| (turn, task.to_owned())));
                    let meta = part(message, "params").and_then(|params| member(params, "_meta"));
                    let token = meta.and_then(|meta| member(meta, "progressToken")).map(str::to_owned);
                    self.open.push(Open { turn, token });
                    self.by_request.insert(message.number, turn);
                    if let Some(exchange) = message.exchange {
                        self.exchanges.entry(exchange).or_insert(turn);
                    }
                }
            }
            Kind::Response | Kind::Error => {
                if let Some((asked, turn)) = message.answers.and_then(|request| self.asked.remove(&request)) {
                    self.answered.entry(turn).or_default().push(asked);
                    self.ready.insert(turn, message.time);
                }
            }
            Kind::Invalid => {}
        }
    }

    fn server(&mut self, index: usize, message: &Message) {
        match message.kind {
            Kind::Response | Kind::Error => {
                let turn = message.answers.and_then(|request| self.by_request.get(&request).copied());
                if let Some(turn) = turn.filter(|turn| self.done.insert(*turn)) {
                    let task = part(message, "result").and_then(|result| member(member(result, "task")?, "taskId"));
                    self.named.extend(task.map(|task| ((Name::Task, task.to_owned()), turn)));
                    self.open.retain(|open| open.turn != turn);
                    self.line(Some(turn), Way::Own, Role::Answer, index, message);
                }
            }
            Kind::Request => {
                let (turn, way) = self.cause(message);
                self.line(turn, way, Role::Request, index, message);
                if let Some(turn) = turn {
                    let elicitation = part(message, "params").and_then(|params| member(params, "elicitationId"));
                    let names = [(Name::Request, message.id.as_deref()), (Name::Elicitation, elicitation)];
                    let names = names.into_iter().filter_map(|(kind, name)| Some((kind, name?.to_owned())));
                    self.named.extend(names.map(|name| (name, turn)));
                }
                self.asked.insert(message.number, (index, turn));
            }
            Kind::Notification => match self.progresses(message) {
                Some(turn) => self.line(Some(turn), Way::Own, Role::Progress, index, message),
                None => {
                    let (turn, way) = self.cause(message);
                    self.line(turn, way, Role::Notification, index, message);
                }
            },
            Kind::Invalid => {}
        }
    }

    fn line(&mut self, turn: Option<TurnIndex>, way: Way, role: Role, index: usize, message: &Message) {
        let after = self.answered.remove(&turn).unwrap_or_default();
        let ready = self.ready.insert(turn, message.time);
        let delay = ready.map_or(0, |ready| message.time.since(ready).max(0));
        let is_event = message.transport == Transport::StreamableHttp && message.carrier == Carrier::SseEvent;
        let line = Line { message: index, role, way, after, delay, is_event };
        turn.map_or(&mut self.opening, |turn| &mut self.turns[turn].lines).push(line);
    }

    /// The open request whose progress this is.
    fn progresses(&self, message: &Message) -> Option<TurnIndex> {
        let is_progress = message.method.as_deref() == Some("notifications/progress");
        let token = member(part(message, "params").filter(|_| is_progress)?, "progressToken")?;
        self.open.iter().rev().find(|open| open.token.as_deref() == Some(token)).map(|open| open.turn)
    }

    /// The turn of what a message names: a task (the request that waits for it, or the one that became it), a request that is taken back, an elicitation
    /// that is complete.
    fn names(&self, message: &Message) -> Option<TurnIndex> {
        let params = part(message, "params")?;
        let known = |kind, name: &str| self.named.get(&(kind, name.to_owned())).copied();
        if let Some(task) = member(params, "_meta").and_then(|meta| member(member(meta, meta::RELATED_TASK)?, "taskId"))
        {
            let waits = |turn: &TurnIndex| self.waits.get(turn).is_some_and(|known| known == task);
            let waiting = self.open.iter().rev().map(|open| open.turn).find(waits);
            return waiting.or_else(|| known(Name::Task, task));
        }
        match message.method.as_deref()? {
            "notifications/tasks/status" => known(Name::Task, member(params, "taskId")?),
            "notifications/cancelled" => known(Name::Request, member(params, "requestId")?),
            "notifications/elicitation/complete" => known(Name::Elicitation, member(params, "elicitationId")?),
            _ => None,
        }
    }

    /// The request that the server was at work on: the latest of those that are open. One that was answered before its question was did not ask it.
    fn latest(&self, message: &Message) -> Option<TurnIndex> {
        let is_listening = |turn: TurnIndex| self.turns[turn].label.method == "subscriptions/listen";
        let open = || self.open.iter().rev().map(|open| open.turn).filter(|turn| !is_listening(*turn));
        let reply = self.answers.get(&message.number);
        let waited = |turn: &TurnIndex| match (self.answers.get(&self.turns[*turn].number), reply) {
            (Some(answer), Some(reply)) => answer > reply,
            _ => true,
        };
        open().find(waited).or_else(|| open().next())
    }

    /// Why the server said it, by evidence where there is some: the stream that carried it, what it names; otherwise the request that it was at work on,
    /// or what the client had said last.
    fn cause(&self, message: &Message) -> (Option<TurnIndex>, Way) {
        let is_listening = |turn: TurnIndex| self.turns[turn].label.method == "subscriptions/listen";
        let latest = self.names(message).or_else(|| self.latest(message)).or(self.last);
        let exchange = message.exchange.and_then(|exchange| self.exchanges.get(&exchange).copied());
        // "Notifications … MUST include the subscription id": it is what the client called the request that listens.
        let listening = || self.open.iter().map(|open| open.turn).find(|turn| is_listening(*turn));
        let subscribed =
            part(message, "params").and_then(|params| member(member(params, "_meta")?, meta::SUBSCRIPTION));
        let listening = exchange.filter(|turn| is_listening(*turn)).or_else(|| subscribed.and_then(|_| listening()));
        if let Some(listening) = listening {
            return (latest, if latest == Some(listening) { Way::Own } else { Way::Of(listening) });
        }
        match exchange.filter(|turn| self.open.iter().any(|open| open.turn == *turn)) {
            Some(turn) => (Some(turn), Way::Own),
            // 2025-11-25 basic/transports "Listening for Messages from the Server": what comes on the stream of a GET "SHOULD be unrelated to any
            // concurrently-running JSON-RPC request from the client".
            None if message.transport == Transport::StreamableHttp => (latest, Way::Open),
            None => (latest, Way::Own),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mock::session::tests::script;

    /// Each turn with what the server said.
    fn told(text: &str) -> String {
        let script = script(text);
        let line = |line: &Line| {
            let method = script.message(line.message).method.clone().unwrap_or_default();
            let after = if line.after.is_empty() { String::new() } else { format!(" after {:?}", line.after) };
            format!("  {:?} {method} {:?}{after}\n", line.role, line.way)
        };
        let opening: String = script.opening.iter().map(line).collect();
        let turn = |turn: &Turn| format!("{}\n{}", turn.label, turn.lines.iter().map(line).collect::<String>());
        opening + &script.turns.iter().map(turn).collect::<String>()
    }

    #[test]
    fn of_several_open_calls_that_one_asked_which_waited_or_is_named() {
        insta::assert_snapshot!(told(
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
          Request elicitation/create Own
          Answer tools/call Own after [2]
          Notification notifications/elicitation/complete Own
        tools/call b
          Answer tools/call Own
          Notification notifications/tasks/status Own
        tasks/result
          Request sampling/createMessage Own
          Notification notifications/cancelled Own
        tools/call c
        ");
    }

    #[test]
    fn what_the_server_says_has_a_cause() {
        insta::assert_snapshot!(told(
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
          Notification notifications/message Own
        tools/call a
          Progress notifications/progress Own
          Answer tools/call Own
        tools/call b
          Request elicitation/create Own
          Answer tools/call Own after [4]
        notifications/initialized
          Notification notifications/tools/list_changed Own
        ");
    }
}
