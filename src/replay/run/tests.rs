//! Tests of a replay over a transport that plays a server.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use crossbeam_channel::Receiver;

use super::*;
use crate::replay::test_recordings;
use crate::replay::transport::{Arrival, Next};

const RECORDED: &str = r#"
    -> {"id":1,"method":"initialize","params":{}}
    <- {"id":1,"result":{}}
    -> {"id":2,"method":"tools/call","params":{"name":"learn"}}
    <- {"id":2,"result":{}}
    <- {"method":"notifications/tools/list_changed"}
    -> {"id":3,"method":"tools/list"}
    <- {"id":3,"result":{"tools":[]}}
"#;

/// A server that answers every request with one result. When the client waits, it sends the next of
/// its own notifications.
struct Fake {
    result: &'static str,
    /// The number of polls for which a task is still working.
    at_work: u32,
    /// A request that the server sends before it answers the call that contains the given text.
    question: Option<(&'static str, &'static str)>,
    arrived: VecDeque<Arrival>,
    missing_methods: VecDeque<&'static str>,
    /// Messages of both sides in order.
    log: Arc<Mutex<Vec<String>>>,
}

impl Transport for Fake {
    fn send(&mut self, message: Outgoing) {
        let sent: Value = serde_json::from_str(&message.text).unwrap();
        self.log.lock().unwrap().push(sent["method"].as_str().map_or_else(|| sent.to_string(), str::to_owned));
        let question = self.question.take_if(|(call, _)| message.text.contains(*call));
        self.arrived.extend(question.map(|(_, text)| Arrival::Text(text.into(), Instant::now())));
        if let Some(id) = message.id {
            let is_at_work = sent["method"] == "tasks/get" && self.at_work > 0;
            self.at_work -= u32::from(is_at_work);
            let result = if is_at_work { r#"{"taskId":"1","status":"working","pollInterval":1}"# } else { self.result };
            let answer = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#);
            self.arrived.push_back(Arrival::Text(answer.into(), Instant::now()));
        }
    }

    fn arrived(&mut self) -> Option<Arrival> {
        self.arrived.pop_front().or_else(|| {
            let notification = self.missing_methods.pop_front()?;
            self.log.lock().unwrap().push(format!("<- {notification}"));
            let text = format!(r#"{{"jsonrpc":"2.0","method":"{notification}"}}"#);
            Some(Arrival::Text(text.into(), Instant::now()))
        })
    }

    fn wait(&mut self, _: Instant) {}

    fn next(&mut self, _: Instant, _: &Receiver<()>) -> Next {
        self.arrived().map_or(Next::TimedOut, Next::Arrived)
    }

    fn opened(&mut self, _: &str) {
        self.log.lock().unwrap().push("(opened)".to_owned());
    }

    fn close(self: Box<Self>) -> Option<String> {
        None
    }
}

impl Fake {
    /// The messages after the handshake, and the notes.
    fn sent(
        result: &'static str,
        question: Option<(&'static str, &'static str)>,
        missing_methods: &[&'static str],
        recorded: &str,
    ) -> (Vec<String>, Vec<String>) {
        Fake::sent_within(Duration::from_millis(50), (result, question, missing_methods), recorded)
    }

    /// The same with another time limit for responses.
    fn sent_within(
        timeout: Duration,
        (result, question, missing_methods): (&'static str, Option<(&'static str, &'static str)>, &[&'static str]),
        recorded: &str,
    ) -> (Vec<String>, Vec<String>) {
        let log = Arc::default();
        let (arrived, missing_methods) = (VecDeque::new(), missing_methods.iter().copied().collect());
        let fake = Fake { result, at_work: 2, question, arrived, missing_methods, log: Arc::clone(&log) };
        let settings = Settings { timeout, ..Settings::default() };
        let recording = test_recordings::analyzed(recorded);
        let mut texts = recording.texts();
        let taken = run(&recording, &mut texts, &settings, Box::new(fake), &mut Follower::nobody());
        let mut sent = log.lock().unwrap().clone();
        // The transport is ready before the server can send messages on its own initiative.
        let handshake: Vec<String> = sent.drain(..3).collect();
        assert_eq!(handshake, ["initialize", "(opened)", "notifications/initialized"]);
        (sent, taken.notes)
    }
}

/// The messages and notes for a server that sends these notifications.
fn sent(missing_methods: &[&'static str]) -> (String, Vec<String>) {
    let (sent, notes) = Fake::sent("{}", None, missing_methods, RECORDED);
    (sent.join(", "), notes)
}

#[test]
fn a_question_is_answered_with_the_values_of_the_new_server() {
    let recorded = r#"
        -> {"id":1,"method":"initialize","params":{}}
        <- {"id":1,"result":{}}
        -> {"id":2,"method":"tools/call","params":{"name":"open"}}
        <- {"id":2,"result":{"ticket":"T-4711"}}
        -> {"id":3,"method":"tools/call","params":{"name":"close"}}
        <- {"id":"s","method":"elicitation/create","params":{"message":"Which?"}}
        -> {"id":"s","result":{"action":"accept","content":{"ticket":"T-4711"}}}
        <- {"id":3,"result":{}}
    "#;
    let question = r#"{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"Which?"}}"#;
    let (sent, notes) = Fake::sent(r#"{"ticket":"T-9"}"#, Some(("close", question)), &[], recorded);
    let answer = r#"{"id":"q","jsonrpc":"2.0","result":{"action":"accept","content":{"ticket":"T-9"}}}"#;
    assert_eq!((sent, notes), (vec!["tools/call".to_owned(), "tools/call".to_owned(), answer.to_owned()], vec![]));
}

#[test]
fn a_task_is_polled_until_it_has_the_recorded_state() {
    let ended = r#"{"taskId":"1","status":"completed"}"#;
    let recorded = |first: &str| {
        let second = if first == ended { r#"{"taskId":"1","status":"working"}"# } else { ended };
        format!(
            r#"
            -> {{"id":1,"method":"initialize","params":{{}}}}
            <- {{"id":1,"result":{{}}}}
            -> {{"id":2,"method":"tasks/get","params":{{"taskId":"1"}}}}
            <- {{"id":2,"result":{first}}}
            -> {{"id":3,"method":"tools/call","params":{{"name":"next"}}}}
            <- {{"id":3,"result":{second}}}
        "#
        )
    };
    // A long time limit, because polling stops at the deadline on a slow machine.
    let sent = |first| Fake::sent_within(Duration::from_secs(600), (ended, None, &[]), &recorded(first)).0.join(", ");
    assert_eq!(sent(ended), "tasks/get, tasks/get, tasks/get, tools/call", "twice at work");
    assert_eq!(sent(r#"{"taskId":"1","status":"working"}"#), "tasks/get, tools/call");
}

#[test]
fn a_reaction_waits_for_the_new_notification() {
    let notification = "notifications/tools/list_changed";
    let (order, notes) = sent(&[notification]);
    assert_eq!(order, format!("tools/call, <- {notification}, tools/list"));
    assert_eq!(notes, [""; 0]);
}

#[test]
fn a_missing_notification_delays_only_briefly_and_is_noted() {
    let (order, notes) = sent(&[]);
    assert_eq!(order, "tools/call, tools/list");
    assert_eq!(notes, ["#6 was sent although notifications/tools/list_changed (#5) did not arrive"]);
}
