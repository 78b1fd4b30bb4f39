//! A process of its own for what is left of a record, see `docs/decisions/0025-a-successor-records-the-rest.md`.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use libc::{SIG_DFL, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

/// Which of the two processes goes on here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// The one that was there, with all its threads.
    Predecessor,
    /// The new one: a copy of the memory, and this thread alone.
    Successor,
}

/// Makes the successor. Of the descriptors it has only those to `keep`: our ends of the pipes, held open by it, would keep the host waiting for their end.
/// It is in a session of its own, which no signal to ours reaches, and signals to it alone end it.
///
/// The other threads must hold no lock that this thread will take: in the copy nobody is left to let go of it.
///
/// # Errors
/// It cannot be made, or would be of no use: the first process of a container takes all others along when it ends. All is as it was.
#[allow(unsafe_code)] // Only the operating system can copy a thread's state; an exec would begin with nothing.
pub(super) fn fork(keep: &[BorrowedFd<'_>]) -> io::Result<Side> {
    if rustix::process::getpid().is_init() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let mut others = descriptors()?;
    others.retain(|other| *other > 2 && keep.iter().all(|kept| kept.as_raw_fd() != *other));
    // SAFETY: whoever calls answers for the locks. That of the allocator the C library itself holds meanwhile, on all systems that we run on.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            // Never fails: a new process leads no group.
            let _ = rustix::process::setsid();
            for signal in [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2] {
                // SAFETY: no handler is installed but the one that every process begins with.
                unsafe { libc::signal(signal, SIG_DFL) };
            }
            for other in others {
                // SAFETY: those who own these descriptors are on the stacks of threads that do not exist here. One is gone already: the list was read from it.
                unsafe { libc::close(other) };
            }
            Ok(Side::Successor)
        }
        _ => Ok(Side::Predecessor),
    }
}

/// The open descriptors of this process.
fn descriptors() -> io::Result<Vec<RawFd>> {
    let number = |name: &str| name.parse().map_err(|_| io::ErrorKind::InvalidData.into());
    fs::read_dir("/dev/fd")?.map(|entry| number(&entry?.file_name().to_string_lossy())).collect()
}

/// Ends the successor, and nothing more: what else ends a process is for the other one to do.
#[allow(unsafe_code)] // What `std::process::exit` does besides belongs to the other process.
pub(super) fn end() -> ! {
    // SAFETY: it may be called at any time.
    unsafe { libc::_exit(0) }
}
