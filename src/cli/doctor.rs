//! `mcptap doctor`: tests what recording and viewing need.

mod kernel;

use std::env;
use std::fs::{self, File};
use std::io::{IsTerminal, Read, Write, stdout};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, ensure};
use rustix::fs::{Access, access, statvfs};

use self::kernel::Way;
use super::args::Colour;
use super::{databases, mask, output, target};
use crate::decode::tls::keylog::KeyLog;
use crate::store::{self, DatabaseFile, Scope, StoreReader};
use crate::view::paint::Tone;
use crate::view::{secrets, units};

/// A request, which `cat` sends back.
const PING: &str = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n";

/// Free bytes on a disk below which a recording soon breaks off, and below which a note is shown.
const FULL: u64 = 64 << 20;
const TIGHT: u64 = 1 << 30;

/// Maximum bytes of a key log that are read.
const KEYS: u64 = 16 << 20;

/// The largest database that is searched for secrets, in bytes: a few seconds.
const SEARCHED: u64 = 256 << 20;

/// The result of a test in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Health {
    Works,
    /// The test passed, with a remark.
    Note,
    Fails,
}

/// The result of a test: its health, and a text. The first line is what was observed, and further
/// lines are advice. An error means [`Health::Fails`].
type CheckResult = Result<(Health, String)>;

/// Runs all tests. The exit status is 1 if one of them fails.
pub fn run(db: Option<PathBuf>, colour: Colour) -> Result<ExitCode> {
    let checks: [(&str, &dyn Fn() -> CheckResult); 11] = [
        ("program", &program),
        ("wrap", &wrap),
        ("sniff", &sniff),
        ("keys-from", &|| kernel::check(Way::KeysFrom)),
        ("attach", &|| kernel::check(Way::Attach)),
        ("run", &|| kernel::check(Way::Run)),
        ("proxy", &proxy),
        ("database", &|| database(&target::database(db.clone())?)),
        ("secrets", &|| saved_secrets(&target::database(db.clone())?)),
        ("tls keys", &|| keys(env::var_os("SSLKEYLOGFILE").map(PathBuf::from).as_deref())),
        ("terminal", &|| Ok(terminal(stdout().is_terminal(), &|name| env::var(name).ok()))),
    ];
    let paint = output::paint(colour);
    let mut out = output::stdout();
    let mut has_failed = false;
    for (about, check) in checks {
        let (health, text) = check().unwrap_or_else(|error| (Health::Fails, format!("{error:#}")));
        has_failed |= health == Health::Fails;
        let (word, tone) = match health {
            Health::Works => ("ok  ", Tone::Good),
            Health::Note => ("note", Tone::Warning),
            Health::Fails => ("fail", Tone::Error),
        };
        let lines: Vec<_> = text.lines().map(secrets::shown).collect();
        writeln!(out, "{}  {about:<9}  {}", paint.paint(tone, word), lines.join("\n                 "))?;
        out.flush()?;
    }
    Ok(ExitCode::from(u8::from(has_failed)))
}

fn program() -> CheckResult {
    let path = env::current_exe().context("cannot determine the path of this program")?;
    let lacking = [(cfg!(feature = "live"), "live capture"), (cfg!(feature = "tui"), "the terminal UI")];
    let lacking: Vec<&str> = lacking.iter().filter(|(here, _)| !here).map(|(_, name)| *name).collect();
    let text = format!("mcptap {}  {}", env!("CARGO_PKG_VERSION"), path.display());
    Ok(match lacking.as_slice() {
        [] => (Health::Works, text),
        names => (Health::Note, format!("{text}\nbuilt without {}", names.join(" and "))),
    })
}

/// Wraps `cat`: a line has to pass through, and has to be recorded.
fn wrap() -> CheckResult {
    let place = target::temporary()?;
    let mut wrapper = Command::new(env::current_exe()?)
        .arg("--db")
        .arg(place.path())
        .args(["wrap", "--", "cat"])
        // This database goes at once, so it is not listed.
        .env("XDG_STATE_HOME", "/dev/null/state")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start this program a second time")?;
    // The end of its input ends `cat`, and then the wrapper.
    wrapper.stdin.take().context("the wrapper has no standard input")?.write_all(PING.as_bytes())?;
    let done = wrapper.wait_with_output()?;
    let errors = String::from_utf8_lossy(&done.stderr);
    ensure!(done.stdout == PING.as_bytes(), "a line sent to a wrapped \"cat\" did not come back\n{errors}");
    let recorded = StoreReader::open(place)?.message_count(Scope::All)?;
    ensure!(recorded == 2, "{recorded} of 2 lines through a wrapped \"cat\" were recorded\n{errors}");
    Ok((Health::Works, "a line passed through a wrapped \"cat\" and was recorded in both directions".to_owned()))
}

/// Sends a packet to this machine itself: it has to be captured.
#[cfg(feature = "live")]
fn sniff() -> CheckResult {
    use std::net::UdpSocket;
    use std::time::{Duration, Instant};

    use anyhow::{anyhow, bail};

    use crate::source::live::{Live, LiveOptions, interfaces};
    use crate::source::{Item, Source};

    let wait = Duration::from_secs(3);
    let all = interfaces()?;
    let loopback = all.iter().find(|interface| interface.loopback).context("there is no loopback interface")?;
    let socket = UdpSocket::bind("127.0.0.1:0").context("cannot open a socket on 127.0.0.1")?;
    let address = socket.local_addr()?;
    let options = LiveOptions {
        interface: loopback.name.clone(),
        filter: Some(format!("udp dst port {}", address.port())),
        buffer_size: 2 << 20,
        immediate: true,
        ..LiveOptions::default()
    };
    let mut live = Live::open(&options)
        .map_err(|error| anyhow!("{error:#}\n\"mcptap wrap\" and \"mcptap proxy\" need no permission"))?;
    let sent = Instant::now();
    socket.send_to(b"mcptap doctor", address)?;
    while sent.elapsed() < wait {
        if let Some(Item::Packet(_)) = live.next()? {
            let up: Vec<&str> = all.iter().filter(|one| one.up).map(|one| one.name.as_str()).collect();
            return Ok((
                Health::Works,
                format!(
                    "captured a packet that was sent over {}\ninterfaces that are up: {}",
                    loopback.name,
                    up.join(", ")
                ),
            ));
        }
    }
    bail!("a packet that was sent over {} was not captured within {} s", loopback.name, wait.as_secs())
}

#[cfg(not(feature = "live"))]
fn sniff() -> CheckResult {
    Ok((Health::Note, "this build has no live capture: pipe the output of tcpdump to \"mcptap read -\"".to_owned()))
}

/// Tests whether a proxy could listen here. It needs no rights.
fn proxy() -> CheckResult {
    if !cfg!(feature = "http") {
        return Ok((Health::Note, "this build has no proxy: it was built without \"http\"".to_owned()));
    }
    TcpListener::bind("127.0.0.1:0").context("cannot listen on 127.0.0.1")?;
    Ok((Health::Works, "can listen on 127.0.0.1; it needs no rights".to_owned()))
}

/// Tests the database.
fn database(path: &Path) -> CheckResult {
    let shown = path.display();
    // Missing folders are created with the first recording.
    let folder = path.ancestors().skip(1).find(|folder| folder.as_os_str().is_empty() || folder.exists());
    let folder = folder.filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    ensure!(folder.is_dir(), "{shown} cannot be created: {} is not a folder", folder.display());
    access(folder, Access::WRITE_OK).with_context(|| {
        format!("cannot write to {}: choose another place with --db or MCPTAP_DB", folder.display())
    })?;
    let (health, room) =
        disk(statvfs(folder).map(|disk| disk.f_bavail.saturating_mul(disk.f_frsize)).unwrap_or(u64::MAX));
    if !path.exists() {
        let text = format!("{shown} will be created with the first recording; {room}");
        return Ok((health, with_others(path, text)));
    }
    access(path, Access::READ_OK | Access::WRITE_OK).with_context(|| format!("cannot read and write {shown}"))?;
    let reader = StoreReader::open(DatabaseFile::file(path))?;
    let messages = reader.message_count(Scope::All)?;
    let (size, unused) = reader.space()?;
    let (messages, size, unused) = (units::count(messages, "message"), units::size(size), units::size(unused));
    let text = with_others(path, format!("{shown}  {messages}  {size} ({unused} of it unused); {room}"));
    let about = fs::metadata(path)?;
    let waiting = store::spill_files(&DatabaseFile::file(path));
    if let Some(first) = waiting.first() {
        let count = units::count(waiting.len() as u64, "recording");
        let why = "another program has the database locked, or a recording goes on there";
        return Ok((Health::Note, format!("{text}\n{count} beside it, such as {}: {why}", first.display())));
    }
    match about.permissions().mode() & 0o077 {
        0 => Ok((health, text)),
        _ => Ok((Health::Note, format!("{text}\nother users of this machine can read it: chmod 600 {shown}"))),
    }
}

/// Adds a line for each other database that was written lately.
fn with_others(path: &Path, text: String) -> String {
    databases::others(path).into_iter().fold(text, |text, other| {
        let (path, written) = (other.path.display(), units::clock(other.written));
        format!("{text}\nanother database was written at {written}: --db {path}")
    })
}

/// Looks for secrets in recordings that earlier versions made.
fn saved_secrets(path: &Path) -> CheckResult {
    let Ok(about) = fs::metadata(path) else { return Ok((Health::Works, "there are no recordings yet".to_owned())) };
    if about.len() > SEARCHED {
        let text = format!("{} is too large to be searched here: \"mcptap mask\" searches it", path.display());
        return Ok((Health::Note, text));
    }
    let found = mask::count(&DatabaseFile::file(path))?;
    Ok(match found.is_empty() {
        true => (Health::Works, "all secrets in recordings that have ended are masked".to_owned()),
        false => (Health::Note, format!("not masked in {}\n\"mcptap mask\" masks them", mask::words(&found))),
    })
}

/// The health of a disk with so many free bytes.
fn disk(free: u64) -> (Health, String) {
    let health = match free {
        0..FULL => Health::Fails,
        FULL..TIGHT => Health::Note,
        _ => Health::Works,
    };
    (health, format!("{} free", units::size(free)))
}

/// Looks for secrets that open TLS.
fn keys(path: Option<&Path>) -> CheckResult {
    let how = "SSLKEYLOGFILE=FILE for curl and Python, NODE_OPTIONS=--tls-keylog=FILE for Node.js: docs/tls.md\n\
        \"mcptap run -- CLIENT\" sets both";
    let Some(path) = path.filter(|path| !path.as_os_str().is_empty()) else {
        return Ok((
            Health::Note,
            format!(
                "SSLKEYLOGFILE is not set: TLS is decrypted only with --keylog, or with secrets in a pcapng file\n{how}"
            ),
        ));
    };
    let shown = path.display();
    if !path.exists() {
        return Ok((Health::Note, format!("{shown} does not exist yet: no program has written secrets to it\n{how}")));
    }
    ensure!(path.is_file(), "{shown} is not a file: secrets cannot be read from it");
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(KEYS).read_to_end(&mut bytes))
        .with_context(|| format!("cannot read {shown}"))?;
    let mut log = KeyLog::default();
    log.add(&bytes);
    Ok(match log.sessions().count() as u64 {
        0 => (Health::Note, format!("{shown} contains no secrets\n{how}")),
        sessions => {
            (Health::Works, format!("{shown} contains the secrets of {}", units::count(sessions, "TLS session")))
        }
    })
}

/// Tests whether the terminal UI can be drawn correctly, according to the environment.
fn terminal(is_terminal: bool, variable: &dyn Fn(&str) -> Option<String>) -> (Health, String) {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty());
    if !is_terminal {
        return (
            Health::Note,
            "standard output is not a terminal: text has no colour, and the terminal UI cannot start".to_owned(),
        );
    }
    let name = set("TERM").unwrap_or_else(|| "dumb".to_owned());
    // POSIX Base Definitions section 8.2: the first of these variables that is set and not empty
    // determines the character set.
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(|name| set(name)).unwrap_or_else(|| "C".to_owned());
    let is_utf8 = ["utf-8", "utf8"].iter().any(|ending| locale.to_lowercase().ends_with(ending));
    let mut words = vec![format!("{name}, {locale}")];
    if name == "dumb" {
        words.push("TERM is not set, or dumb: the terminal UI cannot be drawn".to_owned());
    }
    if !is_utf8 {
        words.push("the locale is not UTF-8: lines and arrows may look wrong; try LC_ALL=C.UTF-8".to_owned());
    }
    (if words.len() > 1 { Health::Note } else { Health::Works }, words.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_terminal_is_tested_by_its_environment() {
        let tell = |variables: &[(&str, &str)], is_terminal| {
            let variable =
                |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
            terminal(is_terminal, &variable)
        };
        let xterm = ("TERM", "xterm-256color");
        assert_eq!(
            tell(&[xterm, ("LC_ALL", ""), ("LANG", "de_DE.utf8")], true),
            (Health::Works, "xterm-256color, de_DE.utf8".into())
        );
        assert_eq!(tell(&[xterm, ("LC_ALL", "C"), ("LANG", "C.UTF-8")], true).0, Health::Note, "LC_ALL counts first");
        let (health, text) = tell(&[], true);
        assert!(health == Health::Note && text.contains("TERM is not set") && text.contains("not UTF-8"), "{text}");
        assert_eq!(tell(&[xterm], false).0, Health::Note);
    }

    #[test]
    fn the_key_log_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.log");
        assert!(keys(None).unwrap().1.contains("is not set"));
        assert!(keys(Some(&path)).unwrap().1.contains("does not exist yet"));
        fs::write(&path, "# nothing\n").unwrap();
        assert!(keys(Some(&path)).unwrap().1.contains("contains no secrets"));
        let secret = format!("CLIENT_RANDOM {} {}\n", "ab".repeat(32), "cd".repeat(48));
        fs::write(&path, secret).unwrap();
        let (health, text) = keys(Some(&path)).unwrap();
        assert!(health == Health::Works && text.ends_with("the secrets of 1 TLS session"), "{text}");
        assert!(keys(Some(folder.path())).is_err(), "a folder is no key log");
    }

    #[test]
    fn the_database_is_tested_without_being_created() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep").join("mcptap.db");
        assert!(database(&path).unwrap().1.contains("will be created with the first recording"));
        assert!(!path.parent().unwrap().exists());
        let other = folder.path().join("other.db");
        fs::write(&other, "no database").unwrap();
        assert!(database(&other).is_err());
        assert!(database(&other.join("mcptap.db")).unwrap_err().to_string().contains("is not a folder"));
    }

    #[test]
    fn a_nearly_full_disk_is_reported() {
        assert_eq!(disk(FULL - 1).0, Health::Fails);
        assert_eq!(disk(FULL), (Health::Note, "67.1 MB free".into()));
        assert_eq!(disk(u64::MAX).0, Health::Works);
    }
}
