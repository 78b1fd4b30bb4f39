//! `mcptap proxy --stdio`: a client on standard input and output, a server at a URL.

use super::*;

/// A client of the bridge to this URL.
fn client(scene: &Scene, url: &str, headers: Option<&str>) -> Client {
    let mut bridge = scene.mcptap();
    bridge.args(["proxy", "--stdio", "--to", url]).stderr(Stdio::piped());
    if let Some(headers) = headers {
        bridge.env("MCPTAP_REPLACED", format!("{{ \"url\": \"\", /* as configured */ \"headers\": {headers} }}"));
    }
    Client::start(bridge)
}

/// Ends the bridge. Returns its status and its notes.
fn end(client: Client) -> (Option<i32>, String) {
    client.end()
}

#[test]
fn everything_passes_over_both_transports_and_broken_streams_are_resumed() {
    let Some(scene) = Scene::new() else { return };
    for (options, path) in [(&[][..], "/mcp"), (&["--cut"], "/mcp"), (&[], "/stream")] {
        let served = Served::start(&scene, options);
        let mut client = client(&scene, &served.url(path), None);
        assert_eq!(client.open()["result"]["protocolVersion"], "2025-06-18", "{options:?} {path}");
        if options.is_empty() {
            everything(&mut client);
        }
        assert!(client.call("add", json!({"a": 2, "b": 3}))["result"].is_object());
        client.send(&json!({"jsonrpc": "2.0", "id": "a \"b\"", "method": "ping"}));
        assert_eq!(client.next()["id"], "a \"b\"");
        assert_eq!(end(client), (Some(0), String::new()), "{options:?} {path}");
        let lines = recorded(&scene.path("mcptap.db"));
        let session = of_type(&lines, "session").pop().expect("a session").clone();
        let transport = if path == "/stream" { "http-sse" } else { "streamable-http" };
        assert_eq!((&session["transport"], &session["unanswered"]), (&json!(transport), &json!(0)));
    }
}

#[test]
fn a_forgotten_session_is_opened_again_and_the_client_does_not_notice() {
    let Some(scene) = Scene::new() else { return };
    let served = Served::start(&scene, &["--forget-at", "4"]);
    let mut client = client(&scene, &served.url("/mcp"), None);
    client.open();
    for text in ["1", "2", "3", "4"] {
        let answer = client.call("echo", json!({"text": text}));
        assert!(answer["result"].to_string().contains(text), "{answer}");
    }
    let (status, stderr) = end(client);
    assert_eq!(status, Some(0));
    assert_eq!(stderr, "mcptap: the server no longer has the session; a new one is opened\n");
}

/// Such a server would otherwise get handshakes without an end.
#[test]
fn a_request_that_no_session_can_make_fails() {
    let Some(scene) = Scene::new() else { return };
    let served = Served::start(&scene, &["--forget", "add"]);
    let mut client = client(&scene, &served.url("/mcp"), None);
    client.open();
    for _ in 0..2 {
        let failed = client.call("add", json!({"a": 1, "b": 2}));
        assert!(failed["error"]["message"].as_str().is_some_and(|text| text.contains("HTTP 404")), "{failed}");
    }
    assert!(client.call("echo", json!({"text": "7"}))["result"].is_object());
    assert_eq!(end(client).0, Some(0));
}

#[test]
fn header_fields_come_from_the_configuration_and_failures_are_answered() {
    let Some(scene) = Scene::new() else { return };
    let served = Served::start(&scene, &["--token", "sesame-opens"]);
    let mut trusted = client(&scene, &served.url("/mcp"), Some(r#"{ "Authorization": "Bearer sesame-opens" }"#));
    assert!(trusted.open()["result"].is_object());
    assert_eq!(end(trusted), (Some(0), String::new()));
    let database = fs::read(scene.path("mcptap.db")).expect("a file");
    assert!(memchr::memmem::find(&database, b"sesame-opens").is_none(), "secrets are masked");

    let nobody = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("an address");
    for (url, why) in [(served.url("/mcp"), "HTTP 401"), (format!("http://{nobody}/mcp"), "connection refused")] {
        let mut client = client(&scene, &url, None);
        let failed = client.request("initialize", json!({}));
        assert_eq!(failed["error"]["code"], -32000);
        assert!(failed["error"]["message"].as_str().is_some_and(|text| text.contains(why)), "{failed}");
        client.send(&json!("no message"));
        assert_eq!(client.next()["error"]["code"], -32700);
        let (status, stderr) = client.end();
        assert!(status == Some(0) && stderr.contains(why), "{stderr}");
    }
}
