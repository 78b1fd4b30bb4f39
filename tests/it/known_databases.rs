//! The list of databases that were written lately.

use std::ffi::OsStr;
use std::fs::{self, File, FileTimes};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use crate::program::{mcptap, root};
use crate::support::waits::Finishes;
use crate::wrapped::without_report;

/// A state folder, and databases beside it.
struct StateFolder(tempfile::TempDir);

impl StateFolder {
    fn new() -> StateFolder {
        StateFolder(tempfile::tempdir().expect("a folder"))
    }

    fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        fs::canonicalize(self.0.path()).expect("a folder").join(name)
    }

    fn mcptap(&self, db: impl AsRef<Path>) -> Command {
        let mut command = mcptap();
        command.env("XDG_STATE_HOME", self.path("state")).arg("--db").arg(self.path(db));
        command
    }

    /// Wraps a server for a moment.
    fn wrap(&self, db: impl AsRef<Path>) {
        let done = self.mcptap(db).args(["wrap", "--", "true"]).finished();
        assert!(
            done.status.success() && without_report(&String::from_utf8_lossy(&done.stderr)).0.is_empty(),
            "{}",
            String::from_utf8_lossy(&done.stderr)
        );
    }

    fn listed(&self) -> Vec<PathBuf> {
        let list = fs::read(self.path("state/mcptap/databases")).expect("a list");
        list.split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .map(|line| OsStr::from_bytes(line).into())
            .collect()
    }

    /// What `sessions` of a database says on standard error.
    fn noted(&self, db: &str) -> String {
        String::from_utf8(self.mcptap(db).arg("sessions").finished().stderr).expect("text is UTF-8")
    }
}

#[test]
fn other_databases_that_were_written_lately_are_named() {
    let state = StateFolder::new();
    state.wrap("hidden.db");
    let (mode, list) = (|path: &Path| fs::metadata(path).expect("a file").permissions().mode() & 0o777, "state/mcptap");
    assert_eq!((mode(&state.path(list)), mode(&state.path(list).join("databases"))), (0o700, 0o600));
    // The user looks elsewhere: in a database that does not exist, and in another one.
    let hidden = state.path("hidden.db");
    let note = |noted: &str| {
        noted.contains("another database was written at ")
            && noted.contains(&format!(": mcptap sessions --db {}\n", hidden.display()))
    };
    let noted = state.noted("mine.db");
    assert!(note(&noted) && noted.contains("there is no database"), "{noted}");
    let capture = root().join("samples/weather/capture.pcapng");
    assert!(state.mcptap("mine.db").args(["read", "--save"]).arg(capture).finished().status.success());
    assert_eq!(state.listed(), [hidden.clone(), state.path("mine.db")]);
    assert!(note(&state.noted("mine.db")));
    let doctor = String::from_utf8(state.mcptap("mine.db").arg("doctor").finished().stdout).expect("text is UTF-8");
    assert!(doctor.contains(" of it unused); "), "{doctor}");
    assert!(
        doctor.contains("another database was written at ") && doctor.contains(hidden.to_str().expect("UTF-8")),
        "{doctor}"
    );
    assert_eq!(state.listed().len(), 2, "what the doctor tries is not listed");
    // A database that is named is what the user looks for. One that was not written lately, or is
    // gone, is not named.
    assert_eq!(state.noted("hidden.db").matches("another").count(), 1);
    let month = SystemTime::now() - Duration::from_secs(30 * 24 * 3_600);
    File::options()
        .append(true)
        .open(&hidden)
        .and_then(|file| file.set_times(FileTimes::new().set_modified(month)))
        .expect("a time");
    assert_eq!(state.noted("mine.db"), "");
    state.wrap("hidden.db");
    assert!(note(&state.noted("mine.db")));
    fs::remove_file(&hidden).expect("it is there");
    assert_eq!(state.noted("mine.db"), "");
    state.wrap("mine.db");
    assert_eq!(state.listed(), [state.path("mine.db")]);
}

#[test]
fn many_writers_at_once_lose_no_entry_and_the_list_stays_short() {
    let state = StateFolder::new();
    let wrap = |number: usize| {
        state
            .mcptap(format!("{number}.db"))
            .args(["wrap", "--", "cat"])
            .stdin(std::process::Stdio::null())
            .spawn()
            .expect("it runs")
    };
    let wraps: Vec<_> = (0..24).map(|number| wrap(number / 2)).collect();
    for wrap in wraps {
        assert!(crate::support::waits::finished(wrap, "a wrapper").status.success());
    }
    let mut listed = state.listed();
    listed.sort();
    let mut wanted: Vec<_> = (0..12).map(|number| state.path(format!("{number}.db"))).collect();
    wanted.sort();
    assert_eq!(listed, wanted);
    // Entries beyond the bound: those used last stay. Damaged lines are ignored.
    let files: Vec<_> = (0..100).map(|number| state.path(format!("file{number}"))).collect();
    let mut lines = b"\0\xff relative\n\n".to_vec();
    for file in &files {
        fs::write(file, "").expect("a file");
        lines.extend_from_slice(file.as_os_str().as_bytes());
        lines.push(b'\n');
    }
    fs::write(state.path("state/mcptap/databases"), lines).expect("it is ours");
    state.wrap("last.db");
    let listed = state.listed();
    assert_eq!((listed.len(), listed.last()), (64, Some(&state.path("last.db"))));
    assert_eq!(listed[0], files[100 - 63]);
}

#[test]
fn a_list_that_cannot_be_written_disturbs_nobody() {
    let state = StateFolder::new();
    fs::write(state.path("state"), "no folder").expect("a file");
    state.wrap("one.db");
    assert_eq!(state.noted("one.db"), "");
    let state = StateFolder::new();
    fs::create_dir_all(state.path("state/mcptap/databases")).expect("a folder in the place of the list");
    state.wrap("one.db");
    assert_eq!(state.noted("one.db"), "");
    // Names that would act on a terminal, or on the list.
    let state = StateFolder::new();
    let hostile = [&b"a\x1b[2J\xe2\x80\xae\xff.db"[..], b"b\nc.db"].map(|name| PathBuf::from(OsStr::from_bytes(name)));
    hostile.iter().for_each(|name| state.wrap(name));
    assert_eq!(state.listed(), [state.path(&hostile[0])]);
    let noted = state.noted("none.db");
    assert!(noted.contains("another database") && !noted.replace('\n', "").contains(char::is_control), "{noted:?}");
    assert!(!noted.contains('\u{202e}'), "{noted:?}");
}
