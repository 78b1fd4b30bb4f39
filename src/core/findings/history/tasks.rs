//! Tasks: requests that are answered later (2025-11-25 basic/utilities/tasks; with 2026-07-28
//! the extension `io.modelcontextprotocol/tasks`).

use std::collections::BTreeMap;

use super::fingerprint::fingerprint;
use super::open_requests::OpenRequest;
use crate::capture::Time;
use crate::decode::json::{self, Object, string};
use crate::decode::{Direction, Kind};
use crate::findings::message_facts::MessageFacts;
use crate::mcp::revision::Revision::V2025_11_25;
use crate::mcp::{MessageNumber, Method, Revisions};

/// The extension's id.
pub const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// Limits of remembered tasks, of the inputs of a task, and of the bytes of an id or key. Beyond
/// the limit the task with the smallest id is evicted, which is arbitrary because ids are random.
const TASKS: usize = 1_024;
const INPUTS: usize = 16;
const ID: usize = 256;

words! {
    /// The status of a task ("Task Status" of the specification), with its value on the wire.
    pub enum Status {
        Working = "working",
        InputRequired = "input_required",
        Completed = "completed",
        Failed = "failed",
        Cancelled = "cancelled",
    }
}

impl Status {
    /// "Tasks with a completed, failed, or cancelled status are in a terminal state".
    pub fn is_terminal(self) -> bool {
        matches!(self, Status::Completed | Status::Failed | Status::Cancelled)
    }
}

/// A task as one message describes it.
#[derive(Clone, Debug)]
pub struct TaskState<'a> {
    /// `taskId`.
    pub id: String,
    /// `status`, if its value is a defined one.
    pub status: Option<Status>,
    /// `lastUpdatedAt`.
    pub updated: Option<String>,
    /// All members of the task object.
    pub members: Object<'a>,
}

impl<'a> TaskState<'a> {
    fn read(members: Object<'a>) -> Option<TaskState<'a>> {
        let id = members.text("taskId").filter(|id| id.len() <= ID)?.into_owned();
        let status = members.text("status").and_then(|status| Status::named(&status));
        let updated = members.text("lastUpdatedAt").filter(|text| text.len() <= ID).map(|text| text.into_owned());
        Some(TaskState { id, status, updated, members })
    }

    /// The task that a message describes: one that it creates, returns, cancels or reports.
    pub fn of(facts: &MessageFacts<'a>) -> Option<TaskState<'a>> {
        let body = facts.body();
        match (facts.message.kind, facts.method) {
            (Kind::Notification, Method::TasksStatus | Method::TasksNotification)
            | (Kind::Response, Method::TasksGet | Method::TasksCancel) => TaskState::read(body.clone()),
            (Kind::Response, Method::TasksResult | Method::TasksList) => None,
            (Kind::Response, _) => TaskState::created(facts),
            _ => None,
        }
    }

    /// The task that a result creates. It is nested in 2025-11-25 and inline later.
    pub fn created(facts: &MessageFacts<'a>) -> Option<TaskState<'a>> {
        let is_inline = facts.revisions().within(Revisions::MODERN);
        let may_create = matches!(
            facts.method,
            Method::ToolsCall | Method::SamplingCreateMessage | Method::ElicitationCreate | Method::Other
        );
        match is_inline {
            true => {
                let is_task = facts.has_result_type("task");
                is_task.then(|| TaskState::read(facts.body().clone())).flatten()
            }
            false if may_create && facts.body().get("task").is_some() => TaskState::read(facts.body().object("task")),
            false => None,
        }
    }

    /// The requested time between two polls, in milliseconds.
    fn interval(&self) -> Option<u64> {
        ["pollInterval", "pollIntervalMs"].iter().find_map(|name| self.members.get(name)?.parse().ok())
    }

    /// The key and a hash of the content of each requested input.
    pub fn inputs(&self) -> Vec<(String, u64)> {
        let requests = self.members.object("inputRequests");
        let read = |(key, request): (&str, &str)| {
            let key = string(key).filter(|key| key.len() <= ID)?;
            Some((key.into_owned(), fingerprint(request)?))
        };
        requests.iter().take(INPUTS).filter_map(read).collect()
    }
}

/// The history of a task.
#[derive(Clone, Debug, Default)]
pub struct Task {
    /// The request that created the task.
    pub request: Option<MessageNumber>,
    /// The latest message that described the task.
    pub number: MessageNumber,
    /// The latest status.
    pub status: Option<Status>,
    /// When a final status was first captured.
    pub ended: Option<Time>,
    /// The latest `lastUpdatedAt`.
    pub updated: Option<String>,
    /// The requested time between two polls, in milliseconds.
    pub interval: Option<u64>,
    /// The latest `tasks/get`, and when it was captured.
    pub polled: Option<(MessageNumber, Time)>,
    /// Hashes of requested inputs, by key.
    pub inputs: BTreeMap<String, u64>,
}

/// The tasks of a session. The key is whether the server runs the task, and its id.
#[derive(Debug, Default)]
pub struct Tasks {
    tasks: BTreeMap<(bool, String), Task>,
    /// Whether a task was evicted.
    pub is_truncated: bool,
}

impl Tasks {
    /// The task with this id that the sender in this direction runs.
    pub fn get(&self, runner: Direction, id: &str) -> Option<&Task> {
        self.tasks.get(&(runner == Direction::ServerToClient, id.to_owned()))
    }

    pub(super) fn observe(&mut self, facts: &MessageFacts<'_>, request: Option<&OpenRequest>) {
        let message = facts.message;
        if facts.revisions().is_disjoint(Revisions::since(V2025_11_25)) {
            return;
        }
        if message.kind == Kind::Request && facts.method == Method::TasksGet {
            let runner = message.direction != Direction::ServerToClient;
            let id = facts.body().text("taskId").unwrap_or_default().into_owned();
            if let Some(task) = self.tasks.get_mut(&(runner, id)) {
                task.polled = Some((message.number, message.time));
            }
            return;
        }
        if (message.kind, facts.method) == (Kind::Response, Method::TasksList) {
            for task in json::array(facts.body().get("tasks").unwrap_or_default(), TASKS) {
                if let Some(stated) = TaskState::read(Object::read(task)) {
                    self.update(&stated, facts, None);
                }
            }
        } else if let Some(stated) = TaskState::of(facts) {
            let creates = !matches!(facts.method, Method::TasksGet | Method::TasksCancel);
            self.update(&stated, facts, request.filter(|_| creates).map(|request| request.number));
        }
    }

    fn update(&mut self, stated: &TaskState<'_>, facts: &MessageFacts<'_>, request: Option<MessageNumber>) {
        let key = (facts.message.direction == Direction::ServerToClient, stated.id.clone());
        if !self.tasks.contains_key(&key) && self.tasks.len() >= TASKS {
            self.tasks.pop_first();
            self.is_truncated = true;
        }
        let (number, time) = (facts.message.number, facts.message.time);
        let task = self.tasks.entry(key).or_insert_with(|| Task { request, ..Task::default() });
        task.number = number;
        task.status = stated.status.or(task.status);
        if stated.status.is_some_and(Status::is_terminal) {
            task.ended.get_or_insert(time);
        }
        task.updated = stated.updated.clone().or(task.updated.take());
        task.interval = stated.interval().or(task.interval);
        for (key, input) in stated.inputs() {
            if task.inputs.len() < INPUTS {
                task.inputs.entry(key).or_insert(input);
            }
        }
    }
}
