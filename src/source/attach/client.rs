//! A client that mcptap starts, watched from its first instruction: the STDIO servers that it
//! starts, as pipe packets, and its TCP connections, by their addresses.
//!
//! The kernel gives channels to the standard streams of each program that the client starts, before
//! the program can read. Most of these programs are no servers. So what passes is held here until
//! the first line of standard input tells.
//!
//! ```text
//!   started ──► held ──► recorded     the first line is JSON-RPC
//!                   └──► ignored      it is not, or mcptap records the program already
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;

use super::event::{Connected, Event, Kind, Started};
use super::probe::{CALLS, Probe, STARTS, Watch};
use super::processes::path;
use super::recording::{Counts, LOOK, MadePackets, ServerPipes, clock_offset, exit, wall};
use crate::capture::Time;
use crate::capture::pipe::{Exit, PipeEvent, Start};
use crate::source::batch::Batch;
use crate::source::command::{names_mcp, program};
use crate::source::first_line::{FirstLine, HELD};
use crate::source::now;

/// The most channels of a run: 65,536 programs with pipes as standard streams. They take 1.5 MiB of
/// the kernel's memory.
const CHANNELS: u32 = 3 << 16;

/// The number of a program whose streams were known: those of its launcher, or of the client.
const KNOWN: u64 = u64::MAX;

/// The time between two looks at the totals of an empty ring.
const SETTLE: Duration = Duration::from_millis(20);

/// Bytes of packets that are made at once.
const BATCH: usize = 256 << 10;

/// A TCP connection of the client or of its children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientConnection {
    /// The time at which the kernel had its addresses.
    pub time: Time,
    /// The address of the client.
    pub local: SocketAddr,
    /// The address of its peer.
    pub remote: SocketAddr,
}

/// What was taken out of the ring.
pub struct Taken<'a> {
    /// The pipe packets of its servers.
    pub packets: &'a Batch,
    /// Its new connections.
    pub connections: Vec<ClientConnection>,
    /// Whether nothing was left.
    pub is_all: bool,
}

/// A client that is watched, and the servers that it started.
pub struct WatchedClient {
    probe: Probe,
    servers: BTreeMap<u64, StartedServer>,
    packets: MadePackets,
    connections: Vec<ClientConnection>,
    /// Nanoseconds from the clock of the events to that of the system.
    clock: i64,
    /// Processes of mcptap, which record their servers themselves.
    recorders: BTreeSet<u32>,
    /// Makes the recorded form of a command line, without its secrets.
    shown: fn(Vec<String>) -> Vec<String>,
    living: Arc<AtomicUsize>,
    /// The time of the last look at the totals.
    settled: Instant,
    /// Whether the recording ends with what the ring holds.
    is_stopped: bool,
}

/// A program that the client started with pipes as standard streams.
struct StartedServer {
    pipes: ServerPipes,
    command: Vec<String>,
    directory: Option<String>,
    inodes: [u64; 3],
    /// Whether mcptap records it already.
    is_recorded: bool,
    state: ServerState,
    exit: Option<Exit>,
}

enum ServerState {
    Held(Held),
    Recorded,
    Ignored,
}

/// What passed before it was known whether a program is a server.
struct Held {
    started: Time,
    packets: MadePackets,
    first_line: FirstLine,
    /// The number of packets of which the first line was taken.
    examined: usize,
}

impl WatchedClient {
    /// Loads and attaches the programs. This process must start the client next, and call
    /// [`WatchedClient::started`] then. `own` are the inodes of the client's own standard streams,
    /// which are not recorded. The ring has so many bytes, a power of two.
    pub fn prepare(own: &[u64], ring: u32, shown: fn(Vec<String>) -> Vec<String>) -> Result<WatchedClient> {
        let mut probe = Probe::load(ring, CHANNELS)?;
        own.iter().try_for_each(|inode| probe.add_inode(*inode, None, None))?;
        probe.watch(&CALLS)?;
        probe.watch(&STARTS)?;
        // Children are watched as their parent is. So the client is watched from its first moment.
        probe.add_process(std::process::id(), Watch::Client)?;
        Ok(WatchedClient {
            probe,
            servers: BTreeMap::new(),
            packets: MadePackets::default(),
            connections: Vec::new(),
            clock: clock_offset(),
            recorders: BTreeSet::new(),
            shown,
            living: Arc::default(),
            settled: Instant::now(),
            is_stopped: false,
        })
    }

    /// The client was started: this process itself is watched no longer.
    pub fn started(&mut self) -> Result<()> {
        self.probe.remove_process(std::process::id())
    }

    /// The number of its servers that live, for another thread.
    pub fn living(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.living)
    }

    /// Bytes recorded and lost so far.
    pub fn counts(&self) -> Counts {
        self.packets.counts
    }

    /// Waits until the ring fills, or a moment has passed.
    pub fn wait(&self) {
        self.probe.wait(&LOOK);
    }

    /// The recording is to end. What passed so far can still be taken.
    pub fn stop(&mut self) {
        self.probe.detach();
        self.is_stopped = true;
    }

    /// Takes events out of the ring.
    pub fn take(&mut self) -> Taken<'_> {
        self.packets.clear();
        let (mut was_empty, mut is_all) = (true, false);
        while self.packets.batch.bytes().len() < BATCH {
            let WatchedClient { probe, servers, packets, connections, clock, recorders, .. } = self;
            let (mut ended, mut changed) = (None, None);
            let taken = probe.next(|event| match event.kind {
                Kind::Started => changed = start(servers, recorders, *clock, &event),
                Kind::Connected => connections.extend(Connected::parse(event.bytes).map(|found| {
                    let Connected { local, remote } = found;
                    ClientConnection { time: wall(*clock, event.time), local, remote }
                })),
                Kind::Data | Kind::EndOfFile => {
                    let number = event.subject / 3;
                    let Some(server) = servers.get_mut(&number) else { return };
                    changed = Some(number);
                    if let Some(packets) = server.state.packets(packets) {
                        server.pipes.take(&event, *clock, packets);
                    }
                }
                Kind::Exit => {
                    recorders.remove(&event.process);
                    ended = Some((event.process, exit(&event)));
                }
                Kind::Derived | Kind::Logged | Kind::KeyLine | Kind::TextRead | Kind::TextWritten | Kind::Freed => {}
            });
            if let Some((process, exit)) = ended
                && let Some(server) = self.servers.values_mut().find(|server| server.pipes.process == process)
            {
                server.exit = Some(exit);
            }
            if !taken {
                is_all = true;
                break;
            }
            was_empty = false;
            if let Some(number) = changed {
                self.decide(number);
            }
        }
        // Between two looks at an empty ring, a call that was counted is copied.
        if was_empty && (self.is_stopped || self.settled.elapsed() >= SETTLE) {
            self.settled = Instant::now();
            self.settle();
            self.clock = clock_offset();
        }
        let lives = |server: &&StartedServer| !matches!(server.state, ServerState::Ignored);
        self.living.store(self.servers.values().filter(lives).count(), Ordering::Relaxed);
        Taken { packets: &self.packets.batch, connections: mem::take(&mut self.connections), is_all }
    }

    /// Records or ignores a program if enough is known of it.
    fn decide(&mut self, number: u64) {
        let WatchedClient { probe, servers, packets, shown, .. } = self;
        let Some(server) = servers.get_mut(&number) else { return };
        let ServerState::Held(held) = &mut server.state else { return };
        match held.is_server() {
            _ if server.is_recorded => server.ignore(probe),
            Some(true) => server.record(*shown, packets),
            Some(false) => server.ignore(probe),
            None => {}
        }
    }

    /// The ring is empty: reports what is missing, and the ends of servers.
    fn settle(&mut self) {
        let WatchedClient { probe, servers, packets, clock, shown, is_stopped, .. } = self;
        let time = now();
        for (number, server) in servers.iter_mut() {
            if let Some(packets) = server.state.packets(packets) {
                let is_end = server.exit.is_some() || *is_stopped;
                server.pipes.settle(probe, *number, is_end, (time, *clock), packets);
            }
            let Some(exit) = server.exit else { continue };
            // A server that ends before it has read anything is what somebody looks for.
            if let ServerState::Held(held) = &mut server.state
                && held.examine().is_empty()
                && names_mcp(&server.command)
            {
                server.record(*shown, packets);
            }
            if matches!(server.state, ServerState::Recorded) {
                packets.push(time, server.pipes.process, &PipeEvent::Exit(exit));
            }
            server.inodes.iter().filter(|inode| **inode != 0).for_each(|inode| probe.remove_inode(*inode));
        }
        servers.retain(|_, server| server.exit.is_none());
    }
}

impl StartedServer {
    fn record(&mut self, shown: fn(Vec<String>) -> Vec<String>, packets: &mut MadePackets) {
        let ServerState::Held(held) = mem::replace(&mut self.state, ServerState::Recorded) else { return };
        let (command, directory) = (shown(self.command.clone()), self.directory.take());
        let start = Start { command, directory, ..Start::default() };
        packets.push(held.started, self.pipes.process, &PipeEvent::Start(start));
        packets.append(&held.packets);
    }

    fn ignore(&mut self, probe: &mut Probe) {
        self.state = ServerState::Ignored;
        // Its streams stay known, so that its children are not taken for servers.
        for inode in self.inodes.iter().filter(|inode| **inode != 0) {
            let _ = probe.add_inode(*inode, None, None);
        }
    }
}

impl ServerState {
    /// The packets to which those of the program are added.
    fn packets<'p>(&'p mut self, recorded: &'p mut MadePackets) -> Option<&'p mut MadePackets> {
        match self {
            ServerState::Recorded => Some(recorded),
            ServerState::Held(held) => Some(&mut held.packets),
            ServerState::Ignored => None,
        }
    }
}

impl Held {
    /// Takes the first line from the packets that were added.
    fn examine(&mut self) -> &FirstLine {
        while let Some(packet) = self.packets.batch.get(self.examined) {
            self.first_line.take(&packet);
            self.examined += 1;
        }
        &self.first_line
    }

    /// Whether the program is an MCP server; `None` if that cannot be told yet.
    fn is_server(&mut self) -> Option<bool> {
        self.examine().is_json_rpc.or((self.packets.counts.seen > HELD as u64).then_some(false))
    }
}

/// Notes a program that the client started. Returns the number of the program that this is about.
fn start(
    servers: &mut BTreeMap<u64, StartedServer>,
    recorders: &mut BTreeSet<u32>,
    clock: i64,
    event: &Event<'_>,
) -> Option<u64> {
    let Started { inodes, command } = Started::parse(event.bytes)?;
    let is_mcptap = command.first().is_some_and(|word| program(word) == "mcptap");
    if is_mcptap {
        recorders.insert(event.process);
    }
    if event.subject == KNOWN {
        // A launcher became a recorder, or started one.
        let (number, server) = servers.iter_mut().find(|(_, server)| server.inodes[0] == inodes[0])?;
        server.is_recorded |= is_mcptap;
        return is_mcptap.then_some(*number);
    }
    let is_recorded = is_mcptap || u32::try_from(event.offset).is_ok_and(|parent| recorders.contains(&parent));
    let started = wall(clock, event.time);
    let state = ServerState::Held(Held {
        started,
        packets: MadePackets::default(),
        first_line: FirstLine::default(),
        examined: 0,
    });
    // It may have ended already.
    let directory = std::fs::read_link(path(event.process, "cwd")).ok();
    let directory = directory.map(|directory| directory.to_string_lossy().into_owned());
    let pipes = ServerPipes::new(event.process);
    let server = StartedServer { pipes, command, directory, inodes, is_recorded, state, exit: None };
    servers.insert(event.subject, server);
    Some(event.subject)
}

/// The inodes of this process's standard streams that are pipes or sockets.
pub fn own_streams() -> Vec<u64> {
    use std::os::fd::AsFd;

    use rustix::fs::{FileType, fstat};

    let (stdin, stdout, stderr) = (std::io::stdin(), std::io::stdout(), std::io::stderr());
    let streams = [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
    let found = streams.into_iter().filter_map(|stream| fstat(stream).ok());
    let is_pipe = |mode| matches!(FileType::from_raw_mode(mode), FileType::Fifo | FileType::Socket);
    found.filter(|about| is_pipe(about.st_mode)).map(|about| about.st_ino).collect()
}
