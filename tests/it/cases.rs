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

/// Writes a capture of one request whose body has this many bytes, on a fresh connection.
fn capture_of_request(path: &Path, bytes: usize) {
    const PIECE: usize = 1_448;
    let (client, server) = ([10, 0, 0, 1], [10, 0, 0, 2]);
    let mut file = [0xa1b2_c3d4_u32.to_le_bytes(), [2, 0, 4, 0]].concat();
    file.extend([0_u32, 0, 1 << 18, 101].map(u32::to_le_bytes).concat());
    let mut time = 0_u32;
    let mut send = |from_client: bool, sequence: usize, acknowledged: usize, flags: u8, data: &[u8]| {
        let length = 40 + data.len();
        file.extend([1_700_000_000, time, length as u32, length as u32].map(u32::to_le_bytes).concat());
        time += 1;
        let (addresses, ports) =
            if from_client { ([client, server], [40_000, 80]) } else { ([server, client], [80, 40_000_u16]) };
        file.extend([&[0x45, 0][..], &(length as u16).to_be_bytes(), &[0, 0, 0, 0, 64, 6, 0, 0]].concat());
        file.extend(addresses.concat());
        file.extend(ports.map(u16::to_be_bytes).concat());
        file.extend([sequence as u32, acknowledged as u32].map(u32::to_be_bytes).concat());
        file.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
        file.extend(data);
    };
    let text =
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{}"}}}}"#, "x".repeat(bytes));
    let head = "POST /mcp HTTP/1.1\r\nHost: s\r\nAuthorization: Bearer s3cr3t\r\nContent-Type: application/json";
    let request = format!("{head}\r\nContent-Length: {}\r\n\r\n{text}", text.len());
    send(true, 0, 0, 0x02, b"");
    send(false, 0, 1, 0x12, b"");
    for (index, piece) in request.as_bytes().chunks(PIECE).enumerate() {
        send(true, 1 + index * PIECE, 1, 0x18, piece);
    }
    send(false, 1, 1 + request.len(), 0x18, b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n");
    std::fs::write(path, file).expect("a capture is written");
}

/// Most packets of a large first request wait on the disk.
#[test]
fn a_first_request_of_six_megabytes_is_saved_whole() {
    let (folder, db) = temporary_database();
    let [capture, saved] = ["big.pcap", "saved.pcapng"].map(|name| folder.path().join(name));
    capture_of_request(&capture, 6 << 20);
    let run = |arguments: &[&str]| {
        let done = mcptap().arg("--db").arg(&db).args(arguments).finished();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).expect("UTF-8")
    };
    let [capture_name, saved_name] = [&capture, &saved].map(|path| path.to_str().expect("UTF-8"));
    run(&["read", "--save", capture_name]);
    run(&["export", "1", "--format", "pcapng", "-o", saved_name]);
    assert_eq!(summary_lines(&saved), summary_lines(&capture));
    let packets = |path: &Path| json(&["read"], path).last().map(|summary| summary["packets"].clone());
    assert_eq!(packets(&saved), packets(&capture), "each packet is kept");
    let bytes = std::fs::read(&saved).expect("it is there");
    assert!(memchr::memmem::find(&bytes, b"s3cr3t").is_none(), "the secret is masked");
    for target in ["1", capture_name] {
        let layers = run(&["layers", target, "--message", "1"]);
        assert!(layers.starts_with("IPv4   packet 3, bytes 0..20"), "{}", &layers[..200]);
    }
}
