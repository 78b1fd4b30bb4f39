//! The cost of hostile traffic: a message costs the same however much is open.

use crate::capture::Limits;
use crate::capture::steps::counted;
use crate::findings::testing::events_with;
use crate::pipeline::PipelineConfig;

const MESSAGES: usize = 1_500;

fn post(text: &str) -> String {
    format!("> POST /mcp\nContent-Type: application/json\nAccept: application/json, text/event-stream\n\n{text}")
}

fn call(id: usize) -> String {
    post(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"t"}}}}"#))
}

/// The steps of a conversation if at most `open` exchanges and requests may be open.
fn steps_with(open: usize, conversation: &[String]) -> u64 {
    let limits = Limits { pipelined: open, unanswered: open, connections: open, ..Limits::default() };
    counted(|| drop(events_with(conversation, PipelineConfig { limits, ..PipelineConfig::default() }, false)))
}

/// Asserts that a conversation that keeps everything open costs about the same whether 32 or
/// 1,024 of it may be open.
#[track_caller]
fn assert_proportional(conversation: &[String]) {
    let (few, many) = (steps_with(32, conversation), steps_with(1_024, conversation));
    assert!(many <= 2 * few + 64 * MESSAGES as u64, "{few} steps with few open, {many} with many");
}

#[test]
fn requests_without_an_answer() {
    assert_proportional(&(1..=MESSAGES).map(call).collect::<Vec<_>>());
}

#[test]
fn the_same_id_again_and_again() {
    assert_proportional(&vec![call(1); MESSAGES]);
}

#[test]
fn connections_that_close_without_an_answer() {
    let each = |number: usize| [format!("@ {}", number % 800), call(number), format!("x {}", number % 800)];
    assert_proportional(&(1..=MESSAGES).flat_map(each).collect::<Vec<_>>());
}

#[test]
fn cancellations_of_requests_without_an_answer() {
    let cancel =
        |id| post(&format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#));
    assert_proportional(&(1..=MESSAGES).flat_map(|id| [call(id), cancel(id)]).collect::<Vec<_>>());
}
