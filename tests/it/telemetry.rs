//! Live telemetry: a real collector, slow and absent ones, and the text for Prometheus.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::export::spans;
use crate::peers::{Peers, free_port, peers};
use crate::program::{mcptap, root};
use crate::proxy::Proxying;
use crate::replay::scene::{Scene, Served, everything};
use crate::support::needs::{PYTHON, have_program};
use crate::support::pipes::Patient;
use crate::support::waits::{Finishes, ProcessEnd, until, until_some};
use crate::wrapped::{ANSWERS, Wrapped, of_type, recorded, temporary_database};

/// A server in the language of `sh` that knows two tools: one works, and one fails.
const SERVER: &str = r#"
while read -r line; do
  id=$(echo "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')
  case $line in
    *initialize*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{\"tools\":{}},\"serverInfo\":{\"name\":\"weather\",\"version\":\"7.1\"}}}";;
    *broken*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"content\":[],\"isError\":true}}";;
    *nowhere*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"error\":{\"code\":-32602,\"message\":\"unknown tool\"}}";;
    *) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"sunny\"}]}}";;
  esac
done"#;

/// The time for the rest at the end: on a busy machine a second may be too short.
const PATIENT: (&str, &str) = ("OTEL_EXPORTER_OTLP_TIMEOUT", "4000");

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

/// The requests of a host. One call belongs to the trace of an application, and one to a trace that
/// its application does not sample.
fn conversation() -> Vec<String> {
    let meta =
        |flags: &str| format!(r#","_meta":{{"traceparent":"00-{TRACE}-00f067aa0ba902b7-{flags}","tracestate":"a=b"}}"#);
    let call = |id: usize, tool: &str, meta: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{{"city":"Perth"}}{meta}}}}}"#
        )
    };
    vec![
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"planner","version":"3"}}}"#.to_owned(),
        call(2, "forecast", &meta("01")),
        call(3, "forecast", &meta("00")),
        call(4, "broken", ""),
        call(5, "nowhere", ""),
    ]
}

/// Starts `wrap` of the server with these options.
fn wrap(db: &Path, script: &str, options: &[&str], environment: &[(&str, &str)]) -> Wrapped {
    let mut command = mcptap();
    command.args(["wrap", "--db"]).arg(db).args(options).args(["--", "sh", "-c", script]);
    command.envs(environment.iter().copied());
    Wrapped::start(command)
}

/// Holds the whole conversation.
fn converse(wrapped: &mut Wrapped) {
    for request in conversation() {
        wrapped.send_line(&request);
        assert!(wrapped.next_line().contains("\"jsonrpc\""));
    }
}

/// Rotel, a collector of OpenTelemetry. It writes what it receives as text.
struct Rotel {
    _process: Killed,
    output: PathBuf,
    url: String,
}

impl Rotel {
    fn start(peers: &Peers, folder: &Path) -> Rotel {
        let (http, grpc) = (free_port(), free_port());
        let output = folder.join("rotel.txt");
        let found = fs::read_dir(peers.0.join("python/lib")).expect("the peers are installed").flatten();
        let agent = found.map(|entry| entry.path().join("site-packages/rotel/rotel-agent")).find(|path| path.exists());
        let mut command = Command::new(agent.expect("rotel is installed"));
        command.args(["start", "--exporter", "blackhole", "--debug-log", "traces", "--debug-log", "metrics"]);
        command.args(["--debug-log-verbosity", "detailed"]);
        command.arg("--otlp-http-endpoint").arg(format!("127.0.0.1:{http}"));
        command.arg("--otlp-grpc-endpoint").arg(format!("127.0.0.1:{grpc}"));
        command.stdin(Stdio::null()).stdout(File::create(&output).expect("a file")).stderr(Stdio::null());
        let _process = Killed(command.spawn().expect("rotel starts"));
        let address = SocketAddr::from(([127, 0, 0, 1], http));
        until("rotel to listen", || TcpStream::connect(address).is_ok());
        Rotel { _process, output, url: format!("http://127.0.0.1:{http}") }
    }

    /// What it received, when that has all these words.
    fn received(&self, words: &[&str]) -> String {
        until_some("rotel to receive everything", || {
            let text = fs::read_to_string(&self.output).expect("a file");
            words.iter().all(|word| text.contains(word)).then_some(text)
        })
    }
}

/// The part of a text about the thing with this name: up to the next empty heading.
fn about<'t>(text: &'t str, start: &str, end: &str) -> &'t str {
    let (_, after) = text.split_once(start).unwrap_or_else(|| panic!("{start:?} in {text}"));
    after.split(end).next().unwrap_or_default()
}

#[test]
fn a_collector_receives_spans_and_metrics_of_a_wrapped_server() {
    let Some(peers) = peers() else { return };
    let (folder, db) = temporary_database();
    let rotel = Rotel::start(&peers, folder.path());
    let mut wrapped =
        wrap(&db, SERVER, &["--otlp", &rotel.url], &[("OTEL_RESOURCE_ATTRIBUTES", "deployment=test"), PATIENT]);
    converse(&mut wrapped);
    rotel.received(&["Name           : tools/call nowhere"]);
    let output = wrapped.end();
    assert!(output.status.success());
    assert_eq!(output.stderr, "", "a delivery without a problem is no line for a host");
    let text = rotel.received(&["Name           : session", "mcp.server.session.duration", "mcptap.requests"]);

    assert_eq!(text.matches("Span #").count(), 5, "four sampled requests and the session: {text}");
    let joined = about(&text, "Name           : tools/call forecast", "Span #");
    let head = about(&text, &format!("Trace ID       : {TRACE}\n"), "Name ");
    assert!(head.contains("Parent ID      : 00f067aa0ba902b7"), "{text}");
    for attribute in
        ["mcp.method.name: Str(tools/call)", "gen_ai.tool.name: Str(forecast)", "network.transport: Str(pipe)"]
    {
        assert!(joined.contains(attribute), "{attribute}: {text}");
    }
    let failed = about(&text, "Name           : tools/call nowhere", "Span #");
    assert!(failed.contains("error.type: Str(-32602)"), "{text}");
    assert!(
        about(&text, "Name           : tools/call broken", "Span #").contains("error.type: Str(tool_error)"),
        "{text}"
    );
    for resource in ["service.name: Str(planner)", "service.name: Str(weather)", "deployment: Str(test)"] {
        assert!(text.contains(resource), "{resource}: {text}");
    }
    for metric in ["mcp.client.operation.duration", "mcp.server.operation.duration", "mcp.client.session.duration"] {
        assert!(text.contains(metric), "{metric}: {text}");
    }
    assert!(!text.contains("Perth"), "arguments are sent only when they are asked for");
    assert!(!text.contains("sunny"), "results are sent only when they are asked for");

    // The spans have the ids of an export of the recording.
    let exported = mcptap().args(["export", "latest", "--format", "otlp", "--db"]).arg(&db).finished();
    let exported = String::from_utf8(exported.stdout).expect("text");
    for span in spans(&exported) {
        let id = span["spanId"].as_str().expect("an id");
        let is_unsampled = span["flags"] == 0;
        assert_eq!(text.contains(&format!("    ID             : {id}")), !is_unsampled, "{span}: {text}");
    }
}

#[test]
fn arguments_and_results_are_sent_when_they_are_asked_for() {
    let Some(peers) = peers() else { return };
    let (folder, db) = temporary_database();
    let rotel = Rotel::start(&peers, folder.path());
    let mut wrapped =
        wrap(&db, SERVER, &["--otlp", &rotel.url, "--otlp-content"], &[("OTEL_SERVICE_NAME", "mine"), PATIENT]);
    converse(&mut wrapped);
    assert!(wrapped.end().status.success());
    let text = rotel.received(&["Name           : session", "mcp.server.session.duration"]);
    let call = about(&text, "Name           : tools/call forecast", "Span #");
    for content in ["gen_ai.tool.call.arguments: Str({\"city\":\"Perth\"})", "gen_ai.tool.call.result", "sunny"] {
        assert!(call.contains(content), "{content}: {text}");
    }
    assert!(text.contains("service.name: Str(mine)") && !text.contains("service.name: Str(planner)"), "{text}");
}

/// The server and its recording are whole, whatever the collector does. What it did not take is
/// counted in one line.
#[test]
fn a_collector_that_is_absent_or_hangs_disturbs_nobody() {
    let hanging = TcpListener::bind("127.0.0.1:0").expect("a port");
    let hangs = format!("http://{}", hanging.local_addr().expect("an address"));
    let absent = format!("http://127.0.0.1:{}", free_port());
    let calls = 100;
    for (url, why) in [(&absent, "connection refused"), (&hangs, "the collector is too slow")] {
        let (_folder, db) = temporary_database();
        let mut wrapped = wrap(&db, ANSWERS, &["--otlp", url], &[]);
        wrapped.converse(1..calls + 1);
        let output = wrapped.end();
        assert!(output.status.success(), "{}", output.stderr);
        let line = format!("{} spans were not delivered: ", calls + 1);
        assert!(output.stderr.contains(&line) && output.stderr.contains(why), "{why}: {}", output.stderr);
        assert_eq!(output.stderr.lines().count(), 1, "{}", output.stderr);
        assert_eq!(of_type(&recorded(&db), "message").len(), 2 * calls);
    }
}

/// A replay is the client of a proxy. It deletes its session at the end.
#[test]
fn a_session_over_http_ends_when_its_client_deletes_it() {
    let Some(scene) = Scene::new() else { return };
    scene.record(&[], everything);
    let (_folder, db) = temporary_database();
    let served = Served::start(&scene, &[]);
    let port = free_port().to_string();
    let proxying = Proxying::start(&db, &served.url("/mcp"), &["--metrics", &port]);
    let replayed = scene.replay_to(&proxying.url, &["--no-save"]);
    assert!(replayed.status.code().is_some_and(|code| code < 2), "{}", String::from_utf8_lossy(&replayed.stderr));
    let server = r#"service_name="workbench",service_version="1.0""#;
    let text = until_some("the session to end", || {
        let text = get(&format!("127.0.0.1:{port}"), "localhost", "/metrics");
        text.contains(&format!("mcptap_sessions_open{{{server}}} 0\n")).then_some(text)
    });
    let session = |line: &str| line.starts_with("mcp_server_session_duration_seconds_count{") && line.ends_with("} 1");
    assert!(text.lines().any(|line| session(line) && line.contains(server)), "{text}");
    let calls = text.lines().filter(|line| line.starts_with("mcptap_requests_total{gen_ai_tool_name=\""));
    assert!(
        calls.clone().count() > 2 && calls.clone().all(|line| line.contains("service_peer_name=\"workbench\"")),
        "{text}"
    );
    let ended = proxying.end();
    assert!(ended.stderr.starts_with("mcptap: metrics for Prometheus: "), "{}", ended.stderr);
}

/// A second instance of a server, with the same options, has no place for its metrics.
#[test]
fn metrics_that_cannot_be_served_do_not_stop_a_server() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port().to_string();
    let (_folder, db) = temporary_database();
    let mut wrapped = wrap(&db, ANSWERS, &["--metrics", &port], &[]);
    wrapped.converse(1..3);
    let output = wrapped.end();
    assert!(output.status.success());
    assert!(output.stderr.contains("another program uses this port") && output.stderr.contains("goes on without"));
    assert_eq!(of_type(&recorded(&db), "message").len(), 4);
    let refused = mcptap().args(["wrap", "--otlp", "node", "--", "true"]).finished();
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("not an HTTP URL"));
}

/// Certificates and header fields come from the variables that other programs read.
#[test]
fn a_collector_behind_tls_gets_the_header_fields() {
    if !have_program(&PYTHON) {
        return;
    }
    let (folder, db) = temporary_database();
    let pem = |name: &str| root().join("tests/it/replay").join(name).display().to_string();
    let port = folder.path().join("port");
    let mut collector = Command::new("python3");
    collector.arg(root().join("tests/it/telemetry/collector.py")).arg(&port).arg(pem("server.pem"));
    let mut collector = Killed(collector.stdout(Stdio::piped()).spawn().expect("python starts"));
    let stdout = collector.0.stdout.take().expect("a pipe");
    let mut lines = BufReader::new(Patient::new(stdout, "the collector to get a request")).lines();
    let number =
        until_some("the collector to listen", || fs::read_to_string(&port).ok().filter(|text| text.ends_with('\n')));
    let url = format!("https://127.0.0.1:{}", number.trim());
    let environment = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", url.as_str()),
        ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=top%20secret"),
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", &pem("server.pem")),
        PATIENT,
    ];
    let mut wrapped = wrap(&db, ANSWERS, &["--otlp"], &environment);
    wrapped.converse(1..3);
    let output = wrapped.end();
    assert_eq!((output.status.success(), output.stderr.as_str()), (true, ""));
    for path in ["/v1/traces", "/v1/metrics"] {
        let line = lines.next().expect("a request").expect("text");
        assert!(line.starts_with(&format!("{path} application/x-protobuf top secret ")), "{line}");
        assert!(line.rsplit(' ').next().expect("a length").parse::<usize>().expect("a number") > 100, "{line}");
    }
}

/// A process that ends with the test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        self.0.killed();
    }
}

/// The response to a GET of the metrics.
fn get(address: &str, host: &str, path: &str) -> String {
    let stream = TcpStream::connect(address).expect("metrics are served");
    let mut stream = Patient::new(stream, "metrics");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").expect("it reads");
    let mut response = String::new();
    stream.read_to_string(&mut response).expect("a response");
    response
}

#[test]
fn prometheus_reads_the_metrics() {
    let (_folder, db) = temporary_database();
    let mut wrapped = wrap(&db, SERVER, &["--metrics", "0"], &[]);
    let line = crate::wrapped::line(&mut wrapped.stderr);
    let address =
        line.strip_prefix("mcptap: metrics for Prometheus: http://").and_then(|rest| rest.strip_suffix("/metrics"));
    let address = address.unwrap_or_else(|| panic!("{line}")).to_owned();
    converse(&mut wrapped);
    let broken = r#"mcptap_requests_total{gen_ai_tool_name="broken",mcp_method_name="tools/call",mcptap_outcome="tool-error",service_peer_name="weather",service_name="planner",service_version="3"} 1"#;
    let response = until_some("the last call to be counted", || {
        let response = get(&address, "localhost", "/metrics");
        response.contains("nowhere").then_some(response)
    });
    let (head, text) = response.split_once("\r\n\r\n").expect("a head");
    assert!(
        head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("Content-Type: text/plain; version=0.0.4"),
        "{head}"
    );
    for sample in [broken, "mcptap_sessions_open{service_name=\"weather\",service_version=\"7.1\"} 1"] {
        assert!(text.contains(&format!("{sample}\n")), "{sample} in {text}");
    }
    assert!(text.contains("mcptap_findings_total{mcptap_rule=\""), "{text}");
    assert!(get(&address, "evil.example", "/metrics").starts_with("HTTP/1.1 421 "));
    assert!(get(&address, "localhost", "/").starts_with("HTTP/1.1 404 "));
    assert!(wrapped.end().status.success());

    // A reader that Prometheus' own people wrote, and what it finds.
    let Some(peers) = peers() else { return };
    let script = "
import sys
from prometheus_client.parser import text_string_to_metric_families
for family in text_string_to_metric_families(sys.stdin.read()):
    for sample in family.samples:
        print(family.type, sample.name, sample.labels.get('gen_ai_tool_name', ''), sample.labels.get('le', ''), sample.value)";
    let file = _folder.path().join("metrics.txt");
    fs::write(&file, text).expect("a file");
    let read = Command::new(peers.python()).args(["-c", script]).finished_on(File::open(&file).expect("a file"));
    let read = String::from_utf8(read.stdout).expect("text");
    for sample in [
        "histogram mcp_client_operation_duration_seconds_count forecast  2",
        "histogram mcp_server_operation_duration_seconds_bucket broken +Inf 1",
        "counter mcptap_requests_total nowhere  1",
        "gauge mcptap_sessions_open   1",
    ] {
        assert!(read.lines().any(|line| line == sample), "{sample} in {read}");
    }
}
