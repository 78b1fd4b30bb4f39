//! `mcptap diff`.

use serde_json::json;

use super::scene::{Scene, differing, everything, report, stdout};

/// The values that the server invents each time. Everything else of the conversation is the same.
const MADE_UP: [&str; 8] = [
    "--ignore=tools/list:/nextCursor",
    "--ignore=now:/**",
    "--ignore=open_ticket:/content/0/text",
    "--ignore=open_ticket:/structuredContent/ticket",
    "--ignore=resources/list:/resources/*/uri",
    "--ignore=resources/read:/contents/*/uri",
    "--format=json",
    "--all",
];

#[test]
fn two_recordings_are_equal_except_for_ignored_values() {
    let Some(scene) = Scene::new() else { return };
    scene.record(&[], everything);
    scene.record(&[], everything);
    let done = scene.run(&[&["diff", "1", "2"], &MADE_UP[..6]].concat());
    // On a busy machine the second run may be slower.
    let said = stdout(&done);
    let other: Vec<&str> = said.lines().filter(|line| !line.starts_with("slower: ")).collect();
    assert_eq!(other, ["13 requests: 13 same"]);
    assert_eq!(done.status.code(), Some(0));
    let done = scene.run(&["diff", "1", "2"]);
    assert_eq!(done.status.code(), Some(1));
    assert!(stdout(&done).contains("/structuredContent/ticket"), "{}", stdout(&done));
}

#[test]
fn exactly_the_changes_are_reported() {
    let Some(scene) = Scene::new() else { return };
    scene.record(&[], everything);
    scene.record(&["--change", "echo", "--drop", "add"], everything);
    let done = scene.run(&[&["diff", "1", "2"], &MADE_UP[..]].concat());
    assert_eq!(done.status.code(), Some(1));
    let report = report(&done);
    assert_eq!(
        differing(&report),
        ["tools/list: different", "tools/list: different", "tools/call echo: different", "tools/call add: error"]
    );
    let echo = report["requests"].as_array().unwrap().iter().find(|request| request["subject"] == "echo").unwrap();
    let change = json!([{"path": "/content/0/text", "change": "changed", "old": "hello", "new": "hello (changed)"}]);
    assert_eq!(echo["differences"], change);
}

#[test]
fn requests_are_paired_by_their_content() {
    let Some(scene) = Scene::new() else { return };
    let talk = |words: &'static [&'static str]| {
        move |client: &mut super::scene::Client| {
            for word in words {
                client.call("echo", json!({"text": word}));
            }
        }
    };
    scene.record(&[], talk(&["a", "b", "c"]));
    scene.record(&[], talk(&["b", "c", "d"]));
    let report = report(&scene.run(&["diff", "1", "2", "--format", "json"]));
    assert_eq!(differing(&report), ["tools/call echo: missing", "tools/call echo: extra"]);
}

#[test]
fn incomparable_targets_are_exit_status_2() {
    let Some(scene) = Scene::new() else { return };
    let done = scene.run(&["diff", "nowhere.pcap", "1"]);
    assert_eq!(done.status.code(), Some(2));
    scene.record(&[], |_| {});
    let done = scene.run(&["diff", "1", "1", "--ignore", "no/pointer"]);
    assert_eq!(done.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&done.stderr).contains("is not a path"), "{done:?}");
}

#[test]
fn junit_has_a_case_for_each_request() {
    let Some(scene) = Scene::new() else { return };
    scene.record(&[], everything);
    let done = scene.run(&["diff", "1", "1", "--format", "junit"]);
    assert_eq!(done.status.code(), Some(0));
    assert_eq!(stdout(&done).matches("<testcase ").count(), 13);
}
