//! The environment of a client: that of the user, and a key log for TLS.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::source::live::{Environment, User};

/// Variables that sudo sets to values of the user that a program becomes.
const OF_ROOT: [&str; 8] = ["HOME", "LOGNAME", "MAIL", "PATH", "SHELL", "USER", "USERNAME", "TERM"];

/// The environment of the user who started mcptap. `own` is the environment of mcptap, and `user`
/// the one that it became.
pub fn of_user(own: Environment, user: Option<&User>) -> Environment {
    let Some(user) = user else { return own };
    // What was set for sudo's command (`sudo A=b mcptap run`) is meant for the client.
    let is_own =
        |name: &OsStr| !name.as_bytes().starts_with(b"SUDO_") && !OF_ROOT.iter().any(|of_root| name == *of_root);
    let mut environment = user.environment.clone().unwrap_or_default();
    for (name, value) in own.iter().filter(|(name, _)| is_own(name)) {
        environment.insert(name.clone(), value.clone());
    }
    if user.environment.is_none() {
        let known = [
            ("HOME", user.home.clone().into()),
            ("USER", user.name.clone().into()),
            ("LOGNAME", user.name.clone().into()),
        ];
        environment.extend(known.into_iter().map(|(name, value): (&str, OsString)| (name.into(), value)));
        let same = ["PATH", "SHELL", "TERM"].into_iter().filter_map(|name| own.get_key_value(OsStr::new(name)));
        environment.extend(same.map(|(name, value)| (name.clone(), value.clone())));
    }
    environment
}

/// Adds what makes TLS libraries write their secrets to a file. What a user has set stays.
///
/// Node.js warns on standard error of a key log. That would get onto the screen of a client, so its
/// warnings are off.
pub fn add_key_log(environment: &mut Environment, file: &Path) {
    environment.entry("SSLKEYLOGFILE".into()).or_insert_with(|| file.into());
    let options = environment.entry("NODE_OPTIONS".into()).or_default();
    if memchr::memmem::find(options.as_bytes(), b"--tls-keylog").is_some() {
        return;
    }
    if !options.is_empty() {
        options.push(" ");
    }
    // Node.js splits at blanks outside of double quotes, in which a backslash escapes.
    options.push("--tls-keylog=\"");
    for byte in file.as_os_str().as_bytes() {
        if matches!(byte, b'"' | b'\\') {
            options.push("\\");
        }
        options.push(OsStr::from_bytes(&[*byte]));
    }
    options.push("\"");
    environment.entry("NODE_NO_WARNINGS".into()).or_insert_with(|| "1".into());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(text: &str) -> Environment {
        let pairs = text.lines().filter_map(|line| line.split_once('='));
        pairs.map(|(name, value)| (name.into(), value.into())).collect()
    }

    fn shown(environment: &Environment) -> String {
        let line = |(name, value): (&OsString, &OsString)| format!("{}={}", name.display(), value.display());
        environment.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn the_client_has_the_environment_of_the_user() {
        let own = "HOME=/root\nLC_ALL=C\nPATH=/sbin\nSUDO_UID=1000\nUSER=root\nX=y";
        let before = "HOME=/home/a\nPATH=/home/a/bin:/bin\nTOKEN=t=1\nUSER=a\nX=z";
        let user = |before: Option<&str>| User {
            name: "a".to_owned(),
            home: "/home/a".into(),
            environment: before.map(environment),
        };
        let of = |user: Option<&User>| shown(&of_user(environment(own), user));
        let whole = "HOME=/home/a\nLC_ALL=C\nPATH=/home/a/bin:/bin\nTOKEN=t=1\nUSER=a\nX=y";
        assert_eq!(of(Some(&user(Some(before)))), whole);
        let known = "HOME=/home/a\nLC_ALL=C\nLOGNAME=a\nPATH=/sbin\nUSER=a\nX=y";
        assert_eq!(of(Some(&user(None))), known);
        assert_eq!(of(None), own, "nothing was given up");
    }

    #[test]
    fn a_key_log_is_added_to_what_is_set() {
        let with = |before: &str| {
            let mut environment = environment(before);
            add_key_log(&mut environment, Path::new("/run/a \"b"));
            shown(&environment)
        };
        let node = r#"--tls-keylog="/run/a \"b""#;
        assert_eq!(with(""), format!("NODE_NO_WARNINGS=1\nNODE_OPTIONS={node}\nSSLKEYLOGFILE=/run/a \"b"));
        assert_eq!(
            with("NODE_OPTIONS=--no-warnings"),
            format!("NODE_NO_WARNINGS=1\nNODE_OPTIONS=--no-warnings {node}\nSSLKEYLOGFILE=/run/a \"b")
        );
        let own = "NODE_OPTIONS=--tls-keylog=/own\nSSLKEYLOGFILE=/own";
        assert_eq!(with(own), own);
    }
}
