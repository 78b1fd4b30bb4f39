//! What the client is to say again, and what each word waits for.
//!
//! ```text
//!  recorded                          plan
//!  → 1 initialize                    1 initialize
//!  ← 1 result                        2 notifications/initialized   after 1
//!  ⇢ notifications/initialized       3 tools/call a
//!  → 2 tools/call a                  4 tools/call b                (3 was still open: both at once)
//!  → 3 tools/call b                  5 tools/call c                after 4
//!  ← 3 result
//!  → 4 tools/call c
//! ```
//!
//! Steps are sent in the order of the recording. A step waits for the answers that had arrived by the time it was sent; those that
//! an earlier step waited for need not be named again. What the server told by itself is waited for where the step is what a client does about it
//! (`tools/list` after `notifications/tools/list_changed`): of all others nobody knows that they mattered, and another server need not say them.

use std::collections::HashMap;

use crate::compare::Label;
use crate::decode::Direction;
use crate::decode::json::member;
use crate::decode::jsonrpc::Kind;
use crate::mcp::facts::part;
use crate::mcp::{Message, MessageNumber};

/// The index of a step in its plan.
pub type StepIndex = usize;

/// A notification or a request of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Its number in the recording.
    pub number: MessageNumber,
    /// Its method.
    pub method: String,
    /// How many of this method there were then, this one included: so it is found again.
    pub count: u64,
}

impl Told {
    /// All of a recording, by the index of their message.
    pub(super) fn all(messages: &[Message]) -> HashMap<usize, Told> {
        let is_told = |message: &&Message| {
            let is_told = matches!(message.kind, Kind::Request | Kind::Notification) && !message.redelivered;
            is_told && message.direction == Direction::ServerToClient
        };
        let mut counts: HashMap<&str, u64> = HashMap::new();
        let mut told = |message| Told::next(&mut counts, message);
        let indices = messages.iter().enumerate().filter(|(_, message)| is_told(message));
        indices.map(|(index, message)| (index, told(message))).collect()
    }

    /// The next one, where so many of each method came before.
    fn next<'a>(counts: &mut HashMap<&'a str, u64>, message: &'a Message) -> Told {
        let method = message.method.as_deref().unwrap_or_default();
        let count = counts.entry(method).or_default();
        *count += 1;
        Told { number: message.number, method: method.to_owned(), count: *count }
    }
}

/// One message of the client.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Its number in the recording.
    pub number: MessageNumber,
    /// The index of its message among those of the recording.
    pub message: usize,
    /// What it is called.
    pub label: Label,
    /// Whether an answer is expected: a request. Otherwise it is a notification.
    pub is_request: bool,
    /// Requests whose answers arrived after the step before this one was sent.
    pub after: Vec<StepIndex>,
    /// What the server told that made the client say it.
    pub because: Vec<Told>,
    /// Nanoseconds that the client let pass: since the step before, or since the last answer that it waited for.
    pub pause: i64,
    /// The index of the recorded answer's message.
    pub answer: Option<usize>,
    /// For a cancellation: the request that it takes back.
    pub cancels: Option<StepIndex>,
}

/// A request of the server, as it was answered.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerRequest {
    /// Its method.
    pub method: String,
    /// The index of its message.
    pub message: usize,
    /// The index of the client's answer.
    pub answer: usize,
}

/// What the client is to say again.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Requests and notifications in order.
    pub steps: Vec<Step>,
    /// Requests of the server that the client answered.
    pub server_requests: Vec<ServerRequest>,
    /// Messages of the client that are no JSON-RPC: they are not sent.
    pub unsendable: Vec<MessageNumber>,
}

impl Plan {
    /// Of a recording.
    pub fn of(messages: &[Message]) -> Plan {
        let mut plan = Plan::default();
        let mut by_request: HashMap<MessageNumber, StepIndex> = HashMap::new();
        let mut by_id: HashMap<String, StepIndex> = HashMap::new();
        let mut asked: HashMap<MessageNumber, usize> = HashMap::new();
        let mut arrived: Vec<StepIndex> = Vec::new();
        let mut counts: HashMap<&str, u64> = HashMap::new();
        // Notifications that a later step may be the answer to, by what would be that.
        let mut told: HashMap<Reaction, Told> = HashMap::new();
        // When the client had reason to go on: the step before, or the last answer.
        let mut ready = None;
        for (index, message) in messages.iter().enumerate().filter(|(_, message)| !message.redelivered) {
            match (message.direction, message.kind) {
                (Direction::ServerToClient, Kind::Response | Kind::Error) => {
                    let Some(step) = message.answers.and_then(|request| by_request.get(&request).copied()) else {
                        continue;
                    };
                    if plan.steps[step].answer.is_none() {
                        plan.steps[step].answer = Some(index);
                        arrived.push(step);
                        ready = Some(message.time);
                    }
                }
                (Direction::ServerToClient, Kind::Request) => {
                    asked.insert(message.number, index);
                    Told::next(&mut counts, message);
                }
                (Direction::ServerToClient, Kind::Notification) => {
                    let one = Told::next(&mut counts, message);
                    told.extend(Reaction::to(message).into_iter().map(|reaction| (reaction, one.clone())));
                }
                (Direction::ClientToServer, Kind::Response | Kind::Error) => {
                    if let Some(request) = message.answers.and_then(|request| asked.remove(&request)) {
                        let method = messages[request].method.clone().unwrap_or_default();
                        plan.server_requests.push(ServerRequest { method, message: request, answer: index });
                    }
                }
                (Direction::ClientToServer, Kind::Request | Kind::Notification) => {
                    let is_request = message.kind == Kind::Request;
                    let step = Step {
                        number: message.number,
                        message: index,
                        label: Label::of(message),
                        is_request,
                        after: std::mem::take(&mut arrived),
                        because: Reaction::of(message)
                            .and_then(|reaction| told.remove(&reaction))
                            .into_iter()
                            .collect(),
                        pause: ready.map_or(0, |ready| message.time.since(ready).max(0)),
                        answer: None,
                        cancels: cancelled(message).and_then(|id| by_id.get(id).copied()),
                    };
                    if is_request {
                        by_request.insert(message.number, plan.steps.len());
                        by_id.extend(message.id.clone().map(|id| (id, plan.steps.len())));
                    }
                    plan.steps.push(step);
                    ready = Some(message.time);
                }
                (Direction::ClientToServer, Kind::Invalid) => plan.unsendable.push(message.number),
                (Direction::ServerToClient, _) => {}
            }
        }
        plan
    }
}

/// What a client does about a notification: a request of this method, about this (a URI, a task).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Reaction(&'static str, Option<String>);

impl Reaction {
    /// What a client may do about a notification.
    fn to(message: &Message) -> Vec<Reaction> {
        let about = |name| member(part(message, "params")?, name).map(str::to_owned);
        match message.method.as_deref().unwrap_or_default() {
            "notifications/tools/list_changed" => vec![Reaction("tools/list", None)],
            "notifications/prompts/list_changed" => vec![Reaction("prompts/list", None)],
            "notifications/resources/list_changed" => {
                vec![Reaction("resources/list", None), Reaction("resources/templates/list", None)]
            }
            "notifications/resources/updated" => vec![Reaction("resources/read", about("uri"))],
            "notifications/tasks/status" => {
                ["tasks/get", "tasks/result"].map(|method| Reaction(method, about("taskId"))).into()
            }
            _ => Vec::new(),
        }
    }

    /// What a request may be the answer to.
    fn of(message: &Message) -> Option<Reaction> {
        let about = |name| member(part(message, "params")?, name).map(str::to_owned);
        Some(match message.method.as_deref()? {
            "tools/list" => Reaction("tools/list", None),
            "prompts/list" => Reaction("prompts/list", None),
            "resources/list" => Reaction("resources/list", None),
            "resources/templates/list" => Reaction("resources/templates/list", None),
            "resources/read" => Reaction("resources/read", about("uri")),
            "tasks/get" => Reaction("tasks/get", about("taskId")),
            "tasks/result" => Reaction("tasks/result", about("taskId")),
            _ => return None,
        })
    }
}

/// The id that a cancellation names, as JSON text.
fn cancelled(message: &Message) -> Option<&str> {
    let is_cancellation = message.method.as_deref() == Some("notifications/cancelled");
    member(part(message, "params")?, "requestId").filter(|_| is_cancellation)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::talk;

    #[test]
    fn what_waited_waits_and_what_ran_in_parallel_runs_in_parallel() {
        let messages = talk::read(
            r#"
            -> {"id":1,"method":"initialize"}
            <- {"id":1,"result":{}}
            -> {"method":"notifications/initialized"}
            -> {"id":2,"method":"tools/call","params":{"name":"a"}}
            -> {"id":3,"method":"tools/call","params":{"name":"b"}}
            <- {"id":3,"result":{}}
            -> {"id":4,"method":"tools/call","params":{"name":"c"}}
            -> {"method":"notifications/cancelled","params":{"requestId":2}}
            <- {"id":2,"result":{}}
            <- {"id":4,"result":{}}
            -> {"id":5,"method":"ping"}
            "#,
        );
        let plan = Plan::of(&messages);
        let said: Vec<String> = plan
            .steps
            .iter()
            .map(|step| format!("{} after {:?} cancels {:?}", step.label, step.after, step.cancels))
            .collect();
        insta::assert_snapshot!(said.join("\n"), @r"
        initialize after [] cancels None
        notifications/initialized after [0] cancels None
        tools/call a after [] cancels None
        tools/call b after [] cancels None
        tools/call c after [3] cancels None
        notifications/cancelled after [] cancels Some(2)
        ping after [2, 4] cancels None
        ");
        assert_eq!(plan.steps[6].answer, None);
        assert_eq!(plan.steps[2].pause, talk::TICK, "since the step before");
    }

    #[test]
    fn what_a_client_does_about_a_notification_waits_for_it() {
        let plan = Plan::of(&talk::read(
            r#"
            -> {"id":1,"method":"tools/list"}
            <- {"id":1,"result":{}}
            <- {"method":"notifications/message","params":{}}
            <- {"method":"notifications/tools/list_changed"}
            <- {"method":"notifications/resources/updated","params":{"uri":"a://1"}}
            <- {"method":"notifications/resources/updated","params":{"uri":"a://2"}}
            -> {"id":2,"method":"resources/read","params":{"uri":"a://1"}}
            -> {"id":3,"method":"tools/list"}
            -> {"id":4,"method":"tools/list","params":{"cursor":"2"}}
            "#,
        ));
        let because = |step: &Step| step.because.iter().map(|told| (told.number.0, told.count)).collect::<Vec<_>>();
        let because: Vec<_> = plan.steps.iter().map(because).collect();
        assert_eq!(because, [vec![], vec![(5, 1)], vec![(4, 1)], vec![]]);
    }

    #[test]
    fn answers_to_the_server_are_kept_with_what_it_asked() {
        let messages = talk::read(
            r#"
            -> {"id":1,"method":"tools/call","params":{"name":"ask"}}
            <- {"id":"s","method":"elicitation/create","params":{"message":"?"}}
            -> {"id":"s","result":{"action":"accept"}}
            <- {"id":1,"result":{}}
            -> nonsense
            "#,
        );
        let plan = Plan::of(&messages);
        assert_eq!(plan.steps.len(), 1);
        assert_eq!(
            plan.server_requests,
            [ServerRequest { method: "elicitation/create".into(), message: 1, answer: 2 }]
        );
        assert_eq!(plan.unsendable, [messages[4].number]);
    }
}
