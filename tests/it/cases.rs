//! Captures of real software that came out wrong once, or still do (`tests/cases/README.md`).

use std::path::Path;

use serde_json::Value;

use crate::program::{data, mcptap};
use crate::support::waits::Finishes;
use crate::wrapped::{json, of_type, temporary_database};

/// The sessions and findings of a capture, one on a line.
fn summary_lines(capture: &Path) -> Vec<String> {
    let lines = json(&["read"], capture);
    let name = |peer: &Value| peer["name"].as_str().unwrap_or("nobody").to_owned();
    let session = |session: &&Value| {
        format!("{} and {}: {} messages", name(&session["client"]), name(&session["server"]), session["messages"])
    };
    let sessions: Vec<String> = of_type(&lines, "session").iter().map(session).collect();
    let findings =
        of_type(&lines, "finding").into_iter().map(|finding| finding["rule"].as_str().expect("a rule").to_owned());
    sessions.into_iter().chain(findings).collect()
}

#[test]
fn sessions_and_findings_of_the_cases() {
    let cases: [(&str, &[&str]); 5] = [
        ("lost_post_body.pcap", &["mcp and rich-fm: 60 messages", "tcp-bytes-lost", "jsonrpc-response-unknown-id"]),
        ("cancel_unknown_http.pcap", &["raw and rs: 8 messages", "cancel-unknown"]),
        (
            "refused_initialize.pcap",
            &[
                "raw and rs: 9 messages",
                "lifecycle-initialize-repeated",
                "http-session-id-unassigned",
                "task-augmentation",
            ],
        ),
        ("refused_get.pcap", &["mcp-use and rich-fm: 13 messages"]),
        (
            "probe_then_initialize.pcap",
            &["mcp and ts-fast: 17 messages", "error-code-legacy-range", "tools-call-unknown"],
        ),
    ];
    for (name, wanted) in cases {
        assert_eq!(summary_lines(&data("cases").join(name)), wanted, "{name}");
    }
}

/// The capture lost the request, so the server made no error.
#[test]
fn a_lost_request_is_no_error_of_the_server() {
    let lines = json(&["read"], &data("cases/lost_post_body.pcap"));
    let severities: Vec<&Value> = of_type(&lines, "finding").iter().map(|finding| &finding["severity"]).collect();
    assert_eq!(severities, ["warning", "warning"]);
}

/// The cancellation was sent as the fourth message.
#[test]
fn a_cancellation_of_nothing_is_listed_last() {
    let lines = json(&["read"], &data("cases/cancel_unknown_http.pcap"));
    let methods: Vec<&Value> = of_type(&lines, "message").iter().map(|message| &message["method"]).collect();
    assert_eq!(methods.iter().position(|method| *method == "notifications/cancelled"), Some(7));
}

/// A POST of 300 KB on a connection of its own waits for its session with all its packets.
#[test]
fn a_big_request_is_saved_whole() {
    let capture = data("cases/big_request.pcap.gz");
    assert_eq!(summary_lines(&capture), ["corpus-client and corpus-server: 11 messages"]);
    let (folder, db) = temporary_database();
    let run = |arguments: &[&str]| {
        let done = mcptap().arg("--db").arg(&db).args(arguments).finished();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        done.stdout
    };
    run(&["read", "--save", capture.to_str().expect("UTF-8")]);
    let file = folder.path().join("saved.pcapng");
    run(&["export", "1", "--format", "pcapng", "-o", file.to_str().expect("UTF-8")]);
    assert_eq!(summary_lines(&file), ["corpus-client and corpus-server: 11 messages"]);
    let archive: Value = serde_json::from_slice(&run(&["export", "1", "--format", "har"])).expect("JSON");
    assert_eq!(archive["log"]["entries"].as_array().map(Vec::len), Some(8), "with the GET and the DELETE");
}
