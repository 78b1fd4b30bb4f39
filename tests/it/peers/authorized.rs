//! The official conformance suite tests how a client logs in by OAuth, directly and through
//! `mcptap proxy --intercept`. Its servers are behind TLS, as `https://mcp.test`.

use super::*;
use crate::program::{NO_STATE, mcptap};
use crate::proxy::Proxying;

const SCENARIOS: [&str; 3] = ["metadata-default", "basic-cimd", "token-endpoint-auth-basic"];

/// A command in a mount namespace in which the host `mcp.test` is this machine. `None` if this
/// machine forbids that.
pub(super) fn with_host(folder: &Path) -> Option<Command> {
    let flags: &[&str] = if rustix::process::geteuid().is_root() { &["-m"] } else { &["-rm"] };
    let hosts = folder.join("hosts");
    fs::write(&hosts, "127.0.0.1 localhost mcp.test\n").expect("a file");
    let command = || {
        let mut command = Command::new("unshare");
        let script = r#"mount --bind "$0" /etc/hosts && exec "$@""#;
        command.args(flags).args(["sh", "-c", script]).arg(&hosts);
        command
    };
    let probe = command().arg("true").try_finished();
    have(&needs::MOUNTS, probe.is_ok_and(|probe| probe.status.success())).then(command)
}

/// Runs a scenario with the client of the Python SDK in this environment. Returns whether it
/// passed, and the line with the number of its checks.
fn scenario(peers: &Peers, folder: &Path, name: &str, environment: &[(&str, String)]) -> Option<(bool, String)> {
    let words = environment.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ");
    let client = format!("env {words} {} {}", peers.python(), Peers::script("oauth.py"));
    let suite = peers.0.join("node_modules/@modelcontextprotocol/conformance");
    let mut command = with_host(folder)?;
    command.arg(peers.node()).arg(Peers::script("conformance.mjs"));
    command.args(["client", "--scenario", &format!("auth/{name}"), "--command", &client]).current_dir(folder);
    command.env("FRONT_SUITE", suite).env("FRONT_PEM", Peers::script("front.pem")).env("FRONT_HOST", "mcp.test");
    let Output { status, stdout, stderr } = command.finished();
    let text = [stdout, stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    let checks = text.lines().find(|line| line.starts_with("Passed: ")).unwrap_or_else(|| panic!("{text}"));
    Some((status.success(), checks.to_owned()))
}

/// Starts the proxy in such a namespace, and returns it with the environment of its clients.
fn intercepting(folder: &Path, db: &Path, options: &[&str]) -> Option<(Proxying, [(&'static str, String); 2])> {
    let mut command = with_host(folder)?;
    command.arg(mcptap().get_program()).env("XDG_DATA_HOME", folder).env(NO_STATE.0, NO_STATE.1);
    let proxying = Proxying::intercepting(command, db, &[&["--intercept", "mcp.test"], options].concat());
    let bundle = folder.join("mcptap/authority/with-system.pem").display().to_string();
    let environment = [("HTTPS_PROXY", proxying.url.clone()), ("SSL_CERT_FILE", bundle)];
    Some((proxying, environment))
}

#[test]
fn a_client_logs_in_through_the_proxy_as_it_does_directly() {
    let Some(peers) = peers() else { return };
    let (folder, db) = temporary_database();
    let folder = folder.path();
    let trusted = Peers::script("front.pem");
    let Some((proxying, proxied)) = intercepting(folder, &db, &["--cacert", &trusted]) else { return };
    let direct = [("SSL_CERT_FILE", trusted)];
    for name in SCENARIOS {
        let without = scenario(&peers, folder, name, &direct);
        let with = scenario(&peers, folder, name, &proxied);
        assert_eq!(without, with, "{name}");
        assert!(with.is_some_and(|(passed, _)| passed), "{name}");
    }
    let ended = proxying.end();
    // Each scenario has a server and an authorization server.
    assert_eq!(ended.stderr.lines().filter(|line| line.contains(": TLS of ")).count(), 6, "{}", ended.stderr);
    let lines = recorded(&db);
    assert_eq!(of_type(&lines, "session").len(), 3);
    let calls = texts(&lines, "client-to-server").into_iter().filter(|text| text.contains("tools/call")).count();
    assert_eq!(calls, 3);
    let database = fs::read(&db).expect("a file");
    assert!(memchr::memmem::find(&database, b"test-token-1").is_none(), "tokens are masked");
}

#[test]
fn a_log_in_at_a_server_without_a_valid_certificate_fails() {
    let Some(peers) = peers() else { return };
    let (folder, db) = temporary_database();
    let folder = folder.path();
    let Some((proxying, proxied)) = intercepting(folder, &db, &[]) else { return };
    assert!(scenario(&peers, folder, SCENARIOS[0], &proxied).is_some_and(|(passed, _)| !passed));
    assert!(proxying.end().stderr.contains("invalid peer certificate"));
}
