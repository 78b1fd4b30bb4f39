//! The engines themselves: DuckDB, ClickHouse, Spark, Polars and an S3 server
//! (`tests/engines/setup.sh`).

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use super::{keys, read, rotated, sample, text};
use crate::program::{mcptap, root};
use crate::support::needs::{self, have};
use crate::support::waits::{Finishes, ProcessEnd, within};

/// The Python with all engines.
pub(super) fn python() -> Option<PathBuf> {
    let folder = std::env::var_os("MCPTAP_ENGINES");
    have(&needs::ENGINES, folder.is_some()).then(|| root().join(folder.unwrap_or_default()).join("venv/bin/python"))
}

fn java() -> bool {
    let mut java = Command::new("java");
    let is_here = java.arg("-version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    have(&needs::JAVA, is_here)
}

fn engine(python: &Path, script: &str) -> Command {
    let mut command = Command::new(python);
    command.arg(root().join(script)).env("MCPTAP", env!("CARGO_BIN_EXE_mcptap")).env("PYSPARK_PYTHON", python);
    command
}

fn assert_done(done: &Output) {
    assert!(done.status.success(), "{}\n{}", text(&done.stdout), text(&done.stderr));
}

/// The dataset of `docs/questions.md`.
fn asked(dataset: &Path) {
    for (host, name) in
        [("web-1", "weather/capture.pcapng"), ("web-2", "helpdesk/capture.pcapng"), ("desk-1", "helpdesk/stdio.pcapng")]
    {
        assert_done(&read(dataset, &["--host", host], &[sample(name)]));
    }
}

#[test]
fn duckdb_clickhouse_and_polars_answer_alike() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    asked(folder.path());
    for name in ["duckdb", "clickhouse"] {
        let done = engine(&python, "samples/fleet/ask.py").arg(name).arg(folder.path()).arg("--check").finished();
        assert_done(&done);
        assert!(text(&done.stdout).contains(": 0 answers differ"), "{}", text(&done.stdout));
    }
    let done = engine(&python, "tests/engines/polars_reads.py").arg(folder.path()).finished();
    assert_done(&done);
    assert!(text(&done.stdout).contains("messages 28"), "{}", text(&done.stdout));
}

#[test]
fn spark_answers_alike() {
    let Some(python) = python().filter(|_| java()) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    asked(folder.path());
    let done = engine(&python, "samples/fleet/ask.py").arg("spark").arg(folder.path()).arg("--check").finished();
    assert_done(&done);
    assert!(text(&done.stdout).contains("spark: 0 answers differ"), "{}", text(&done.stdout));
}

/// Captures of two machines, and one file that is no capture.
fn captures(folder: &Path) -> PathBuf {
    let captures = folder.join("captures");
    for (host, names) in [
        ("web-1", &["weather/capture.pcapng", "websocket/capture.pcapng"][..]),
        ("web-2", &["helpdesk/capture.pcapng", "helpdesk/stdio.pcapng"]),
    ] {
        let host = captures.join(format!("host={host}"));
        fs::create_dir_all(&host).expect("a folder");
        for name in names {
            fs::copy(sample(name), host.join(name.replace('/', "-"))).expect("a copy");
        }
    }
    fs::write(captures.join("host=web-1/junk.pcap"), "this is no capture").expect("a file");
    captures
}

/// The dataset of one run over all captures.
fn single(folder: &Path, captures: &Path) -> PathBuf {
    let single = folder.join("single");
    let files: Vec<PathBuf> = fs::read_dir(captures)
        .expect("hosts")
        .flat_map(|host| fs::read_dir(host.expect("a host").path()).expect("captures"))
        .map(|file| file.expect("a capture").path())
        .collect();
    assert_eq!(read(&single, &["--capture-name", "fleet"], &files).status.code(), Some(1));
    single
}

/// The Spark job and the script give the dataset of one run. Each task's first attempt ends after
/// its rows were written, before its success was reported.
#[test]
fn distributed_decoding_gives_the_dataset_of_one_run() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let captures = captures(folder.path());
    let single = single(folder.path(), &captures);
    let same = |dataset: &Path| {
        assert_done(&engine(&python, "tests/engines/compare.py").args([&single, dataset]).finished());
    };

    let by_script = folder.path().join("by-script");
    let mut script = Command::new(root().join("samples/fleet/decode.sh"));
    script.env("MCPTAP", env!("CARGO_BIN_EXE_mcptap")).arg(&captures).arg(&by_script);
    let done = script.args(["--capture-name", "fleet"]).finished();
    assert!(text(&done.stderr).contains("junk.pcap"), "{}", text(&done.stderr));
    same(&by_script);

    if !java() {
        return;
    }
    let (failing, first) = (folder.path().join("failing"), folder.path().join("first"));
    fs::create_dir(&first).expect("a folder");
    let program = env!("CARGO_BIN_EXE_mcptap");
    let lines = format!(
        "#!/bin/sh\nfor last; do :; done\nif mkdir {}/$(echo \"$last\" | cksum | cut -d ' ' -f 1) 2>/dev/null; then {program} \"$@\"; kill -9 $$; fi\nexec {program} \"$@\"\n",
        first.display()
    );
    fs::write(&failing, lines).expect("a script");
    fs::set_permissions(&failing, fs::Permissions::from_mode(0o755)).expect("a script");
    let by_spark = folder.path().join("by-spark");
    let mut job = engine(&python, "tests/engines/spark.py");
    let done = job.env("MCPTAP", &failing).arg(&captures).arg(&by_spark).args(["--capture-name", "fleet"]).finished();
    assert_done(&done);
    assert!(text(&done.stdout).contains("junk.pcap"), "{}", text(&done.stdout));
    assert_eq!(fs::read_dir(&first).expect("attempts").count(), 2, "both tasks failed once");
    same(&by_spark);
}

/// An S3 server on loopback.
pub(super) struct S3 {
    server: Child,
    pub(super) port: String,
}

impl S3 {
    pub(super) fn start(python: &Path, port: &str) -> S3 {
        let mut command = engine(python, "tests/engines/s3.py");
        command.arg(port).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut server = command.spawn().expect("the S3 server");
        let stdout = server.stdout.take().expect("its output");
        let port = within("the port of the S3 server", move || {
            let lines = BufReader::new(stdout).lines().map_while(Result::ok);
            lines.into_iter().find(|line| line.parse::<u16>().is_ok())
        });
        S3 { server, port: port.expect("a port") }
    }

    /// Gives a program the address and the keys.
    pub(super) fn known_to<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command.env("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{}", self.port));
        command.envs([("AWS_ACCESS_KEY_ID", "key"), ("AWS_SECRET_ACCESS_KEY", "secret"), ("AWS_REGION", "us-east-1")])
    }
}

impl Drop for S3 {
    fn drop(&mut self) {
        self.server.killed();
    }
}

/// Object storage holds what a folder holds. While it is away nothing is lost. Each failure is one
/// line of text.
#[test]
fn a_bucket_holds_what_a_folder_holds() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let db = folder.path().join("recorded.db");
    let saved = mcptap().arg("--db").arg(&db).args(["read", "--save"]).arg(sample("weather/capture.pcapng")).finished();
    assert_done(&saved);
    let ship = |s3: &S3, place: &str| {
        let mut command = mcptap();
        command.arg("--db").arg(&db).args(["ship", "--once", "--dataset", place]);
        s3.known_to(&mut command).finished()
    };
    let server = S3::start(&python, "0");
    let port = server.port.clone();
    let nowhere = ship(&server, "s3://no-such-bucket/mcp");
    assert_eq!(nowhere.status.code(), Some(2));
    assert!(text(&nowhere.stderr).contains("there is no such bucket"), "{}", text(&nowhere.stderr));
    let mut refused = mcptap();
    refused.arg("--db").arg(&db).args(["ship", "--once", "--dataset", "s3://locked/mcp"]);
    let refused = server.known_to(&mut refused).finished();
    assert_eq!((refused.status.code(), text(&refused.stderr).lines().count()), (Some(2), 1));
    assert!(text(&refused.stderr).contains("the credentials give no permission"), "{}", text(&refused.stderr));
    drop(server);

    let away = S3 { server: Command::new("true").spawn().expect("a program"), port };
    let failed = ship(&away, "s3://captures/mcp");
    assert_eq!((failed.status.code(), text(&failed.stderr).lines().count()), (Some(2), 1), "{}", text(&failed.stderr));
    let server = S3::start(&python, "0");
    let done = ship(&server, "s3://captures/mcp");
    assert_done(&done);
    assert!(text(&done.stdout).contains("messages: 7 added"), "{}", text(&done.stdout));
    assert_eq!(text(&ship(&server, "s3://captures/mcp").stdout), "nothing new\n");
    let mut command = mcptap();
    command.args(["read", "--dataset", "s3://captures/mcp"]).arg(sample("weather/capture.pcapng"));
    let again = server.known_to(&mut command).finished();
    assert!(text(&again.stdout).contains("messages: 0 added, 7 were there"), "{}", text(&again.stdout));
    let place = folder.path().join("dataset");
    assert_done(&read(&place, &[], &[sample("weather/capture.pcapng")]));
    assert_eq!(keys(&place, "messages").len(), 7);
    // Compaction: two files of one day become one, with all rows. The prefix is encoded for the
    // service.
    let days = "s3://captures/by team//~days";
    let parts = rotated(folder.path());
    let run = |arguments: &[&str], parts: &[PathBuf]| {
        let done = server.known_to(mcptap().args(arguments).args(parts)).finished();
        assert_done(&done);
        text(&done.stdout)
    };
    parts.iter().for_each(|part| drop(run(&["read", "--dataset", days], std::slice::from_ref(part))));
    let compact = ["dataset", "compact", days];
    assert!(run(&compact, &[]).ends_with(" merged into 3\n"));
    assert_eq!(run(&compact, &[]), "0 files merged into 0\n");
    let again = run(&["read", "--dataset", days], &parts);
    assert!(again.contains("messages: 0 added, 12 were there"), "{again}");
}
