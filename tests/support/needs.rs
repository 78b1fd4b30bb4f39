//! Programs and rights that not every machine has.
//!
//! A test that lacks one is not run. The last lines of the run count and name such tests. If
//! `MCPTAP_TEST_ALL` is set, they fail instead.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::process::parent_id;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Once;

/// A need of a test, and how to satisfy it.
pub struct Need {
    pub what: &'static str,
    pub how: &'static str,
}

pub const CAPTURE: Need = Need { what: "the right to capture packets", how: "run the tests as root" };
pub const CHROMIUM: Need = Need { what: "chromium", how: "apt install chromium" };
pub const CLANG: Need = Need { what: "clang", how: "apt install clang llvm libbpf-dev, version 14 as in Debian 12" };
pub const DESCRIPTORS: Need = Need { what: "the folder /dev/fd", how: "mount it" };
pub const ENGINES: Need =
    Need { what: "the engines", how: "tests/engines/setup.sh, then set MCPTAP_ENGINES=target/engines" };
pub const FIREFOX: Need = Need { what: "firefox-esr", how: "apt install firefox-esr" };
pub const GO: Need = Need { what: "go", how: "apt install golang-go" };
pub const IPV6: Need = Need { what: "the address [::1]", how: "enable IPv6 on the loopback interface" };
pub const JAVA: Need = Need { what: "java", how: "apt install default-jre-headless" };
pub const MOUNTS: Need = Need { what: "a mount namespace", how: "run as root, or allow user namespaces" };
pub const NETWORKS: Need = Need { what: "a network namespace", how: "apt install iproute2, and run as root" };
pub const PEERS: Need =
    Need { what: "the official MCP peers", how: "tests/peers/setup.sh, then set MCPTAP_PEERS=target/peers" };
pub const PINNED_PEERS: Need = Need { what: "the MCP peers in the pinned versions", how: "tests/peers/setup.sh" };
pub const PYTHON: Need = Need { what: "python3", how: "apt install python3" };
pub const ROOT: Need = Need { what: "the rights of root", how: "run the tests as root" };
pub const SETPRIV: Need = Need { what: "setpriv", how: "apt install util-linux" };
pub const TMUX: Need = Need { what: "tmux", how: "apt install tmux" };
pub const TSHARK: Need = Need { what: "tshark", how: "apt install tshark" };

/// Whether a test can run. If not, the test is counted as not run and has to return at once.
pub fn have(need: &Need, is_here: bool) -> bool {
    print_at_exit();
    if !is_here {
        let Need { what, how } = need;
        assert!(std::env::var_os("MCPTAP_TEST_ALL").is_none(), "needs {what}: {how}");
        let test = std::thread::current().name().unwrap_or("a test").to_owned();
        note(&format!("not run\t{what} ({how})\t{test}\n"));
    }
    is_here
}

/// Counts a test as not run because this machine's kernel refuses something. No package changes
/// that, so it is no failure, whatever `MCPTAP_TEST_ALL` says.
pub fn refused(what: &str) {
    print_at_exit();
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    note(&format!("not run\ta kernel that permits it ({})\t{test}\n", what.replace(['\t', '\n'], " ")));
}

/// Whether a program can be started.
pub fn have_program(need: &Need) -> bool {
    let mut command = Command::new(need.what);
    command.arg(if need.what == "tmux" { "-V" } else { "--version" });
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    have(need, command.status().is_ok())
}

/// Prints a line at the end of the run.
pub fn report(line: &str) {
    print_at_exit();
    note(&format!("report\t{line}\t\n"));
}

/// The folder in which the test binaries of one run of cargo, their parent process, store the lines
/// for its end.
fn notes() -> Option<PathBuf> {
    let parent = parent_id();
    // Process ids are used again. Together with its start time, the 22nd word, the id is unique.
    let stat = fs::read_to_string(format!("/proc/{parent}/stat")).unwrap_or_default();
    let started = stat.rsplit(')').next().and_then(|words| words.split(' ').nth(20)).unwrap_or_default();
    Some(std::env::current_exe().ok()?.with_file_name(format!("notes-of-{parent}-{started}")))
}

fn note(line: &str) {
    let file = notes().and_then(|path| File::options().create(true).append(true).open(path).ok());
    file.expect("the folder of this program is writable").write_all(line.as_bytes()).expect("the disk has room");
}

/// Removes the folders of runs that ended.
fn remove_old_notes() {
    let folder = notes().and_then(|path| fs::read_dir(path.parent()?).ok());
    for path in folder.into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let parent = name.strip_prefix("notes-of-").and_then(|name| name.split('-').next());
        if parent.is_some_and(|parent| !Path::new("/proc").join(parent).exists()) {
            let _ = fs::remove_file(&path);
        }
    }
}

fn print_at_exit() {
    // The harness ends together with the process and has no hook of its own.
    #[allow(unsafe_code)]
    unsafe extern "C" {
        safe fn atexit(function: extern "C" fn()) -> i32;
    }
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        remove_old_notes();
        atexit(print);
    });
}

extern "C" fn print() {
    let Some(notes) = notes().and_then(|path| fs::read_to_string(path).ok()) else { return };
    let mut lines: Vec<&str> = notes.lines().collect();
    lines.sort_unstable();
    lines.dedup();
    let mut out = String::new();
    for line in lines.iter().filter_map(|line| line.strip_prefix("report\t")) {
        out += &format!("{}\n", line.trim_end());
    }
    let not_run: Vec<_> = lines.iter().filter_map(|line| line.strip_prefix("not run\t")?.split_once('\t')).collect();
    if !not_run.is_empty() {
        out += &format!("\ntests not run: {} (with MCPTAP_TEST_ALL=1 they fail)\n", not_run.len());
    }
    for of_one_need in not_run.chunk_by(|(a, _), (b, _)| a == b) {
        let tests: Vec<&str> = of_one_need.iter().map(|(_, test)| *test).collect();
        out += &format!("  needs {}: {}\n", of_one_need[0].0, tests.join(", "));
    }
    let _ = std::io::stdout().write_all(out.as_bytes());
}
