//! Recording without rights: programs in front of those in PATH.
//!
//! A client mostly starts its servers by the name of a launcher. A folder before all others in PATH
//! has a script of that name. If its standard streams are pipes, it starts the real program under
//! `mcptap wrap`, otherwise alone. A server that is started by its full path is not seen.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::{env, io};

use crate::source::command::LAUNCHERS;
use crate::source::live::Environment;

/// Puts scripts into a folder, and the folder before all others in the environment's PATH. The
/// command `wrap` records, and is written up to its two dashes.
pub fn install(folder: &Path, environment: &mut Environment, wrap: &[OsString]) -> io::Result<()> {
    let path = environment.get(OsStr::new("PATH")).cloned().unwrap_or_default();
    fs::create_dir_all(folder)?;
    for (name, program) in launchers(&path) {
        let mut script = fs::OpenOptions::new().write(true).create_new(true).mode(0o700).open(folder.join(name))?;
        script.write_all(&text(folder, &program, wrap))?;
    }
    let folders = [folder.to_owned()].into_iter().chain(env::split_paths(&path));
    environment.insert("PATH".into(), env::join_paths(folders).map_err(io::Error::other)?);
    Ok(())
}

/// The launchers in PATH: the name, and the first program of that name.
fn launchers(path: &OsStr) -> Vec<(OsString, PathBuf)> {
    let mut found: Vec<(OsString, PathBuf)> = Vec::new();
    for folder in env::split_paths(path).filter(|folder| folder.is_absolute()) {
        for entry in fs::read_dir(&folder).into_iter().flatten().filter_map(Result::ok) {
            let name = entry.file_name();
            // Others have "mcp" in their names.
            let is_launcher = name == "python3"
                || LAUNCHERS.iter().any(|launcher| name == *launcher)
                || memchr::memmem::find(&name.as_bytes().to_ascii_lowercase(), b"mcp").is_some() && name != "mcptap";
            let is_program = || {
                fs::metadata(entry.path()).is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
            };
            if is_launcher && !found.iter().any(|(known, _)| *known == name) && is_program() {
                found.push((name, entry.path()));
            }
        }
    }
    found
}

/// The script for a program.
fn text(folder: &Path, program: &Path, wrap: &[OsString]) -> Vec<u8> {
    let mut text = b"#!/bin/sh\n# Made by mcptap run. It records a server that is started by this name.\n".to_vec();
    // Programs that the server starts are not recorded apart.
    text.extend(
        b"is_pipe() { [ -p \"/dev/fd/$1\" ] || [ -S \"/dev/fd/$1\" ]; }\nif is_pipe 0 && is_pipe 1; then\n  folder=",
    );
    text.extend(quoted(folder.as_os_str()));
    text.extend(b"\n  PATH=${PATH#\"$folder:\"} exec");
    wrap.iter().for_each(|word| text.extend([b" ", &*quoted(word)].concat()));
    text.extend(
        [b" -- ", &*quoted(program.as_os_str()), b" \"$@\"\nfi\nexec ", &*quoted(program.as_os_str())].concat(),
    );
    text.extend(b" \"$@\"\n");
    text
}

/// A word for the shell.
fn quoted(word: &OsStr) -> Vec<u8> {
    let mut quoted = vec![b'\''];
    for byte in word.as_bytes() {
        match byte {
            b'\'' => quoted.extend(b"'\\''"),
            byte => quoted.push(*byte),
        }
    }
    quoted.push(b'\'');
    quoted
}
