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
//!
//! A plan holds numbers, and no text of the recording: a [`Planner`] makes it while the messages go by.

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

/// One message of the client.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Its number in the recording.
    pub number: MessageNumber,
    /// What it is called.
    pub label: Arc<Label>,
    /// Whether an answer is expected: a request. Otherwise it is a notification.
    pub is_request: bool,
    /// Nanoseconds that the client let pass: since the step before, or since the last answer that it waited for.
    pub pause: i64,
    /// The recorded answer.
    pub answer: Option<Recorded>,
    /// What it waits for, in [`Plan::waits`].
    after: Range<u32>,
}

/// A recorded answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Its number.
    pub number: MessageNumber,
    /// Nanoseconds until it was there.
    pub latency: Option<i64>,
    /// What [`Plan::digest`] makes of it.
    digest: u64,
}

/// A request of the server, as it was answered.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerRequest {
    /// Its method.
    pub method: String,
    /// Its number.
    pub number: MessageNumber,
    /// That of the client's answer.
    pub answer: MessageNumber,
    /// What [`Plan::question`] makes of it.
    pub question: u64,
}

/// What the client is to say again.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Requests and notifications in order.
    pub steps: Vec<Step>,
    /// Requests of the server that the client answered.
    pub server_requests: Vec<ServerRequest>,
    /// Messages of the client that are no JSON-RPC: they are not sent.
    pub unsendable: Vec<MessageNumber>,
    /// How many notifications and requests of each method the server sent.
    pub unasked: BTreeMap<String, u64>,
    /// Requests whose answers arrived after the step before one was sent, step by step.
    waits: Vec<u32>,
    /// What the server told that made the client say something.
    because: HashMap<StepIndex, Vec<Told>>,
    /// For cancellations: the request that is taken back.
    cancels: HashMap<StepIndex, StepIndex>,
    /// Another one each time, so that nobody can make two texts that seem the same.
    hashes: RandomState,
}

impl Plan {
    /// The requests whose answers a step waits for.
    pub fn after(&self, step: StepIndex) -> impl Iterator<Item = StepIndex> {
        let Range { start, end } = self.steps[step].after;
        self.waits[start as usize..end as usize].iter().map(|step| *step as StepIndex)
    }

    /// What the server told that made the client say a step.
    pub fn because(&self, step: StepIndex) -> &[Told] {
        self.because.get(&step).map(Vec::as_slice).unwrap_or_default()
    }

    /// A step hands back what the server told: it waits for that.
    pub(super) fn wait_for(&mut self, step: StepIndex, told: Told) {
        self.because.entry(step).or_default().push(told);
    }

    /// For a cancellation: the request that it takes back.
    pub fn cancels(&self, step: StepIndex) -> Option<StepIndex> {
        self.cancels.get(&step).copied()
    }

    /// The step of a message.
    pub fn step_of(&self, number: MessageNumber) -> Option<StepIndex> {
        self.steps.binary_search_by_key(&number, |step| step.number).ok()
    }

    /// Whether the recorded answer to a step is this one, letter by letter.
    pub fn is_as_recorded(&self, step: StepIndex, is_error: bool, text: &str) -> bool {
        self.steps[step].answer.is_some_and(|answer| answer.digest == self.digest(is_error, text))
    }

    /// What is held of an answer: enough to know it again.
    fn digest(&self, is_error: bool, text: &str) -> u64 {
        self.hashes.hash_one((is_error, text))
    }

    /// What is held of a question of the server: that of the same parameters, however they are written, is the same.
    pub fn question(&self, params: Option<&str>) -> u64 {
        let value = params.and_then(|params| serde_json::from_str::<Value>(params).ok());
        self.hashes.hash_one(value.map(|value| value.to_string()))
    }
}

/// Answered requests that a cancellation may still name: it was on its way when the answer came.
const CROSSED: usize = 1_024;

/// Makes a plan of messages that go by. It holds what is open.
#[derive(Debug, Default)]
pub struct Planner {
    /// The plan so far.
    pub plan: Plan,
    open: HashMap<MessageNumber, StepIndex>,
    /// Requests that are open, or were a moment ago, by id.
    ids: HashMap<String, StepIndex>,
    crossed: VecDeque<(String, StepIndex)>,
    /// What the server asked, with its method and [`Plan::question`].
    asked: HashMap<MessageNumber, (String, u64)>,
    arrived: Vec<StepIndex>,
    /// Notifications that a later step may be the answer to, by what would be that.
    told: HashMap<Reaction, Told>,
    /// When the client had reason to go on: the step before, or the last answer.
    ready: Option<Time>,
    /// Messages that repeat an earlier one at another place, since the server redirected that.
    copies: HashMap<MessageNumber, MessageNumber>,
    labels: HashMap<Label, Arc<Label>>,
}

/// What a message is to the plan.
#[derive(Clone, Debug, PartialEq)]
pub enum Role {
    /// What the client says again.
    Step(StepIndex),
    /// The answer to a step.
    Answer(StepIndex),
    /// A request or a notification of the server.
    Told(Told),
    /// The answer to a request of the server, of this index among [`Plan::server_requests`].
    Reply(usize),
    /// Nothing.
    None,
}

impl Planner {
    /// Of a recording in which these messages are copies of earlier ones, that were redirected.
    pub fn new(copies: HashMap<MessageNumber, MessageNumber>) -> Planner {
        Planner { copies, ..Planner::default() }
    }

    /// The next message of the recording.
    pub fn take(&mut self, message: &Message) -> Role {
        if message.redelivered {
            return Role::None;
        }
        match (message.direction, message.kind) {
            (Direction::ServerToClient, Kind::Response | Kind::Error) => self.answer(message),
            (Direction::ServerToClient, Kind::Request | Kind::Notification) => Role::Told(self.tell(message)),
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
        self.plan.steps[step].answer = Some(Recorded { number: message.number, latency: message.latency, digest });
        self.arrived.push(step);
        self.ready = Some(message.time);
        self.crossed.extend(message.id.as_deref().map(|id| (id.to_owned(), step)));
        if self.crossed.len() > CROSSED
            && let Some((id, step)) = self.crossed.pop_front()
            && self.ids.get(&id) == Some(&step)
        {
            self.ids.remove(&id);
        }
        Role::Answer(step)
    }

    fn tell(&mut self, message: &Message) -> Told {
        let method = message.method.as_deref().unwrap_or_default().to_owned();
        let count = self.plan.unasked.entry(method.clone()).or_default();
        *count += 1;
        let told = Told { number: message.number, method, count: *count };
        if message.kind == Kind::Request {
            let question = self.plan.question(part(message, "params"));
            self.asked.insert(message.number, (told.method.clone(), question));
        } else {
            self.told.extend(Reaction::to(message).into_iter().map(|reaction| (reaction, told.clone())));
        }
        told
    }

    fn reply(&mut self, message: &Message) -> Role {
        let asked = message.answers.and_then(|request| Some((request, self.asked.remove(&request)?)));
        let Some((number, (method, question))) = asked else { return Role::None };
        self.plan.server_requests.push(ServerRequest { method, number, answer: message.number, question });
        Role::Reply(self.plan.server_requests.len() - 1)
    }

    fn step(&mut self, message: &Message) -> Role {
        // It is said once, and answered at the place that it was redirected to.
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
        // Steps are numbers in memory: there are fewer than 2^32.
        self.plan.waits.extend(self.arrived.drain(..).map(|step| step as u32));
        let after = start..self.plan.waits.len() as u32;
        if let Some(told) = Reaction::of(message).and_then(|reaction| self.told.remove(&reaction)) {
            self.plan.wait_for(index, told);
        }
        if let Some(request) = cancelled(message).and_then(|id| self.ids.get(id)) {
            self.plan.cancels.insert(index, *request);
        }
        if is_request {
            self.open.insert(message.number, index);
            self.ids.extend(message.id.as_deref().map(|id| (id.to_owned(), index)));
        }
        let pause = self.ready.replace(message.time).map_or(0, |ready| message.time.since(ready).max(0));
        self.plan.steps.push(Step { number: message.number, label, is_request, pause, answer: None, after });
        Role::Step(index)
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

    fn plan(text: &str) -> Plan {
        let mut planner = Planner::default();
        talk::read(text).iter().for_each(|message| drop(planner.take(message)));
        planner.plan
    }

    #[test]
    fn what_waited_waits_and_what_ran_in_parallel_runs_in_parallel() {
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
        let said = plan.steps.iter().enumerate().map(|(at, step)| {
            format!("{} after {:?} cancels {:?}", step.label, plan.after(at).collect::<Vec<_>>(), plan.cancels(at))
        });
        let said: Vec<String> = said.collect();
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
        let because = |step| plan.because(step).iter().map(|told| (told.number.0, told.count)).collect::<Vec<_>>();
        let because: Vec<_> = (0..plan.steps.len()).map(because).collect();
        assert_eq!(because, [vec![], vec![(5, 1)], vec![(4, 1)], vec![]]);
    }

    #[test]
    fn answers_to_the_server_are_kept_with_what_it_asked() {
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
    fn what_was_redirected_is_said_once() {
        let text = r#"
            -> {"id":1,"method":"initialize"}
            -> {"id":1,"method":"initialize"}
            <- {"id":1,"result":{}}
            -> {"id":2,"method":"ping"}
        "#;
        let mut planner = Planner::new(HashMap::from([(MessageNumber(2), MessageNumber(1))]));
        talk::read(text).iter().for_each(|message| drop(planner.take(message)));
        let plan = planner.plan;
        assert_eq!(plan.steps.iter().map(|step| step.number.0).collect::<Vec<_>>(), [1, 4]);
        assert!(plan.is_as_recorded(0, false, "{}") && plan.after(1).eq([0]));
    }

    #[test]
    fn an_answer_is_known_again_by_its_letters() {
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
    fn a_cancellation_may_cross_the_answer_and_a_plan_holds_no_more_than_such() {
        let mut talk = String::new();
        for id in 0..3_000 {
            talk += &format!("-> {{\"id\":{id},\"method\":\"ping\"}}\n<- {{\"id\":{id},\"result\":{{}}}}\n");
        }
        for id in [2_999, 0] {
            talk += &format!("-> {{\"method\":\"notifications/cancelled\",\"params\":{{\"requestId\":{id}}}}}\n");
        }
        let mut planner = Planner::default();
        talk::read(&talk).iter().for_each(|message| drop(planner.take(message)));
        assert_eq!([3_000, 3_001].map(|step| planner.plan.cancels(step)), [Some(2_999), None]);
        assert_eq!((planner.open.len(), planner.ids.len(), planner.labels.len()), (0, CROSSED, 2));
    }
}
