//! Giving up root privileges once the interface is open.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// The variables of a process.
pub type Environment = BTreeMap<OsString, OsString>;

/// The user that the process has become.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The login name.
    pub name: String,
    /// The home directory, where this user's files belong whatever `$HOME` is under sudo.
    pub home: PathBuf,
    /// The variables with which this user started sudo, if they could be read.
    pub environment: Option<Environment>,
}

impl User {
    /// A variable of this user that names a place.
    pub fn place(&self, name: &str) -> Option<PathBuf> {
        let value = self.environment.as_ref()?.get(OsStr::new(name))?;
        Some(PathBuf::from(value)).filter(|path| path.is_absolute())
    }
}

/// Becomes, for good, the user who started this program through sudo. Returns that user; `None` if
/// there was nothing to give up.
///
/// Root should not parse hostile bytes, and the files written should belong to the user. An open
/// interface stays open. The change applies to all threads.
#[cfg(target_os = "linux")]
pub fn drop_privileges() -> anyhow::Result<Option<User>> {
    use std::env;
    use std::ffi::CString;

    use anyhow::{Context, bail};
    use nix::unistd::{Gid, Uid, User as Account, getegid, geteuid, initgroups, setgid, setuid};

    let number = |name| env::var(name).ok().and_then(|value: String| value.parse::<u32>().ok());
    let (Some(uid), Some(gid)) = (number("SUDO_UID").map(Uid::from_raw), number("SUDO_GID").map(Gid::from_raw)) else {
        return Ok(None);
    };
    if !geteuid().is_root() || uid.is_root() {
        return Ok(None);
    }
    // Only root can read it.
    let environment = of_sudo();
    let doing = || format!("cannot become user {uid} again after opening the interface");
    let account = Account::from_uid(uid).with_context(doing)?.with_context(doing)?;
    // The order matters: only root can set the groups and the group.
    initgroups(&CString::new(account.name.as_bytes())?, gid).with_context(doing)?;
    setgid(gid).with_context(doing)?;
    setuid(uid).with_context(doing)?;
    // Checks that a saved user id does not let root come back.
    if geteuid() != uid || getegid() != gid || setuid(Uid::from_raw(0)).is_ok() {
        bail!("{}: root could come back", doing());
    }
    Ok(Some(User { name: account.name, home: account.dir, environment }))
}

/// The environment in which the user started `sudo`: the kernel shows that of its first
/// instruction. sudo itself passes on little of it.
#[cfg(target_os = "linux")]
fn of_sudo() -> Option<Environment> {
    let mut process = std::os::unix::process::parent_id();
    // With a terminal of its own, sudo has two processes. A shell or `env` may be between.
    for _ in 0..4 {
        let file = |name: &str| format!("/proc/{process}/{name}");
        if std::fs::read_link(file("exe")).unwrap_or_default().file_name() == Some(OsStr::new("sudo")) {
            return Some(variables(&std::fs::read(file("environ")).ok()?));
        }
        let status = std::fs::read_to_string(file("status")).ok()?;
        process = status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()?;
    }
    None
}

/// The variables in a file `environ` of /proc.
#[cfg(target_os = "linux")]
fn variables(bytes: &[u8]) -> Environment {
    use std::os::unix::ffi::OsStringExt;

    let pair = |variable: &[u8]| {
        let at = memchr::memchr(b'=', variable)?;
        let owned = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        Some((owned(&variable[..at]), owned(&variable[at + 1..])))
    };
    bytes.split(|byte| *byte == 0).filter_map(pair).collect()
}

/// Elsewhere the groups cannot be set by safe means, so nothing is given up.
#[cfg(not(target_os = "linux"))]
pub fn drop_privileges() -> anyhow::Result<Option<User>> {
    Ok(None)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::support::needs::{self, have};
    use crate::support::waits::Finishes;

    /// Not a test: it changes the process for good, so the test below runs it as a process.
    #[test]
    #[ignore = "run by the test below"]
    fn as_a_process() {
        let user = drop_privileges().unwrap();
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let ids = |key| status.lines().find_map(|line: &str| line.strip_prefix(key)).unwrap().trim().replace('\t', " ");
        println!("{:?} {} {}", user.map(|user| user.name), ids("Uid:"), ids("Gid:"));
    }

    #[test]
    fn the_variables_of_a_process_are_read() {
        let environment = variables(b"HOME=/home/a\0TOKEN=t=1\0odd\0XDG_DATA_HOME=data\0");
        let user = User { name: "a".to_owned(), home: "/home/a".into(), environment: Some(environment) };
        assert_eq!(user.environment.as_ref().map(BTreeMap::len), Some(3));
        assert_eq!(user.place("HOME"), Some("/home/a".into()));
        assert_eq!(user.place("XDG_DATA_HOME"), None, "the specification ignores relative paths");
    }

    #[test]
    fn root_through_sudo_is_given_up_for_good_and_nobody_else_is_touched() {
        if !have(&needs::ROOT, rustix::process::geteuid().is_root()) {
            return;
        }
        let run = |uid: &str| {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.args(["--exact", "source::live::privileges::tests::as_a_process", "--ignored", "--nocapture"]);
            command.env("SUDO_UID", uid).env("SUDO_GID", "65534");
            String::from_utf8(command.finished().stdout).unwrap()
        };
        let dropped = run("65534");
        assert!(dropped.contains("Some(\"nobody\") 65534 65534 65534 65534 65534 65534 65534 65534"), "{dropped}");
        assert!(run("0").contains("None 0 0 0 0"), "root itself used sudo");
        assert!(run("").contains("None 0 0 0 0"), "no sudo");
    }
}
