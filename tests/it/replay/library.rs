//! The library interface of replays, as a user interface uses it.

use std::time::Duration;

use crossbeam_channel::{bounded, never};
use mcptap::compare::{Answer, Outcome};
use mcptap::replay::outcome::StepOutcome;
use mcptap::replay::target::Target;
use mcptap::replay::{Follower, Job, Progress};
use mcptap::store::DatabaseFile;
use serde_json::json;

use super::scene::{Scene, server};

fn job(scene: &Scene, options: &[&str]) -> Job {
    let line = mcptap::view::command_line::quoted(&server(options));
    let target = Target::read(&line, Duration::from_secs(30)).expect("a command line");
    Job::new(scene.recording(), target, DatabaseFile::file(scene.path("mcptap.db")))
}

fn step(job: &Job, tool: &str) -> usize {
    let steps = &job.recording.plan.steps;
    steps.iter().position(|step| step.label.subject.as_deref() == Some(tool)).expect("the tool was called")
}

#[test]
fn one_call_with_other_arguments_and_the_calls_that_it_needs() {
    let Some(scene) = Scene::new() else { return };
    scene.record(&[], |client| {
        client.call("echo", json!({"text": "a"}));
        let ticket = client.call("open_ticket", json!({"title": "printer"}))["result"]["structuredContent"].clone();
        client.call("close_ticket", json!({"ticket": ticket["ticket"], "why": "repaired"}));
    });
    let mut job = job(&scene, &[]);
    let (open, close) = (step(&job, "open_ticket"), step(&job, "close_ticket"));
    job.choose(&[close]);
    job.edit(open, r#"{"name":"open_ticket","arguments":{"title":"scanner"}}"#).expect("params");
    // The ticket stays as recorded, so it is translated into the new one.
    let edited = job.params(close).expect("it can be read").expect("params").replace("repaired", "stolen");
    job.edit(close, &edited).expect("params");
    let mut told = Vec::new();
    let replayed = job.run(&mut Follower::new(
        |progress| {
            told.push(match progress {
                Progress::Opened(revision) => format!("opened {revision}"),
                Progress::Sent(step) => format!("sent {step}"),
                Progress::Done(step, done) => {
                    format!(
                        "done {step}{}",
                        if matches!(done.outcome, StepOutcome::Skipped(_)) { ": skipped" } else { "" }
                    )
                }
            });
        },
        never(),
    ));
    let replayed = replayed.expect("the server answers");
    insta::assert_snapshot!(told.join(", "), @"sent 0, done 0, opened 2025-06-18, sent 1, done 1, done 2: skipped, sent 3, done 3, sent 4, done 4");
    let (old, new) = job.answers(&replayed, close).expect("it can be read").expect("both were answered");
    let text = |answer: &Answer| answer.value().map(|value| value["content"][0]["text"].clone());
    assert_eq!((text(&old), text(&new)), (Some(json!("closed printer")), Some(json!("closed scanner"))));
    let outcomes: Vec<Outcome> = replayed.report.pairs.iter().map(|pair| pair.outcome).collect();
    assert_eq!(outcomes, [Outcome::Same, Outcome::Skipped, Outcome::Same, Outcome::Different]);
}

#[test]
fn a_replay_can_be_stopped() {
    let Some(scene) = Scene::new() else { return };
    scene.record(&[], |client| {
        client.call("count", json!({}));
        client.call("echo", json!({"text": "a"}));
    });
    let job = job(&scene, &["--hang", "count"]);
    let count = step(&job, "count");
    let (end, stop) = bounded(1);
    let mut follower = Follower::new(
        move |progress| {
            if matches!(progress, Progress::Sent(step) if step == count) {
                end.send(()).expect("it listens");
            }
        },
        stop,
    );
    let report = job.run(&mut follower).expect("the conversation was opened").report;
    let whys: Vec<_> = report.pairs.iter().filter_map(|pair| pair.why.as_deref()).collect();
    assert_eq!(whys, ["no answer: stopped on request", "not sent: stopped on request"]);
}

#[test]
fn a_recording_names_its_server() {
    let Some(scene) = Scene::new() else { return };
    scene.record(&["--change", "a b"], |_| {});
    let recording = scene.recording();
    let reader = mcptap::store::StoreReader::open(DatabaseFile::file(scene.path("mcptap.db"))).expect("a database");
    let recorded = Target::recorded(&reader, &recording.session).expect("it can be read").known().expect("a command");
    assert_eq!(recorded, mcptap::view::command_line::quoted(&server(&["--change", "a b"])));
    assert!(recorded.ends_with("--change 'a b'"), "{recorded}");
}
