//! `mcptap replay` against servers that fail. The failure is reported where it happened, and
//! nothing hangs.

use serde_json::json;

use super::scene::{Client, Scene, Served, differing, report, server, stdout};
use crate::program::root;
use crate::support::waits::Finishes;

const JSON: &str = "--format=json";

/// A recording of three calls.
fn scene() -> Option<Scene> {
    let scene = Scene::new()?;
    scene.record(&[], |client| {
        for word in ["a", "b", "c"] {
            client.call("echo", json!({"text": word}));
        }
    });
    Some(scene)
}

fn stderr(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_server_that_dies_half_way() {
    let Some(scene) = scene() else { return };
    let done = scene.replay(&[JSON], &["--die-at", "3"]);
    let report = report(&done);
    assert_eq!(differing(&report), ["tools/call echo: missing", "tools/call echo: missing"]);
    let why = |index: usize| report["requests"][index]["why"].as_str().unwrap().to_owned();
    assert!(why(2).starts_with("no answer: the server closed its output"), "{}", why(2));
    assert!(why(2).ends_with("status 3; its last output on stderr: fatal: told to die"), "{}", why(2));
    assert!(why(3).starts_with("not sent: "), "{}", why(3));
    assert_eq!(done.status.code(), Some(1));
}

#[test]
fn a_call_that_is_never_answered() {
    let Some(scene) = Scene::new() else { return };
    scene.record(&[], |client| {
        client.call("count", json!({}));
        client.call("echo", json!({"text": "a"}));
    });
    let report = report(&scene.replay(&[JSON, "--timeout=0.7"], &["--hang", "count"]));
    assert_eq!(differing(&report), ["tools/call count: missing"], "the rest goes on");
    assert_eq!(report["requests"][1]["why"], "no answer within 700ms");
}

#[test]
fn a_server_that_cannot_be_had_is_exit_status_2() {
    let Some(scene) = scene() else { return };
    let nobody = {
        let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        format!("http://{}/mcp", free.local_addr().expect("an address"))
    };
    let cases = [
        (scene.replay_to(&nobody, &[]), "connection refused: no program listens there"),
        (scene.run(&["replay", "1", "--", "/nowhere/server"]), "command not found"),
        (scene.run(&["replay", "1", "--", "false"]), "the server exited with status 1"),
        (scene.run(&["replay", "1", "--to", "ftp://x/"]), "a URL begins with http"),
        (scene.run(&["replay", "99", "--", "true"]), "no session 99"),
    ];
    for (done, words) in cases {
        assert_eq!(done.status.code(), Some(2), "{words}: {}", stderr(&done));
        assert!(stderr(&done).contains(words), "{words}: {}", stderr(&done));
    }
}

#[test]
fn authorization_is_asked_for_and_supplied() {
    let Some(scene) = scene() else { return };
    let served = Served::start(&scene, &["--token", "abc"]);
    let done = scene.replay_to(&served.url("/mcp"), &[]);
    assert_eq!(done.status.code(), Some(2));
    assert!(
        stderr(&done).contains("HTTP 401: the server requires authorization (Bearer realm=\"workbench\")"),
        "{}",
        stderr(&done)
    );
    let mut replay = scene.mcptap();
    replay.args(["replay", "1", "--to", &served.url("/mcp"), "--bearer-env", "TOKEN"]).env("TOKEN", "abc");
    assert_eq!(replay.finished().status.code(), Some(0));
    // The secret in the recording of that replay was masked. The replay names it and never sends
    // it.
    let done = scene.run(&["replay", "3", "--to", &served.url("/mcp")]);
    assert!(
        stderr(&done).contains("sent Authorization, whose value was not stored and is not sent: --bearer-env VAR"),
        "{}",
        stderr(&done)
    );
    assert_eq!(done.status.code(), Some(2));
}

#[test]
fn a_session_that_the_server_forgot_is_opened_again() {
    let Some(scene) = scene() else { return };
    let served = Served::start(&scene, &["--forget-at", "3"]);
    let done = scene.replay_to(&served.url("/mcp"), &[JSON]);
    let report = report(&done);
    assert_eq!(differing(&report), ["tools/call echo: missing"], "that call; the next is in a new session");
    let why = report["requests"][2]["why"].as_str().unwrap();
    assert!(why.starts_with("HTTP 404: the server no longer has the session"), "{why}");
    assert_eq!(report["notes"], json!(["the session was opened again before #8"]));
}

#[test]
fn a_404_with_a_json_rpc_error_is_of_this_transport() {
    let Some(scene) = Scene::new() else { return };
    let mut wrap = scene.mcptap();
    wrap.args(["wrap", "--"]).args(server(&[]));
    let mut client = Client::start(wrap);
    // A client of both eras tries the later one first.
    client.request("server/discover", json!({}));
    client.open();
    client.call("echo", json!({"text": "a"}));
    client.end();
    let served = Served::start(&scene, &[]);
    let done = scene.replay_to(&served.url("/mcp"), &[]);
    assert_eq!(done.status.code(), Some(0), "{}{}", stdout(&done), stderr(&done));
}

#[test]
fn tls_needs_a_certificate_that_is_trusted() {
    let Some(scene) = scene() else { return };
    let pem = root().join("tests/it/replay/server.pem").display().to_string();
    let served = Served::start(&scene, &["--tls", &pem]);
    // The certificate is valid for this address and for no name.
    let here = served.url("/mcp").replace("http:", "https:");
    let named = here.replace("127.0.0.1", "localhost");
    for (url, options) in [(&here, &[][..]), (&named, &["--cacert", &pem])] {
        let done = scene.replay_to(url, options);
        assert_eq!(done.status.code(), Some(2), "{}", stdout(&done));
        let why = stderr(&done);
        assert!(why.contains("TLS: ") && why.contains("certificate") && why.contains("--cacert FILE"), "{why}");
    }
    for options in [&["--cacert", &pem][..], &["--insecure"]] {
        let done = scene.replay_to(&here, options);
        assert_eq!(done.status.code(), Some(0), "{}{}", stdout(&done), stderr(&done));
        assert_eq!(stderr(&done).contains("the certificate of https://"), options == ["--insecure"]);
    }
}

#[test]
fn a_certificate_that_is_its_own_authority_is_trusted_where_it_was_given() {
    let Some(scene) = scene() else { return };
    let [pem, other] = ["authority.pem", "server.pem"].map(|name| root().join("tests/it/replay").join(name));
    let served = Served::start(&scene, &["--tls", &pem.display().to_string()]);
    let here = served.url("/mcp").replace("http:", "https:");
    let named = here.replace("127.0.0.1", "localhost");
    for (url, given, status) in [(&here, &pem, 0), (&named, &pem, 2), (&here, &other, 2)] {
        let done = scene.replay_to(url, &["--cacert", &given.display().to_string()]);
        assert_eq!(done.status.code(), Some(status), "{}{}", stdout(&done), stderr(&done));
    }
}

#[test]
fn tls_to_a_server_without_it_is_reported() {
    let Some(scene) = scene() else { return };
    let served = Served::start(&scene, &[]);
    let done = scene.replay_to(&served.url("/mcp").replace("http:", "https:"), &["--timeout=5"]);
    assert_eq!(done.status.code(), Some(2), "{}", stdout(&done));
    assert!(stderr(&done).contains("cannot reach https://") && stderr(&done).contains("try http://"));
}

#[test]
fn credentials_stay_at_the_origin_they_were_given_for() {
    let Some(scene) = scene() else { return };
    let elsewhere = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/mcp", elsewhere.local_addr().expect("an address"));
    let served = Served::start(&scene, &["--token", "s3cret", "--elsewhere", &url]);
    let replay = |path: &str| {
        let transport = if path.ends_with("-sse") { "sse" } else { "streamable" };
        let mut replay = scene.mcptap();
        replay.env("TOKEN", "s3cret").args(["replay", "1", "--bearer-env=TOKEN", "--transport", transport]);
        replay.args(["--to", &served.url(path)]).finished()
    };
    for path in ["/old", "/old-sse"] {
        let done = replay(path);
        assert_eq!(done.status.code(), Some(0), "{path}: {}{}", stdout(&done), stderr(&done));
    }
    for path in ["/away", "/away-sse"] {
        let done = replay(path);
        assert_eq!(done.status.code(), Some(2), "{path}: {}", stdout(&done));
        assert!(stderr(&done).contains(&format!("redirects to another origin, {url:?}")), "{}", stderr(&done));
    }
    elsewhere.set_nonblocking(true).expect("a socket");
    assert!(elsewhere.accept().is_err(), "nobody was sent there");
}
