//! The server's process: its start and its exit status.

use std::error::Error;
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::{env, fmt, io};

use crate::capture::pipe::{Exit, Start};

/// An STDIO server to be started.
#[derive(Clone, Debug, Default)]
pub struct Server {
    /// Its command line, program first.
    pub command: Vec<OsString>,
    /// The command line as it is recorded. The caller masks the secrets in it.
    pub recorded: Vec<String>,
    /// The name given by the user, if any.
    pub name: Option<String>,
    /// Whether what waits on disk is sealed, because values are redacted.
    pub seals: bool,
}

/// The three standard streams, named as the server sees them: mcptap's ends of the pipes to the
/// server, or of the streams to the host.
#[derive(Debug)]
pub struct Pipes {
    /// Carries the client's messages to the server.
    pub stdin: OwnedFd,
    /// Carries the server's messages to the client.
    pub stdout: OwnedFd,
    /// Carries the server's log to the host.
    pub stderr: OwnedFd,
}

/// The server could not be started.
#[derive(Debug)]
pub struct StartError {
    program: String,
    why: Why,
}

#[derive(Debug)]
enum Why {
    NotFound,
    NoInterpreter,
    NotExecutable,
    Other(io::Error),
}

impl Server {
    /// Starts the server with three new pipes, in this directory and process group. The kernel
    /// kills it when the calling thread ends (Linux).
    pub fn spawn(&self) -> Result<(Child, Pipes), StartError> {
        let (program, arguments) =
            self.command.split_first().ok_or_else(|| self.error(io::ErrorKind::NotFound.into()))?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        #[cfg(target_os = "linux")]
        die_with_us(&mut command);
        let mut child = command.spawn().map_err(|error| self.error(error))?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        match (stdin, stdout, stderr) {
            (Some(stdin), Some(stdout), Some(stderr)) => {
                Ok((child, Pipes { stdin: stdin.into(), stdout: stdout.into(), stderr: stderr.into() }))
            }
            _ => unreachable!("all three were asked to be pipes"),
        }
    }

    /// The record of the server's start.
    pub fn start(&self) -> Start {
        Start {
            command: self.recorded.clone(),
            name: self.name.clone(),
            directory: env::current_dir().ok().map(|directory| directory.to_string_lossy().into_owned()),
            already_ran: false,
        }
    }

    /// The error of a start, with its reason.
    pub fn error(&self, error: io::Error) -> StartError {
        let program = self.command.first().cloned().unwrap_or_default();
        let why = match error.kind() {
            io::ErrorKind::NotFound if exists(&program) => Why::NoInterpreter,
            io::ErrorKind::NotFound => Why::NotFound,
            io::ErrorKind::PermissionDenied if exists(&program) => Why::NotExecutable,
            // With a directory in PATH that may not be searched the system reports this
            // for every name.
            io::ErrorKind::PermissionDenied if !is_path(&program) => Why::NotFound,
            _ => Why::Other(error),
        };
        StartError { program: program.to_string_lossy().into_owned(), why }
    }
}

/// Whether a command is a path rather than a name to be searched in PATH.
fn is_path(program: &OsStr) -> bool {
    program.as_bytes().contains(&b'/')
}

/// Whether a command's file exists, at its path or in a directory of PATH.
fn exists(program: &OsStr) -> bool {
    if is_path(program) {
        return Path::new(program).exists();
    }
    let path = env::var_os("PATH").unwrap_or_default();
    !program.is_empty() && env::split_paths(&path).any(|directory| directory.join(program).is_file())
}

/// Has the kernel kill the server when the thread that starts it ends, by whatever cause.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)] // The only way to do something between fork and exec.
/// Makes the kernel kill the server when the thread that starts it ends, for any reason.
fn die_with_us(command: &mut Command) {
    use std::os::unix::process::CommandExt;

    use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

    let us = getpid();
    let request = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // If mcptap died before the request was made, nobody would send the signal.
        if getppid() == Some(us) { Ok(()) } else { Err(io::ErrorKind::Interrupted.into()) }
    };
    // SAFETY: `request` makes two bare system calls. It neither allocates nor takes a lock, so it
    // may run between fork and exec.
    unsafe { command.pre_exec(request) };
}

impl StartError {
    /// The exit status that shells use: 127 for a command that was not found, 126 for one that
    /// cannot be executed.
    pub fn exit_code(&self) -> u8 {
        match self.why {
            Why::NotFound | Why::NoInterpreter => 127,
            Why::NotExecutable | Why::Other(_) => 126,
        }
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot start `{}`: ", self.program)?;
        match &self.why {
            Why::NotFound => f.write_str("command not found; give its full path, or check PATH"),
            Why::NoInterpreter => f.write_str("the interpreter that its first line (#!) names was not found"),
            Why::NotExecutable => f.write_str("permission denied; is it an executable file?"),
            Why::Other(error) => error.fmt(f),
        }
    }
}

impl Error for StartError {}

/// The end of a process in the form in which it is recorded.
pub fn exit(status: ExitStatus) -> Exit {
    Exit { code: status.code(), signal: status.signal() }
}

/// The exit status for a server that ended like this: its own, or 128 plus the signal's number.
pub fn exit_code(exit: Exit) -> u8 {
    let status = exit.code.or(exit.signal.map(|signal| 128 + signal)).unwrap_or(1);
    u8::try_from(status & 0xff).unwrap_or(1)
}
