//! The client's process. It has the terminal, as it would without mcptap.

use std::io;
use std::process::{Child, Command};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, waitpid};

use crate::capture::pipe::Exit;
use crate::source::live::Environment;
use crate::source::stdio::{Server, Signals, StartError, pass_on};

/// A running client.
#[derive(Debug)]
pub struct ClientProcess {
    child: Child,
    signals: Signals,
}

impl ClientProcess {
    /// Starts a client on this process's terminal and in its process group, with this environment.
    pub fn start(server: &Server, environment: &Environment) -> Result<ClientProcess, StartError> {
        let signals = Signals::new().map_err(|error| server.error(error))?;
        let (program, arguments) =
            server.command.split_first().ok_or_else(|| server.error(io::ErrorKind::NotFound.into()))?;
        let mut command = Command::new(program);
        command.args(arguments).env_clear().envs(environment);
        let child = command.spawn().map_err(|error| server.error(error))?;
        // After the start, so that a signal that is ignored here is ignored by the client too.
        signals.catch_all().map_err(|error| server.error(error))?;
        Ok(ClientProcess { child, signals })
    }

    /// Waits for its end. Signals to this process are passed on. While the client is stopped, this
    /// process is stopped as well, so that a shell notices.
    pub fn wait(mut self) -> io::Result<Exit> {
        let process = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        loop {
            let options = WaitOptions::UNTRACED | WaitOptions::NOHANG;
            match waitpid(process, options) {
                Ok(Some((_, status))) if status.stopped() => {
                    kill_process(getpid(), Signal::STOP)?;
                    // Somebody has continued this process.
                    pass_on(Signal::CONT, &self.child);
                }
                Ok(Some((_, status))) if status.exited() || status.signaled() => {
                    return Ok(Exit { code: status.exit_status(), signal: status.terminating_signal() });
                }
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
            match poll(&mut [PollFd::from_borrowed_fd(self.signals.as_fd(), PollFlags::IN)], None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            self.signals.take_forwardable().into_iter().for_each(|signal| pass_on(signal, &self.child));
        }
    }
}
