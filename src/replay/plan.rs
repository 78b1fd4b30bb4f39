//! Plans a replay: which messages the client sends, and what each of them waits for.
//!
//! ```text
//!  recorded                          plan
//!  → 1 initialize                    1 initialize
//!  ← 1 result                        2 notifications/initialized   after 1
//!  ⇢ notifications/initialized       3 tools/call a
//!  → 2 tools/call a                  4 tools/call b          (3 is still open: in parallel)
//!  → 3 tools/call b                  5 tools/call c                after 4
//!  ← 3 result
//!  → 4 tools/call c
//! ```
//!
//! Messages are sent in the order of the recording. A message waits for the responses that had
//! arrived before it was sent. Only responses since the message before are listed, because that one
//! waited for the earlier ones.
//!
//! A message also waits for a notification of the server if it is a known reaction to it
//! (`tools/list` after `notifications/tools/list_changed`). Other notifications are not waited for:
//! nothing shows that they mattered, and another server may not send them.
//!
//! A plan contains numbers and hashes, but no text of the recording. A [`Planner`] builds it while
//! the messages are read once.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::sync::Arc;

use serde_json::Value;

use crate::capture::Time;
use crate::compare::Label;
use crate::decode::Direction;
use crate::decode::json::member;
use crate::decode::jsonrpc::Kind;
use crate::mcp::content::part;
use crate::mcp::{Message, MessageNumber};

/// The index of a step in its plan.
pub type StepIndex = usize;

/// A request or notification that the server sends on its own initiative.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerInitiated {
    /// Message number in the recording.
    pub number: MessageNumber,
    /// The method of the message.
    pub method: String,
    /// The number of messages with this method so far, this one included. It identifies the
    /// corresponding message of the new server.
    pub count: u64,
}

/// One message that the client sends.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedMessage {
    /// Message number in the recording.
    pub number: MessageNumber,
    /// The method and the subject of the message.
    pub label: Arc<Label>,
    /// Whether it is a request. Otherwise it is a notification.
    pub is_request: bool,
    /// Nanoseconds that the client waited after its previous message, or after the last response if
    /// that came later.
    pub pause: i64,
    /// The recorded response.
    pub answer: Option<RecordedAnswer>,
    /// The range in [`Plan::waits`] of the requests that it waits for.
    after: Range<u32>,
}

/// A recorded response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedAnswer {
    /// Message number in the recording.
    pub number: MessageNumber,
    /// Nanoseconds from the request to the response.
    pub latency: Option<i64>,
    /// Hash from [`Plan::digest`].
    digest: u64,
}

/// A request of the server that the client answered.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerRequest {
    /// The method of the request.
    pub method: String,
    /// Message number in the recording.
    pub number: MessageNumber,
    /// Message number of the client's response.
    pub answer: MessageNumber,
    /// Hash from [`Plan::question`].
    pub question: u64,
}

/// The messages that the client sends, in order.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Requests and notifications in order.
    pub steps: Vec<PlannedMessage>,
    /// Requests of the server that the client answered.
    pub server_requests: Vec<ServerRequest>,
    /// Messages of the client that are not JSON-RPC. They are not sent.
    pub unsendable: Vec<MessageNumber>,
    /// The number of the server's notifications and requests by method.
    pub unasked: BTreeMap<String, u64>,
    /// For all steps, the requests whose responses arrived since the step before.
    waits: Vec<u32>,
    /// The server messages to which a step is a reaction.
    triggers: HashMap<StepIndex, Vec<ServerInitiated>>,
    /// For each cancellation, the request that it cancels.
    cancels: HashMap<StepIndex, StepIndex>,
    /// Keys of the hashes. They are random, so nobody can construct two texts with the same hash.
    hashes: RandomState,
}

impl Plan {
    /// The requests whose responses a step waits for.
    pub fn after(&self, step: StepIndex) -> impl Iterator<Item = StepIndex> {
        let Range { start, end } = self.steps[step].after;
        self.waits[start as usize..end as usize].iter().map(|step| *step as StepIndex)
    }

    /// The server messages that a step waits for.
    pub fn triggers(&self, step: StepIndex) -> &[ServerInitiated] {
        self.triggers.get(&step).map(Vec::as_slice).unwrap_or_default()
    }

    /// Makes a step wait for a server message, because it sends back a value from it.
    pub(super) fn add_trigger(&mut self, step: StepIndex, trigger: ServerInitiated) {
        self.triggers.entry(step).or_default().push(trigger);
    }

    /// The request that a cancellation cancels.
    pub fn cancels(&self, step: StepIndex) -> Option<StepIndex> {
        self.cancels.get(&step).copied()
    }

    /// The step of a recorded message.
    pub fn step_of(&self, number: MessageNumber) -> Option<StepIndex> {
        self.steps.binary_search_by_key(&number, |step| step.number).ok()
    }

    /// Whether a response to a step equals the recorded one in every byte.
    pub fn is_as_recorded(&self, step: StepIndex, is_error: bool, text: &str) -> bool {
        self.steps[step].answer.is_some_and(|answer| answer.digest == self.digest(is_error, text))
    }

    /// A hash that identifies a response.
    fn digest(&self, is_error: bool, text: &str) -> u64 {
        self.hashes.hash_one((is_error, text))
    }

    /// A hash that identifies the parameters of a server request. It does not depend on the order
    /// of members or on blanks.
    pub fn question(&self, params: Option<&str>) -> u64 {
        let value = params.and_then(|params| serde_json::from_str::<Value>(params).ok());
        self.hashes.hash_one(value.map(|value| value.to_string()))
    }
}

/// The most answered requests that are remembered for cancellations. A cancellation can name a
/// request that was answered while the cancellation was on its way.
const MAX_ANSWERED_IDS: usize = 1_024;

/// Builds a plan while messages are read. It stores only open requests.
#[derive(Debug, Default)]
pub struct Planner {
    /// The plan so far.
    pub plan: Plan,
    /// Requests without a response, by message number.
    open: HashMap<MessageNumber, StepIndex>,
    /// Open and recently answered requests by id.
    ids: HashMap<String, StepIndex>,
    /// Recently answered requests, oldest first.
    answered_ids: VecDeque<(String, StepIndex)>,
    /// Open requests of the server: the method, and the hash from [`Plan::question`].
    open_server_requests: HashMap<MessageNumber, (String, u64)>,
    /// Requests that were answered since the last step.
    answered: Vec<StepIndex>,
    /// Notifications to which a later request may be the reaction, by that reaction.
    reactions: HashMap<Reaction, ServerInitiated>,
    /// Time of the previous message of the client, or of the last response.
    ready_since: Option<Time>,
    /// Messages that repeat an earlier one at another URL, because the server redirected that one.
    copies: HashMap<MessageNumber, MessageNumber>,
    /// Labels, shared by all steps that have them.
    labels: HashMap<Label, Arc<Label>>,
}

/// The role of a message in the plan.
#[derive(Clone, Debug, PartialEq)]
pub enum Role {
    /// The client sends it again.
    Step(StepIndex),
    /// The response to a step.
    Answer(StepIndex),
    /// A request or a notification of the server.
    ServerInitiated(ServerInitiated),
    /// The response to a server request, with its index in [`Plan::server_requests`].
    Reply(usize),
    /// The message has no role.
    None,
}

impl Planner {
    /// A planner for a recording. `copies` maps messages that were repeated after a redirect to
    /// the original ones.
    pub fn new(copies: HashMap<MessageNumber, MessageNumber>) -> Planner {
        Planner { copies, ..Planner::default() }
    }

    /// Adds the next message of the recording.
    pub fn take(&mut self, message: &Message) -> Role {
        if message.redelivered {
            return Role::None;
        }
        match (message.direction, message.kind) {
            (Direction::ServerToClient, Kind::Response | Kind::Error) => self.answer(message),
            (Direction::ServerToClient, Kind::Request | Kind::Notification) => {
                Role::ServerInitiated(self.server_initiated(message))
            }
            (Direction::ClientToServer, Kind::Response | Kind::Error) => self.reply(message),
            (Direction::ClientToServer, Kind::Request | Kind::Notification) => self.step(message),
            (Direction::ClientToServer, Kind::Invalid) => {
                self.plan.unsendable.push(message.number);
                Role::None
            }
            (Direction::ServerToClient, Kind::Invalid) => Role::None,
        }
    }

    fn answer(&mut self, message: &Message) -> Role {
        let Some(step) = message.answers.and_then(|request| self.open.remove(&request)) else { return Role::None };
        let is_error = message.kind == Kind::Error;
        let text = part(message, if is_error { "error" } else { "result" }).unwrap_or("null");
        let digest = self.plan.digest(is_error, text);
        self.plan.steps[step].answer =
            Some(RecordedAnswer { number: message.number, latency: message.latency, digest });
        self.answered.push(step);
        self.ready_since = Some(message.time);
        self.answered_ids.extend(message.id.as_deref().map(|id| (id.to_owned(), step)));
        if self.answered_ids.len() > MAX_ANSWERED_IDS
            && let Some((id, step)) = self.answered_ids.pop_front()
            && self.ids.get(&id) == Some(&step)
        {
            self.ids.remove(&id);
        }
        Role::Answer(step)
    }

    fn server_initiated(&mut self, message: &Message) -> ServerInitiated {
        let method = message.method.as_deref().unwrap_or_default().to_owned();
        let count = self.plan.unasked.entry(method.clone()).or_default();
        *count += 1;
        let initiated = ServerInitiated { number: message.number, method, count: *count };
        if message.kind == Kind::Request {
            let question = self.plan.question(part(message, "params"));
            self.open_server_requests.insert(message.number, (initiated.method.clone(), question));
        } else {
            let caused = REACTIONS.iter().filter(|(notification, ..)| initiated.method == *notification);
            self.reactions.extend(caused.map(|row| (reaction(message, row), initiated.clone())));
        }
        initiated
    }

    fn reply(&mut self, message: &Message) -> Role {
        let request = message.answers.and_then(|request| Some((request, self.open_server_requests.remove(&request)?)));
        let Some((number, (method, question))) = request else { return Role::None };
        self.plan.server_requests.push(ServerRequest { method, number, answer: message.number, question });
        Role::Reply(self.plan.server_requests.len() - 1)
    }

    fn step(&mut self, message: &Message) -> Role {
        // A redirected message is sent once. The response to its copy counts for it.
        let original = self.copies.get(&message.number).and_then(|original| self.plan.step_of(*original));
        if let Some(step) = original {
            self.open.extend((message.kind == Kind::Request).then_some((message.number, step)));
            return Role::None;
        }
        let index = self.plan.steps.len();
        let is_request = message.kind == Kind::Request;
        let label = Label::of(message);
        let label = match self.labels.get(&label) {
            Some(known) => Arc::clone(known),
            None => Arc::clone(self.labels.entry(label.clone()).or_insert(Arc::new(label))),
        };
        let start = self.plan.waits.len() as u32;
        // A plan in memory has fewer than 2^32 steps.
        self.plan.waits.extend(self.answered.drain(..).map(|step| step as u32));
        let after = start..self.plan.waits.len() as u32;
        let cause = REACTIONS.iter().find(|(_, request, _)| message.method.as_deref() == Some(*request));
        if let Some(notification) = cause.and_then(|row| self.reactions.remove(&reaction(message, row))) {
            self.plan.add_trigger(index, notification);
        }
        if let Some(request) = cancelled(message).and_then(|id| self.ids.get(id)) {
            self.plan.cancels.insert(index, *request);
        }
        if is_request {
            self.open.insert(message.number, index);
            self.ids.extend(message.id.as_deref().map(|id| (id.to_owned(), index)));
        }
        let pause = self.ready_since.replace(message.time).map_or(0, |ready| message.time.since(ready).max(0));
        self.plan.steps.push(PlannedMessage { number: message.number, label, is_request, pause, answer: None, after });
        Role::Step(index)
    }
}

/// Requests that a client sends because of a notification. The third column names the member of
/// `params` that both must have in common.
const REACTIONS: [(&str, &str, Option<&str>); 7] = [
    ("notifications/tools/list_changed", "tools/list", None),
    ("notifications/prompts/list_changed", "prompts/list", None),
    ("notifications/resources/list_changed", "resources/list", None),
    ("notifications/resources/list_changed", "resources/templates/list", None),
    ("notifications/resources/updated", "resources/read", Some("uri")),
    ("notifications/tasks/status", "tasks/get", Some("taskId")),
    ("notifications/tasks/status", "tasks/result", Some("taskId")),
];

/// A request that a client sends because of a notification: its method, and its subject (a URI, a
/// task).
type Reaction = (&'static str, Option<String>);

/// One row of [`REACTIONS`] with the subject of this message.
fn reaction(message: &Message, (_, request, subject): &(&str, &'static str, Option<&str>)) -> Reaction {
    let about = |name: &str| member(part(message, "params")?, name).map(str::to_owned);
    (request, subject.and_then(about))
}

/// The request id in a cancellation, as JSON text.
fn cancelled(message: &Message) -> Option<&str> {
    let is_cancellation = message.method.as_deref() == Some("notifications/cancelled");
    member(part(message, "params")?, "requestId").filter(|_| is_cancellation)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::test_recordings;

    fn plan(text: &str) -> Plan {
        let mut planner = Planner::default();
        test_recordings::read(text).iter().for_each(|message| drop(planner.take(message)));
        planner.plan
    }

    #[test]
    fn waiting_and_parallelism_are_as_recorded() {
        let plan = plan(
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
        let described = plan.steps.iter().enumerate().map(|(at, step)| {
            format!("{} after {:?} cancels {:?}", step.label, plan.after(at).collect::<Vec<_>>(), plan.cancels(at))
        });
        let described: Vec<String> = described.collect();
        insta::assert_snapshot!(described.join("\n"), @r"
        initialize after [] cancels None
        notifications/initialized after [0] cancels None
        tools/call a after [] cancels None
        tools/call b after [] cancels None
        tools/call c after [3] cancels None
        notifications/cancelled after [] cancels Some(2)
        ping after [2, 4] cancels None
        ");
        assert_eq!(plan.steps[6].answer, None);
        assert_eq!(plan.steps[2].pause, test_recordings::TICK, "since the step before");
    }

    #[test]
    fn a_reaction_waits_for_its_notification() {
        let plan = plan(
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
        );
        let triggers = |step| {
            plan.triggers(step).iter().map(|reactions| (reactions.number.0, reactions.count)).collect::<Vec<_>>()
        };
        let triggers: Vec<_> = (0..plan.steps.len()).map(triggers).collect();
        assert_eq!(triggers, [vec![], vec![(5, 1)], vec![(4, 1)], vec![]]);
    }

    #[test]
    fn client_responses_are_stored_with_the_server_request() {
        let plan = plan(
            r#"
            -> {"id":1,"method":"tools/call","params":{"name":"ask"}}
            <- {"id":"s","method":"elicitation/create","params":{"message":"?"}}
            -> {"id":"s","result":{"action":"accept"}}
            <- {"id":1,"result":{}}
            -> nonsense
            "#,
        );
        assert_eq!(plan.steps.len(), 1);
        let (number, answer) = (MessageNumber(2), MessageNumber(3));
        let question = plan.question(Some(r#"{ "message": "?" }"#));
        assert_eq!(
            plan.server_requests,
            [ServerRequest { method: "elicitation/create".into(), number, answer, question }]
        );
        assert_ne!(question, plan.question(None));
        assert_eq!(plan.unsendable, [MessageNumber(5)]);
    }

    #[test]
    fn a_redirected_message_is_sent_once() {
        let text = r#"
            -> {"id":1,"method":"initialize"}
            -> {"id":1,"method":"initialize"}
            <- {"id":1,"result":{}}
            -> {"id":2,"method":"ping"}
        "#;
        let mut planner = Planner::new(HashMap::from([(MessageNumber(2), MessageNumber(1))]));
        test_recordings::read(text).iter().for_each(|message| drop(planner.take(message)));
        let plan = planner.plan;
        assert_eq!(plan.steps.iter().map(|step| step.number.0).collect::<Vec<_>>(), [1, 4]);
        assert!(plan.is_as_recorded(0, false, "{}") && plan.after(1).eq([0]));
    }

    #[test]
    fn a_recorded_answer_is_recognised_by_its_bytes() {
        let plan = plan(
            r#"
            -> {"id":1,"method":"tools/call","params":{"name":"a"}}
            <- {"id":1,"result":{"a": 1}}
            -> {"id":2,"method":"tools/call","params":{"name":"b"}}
            "#,
        );
        assert!(plan.is_as_recorded(0, false, r#"{"a": 1}"#));
        assert!(!plan.is_as_recorded(0, true, r#"{"a": 1}"#) && !plan.is_as_recorded(0, false, r#"{"a":1}"#));
        assert!(!plan.is_as_recorded(1, false, "null"), "it was not answered");
    }

    #[test]
    fn a_cancellation_can_cross_the_response_and_old_ids_are_discarded() {
        let mut test_recordings = String::new();
        for id in 0..3_000 {
            test_recordings += &format!("-> {{\"id\":{id},\"method\":\"ping\"}}\n<- {{\"id\":{id},\"result\":{{}}}}\n");
        }
        for id in [2_999, 0] {
            test_recordings +=
                &format!("-> {{\"method\":\"notifications/cancelled\",\"params\":{{\"requestId\":{id}}}}}\n");
        }
        let mut planner = Planner::default();
        test_recordings::read(&test_recordings).iter().for_each(|message| drop(planner.take(message)));
        assert_eq!([3_000, 3_001].map(|step| planner.plan.cancels(step)), [Some(2_999), None]);
        assert_eq!((planner.open.len(), planner.ids.len(), planner.labels.len()), (0, MAX_ANSWERED_IDS, 2));
    }
}
