//! Rules about the status of tasks, about polling, and about their end.

use super::{BOTH, CORE};
use crate::findings::history::{Status, Task, TaskState};
use crate::findings::{Check, MessageContext, NOTIFICATIONS, REQUESTS, RESULTS, Report, Rule, Severity};
use crate::mcp::{Method, Revisions, Transport};

pub(in crate::findings) const RULES: &[&Rule] =
    &[&TRANSITION, &POLL_INTERVAL, &CANCEL_TERMINAL, &FAILED_SEMANTICS, &INPUT_KEY];

/// The task that a message describes, and its history.
fn current_and_previous<'s, 'a>(context: &MessageContext<'s, 'a>) -> Option<(TaskState<'a>, &'s Task)> {
    let now = TaskState::of(context)?;
    let before = context.history.tasks.get(context.message.direction, &now.id)?;
    Some((now, before))
}

static TRANSITION: Rule = Rule {
    id: "task-transition",
    severity: Severity::Error,
    revisions: BOTH,
    title: "The status of a finished task changed",
    spec: "2025-11-25 basic/utilities/tasks \"Task Status Lifecycle\": terminal states MUST NOT transition to any other status; ext-tasks",
    why: "Clients stop polling when a task is finished, and never see the later status.",
    example: "completed, then working",
    remedy: "Treat completed, failed and cancelled as final.",
    checks: &[
        Check::Message(NOTIFICATIONS, &[Method::TasksStatus, Method::TasksNotification], transition),
        Check::Message(RESULTS, &[Method::TasksGet, Method::TasksCancel], transition),
    ],
};

fn transition(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let Some((now, before)) = current_and_previous(context) else { return };
    let Some((was, is)) = before.status.zip(now.status) else { return };
    // Over HTTP one response may overtake another. `lastUpdatedAt` shows whether this one is newer.
    let is_later = match (&before.updated, &now.updated) {
        (Some(before), Some(now)) => now >= before,
        _ => false,
    };
    if was.is_terminal() && was != is && (is_later || context.history.transport == Transport::Stdio) {
        report.add_about(&[before.number], format!("the task {:?} was {} and is {}", now.id, was.name(), is.name()));
    }
}

static POLL_INTERVAL: Rule = Rule {
    id: "task-poll-interval",
    severity: Severity::Warning,
    revisions: BOTH,
    title: "A task was polled more often than its receiver asked for",
    spec: "2025-11-25 basic/utilities/tasks \"Getting Tasks\": pollInterval (SHOULD); ext-tasks pollIntervalMs",
    why: "It costs work on both sides and returns nothing new.",
    example: "tasks/get every 100 ms with \"pollInterval\":5000",
    remedy: "Wait for pollInterval between two tasks/get, or wait for a notification.",
    checks: &[Check::Message(REQUESTS, &[Method::TasksGet], poll_interval)],
};

fn poll_interval(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let Some(id) = context.body().text("taskId") else { return };
    let Some(task) = context.history.tasks.get(context.message.direction.reversed(), &id) else { return };
    let Some(((number, polled), interval)) = task.polled.zip(task.interval) else { return };
    let waited = context.message.time.0.saturating_sub(polled.0);
    let interval_ns = i64::try_from(interval).unwrap_or(i64::MAX).saturating_mul(1_000_000);
    // Clocks and networks are inaccurate: nine tenths of the interval are accepted.
    if waited >= 0 && waited < interval_ns / 10 * 9 {
        let waited = waited / 1_000_000;
        report.add_about(&[number], format!("{id:?} was polled after {waited} ms, but pollInterval is {interval} ms"));
    }
}

static CANCEL_TERMINAL: Rule = Rule {
    id: "task-cancel-terminal",
    severity: Severity::Warning,
    revisions: CORE,
    title: "The receiver accepted the cancellation of a finished task",
    spec: "2025-11-25 basic/utilities/tasks \"Task Cancellation\" 1: -32602",
    why: "The client believes that it stopped work that was already done.",
    example: "a result for tasks/cancel of a completed task",
    remedy: "Answer -32602 and name the task's status.",
    checks: &[Check::Message(RESULTS, &[Method::TasksCancel], cancel_terminal)],
};

fn cancel_terminal(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let Some((request, id)) = context.request.and_then(|request| Some((request, request.subject.as_deref()?))) else {
        return;
    };
    let Some(task) = context.history.tasks.get(context.message.direction, id) else { return };
    if task.ended.is_some_and(|ended| ended < request.time) {
        let status = task.status.map_or("over", Status::name);
        report.add_about(&[task.number, request.number], format!("the task {id:?} was already {status}"));
    }
}

static FAILED_SEMANTICS: Rule = Rule {
    id: "task-failed-semantics",
    severity: Severity::Error,
    revisions: BOTH,
    title: "The status of a finished task contradicts its content",
    spec: "2025-11-25 basic/utilities/tasks \"Task Execution Errors\" (SHOULD); extension io.modelcontextprotocol/tasks \"Task Status\"",
    why: "The client mistakes a failure for success, or cannot find the result.",
    example: "2026-07-28: status failed with a result whose isError is true; completed without \"result\"",
    remedy: "2025-11-25: a result with isError makes the task failed. 2026-07-28: failed needs an error, and completed needs a result, with isError or without.",
    checks: &[
        Check::Message(RESULTS, &[Method::TasksResult], failed_result),
        Check::Message(RESULTS, &[Method::TasksGet], failed_state),
        Check::Message(NOTIFICATIONS, &[Method::TasksNotification], failed_state),
    ],
};

fn failed_result(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let Some(id) = context.request.and_then(|request| request.subject.as_deref()) else { return };
    let Some(task) = context.history.tasks.get(context.message.direction, id) else { return };
    let is_error = context.body().get("isError") == Some("true");
    if is_error && task.status == Some(Status::Completed) {
        let text = format!("the tool failed (isError), and the task {id:?} is completed");
        report.add_as_about(Severity::Warning, &[task.number], text);
    }
}

fn failed_state(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    if !context.revisions().within(Revisions::MODERN) {
        return;
    }
    let Some(now) = TaskState::of(context) else { return };
    let (result, error) = (now.members.get("result"), now.members.get("error"));
    let failed = result.is_some() && now.members.object("result").get("isError") == Some("true");
    match now.status {
        Some(Status::Failed) if failed => {
            report.add("the status is failed, but a result with isError belongs to completed")
        }
        Some(Status::Failed) if error.is_none() => report.add("the status is failed, without \"error\""),
        Some(Status::Completed) if result.is_none() => report.add("the status is completed, without \"result\""),
        _ => {}
    }
}

static INPUT_KEY: Rule = Rule {
    id: "task-input-key-reused",
    severity: Severity::Error,
    revisions: Revisions::MODERN,
    title: "A task reuses the key of an earlier input request for another question",
    spec: "extension io.modelcontextprotocol/tasks (SEP-2663) \"Task Update Requests\": keys are unique over the life of a task",
    why: "The client has already answered that key, and does not ask the user again.",
    example: "inputRequests {\"a\":…} twice, with different questions",
    remedy: "Use a new key for every question.",
    checks: &[
        Check::Message(RESULTS, &[Method::TasksGet], input_key),
        Check::Message(NOTIFICATIONS, &[Method::TasksNotification], input_key),
    ],
};

fn input_key(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let Some((now, before)) = current_and_previous(context) else { return };
    for (key, input) in now.inputs() {
        if before.inputs.get(&key).is_some_and(|known| *known != input) {
            report.add_about(&[before.number], format!("{key:?} asked for something else before"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{call, created, session, state};
    use crate::findings::testing::{fires, modern, silent};

    /// A session with the task `t`, and then these steps.
    fn after(steps: &[&str]) -> Vec<String> {
        let (call, created) = (call(2, "may", r#","task":{}"#), created(2, "t", "working"));
        session(&[&[call.as_str(), created.as_str()], steps].concat())
    }

    fn ask(id: u32, method: &str) -> String {
        format!(r#"> {{"jsonrpc":"2.0","id":{id},"method":"tasks/{method}","params":{{"taskId":"t"}}}}"#)
    }

    fn is(id: u32, status: &str) -> String {
        format!(r#"< {{"jsonrpc":"2.0","id":{id},"result":{{{}}}}}"#, state("t", status))
    }

    #[test]
    fn a_final_status_is_final() {
        let rule = "task-transition";
        let then = |first: &str, second: &str| {
            after(&[&ask(3, "get"), &is(3, first), "+ 2000", &ask(4, "get"), &is(4, second)])
        };
        fires(rule, &then("completed", "working"));
        fires(rule, &then("cancelled", "completed"));
        silent(rule, &then("input_required", "working"));
        silent(rule, &then("completed", "completed"));
    }

    #[test]
    fn polls_respect_the_interval() {
        let rule = "task-poll-interval";
        let twice = |wait: &str| after(&[&ask(3, "get"), &is(3, "working"), wait, &ask(4, "get")]);
        fires(rule, &twice("+ 100"));
        silent(rule, &twice("+ 1000"));
    }

    #[test]
    fn finished_tasks_are_not_cancelled() {
        let rule = "task-cancel-terminal";
        let cancelled =
            |status: &str, answer: &str| after(&[&ask(3, "get"), &is(3, status), &ask(4, "cancel"), answer]);
        fires(rule, &cancelled("completed", &is(4, "completed")));
        silent(rule, &cancelled("working", &is(4, "cancelled")));
        let refused = r#"< {"jsonrpc":"2.0","id":4,"error":{"code":-32602,"message":"m"}}"#;
        silent(rule, &cancelled("completed", refused));
    }

    #[test]
    fn the_final_status_matches_the_content() {
        let rule = "task-failed-semantics";
        let related = r#""_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"}}"#;
        let ended = |status: &str| {
            let result = format!(r#"< {{"jsonrpc":"2.0","id":4,"result":{{"content":[],"isError":true,{related}}}}}"#);
            after(&[&ask(3, "get"), &is(3, status), &ask(4, "result"), &result])
        };
        assert_eq!(fires(rule, &ended("completed")).severity.name(), "warning");
        silent(rule, &ended("failed"));
        fires(rule, &got(&[r#""status":"failed""#]));
        fires(rule, &got(&[r#""status":"completed""#]));
        silent(rule, &got(&[r#""status":"completed","result":{"content":[],"isError":true}"#]));
    }

    /// Polls of a task of the extension, with these states.
    fn got(states: &[&str]) -> Vec<String> {
        let look = |(id, state): (usize, &&str)| {
            let params = modern(r#""taskId":"t""#);
            let common = r#""resultType":"complete","taskId":"t","ttlMs":null"#;
            [
                format!(r#"> {{"jsonrpc":"2.0","id":{id},"method":"tasks/get","params":{params}}}"#),
                format!(r#"< {{"jsonrpc":"2.0","id":{id},"result":{{{common},{state}}}}}"#),
            ]
        };
        states.iter().enumerate().flat_map(look).collect()
    }

    #[test]
    fn keys_are_used_once() {
        let wants = |key: &str, method: &str| {
            format!(r#""status":"input_required","inputRequests":{{"{key}":{{"method":"{method}"}}}}"#)
        };
        let first = wants("a", "roots/list");
        let rule = "task-input-key-reused";
        fires(rule, &got(&[&first, &wants("a", "elicitation/create")]));
        silent(rule, &got(&[&first, &first, &wants("b", "elicitation/create")]));
    }
}
