//! Rules about tasks: how they are requested and created (2025-11-25 basic/utilities/tasks; the
//! extension `io.modelcontextprotocol/tasks` of 2026-07-28). `tasks/status.rs` has the rules
//! about their status.

pub(super) mod status;

use super::history::{Status, TASKS_EXTENSION, TaskState};
use super::{Check, ERRORS, MessageContext, REQUESTS, RESULTS, Report, Rule, Severity};
use crate::decode::json::{self, Object};
use crate::mcp::capability::Capability;
use crate::mcp::contract::TaskSupport;
use crate::mcp::revision::Revision::V2025_11_25;
use crate::mcp::{Method, Revisions, meta};

pub(super) const RULES: &[&Rule] = &[&AUGMENTATION, &CREATE_RESULT, &ID, &RELATED_META];

/// The revision with tasks in its core.
const CORE: Revisions = Revisions::only(V2025_11_25);

/// The revisions with tasks in the core or as an extension.
const BOTH: Revisions = Revisions::since(V2025_11_25);

static AUGMENTATION: Rule = Rule {
    id: "task-augmentation",
    severity: Severity::Error,
    revisions: CORE,
    title: "A request asks for a task that is not allowed, or does not ask for a required one",
    spec: "2025-11-25 basic/utilities/tasks \"Capability Negotiation\", \"Tool-Level Negotiation\"",
    why: "The receiver answers -32601, or responds at once while the sender waits for a task.",
    example: "\"task\":{} in tools/call of a tool without execution.taskSupport",
    remedy: "Check tasks.requests of the receiver and execution.taskSupport of the tool.",
    checks: &[Check::Message(
        REQUESTS,
        &[Method::ToolsCall, Method::SamplingCreateMessage, Method::ElicitationCreate],
        augmentation,
    )],
};

/// The capability that a receiver needs to run this request as a task.
fn required_capability(method: Method) -> Option<Capability> {
    Some(match method {
        Method::ToolsCall => Capability::ServerTasksToolsCall,
        Method::SamplingCreateMessage => Capability::ClientTasksSampling,
        Method::ElicitationCreate => Capability::ClientTasksElicitation,
        _ => return None,
    })
}

fn augmentation(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let is_task = context.body().get("task").is_some_and(|task| task.starts_with('{'));
    let Some(required_capability) = required_capability(context.method) else { return };
    let declared = context.history.has(required_capability);
    if is_task && declared == Some(false) {
        // "clients MUST NOT attempt to use task augmentation on that server's tools". For other
        // requests it is a SHOULD.
        let severity = if context.method == Method::ToolsCall { Severity::Error } else { Severity::Warning };
        return report.add_as(severity, format!("the receiver did not declare {}", required_capability.path()));
    }
    let Some(name) = context.body().text("name").filter(|_| declared == Some(true)) else { return };
    match (context.history.tools.get(&name).map(|tool| tool.task_support), is_task) {
        (Some(TaskSupport::Forbidden), true) => report.add(format!("{name} does not support tasks")),
        (Some(TaskSupport::Required), false) => report.add(format!("{name} must run as a task")),
        _ => {}
    }
}

static CREATE_RESULT: Rule = Rule {
    id: "task-create-result",
    severity: Severity::Error,
    revisions: BOTH,
    title: "A task was not created correctly, or for a client that does not support tasks",
    spec: "2025-11-25 basic/utilities/tasks \"Creating Tasks\", \"Task Status Lifecycle\"; extension io.modelcontextprotocol/tasks (SEP-2663)",
    why: "The client looks for a task that does not exist, or cannot read it.",
    example: "a result with content for a tools/call with \"task\"; \"status\":\"completed\" in a CreateTaskResult",
    remedy: "Respond at once with the task in status working. In 2026-07-28, create tasks only for tools/call and for clients that declare the extension.",
    checks: &[Check::Message(RESULTS, &[], create_result)],
};

fn create_result(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    if context.revisions().within(Revisions::MODERN) {
        return created_by_extension(context, report);
    }
    let Some((request, required_capability)) =
        context.request.filter(|request| request.is_task).zip(required_capability(context.method))
    else {
        return;
    };
    let Some(task) = TaskState::created(context) else {
        // Receivers without tasks "MUST process requests … normally, ignoring
        // any task-augmentation metadata".
        let name = request.subject.as_deref().filter(|_| context.method == Method::ToolsCall);
        let support = name.map(|name| context.history.tools.get(name).map(|tool| tool.task_support));
        let is_supported = support.is_none_or(|support| support.is_some_and(|known| known != TaskSupport::Forbidden));
        if is_supported
            && context.history.has(required_capability) == Some(true)
            && context.body().get("task").is_none()
        {
            report.add_about(&[request.number], "the request asked for a task, but the result contains none");
        }
        return;
    };
    if let Some(status) = task.status.filter(|status| *status != Status::Working) {
        report.add(format!("the task begins with status {}", status.name()));
    }
}

fn created_by_extension(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    if !context.has_result_type("task") {
        return;
    }
    if context.method != Method::ToolsCall && context.method != Method::Other {
        report.add(format!("{} cannot become a task", context.method_name()));
    }
    let client = context.request.and_then(|request| request.client.as_deref());
    if client.is_some_and(|client| !client.extensions.iter().any(|extension| extension == TASKS_EXTENSION)) {
        report.add(format!("the client did not declare {TASKS_EXTENSION}"));
    }
}

static ID: Rule = Rule {
    id: "task-id",
    severity: Severity::Error,
    revisions: BOTH,
    title: "A taskId is not a string, is used twice, or was never issued",
    spec: "2025-11-25 basic/utilities/tasks \"Task IDs\", \"Protocol Errors\": -32602 for an invalid or nonexistent taskId; ext-tasks",
    why: "Two tasks cannot be distinguished, or a task cannot be found.",
    example: "two CreateTaskResult with one taskId; \"taskId\":7",
    remedy: "Use a new random string for every task; answer -32602 for one that does not exist.",
    checks: &[
        Check::Message(REQUESTS, &ASKING, id_type),
        Check::Message(RESULTS, &[], id_used_twice),
        Check::Message(ERRORS, &ASKING, id_unknown),
    ],
};

const ASKING: [Method; 4] = [Method::TasksGet, Method::TasksResult, Method::TasksCancel, Method::TasksUpdate];

fn id_type(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    // Up to 2025-11-25 the definition of the message covers this.
    let is_extension = context.revisions().within(Revisions::MODERN);
    if let Some(id) = context.body().get("taskId").filter(|id| is_extension && json::string(id).is_none()) {
        report.add(format!("the taskId is {}", &id[..id.floor_char_boundary(60)]));
    }
}

fn id_used_twice(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let Some((request, created)) = context.request.zip(TaskState::created(context)) else { return };
    let known = context.history.tasks.get(context.message.direction, &created.id);
    let other = known.and_then(|task| task.request).filter(|other| *other != request.number);
    if let Some(other) = other {
        report.add_about(&[other], format!("message {} was answered with the task {:?} too", other.0, created.id));
    }
}

fn id_unknown(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let Some((request, id)) = context.request.and_then(|request| Some((request, request.subject.as_deref()?))) else {
        return;
    };
    let tasks = &context.history.tasks;
    // A task may outlive the session that created it. It certainly does not exist only if the
    // runner reports so.
    let message = context.body().text("message").unwrap_or_default().to_ascii_lowercase();
    let says_so = ["not found", "unknown task", "no such", "does not exist", "nonexistent"].iter();
    let is_unknown =
        says_so.clone().any(|words| message.contains(words)) && context.body().get("code") != Some("-32601");
    if !is_unknown || tasks.get(context.message.direction, id).is_some() {
        return;
    }
    match context.body().get("code") {
        Some("-32602") if context.history.is_whole() && context.is_one_client() && !tasks.is_truncated => {
            let text = format!("no task {id:?} was issued in this session");
            report.add_as_about(Severity::Warning, &[request.number], text);
        }
        Some("-32602") | None => {}
        Some(code) => {
            report.add_about(&[request.number], format!("an unknown task was answered with {code}, not -32602"))
        }
    }
}

static RELATED_META: Rule = Rule {
    id: "task-related-meta",
    severity: Severity::Error,
    revisions: CORE,
    title: "The result of a task does not name its task",
    spec: "2025-11-25 basic/utilities/tasks \"Associating Task-Related Messages\": _meta io.modelcontextprotocol/related-task",
    why: "Nothing else in the result identifies the task.",
    example: "a result of tasks/result without _meta",
    remedy: "Add \"io.modelcontextprotocol/related-task\":{\"taskId\":…}.",
    checks: &[Check::Message(RESULTS, &[Method::TasksResult], related_meta)],
};

fn related_meta(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let wanted = context.request.and_then(|request| request.subject.as_deref());
    let related = context.meta().get(meta::RELATED_TASK).map(Object::read).and_then(|related| related.text("taskId"));
    match (related, wanted) {
        (None, _) => report.add(format!("{} is missing", meta::RELATED_TASK)),
        (Some(related), Some(wanted)) if related != wanted => {
            report.add(format!("{} is {related:?}, but {wanted:?} was requested", meta::RELATED_TASK));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{fires, modern, session_of, silent};

    const SERVER: &str = r#"{"tools":{},"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}}"#;
    const LIST: &str = r#"> {"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;

    pub(super) fn state(id: &str, status: &str) -> String {
        let times = r#""createdAt":"2025-11-25T10:00:00Z","lastUpdatedAt":"2025-11-25T10:00:00Z","ttl":60000"#;
        format!(r#""taskId":"{id}","status":"{status}",{times},"pollInterval":1000"#)
    }

    /// A session with the tools `may`, `must` and `never`, and then these steps.
    pub(super) fn session(steps: &[&str]) -> Vec<String> {
        let tool = |name: &str, execution: &str| {
            format!(r#"{{"name":"{name}","inputSchema":{{"type":"object"}}{execution}}}"#)
        };
        let support = |kind: &str| format!(r#","execution":{{"taskSupport":"{kind}"}}"#);
        let tools = [tool("may", &support("optional")), tool("must", &support("required")), tool("never", "")];
        let listed = format!(r#"< {{"jsonrpc":"2.0","id":1,"result":{{"tools":[{}]}}}}"#, tools.join(","));
        session_of("2025-11-25", "{}", SERVER, &[&[LIST, &listed], steps].concat())
    }

    pub(super) fn call(id: u32, name: &str, more: &str) -> String {
        format!(r#"> {{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{name}"{more}}}}}"#)
    }

    pub(super) fn created(id: u32, task: &str, status: &str) -> String {
        format!(r#"< {{"jsonrpc":"2.0","id":{id},"result":{{"task":{{{}}}}}}}"#, state(task, status))
    }

    const TASK: &str = r#","task":{}"#;
    const CONTENT: &str = r#"< {"jsonrpc":"2.0","id":2,"result":{"content":[]}}"#;

    #[test]
    fn tasks_need_support() {
        let rule = "task-augmentation";
        let called = |name: &str, more: &str| session(&[&call(2, name, more)]);
        fires(rule, &called("never", TASK));
        fires(rule, &called("must", ""));
        for (name, more) in [("may", TASK), ("may", ""), ("must", TASK), ("never", "")] {
            silent(rule, &called(name, more));
        }
        fires(rule, &session_of("2025-11-25", "{}", r#"{"tools":{}}"#, &[&call(2, "may", TASK)]));
    }

    #[test]
    fn tasks_begin_working() {
        let rule = "task-create-result";
        fires(rule, &session(&[&call(2, "may", TASK), CONTENT]));
        fires(rule, &session(&[&call(2, "may", TASK), &created(2, "t", "completed")]));
        silent(rule, &session(&[&call(2, "may", TASK), &created(2, "t", "working")]));
        silent(rule, &session(&[&call(2, "may", ""), CONTENT]));

        let extended = |extensions: &str| {
            let params = modern(r#""name":"t""#).replace(
                r#"clientCapabilities":{}"#,
                &format!(r#"clientCapabilities":{{"extensions":{{{extensions}}}}}"#),
            );
            let task = r#""resultType":"task","taskId":"t","status":"working","ttlMs":null"#;
            [
                format!(r#"> {{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#),
                format!(r#"< {{"jsonrpc":"2.0","id":1,"result":{{{task}}}}}"#),
            ]
        };
        fires(rule, &extended(""));
        silent(rule, &extended(r#""io.modelcontextprotocol/tasks":{}"#));
    }

    #[test]
    fn ids_name_one_task() {
        let rule = "task-id";
        let two = |second: &str| {
            let (first, next) = (call(2, "may", TASK), call(3, "may", TASK));
            session(&[&first, &created(2, "t", "working"), &next, &created(3, second, "working")])
        };
        fires(rule, &two("t"));
        silent(rule, &two("u"));
        let lost = |code: &str| {
            let get = r#"> {"jsonrpc":"2.0","id":2,"method":"tasks/get","params":{"taskId":"x"}}"#;
            let error = format!(r#"< {{"jsonrpc":"2.0","id":2,"error":{{"code":{code},"message":"Task not found"}}}}"#);
            session(&[get, &error])
        };
        assert_eq!(fires(rule, &lost("-32602")).severity.name(), "warning");
        assert_eq!(fires(rule, &lost("-32603")).severity.name(), "error");
        let typed =
            format!(r#"> {{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{}}}"#, modern(r#""taskId":7"#));
        fires(rule, &[typed]);
    }

    #[test]
    fn results_name_their_task() {
        let rule = "task-related-meta";
        let got = |meta: &str| {
            let ask = r#"> {"jsonrpc":"2.0","id":3,"method":"tasks/result","params":{"taskId":"t"}}"#;
            let answer = format!(r#"< {{"jsonrpc":"2.0","id":3,"result":{{"content":[]{meta}}}}}"#);
            session(&[&call(2, "may", TASK), &created(2, "t", "working"), ask, &answer])
        };
        let related = |id: &str| format!(r#","_meta":{{"io.modelcontextprotocol/related-task":{{"taskId":"{id}"}}}}"#);
        fires(rule, &got(""));
        fires(rule, &got(&related("u")));
        silent(rule, &got(&related("t")));
    }
}
