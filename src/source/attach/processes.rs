//! The processes of this machine and their open pipes and sockets, as /proc describes them.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::tcp_sockets::{TcpSocket, tcp_sockets};
use super::unix_peers;

/// A pipe, or one of the two sockets of a connection, by the number of its inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Object {
    /// A pipe. Both of its ends have this inode.
    Pipe(u64),
    /// A socket. Its peer has another inode.
    Socket(u64),
}

/// A descriptor of a process that refers to a pipe or a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenEnd {
    /// The number of the descriptor.
    pub descriptor: u32,
    /// The pipe or the socket.
    pub object: Object,
    /// Whether it is open for reading.
    pub reads: bool,
    /// Whether it is open for writing.
    pub writes: bool,
}

/// A process of this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// The process id.
    pub id: u32,
    /// The id of its parent.
    pub parent: u32,
    /// The time of its start, in clock ticks since the start of the machine.
    pub started: u64,
    /// The command line.
    pub command: Vec<String>,
    /// Its open pipes and sockets.
    pub ends: Vec<OpenEnd>,
    /// Whether its descriptors could be read.
    pub is_readable: bool,
}

/// The processes of this machine at one time.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// The processes by id.
    pub processes: BTreeMap<u32, Process>,
    /// The peer of each connected UNIX socket, by inode.
    pub peers: HashMap<u64, u64>,
    /// The TCP sockets that listen or are connected, by inode.
    pub sockets: HashMap<u64, TcpSocket>,
}

impl Snapshot {
    /// The command line of a process; empty if it is not known.
    pub fn command(&self, process: u32) -> &[String] {
        self.processes.get(&process).map_or(&[], |process| &process.command)
    }

    /// Reads /proc. Processes that end meanwhile are left out. Of processes of other users only the
    /// command is known, unless this process has the rights of root.
    pub fn take() -> anyhow::Result<Snapshot> {
        let peers = unix_peers::peers()?;
        let entries = fs::read_dir("/proc").map_err(|error| anyhow::anyhow!("cannot read /proc: {error}"))?;
        let ids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let processes: BTreeMap<u32, Process> = ids.filter_map(|id| Some((id, process(id)?))).collect();
        let has_sockets = |process: &&Process| process.ends.iter().any(|end| matches!(end.object, Object::Socket(_)));
        let sockets = tcp_sockets(processes.values().filter(has_sockets).map(|process| process.id));
        Ok(Snapshot { processes, peers, sockets })
    }

    /// Whether `process` is `ancestor`, or descends from it.
    pub fn descends(&self, process: u32, ancestor: u32) -> bool {
        self.ancestors(process).any(|id| id == ancestor)
    }

    /// A process, its parent, and so on.
    pub fn ancestors(&self, process: u32) -> impl Iterator<Item = u32> {
        let parent = |id: &u32| self.processes.get(id).map(|process| process.parent).filter(|parent| *parent != 0);
        // The snapshot was not taken in one moment, so parents could form a circle.
        std::iter::successors(Some(process), parent).take(self.processes.len() + 1)
    }
}

/// The path of a file of a process in /proc.
pub fn path(id: u32, file: &str) -> PathBuf {
    Path::new("/proc").join(id.to_string()).join(file)
}

/// The time of the start of a process; `None` if it has ended.
pub(super) fn started(id: u32) -> Option<u64> {
    Some(parent_and_start(&fs::read_to_string(path(id, "stat")).ok()?)?.1)
}

fn process(id: u32) -> Option<Process> {
    let stat = fs::read_to_string(path(id, "stat")).ok()?;
    let (parent, started) = parent_and_start(&stat)?;
    let command = fs::read(path(id, "cmdline")).ok()?;
    let command = command.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned());
    let mut command: Vec<String> = command.collect();
    while command.last().is_some_and(String::is_empty) {
        command.pop();
    }
    let ends = ends(id);
    let is_readable = ends.is_some();
    Some(Process { id, parent, started, command, ends: ends.unwrap_or_default(), is_readable })
}

/// The second part of /proc/PID/stat begins after the name, which may contain anything. Its second
/// word is the parent, its 20th the time of the start (proc(5)).
fn parent_and_start(stat: &str) -> Option<(u32, u64)> {
    let mut words = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let parent = words.nth(1)?.parse().ok()?;
    let started = words.nth(17)?.parse().ok()?;
    Some((parent, started))
}

/// The open pipes and sockets of a process; `None` if they may not be read.
fn ends(id: u32) -> Option<Vec<OpenEnd>> {
    let entries = fs::read_dir(path(id, "fd")).ok()?;
    let end = |entry: std::io::Result<fs::DirEntry>| {
        let entry = entry.ok()?;
        let descriptor = entry.file_name().to_str()?.parse().ok()?;
        let object = object(fs::read_link(entry.path()).ok()?.to_str()?)?;
        // The permissions of such a link are those of the descriptor.
        let mode = fs::symlink_metadata(entry.path()).ok()?.permissions().mode();
        Some(OpenEnd { descriptor, object, reads: mode & 0o400 != 0, writes: mode & 0o200 != 0 })
    };
    let mut ends: Vec<OpenEnd> = entries.filter_map(end).collect();
    ends.sort_unstable_by_key(|end| end.descriptor);
    Some(ends)
}

/// Parses the target of a link in /proc/PID/fd, such as `pipe:[4711]`.
fn object(target: &str) -> Option<Object> {
    let (kind, rest) = target.split_once(":[")?;
    let inode = rest.strip_suffix(']')?.parse().ok()?;
    match kind {
        "pipe" => Some(Object::Pipe(inode)),
        "socket" => Some(Object::Socket(inode)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_proc_are_parsed() {
        let stat = "4711 (a ) (b) S 12 4711 1 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 98765 1 2 3";
        assert_eq!(parent_and_start(stat), Some((12, 98765)));
        assert_eq!(parent_and_start("4711 (a"), None);
        assert_eq!(object("pipe:[12]"), Some(Object::Pipe(12)));
        assert_eq!(object("socket:[13]"), Some(Object::Socket(13)));
        for other in ["/dev/null", "anon_inode:[eventfd]", "pipe:[x]", "pipe:[1", "anon_inode:[io_uring]"] {
            assert_eq!(object(other), None);
        }
    }

    #[test]
    fn this_process_is_in_a_snapshot_with_its_pipes_and_the_peers_of_its_sockets() {
        use std::os::fd::AsFd;
        use std::os::unix::net::UnixStream;

        let (read, write) = std::io::pipe().unwrap();
        let (near, far) = UnixStream::pair().unwrap();
        let snapshot = Snapshot::take().unwrap();
        let own = &snapshot.processes[&std::process::id()];
        let inode = |of: &dyn AsFd| rustix::fs::fstat(of.as_fd()).unwrap().st_ino;
        let of = |object| own.ends.iter().filter(|end| end.object == object).collect::<Vec<_>>();
        let pipe = of(Object::Pipe(inode(&read)));
        assert_eq!(inode(&read), inode(&write));
        assert_eq!(pipe.iter().filter(|end| end.reads && !end.writes).count(), 1);
        assert_eq!(pipe.iter().filter(|end| end.writes && !end.reads).count(), 1);
        assert!(of(Object::Socket(inode(&near))).iter().all(|end| end.reads && end.writes));
        assert_eq!(snapshot.peers.get(&inode(&near)), Some(&inode(&far)));
        assert!(own.is_readable && own.parent == std::os::unix::process::parent_id());
        assert!(snapshot.descends(own.id, own.parent) && !snapshot.descends(own.parent, own.id));
    }
}
