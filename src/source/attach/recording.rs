//! The recording of servers that already run, as a source of pipe packets.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result};
use rustix::event::Timespec;
use rustix::time::{ClockId, clock_gettime};

use super::channel::{Channel, ChannelRun};
use super::event::{Event, Kind};
use super::pairs::Pair;
use super::probe::{CALLS, Probe, Watch};
use super::processes::{self, Object, Snapshot};
use crate::capture::pipe::{self, Exit, Pipe, PipeEvent, Start};
use crate::capture::{LinkType, Packet, PacketNumber, Time};
use crate::source::batch::Batch;
use crate::source::{Item, Source, now};

/// The time between two looks at the ring. The kernel wakes this thread earlier only if the ring
/// fills: a wake for each message would delay its writer. A person who watches does not notice.
pub(super) const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// Bytes of packets that are made before they are delivered.
const BATCH: usize = 256 << 10;

/// The most channels that are watched: those of 341 servers.
const CHANNELS: u32 = 1_024;

/// Looks without events between two checks whether the servers still live: one second.
const LIFE_CHECK: u32 = 50;

/// Bytes that passed through the pipes of servers since mcptap attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Bytes that were recorded.
    pub seen: u64,
    /// Bytes that were not.
    pub lost: u64,
}

/// Servers that are being watched.
pub struct Attached {
    probe: Probe,
    servers: Vec<WatchedServer>,
    packets: MadePackets,
    /// Nanoseconds from the clock of the events to that of the system.
    clock: i64,
    /// Looks at an empty ring, in a row.
    idle: u32,
    /// Whether the recording ends with what the ring holds.
    is_stopped: bool,
}

/// A server that ran already.
struct WatchedServer {
    pipes: ServerPipes,
    /// Its processes that live, launchers included.
    alive: BTreeSet<u32>,
    exit: Option<Exit>,
    is_over: bool,
}

/// The standard streams of a server, and what was taken of each. Server number 2 has the channels
/// 6, 7 and 8.
pub(super) struct ServerPipes {
    pub process: u32,
    channels: [Channel; 3],
    /// Whether each pipe ended. A program may read its end again and again.
    at_end: [bool; 3],
}

/// Packets that were made and not delivered.
#[derive(Default)]
pub(super) struct MadePackets {
    pub batch: Batch,
    delivered: usize,
    count: u64,
    pub counts: Counts,
}

const PIPES: [Pipe; 3] = [Pipe::Stdin, Pipe::Stdout, Pipe::Stderr];

impl Attached {
    /// Attaches to servers. `names` gives each the name and the command line to record. The ring
    /// has so many bytes, a power of two.
    pub fn new(snapshot: &Snapshot, pairs: &[(Pair, Start)], ring: u32) -> Result<Attached> {
        let mut probe = Probe::load(ring, CHANNELS)?;
        let mut packets = MadePackets::default();
        let mut servers = Vec::new();
        for (index, (pair, start)) in pairs.iter().enumerate() {
            let ends = &pair.ends;
            let channel = |pipe: Pipe| Some(3 * index as u32 + pipe as u32);
            let reads = |object: &Object| channel(Pipe::Stdin).filter(|_| ends.stdin.contains(object));
            let writes = |object: &Object| {
                let stdout = channel(Pipe::Stdout).filter(|_| ends.stdout.contains(object));
                stdout.or(channel(Pipe::Stderr).filter(|_| ends.stderr.contains(object)))
            };
            let objects: BTreeSet<&Object> = ends.stdin.iter().chain(&ends.stdout).chain(&ends.stderr).collect();
            for object in objects {
                let (Object::Pipe(inode) | Object::Socket(inode)) = *object;
                probe.add_inode(inode, reads(object), writes(object))?;
            }
            pair.processes.iter().try_for_each(|process| probe.add_process(*process, Watch::Pipes))?;
            packets.push(now(), pair.server, &PipeEvent::Start(start.clone()));
            let alive = pair.processes.iter().copied().collect();
            servers.push(WatchedServer { pipes: ServerPipes::new(pair.server), alive, exit: None, is_over: false });
        }
        probe.watch(&CALLS)?;
        let mut attached = Attached { probe, servers, packets, clock: clock_offset(), idle: 0, is_stopped: false };
        attached.notice_ends(Some(snapshot));
        Ok(attached)
    }

    /// Bytes recorded and lost so far.
    pub fn counts(&self) -> Counts {
        self.packets.counts
    }

    /// Takes events out of the ring until there are enough packets. Returns false if the ring
    /// was empty from the start.
    fn take_events(&mut self) -> bool {
        let Attached { probe, servers, packets, clock, .. } = self;
        let mut any = false;
        while packets.batch.bytes().len() < BATCH {
            let taken = probe.next(|event| match event.kind {
                Kind::Data | Kind::EndOfFile => {
                    let server = usize::try_from(event.subject / 3).ok().and_then(|number| servers.get_mut(number));
                    if let Some(server) = server {
                        server.pipes.take(&event, *clock, packets);
                    }
                }
                Kind::Exit => note_exit(servers, &event),
                Kind::Derived | Kind::Logged | Kind::KeyLine | Kind::TextRead | Kind::TextWritten | Kind::Freed => {}
                Kind::Started | Kind::Connected => {}
            });
            if !taken {
                break;
            }
            any = true;
        }
        any
    }

    /// The ring is empty: reports what is missing, and the ends of servers.
    fn settle(&mut self) {
        let Attached { probe, servers, packets, clock, is_stopped, .. } = self;
        let time = now();
        for (index, server) in servers.iter_mut().enumerate().filter(|(_, server)| !server.is_over) {
            let ends = server.alive.is_empty();
            server.pipes.settle(probe, index as u64, ends || *is_stopped, (time, *clock), packets);
            if ends {
                server.is_over = true;
                packets.push(time, server.pipes.process, &PipeEvent::Exit(server.exit.unwrap_or_default()));
            }
        }
    }

    /// Notices processes that ended before their end could be watched, or whose event was lost.
    fn notice_ends(&mut self, snapshot: Option<&Snapshot>) {
        for server in &mut self.servers {
            server.alive.retain(|id| {
                let is_same = || {
                    let before = snapshot.and_then(|snapshot| snapshot.processes.get(id));
                    before.is_none_or(|before| processes::started(*id) == Some(before.started))
                };
                fs::exists(processes::path(*id, "stat")).unwrap_or(true) && is_same()
            });
        }
    }
}

impl Source for Attached {
    fn next(&mut self) -> Result<Option<Item<'_>>> {
        if self.packets.delivered == self.packets.batch.len() {
            self.packets.clear();
            if self.take_events() {
                self.idle = 0;
            } else {
                self.settle();
                self.idle = self.idle.saturating_add(1);
            }
        }
        if self.packets.batch.is_empty() {
            let was_all = self.is_stopped && self.idle > 0;
            if was_all || self.servers.iter().all(|server| server.is_over) {
                return Ok(None);
            }
            if self.idle > 0 {
                self.probe.wait(&LOOK);
            }
            if self.idle.is_multiple_of(LIFE_CHECK) {
                self.notice_ends(None);
                self.clock = clock_offset();
            }
            return Ok(Some(Item::Idle));
        }
        self.packets.delivered += 1;
        let packet = self.packets.batch.get(self.packets.delivered - 1).context("a packet was made")?;
        Ok(Some(Item::Packet(packet)))
    }

    fn stop(&mut self) -> bool {
        self.probe.detach();
        self.is_stopped = true;
        true
    }
}

impl ServerPipes {
    pub(super) fn new(process: u32) -> ServerPipes {
        ServerPipes { process, channels: Default::default(), at_end: [false; 3] }
    }

    /// Takes bytes of a pipe, or its end.
    pub(super) fn take(&mut self, event: &Event<'_>, clock: i64, packets: &mut MadePackets) {
        let (pipe, time) = (PIPES[(event.subject % 3) as usize], wall(clock, event.time));
        if event.kind == Kind::Data {
            let (process, channel) = (self.process, &mut self.channels[pipe as usize]);
            channel.push(event.time, event.offset, event.bytes, &mut |run| {
                packets.run(process, pipe, (time, clock), run);
            });
        } else if !std::mem::replace(&mut self.at_end[pipe as usize], true) {
            packets.push(time, self.process, &PipeEvent::EndOfFile(pipe));
        }
    }

    /// The ring is empty: reports what is missing. At the end nothing more can arrive.
    pub(super) fn settle(
        &mut self,
        probe: &Probe,
        server: u64,
        is_end: bool,
        times: (Time, i64),
        packets: &mut MadePackets,
    ) {
        for pipe in PIPES {
            let total = probe.passed(3 * server as u32 + pipe as u32);
            let out = &mut |run: ChannelRun<'_>| packets.run(self.process, pipe, times, run);
            let channel = &mut self.channels[pipe as usize];
            if is_end { channel.finish(total, out) } else { channel.settle(total, out) }
        }
    }
}

impl MadePackets {
    pub(super) fn push(&mut self, time: Time, process: u32, event: &PipeEvent<'_>) {
        self.count += 1;
        self.batch.write(PacketNumber(self.count), time, LinkType::PIPE, |out| pipe::encode(process, event, out));
    }

    /// Makes a packet of a run of bytes, or of a gap at this time.
    fn run(&mut self, process: u32, pipe: Pipe, (time, clock): (Time, i64), run: ChannelRun<'_>) {
        match run {
            ChannelRun::Bytes(time, bytes) => {
                self.counts.seen += bytes.len() as u64;
                self.push(wall(clock, time), process, &PipeEvent::Data(pipe, bytes));
            }
            ChannelRun::Lost(bytes) => {
                self.counts.lost += bytes;
                self.push(time, process, &PipeEvent::Lost(pipe, bytes));
            }
        }
    }

    /// Appends packets that were made elsewhere.
    pub(super) fn append(&mut self, other: &MadePackets) {
        for packet in other.batch.packets() {
            self.count += 1;
            self.batch.push(&Packet { number: PacketNumber(self.count), ..packet });
        }
        self.counts.seen += other.counts.seen;
        self.counts.lost += other.counts.lost;
    }

    pub(super) fn clear(&mut self) {
        self.batch.clear();
        self.delivered = 0;
    }
}

/// Notes the end of a process.
fn note_exit(servers: &mut [WatchedServer], event: &Event<'_>) {
    for server in servers {
        if server.alive.remove(&event.process) && event.process == server.pipes.process {
            server.exit = Some(exit(event));
        }
    }
}

/// The end that an event reports. As of wait(2): the signal is in the low seven bits, the exit
/// status above them.
pub(super) fn exit(event: &Event<'_>) -> Exit {
    let (signal, code) = ((event.subject & 0x7f) as i32, (event.subject >> 8 & 0xff) as i32);
    match signal {
        0 => Exit { code: Some(code), signal: None },
        _ => Exit { code: None, signal: Some(signal) },
    }
}

/// The time by the system clock of a time of an event.
pub(super) fn wall(clock: i64, time: u64) -> Time {
    Time(i64::try_from(time).unwrap_or(i64::MAX)).plus(clock)
}

/// Nanoseconds from the monotonic clock to that of the system.
pub(super) fn clock_offset() -> i64 {
    let monotonic = clock_gettime(ClockId::Monotonic);
    now().since(Time(monotonic.tv_sec.saturating_mul(1_000_000_000).saturating_add(monotonic.tv_nsec)))
}
