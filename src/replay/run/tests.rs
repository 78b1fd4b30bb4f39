use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use crossbeam_channel::Receiver;

use super::*;
use crate::replay::transport::{Arrival, Next};
use crate::replay::{Recording, talk};

const RECORDED: &str = r#"
    -> {"id":1,"method":"initialize","params":{}}
    <- {"id":1,"result":{}}
    -> {"id":2,"method":"tools/call","params":{"name":"learn"}}
    <- {"id":2,"result":{}}
    <- {"method":"notifications/tools/list_changed"}
    -> {"id":3,"method":"tools/list"}
    <- {"id":3,"result":{"tools":[]}}
"#;

/// A server that answers everything with an empty result, and tells of itself what it is to tell once it is waited for.
struct Fake {
    arrived: VecDeque<Arrival>,
    untold: VecDeque<&'static str>,
    /// What it was sent and what it told, in order.
    log: Arc<Mutex<Vec<String>>>,
}

impl Transport for Fake {
    fn send(&mut self, message: Outgoing) {
        let sent: Value = serde_json::from_str(&message.text).unwrap();
        self.log.lock().unwrap().push(sent["method"].as_str().unwrap_or_default().to_owned());
        if let Some(id) = message.id {
            let answer = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#);
            self.arrived.push_back(Arrival::Text(answer.into(), Instant::now()));
        }
    }

    fn next(&mut self, _: Instant, _: &Receiver<()>) -> Next {
        let arrived = self.arrived.pop_front().or_else(|| {
            let told = self.untold.pop_front()?;
            self.log.lock().unwrap().push(format!("<- {told}"));
            let text = format!(r#"{{"jsonrpc":"2.0","method":"{told}"}}"#);
            Some(Arrival::Text(text.into(), Instant::now()))
        });
        arrived.map_or(Next::Late, Next::Arrived)
    }

    fn close(self: Box<Self>) -> Option<String> {
        None
    }
}

/// What is said to and by a server that tells this, and the notes.
fn said(untold: &[&'static str]) -> (String, Vec<String>) {
    let recording: Recording = talk::recording(RECORDED);
    let log = Arc::default();
    let fake = Fake { arrived: VecDeque::new(), untold: untold.iter().copied().collect(), log: Arc::clone(&log) };
    let settings = Settings { timeout: Duration::from_millis(50), ..Settings::default() };
    let taken = run(&Script::new(recording), &settings, Box::new(fake), &mut Follower::nobody());
    let said = log.lock().unwrap()[2..].join(", ");
    (said, taken.notes)
}

#[test]
fn what_the_client_did_about_a_notification_waits_for_the_new_one() {
    let told = "notifications/tools/list_changed";
    let (order, notes) = said(&[told]);
    assert_eq!(order, format!("tools/call, <- {told}, tools/list"));
    assert_eq!(notes, [""; 0]);
}

#[test]
fn one_that_does_not_come_holds_nothing_up_for_long_and_is_named() {
    let (order, notes) = said(&[]);
    assert_eq!(order, "tools/call, tools/list");
    assert_eq!(notes, ["#6 was sent without notifications/tools/list_changed (#5), which did not come"]);
}
