//! `mcptap doctor`: what recording and looking need, tried out.

use std::env;
use std::fs::{self, File};
use std::io::{IsTerminal, Read, Write, stdout};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, ensure};
use rustix::fs::{Access, access, statvfs};

use super::args::Colour;
use super::{output, target};
use crate::decode::tls::keylog::KeyLog;
use crate::store::{DatabaseFile, Scope, StoreReader};
use crate::view::paint::Tone;
use crate::view::{safe, units};

/// A request, and from `cat` what comes back.
const PING: &str = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n";

/// Bytes free on a disk below which a recording breaks off soon, and below which that is worth a word.
const FULL: u64 = 64 << 20;
const TIGHT: u64 = 1 << 30;

/// Bytes of a key log that are looked at.
const KEYS: u64 = 16 << 20;

/// How it is with one of the things that were tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Good,
    /// It works, but there is something to know.
    Note,
    Bad,
}

/// What came of a try: how it is, what was seen, and in further lines what to do about it. An error is [`State::Bad`].
type Outcome = Result<(State, String)>;

/// Tries everything; 1 where something does not work.
pub fn run(db: Option<PathBuf>, colour: Colour) -> Result<ExitCode> {
    let checks: [(&str, &dyn Fn() -> Outcome); 6] = [
        ("program", &program),
        ("wrap", &wrap),
        ("sniff", &sniff),
        ("database", &|| database(&target::database(db.clone())?)),
        ("tls keys", &|| keys(env::var_os("SSLKEYLOGFILE").map(PathBuf::from).as_deref())),
        ("terminal", &|| Ok(terminal(stdout().is_terminal(), &|name| env::var(name).ok()))),
    ];
    let paint = output::paint(colour);
    let mut out = output::stdout();
    let mut has_failed = false;
    for (about, check) in checks {
        let (state, text) = check().unwrap_or_else(|error| (State::Bad, format!("{error:#}")));
        has_failed |= state == State::Bad;
        let (word, tone) = match state {
            State::Good => ("good", Tone::Good),
            State::Note => ("note", Tone::Warning),
            State::Bad => ("bad ", Tone::Error),
        };
        let lines: Vec<_> = text.lines().map(safe::visible).collect();
        writeln!(out, "{}  {about:<8}  {}", paint.paint(tone, word), lines.join("\n                "))?;
        out.flush()?;
    }
    Ok(ExitCode::from(u8::from(has_failed)))
}

fn program() -> Outcome {
    let path = env::current_exe().context("cannot find out where this program is")?;
    let lacking = [(cfg!(feature = "live"), "live capture"), (cfg!(feature = "tui"), "the terminal UI")];
    let lacking: Vec<&str> = lacking.iter().filter(|(here, _)| !here).map(|(_, name)| *name).collect();
    let text = format!("mcptap {}  {}", env!("CARGO_PKG_VERSION"), path.display());
    Ok(match lacking.as_slice() {
        [] => (State::Good, text),
        names => (State::Note, format!("{text}\nbuilt without {}", names.join(" and "))),
    })
}

/// Wraps `cat`: a line has to come through, and to be recorded.
fn wrap() -> Outcome {
    let place = DatabaseFile::temporary()?;
    let mut wrapper = Command::new(env::current_exe()?)
        .arg("--db")
        .arg(place.path())
        .args(["wrap", "--", "cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start this program a second time")?;
    // The end of its input ends `cat`, and that the wrapper.
    wrapper.stdin.take().context("it has no input")?.write_all(PING.as_bytes())?;
    let done = wrapper.wait_with_output()?;
    let said = String::from_utf8_lossy(&done.stderr);
    ensure!(done.stdout == PING.as_bytes(), "a line that went through a wrapped \"cat\" did not come back\n{said}");
    let recorded = StoreReader::open(place)?.message_count(Scope::All)?;
    ensure!(recorded == 2, "of two lines that went through a wrapped \"cat\" {recorded} were recorded\n{said}");
    Ok((State::Good, "a line went through a wrapped \"cat\", and was recorded both ways".to_owned()))
}

/// Sends a packet to itself: it has to be seen.
#[cfg(feature = "live")]
fn sniff() -> Outcome {
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
                State::Good,
                format!("a packet that was sent over {} was seen\nup: {}", loopback.name, up.join(", ")),
            ));
        }
    }
    bail!("a packet that was sent over {} was not seen within {} s", loopback.name, wait.as_secs())
}

#[cfg(not(feature = "live"))]
fn sniff() -> Outcome {
    Ok((State::Note, "this build captures nothing: \"mcptap read -\" takes what tcpdump writes".to_owned()))
}

/// Where sessions are saved.
fn database(path: &Path) -> Outcome {
    let shown = path.display();
    // Folders that are missing are made with the first recording.
    let folder = path.ancestors().skip(1).find(|folder| folder.as_os_str().is_empty() || folder.exists());
    let folder = folder.filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    ensure!(folder.is_dir(), "{shown} cannot be: {} is no folder", folder.display());
    access(folder, Access::WRITE_OK).with_context(|| {
        format!("cannot write to {}: choose another place with --db or MCPTAP_DB", folder.display())
    })?;
    let (state, room) =
        disk(statvfs(folder).map(|disk| disk.f_bavail.saturating_mul(disk.f_frsize)).unwrap_or(u64::MAX));
    if !path.exists() {
        return Ok((state, format!("{shown} is made with the first recording; {room}")));
    }
    access(path, Access::READ_OK | Access::WRITE_OK).with_context(|| format!("cannot read and write {shown}"))?;
    let messages = StoreReader::open(DatabaseFile::file(path))?.message_count(Scope::All)?;
    let about = fs::metadata(path)?;
    let text = format!("{shown}  {}  {}; {room}", units::count(messages, "message"), units::size(about.len()));
    match about.permissions().mode() & 0o077 {
        0 => Ok((state, text)),
        _ => Ok((State::Note, format!("{text}\nothers on this machine may look into it: chmod 600 {shown}"))),
    }
}

/// What so many free bytes mean.
fn disk(free: u64) -> (State, String) {
    let state = match free {
        0..FULL => State::Bad,
        FULL..TIGHT => State::Note,
        _ => State::Good,
    };
    (state, format!("{} free", units::size(free)))
}

/// Whether there are secrets to open TLS with.
fn keys(path: Option<&Path>) -> Outcome {
    let how = "SSLKEYLOGFILE=FILE for curl and Python, NODE_OPTIONS=--tls-keylog=FILE for Node.js: docs/tls.md";
    let Some(path) = path.filter(|path| !path.as_os_str().is_empty()) else {
        return Ok((State::Note, format!("SSLKEYLOGFILE is not set: what is inside TLS stays unread\n{how}")));
    };
    let shown = path.display();
    if !path.exists() {
        return Ok((State::Note, format!("{shown} is not there yet: nobody wrote secrets to it\n{how}")));
    }
    ensure!(path.is_file(), "{shown} is no file: secrets are not read from it");
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(KEYS).read_to_end(&mut bytes))
        .with_context(|| format!("cannot read {shown}"))?;
    let mut log = KeyLog::default();
    log.add(&bytes);
    Ok(match log.sessions().count() as u64 {
        0 => (State::Note, format!("{shown} holds no secrets\n{how}")),
        sessions => (State::Good, format!("{shown} holds the secrets of {}", units::count(sessions, "TLS session"))),
    })
}

/// Whether the terminal UI can be seen as it is meant, by what the environment says.
fn terminal(is_terminal: bool, variable: &dyn Fn(&str) -> Option<String>) -> (State, String) {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty());
    if !is_terminal {
        return (State::Note, "standard output is no terminal: text without colour, no terminal UI".to_owned());
    }
    let name = set("TERM").unwrap_or_else(|| "dumb".to_owned());
    // POSIX section 8.2: the first of these that is set and not empty says which characters there are.
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(|name| set(name)).unwrap_or_else(|| "C".to_owned());
    let is_utf8 = ["utf-8", "utf8"].iter().any(|ending| locale.to_lowercase().ends_with(ending));
    let mut words = vec![format!("{name}, {locale}")];
    if name == "dumb" {
        words.push("TERM is not set, or dumb: the terminal UI cannot be drawn".to_owned());
    }
    if !is_utf8 {
        words.push("the locale is not UTF-8: lines and arrows may look wrong; try LC_ALL=C.UTF-8".to_owned());
    }
    (if words.len() > 1 { State::Note } else { State::Good }, words.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_terminal_is_told_by_its_environment() {
        let tell = |variables: &[(&str, &str)], is_terminal| {
            let variable =
                |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
            terminal(is_terminal, &variable)
        };
        let xterm = ("TERM", "xterm-256color");
        assert_eq!(
            tell(&[xterm, ("LC_ALL", ""), ("LANG", "de_DE.utf8")], true),
            (State::Good, "xterm-256color, de_DE.utf8".into())
        );
        assert_eq!(tell(&[xterm, ("LC_ALL", "C"), ("LANG", "C.UTF-8")], true).0, State::Note, "LC_ALL counts first");
        let (state, text) = tell(&[], true);
        assert!(state == State::Note && text.contains("TERM is not set") && text.contains("not UTF-8"), "{text}");
        assert_eq!(tell(&[xterm], false).0, State::Note);
    }

    #[test]
    fn the_key_log_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.log");
        assert!(keys(None).unwrap().1.contains("is not set"));
        assert!(keys(Some(&path)).unwrap().1.contains("is not there yet"));
        fs::write(&path, "# nothing\n").unwrap();
        assert!(keys(Some(&path)).unwrap().1.contains("holds no secrets"));
        let secret = format!("CLIENT_RANDOM {} {}\n", "ab".repeat(32), "cd".repeat(48));
        fs::write(&path, secret).unwrap();
        let (state, text) = keys(Some(&path)).unwrap();
        assert!(state == State::Good && text.ends_with("the secrets of 1 TLS session"), "{text}");
        assert!(keys(Some(folder.path())).is_err(), "a folder is no key log");
    }

    #[test]
    fn the_database_is_looked_at_without_making_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep").join("mcptap.db");
        assert!(database(&path).unwrap().1.contains("is made with the first recording"));
        assert!(!path.parent().unwrap().exists());
        let other = folder.path().join("other.db");
        fs::write(&other, "no database").unwrap();
        assert!(database(&other).is_err());
        assert!(database(&other.join("mcptap.db")).unwrap_err().to_string().contains("is no folder"));
    }

    #[test]
    fn a_disk_that_is_nearly_full_is_told_of() {
        assert_eq!(disk(FULL - 1).0, State::Bad);
        assert_eq!(disk(FULL), (State::Note, "67.1 MB free".into()));
        assert_eq!(disk(u64::MAX).0, State::Good);
    }
}
