//! `check --expect`: each kind of expectation on a recorded session, in every format.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::check::{Project, TOOL};

/// Two calls: one fails, and one is not answered.
const CALLS: [&str; 3] = [
    r#"> {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"get","arguments":{"town":"Quito"}}}"#,
    r#"< {"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"no such town"}],"isError":true}}"#,
    r#"> {"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"get","arguments":{"town":"Lima"}}}"#,
];

/// The `expectation` objects that `check` prints, and its exit status. Findings do not count.
fn verdicts(project: &Project, target: &Path, expectations: &[&str]) -> (i32, Vec<Value>) {
    let mut arguments = vec!["--format", "json", "--fail-on", "never"];
    expectations.iter().for_each(|text| arguments.extend(["--expect", text]));
    let (status, text) = project.check(target, &arguments);
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    (status, lines.filter(|line| line["type"] == "expectation").collect())
}

#[test]
fn a_recording_holds_or_breaks_each_kind_of_expectation() {
    let project = Project::new();
    let target = project.capture("calls.pcapng", TOOL, &CALLS);
    for (expectation, holds, messages) in [
        ("some tool = get", true, &[][..]),
        ("some tool = set", false, &[]),
        ("no tool = set", true, &[]),
        ("no tool = get and kind = request", false, &[6, 8]),
        ("no status = tool-error", false, &[7]),
        ("no answered = false", false, &[8]),
        ("count <= 2 where tool = get and kind = request", true, &[]),
        ("count <= 1 where tool = get and kind = request", false, &[8]),
        ("count < 2 where tool = get and kind = request", false, &[8]),
        ("count >= 3 where tool = get and kind = request", false, &[]),
        ("every tool = get and kind = request has params.arguments.town matches ^[QL]", true, &[]),
        ("every tool = get and kind = request has params.arguments.town = Lima", false, &[6]),
        ("every tool = set has status = ok", true, &[]),
        ("every kind = response has latency < 1h", true, &[]),
        ("p95 latency < 1h where tool = get", true, &[]),
        ("p95 latency <= 0 where tool = get", false, &[7]),
        ("p95 latency < 1h where tool = set", false, &[]),
        ("max size < 1KB", true, &[]),
        ("sum size < 10 where tool = get", false, &[6, 7, 8]),
        ("max elapsed < 1h", true, &[]),
        ("tools.count = 1", true, &[]),
        ("tools.bytes < 20KB", true, &[]),
        ("tools.bytes < 10", false, &[5]),
        ("tools.tokens < 10", false, &[5]),
    ] {
        let (status, found) = verdicts(&project, &target, &[expectation]);
        assert_eq!(found.len(), 1, "{expectation}");
        assert_eq!(
            (status, found[0]["holds"].as_bool()),
            (i32::from(!holds), Some(holds)),
            "{expectation}: {}",
            found[0]
        );
        let mut named: Vec<u64> = Vec::new();
        for breach in found[0]["breaches"].as_array().into_iter().flatten() {
            assert_eq!(breach["session"], 1, "{expectation}");
            named.extend(breach["message"].as_u64());
        }
        named.sort_unstable();
        assert_eq!(named, messages, "{expectation}");
    }
    let (_, tokens) = verdicts(&project, &target, &["tools.tokens < 10"]);
    assert!(tokens[0]["text"].as_str().is_some_and(|text| text.contains("estimated")), "{}", tokens[0]);
}

#[test]
fn a_broken_expectation_names_its_message_and_packet_in_every_format() {
    let project = Project::new();
    let target = project.path("weather.pcapng");
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("samples/weather/capture.pcapng");
    fs::copy(samples, &target).expect("a copy");
    let broken = "no tool = get_weather and kind = response";
    fs::write(project.path("ci.expect"), format!("# tools work\n\n{broken}\nsome tool = get_weather\n"))
        .expect("a file");
    let arguments = |format| ["--only", "tcp-*", "--expect-file", "ci.expect", "--format", format];
    let (status, text) = project.check(&target, &arguments("text"));
    assert_eq!(status, 1, "{text}");
    assert!(text.contains(broken) && text.contains("message 7 (packets #") && text.contains("holds"), "{text}");
    let (_, json) = project.check(&target, &arguments("json"));
    let line: Value = serde_json::from_str(json.lines().next().unwrap_or_default()).expect("JSON");
    let packet = line["breaches"][0]["packets"][0].as_u64().expect("a packet");
    assert!(text.contains(&format!("#{packet}")), "{text}");
    let (_, junit) = project.check(&target, &arguments("junit"));
    assert!(
        junit.contains("tests=\"2\" failures=\"1\"") && junit.contains(&format!("message 7 (packets #{packet})")),
        "{junit}"
    );
    let (_, sarif) = project.check(&target, &arguments("sarif"));
    let sarif: Value = serde_json::from_str(&sarif).expect("JSON");
    let result = &sarif["runs"][0]["results"][0];
    assert_eq!((&result["ruleId"], &result["properties"]["packets"][0]), (&"expectation".into(), &packet.into()));
    assert_eq!(result["locations"][0]["logicalLocations"][0]["fullyQualifiedName"], "session 1/message 7");
}

/// The rules of Microsoft's validator for GitHub: a relative URI, a region, links and fingerprints.
#[test]
fn sarif_is_what_github_requires() {
    let project = Project::new();
    let target = project.capture("calls of today.pcapng", TOOL, &CALLS);
    let arguments = ["--format", "sarif", "--expect", "some tool = set", "--expect", "no tool = get"];
    let log = |target: &Path| -> Value { serde_json::from_str(&project.check(target, &arguments).1).expect("JSON") };
    let sarif = log(&target);
    let driver = &sarif["runs"][0]["tool"]["driver"];
    assert!(driver["informationUri"].as_str().is_some_and(|uri| uri.starts_with("https://")));
    let rules = driver["rules"].as_array().expect("rules");
    assert!(rules.iter().all(|rule| rule["helpUri"].as_str().is_some_and(|uri| uri.starts_with("https://"))));
    let results = sarif["runs"][0]["results"].as_array().expect("results");
    assert!(results.len() > 2, "findings and expectations");
    let mut prints = Vec::new();
    for result in results {
        let place = &result["locations"][0]["physicalLocation"];
        assert_eq!(place["artifactLocation"]["uri"], "calls%20of%20today.pcapng");
        assert_eq!(place["region"]["startLine"], 1);
        prints
            .push(result["partialFingerprints"]["primaryLocationLineHash"].as_str().expect("a fingerprint").to_owned());
    }
    prints.sort();
    prints.dedup();
    assert_eq!(prints.len(), results.len(), "fingerprints differ");
    // The same traffic in another file has the same fingerprints.
    let other = project.capture("other.pcapng", TOOL, &CALLS);
    let print = |log: &Value| log["runs"][0]["results"][0]["partialFingerprints"].clone();
    assert_eq!(print(&log(&other)), print(&sarif));
}

#[test]
fn a_typo_is_an_error_with_its_place() {
    let project = Project::new();
    let target = project.capture("calls.pcapng", TOOL, &[]);
    fs::write(project.path("bad.expect"), "some tool = get\n\n  no statu = ok\n").expect("a file");
    for (arguments, place) in [
        (["--expect", "no statu = ok"], "     ^^^^^ expected status"),
        (["--expect-file", "bad.expect"], "bad.expect, line 3"),
        (["--expect-file", "nowhere.expect"], "nowhere.expect"),
    ] {
        let output = project.run("check", &target, &arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(place) && output.stdout.is_empty(), "{arguments:?}: {said}");
    }
}
