//! The same with official servers, whose calls take their own time.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use super::Case;
use super::bare::Call;

/// Each server over STDIO, and over HTTP if it supports that.
pub fn run(calls: u64) {
    let folder = PathBuf::from(std::env::var_os("MCPTAP_PEERS").expect("MCPTAP_PEERS names the folder of the servers"));
    let folder = folder.canonicalize().expect("tests/peers/setup.sh filled it");
    let path = |name: &str| folder.join(name).display().to_string();
    let package = |name: &str| path(&format!("node_modules/@modelcontextprotocol/server-{name}/dist/index.js"));
    let script = format!("{}/tests/peers/server.py", env!("CARGO_MANIFEST_DIR"));
    let files = tempfile::tempdir_in("/tmp").expect("a temporary directory");
    let files = files.path().canonicalize().expect("it is there").display().to_string();
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let (node, python) = (path("node"), path("python/bin/python"));
    let memory = format!("MEMORY_FILE_PATH={files}/memory.jsonl");
    let everything = package("everything");
    let echo = |id| format!(r#"{{"name":"echo","arguments":{{"message":"call number {id} of many"}}}}"#);
    let text = |id| format!(r#"{{"name":"echo","arguments":{{"text":"call number {id} of many"}}}}"#);
    let allowed = |_| r#"{"name":"list_allowed_directories","arguments":{}}"#.to_owned();
    let search = |id| format!(r#"{{"name":"search_nodes","arguments":{{"query":"call number {id}"}}}}"#);
    let servers: [(&str, Vec<String>, Call); 4] = [
        ("everything", words(&[&node, &everything, "stdio"]), echo),
        ("filesystem", words(&[&node, &package("filesystem"), &files]), allowed),
        ("memory", words(&["env", &memory, &node, &package("memory")]), search),
        ("Python SDK", words(&[&python, &script, "stdio"]), text),
    ];
    for (name, stdio, call) in servers {
        let case = Case { what: format!("{name:<10} stdio"), recorded: stdio.clone(), stdio, url: None, call };
        case.run(calls, "1");
        let port = TcpListener::bind("127.0.0.1:0").and_then(|port| port.local_addr()).expect("a port").port();
        let http = match name {
            "everything" => words(&[&node, &everything, "streamableHttp"]),
            "Python SDK" => words(&[&python, &script, "http", "127.0.0.1", &port.to_string()]),
            _ => continue,
        };
        let _serving = Serving::start(&http, port);
        let url = Some(format!("http://127.0.0.1:{port}/mcp"));
        Case { what: format!("{name:<10} http "), url, ..case }.run(calls, "1");
    }
}

/// A server that listens. It ends when this is dropped.
struct Serving(Child);

impl Serving {
    fn start(command: &[String], port: u16) -> Serving {
        let mut server = Command::new(&command[0]);
        server.args(&command[1..]).env("PORT", port.to_string()).stdin(Stdio::null()).stdout(Stdio::null());
        let mut child = server.stderr(Stdio::piped()).spawn().expect("the server starts");
        let mut stderr = BufReader::new(child.stderr.take().expect("a pipe"));
        let mut line = String::new();
        while !line.contains("running on") && !line.contains("listening on") {
            line.clear();
            assert!(stderr.read_line(&mut line).expect("text") > 0, "the server ended");
        }
        // The server writes more. A full pipe must not stop it.
        std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
        Serving(child)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
