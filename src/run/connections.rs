//! Which packets of an interface belong to a client.
//!
//! The kernel reports the two addresses of each connection of the client. Its first packets can be
//! captured before that report is read. So a connection that begins is held until a report claims
//! it, or until its handshake was over for a while.
//!
//! ```text
//!              SYN                  report
//!   (nothing) ─────► undecided ───────────────► of the client
//!        ▲               │ no report in time         │ SYN of another connection
//!        └── foreign ◄───┘         undecided ◄───────┘ with the same addresses
//! ```

use std::collections::HashMap;
use std::net::SocketAddr;

use crate::capture::{Limits, Packet, Time};
use crate::decode::packet::{Decoded, Packets};
use crate::decode::tcp::{Flags, Segment};
use crate::source::batch::Batch;

/// The time for which a connection waits for its report after the first packet that follows its
/// SYN. A report is read within about 50 ms of capture time.
const WAIT: i64 = 1_000_000_000;

/// The time between two looks at all that waits.
const EXPIRE: i64 = 100_000_000;

/// The time by which the clocks of packets and of reports may differ. Both are of one machine.
const SLACK: i64 = 10_000_000;

/// The most connections that are undecided, and the most bytes held of them. A busy server accepts
/// some thousand connections a second.
const UNDECIDED: usize = 4_096;
const HELD: usize = 16 << 20;

/// The most connections of others that are remembered. One that was forgotten is foreign again
/// with its next packet.
const FOREIGN: usize = 65_536;

/// The most connections of the client that are remembered. When there are more, the half with the
/// oldest packets is forgotten. Most of those are over. One that is not is recorded no further.
const OF_CLIENT: usize = 65_536;

/// The two addresses of a connection, in order.
type Key = (SocketAddr, SocketAddr);

/// The connections that were seen.
pub(super) struct Connections {
    packets: Packets,
    known: HashMap<Key, Owner>,
    undecided: usize,
    foreign: usize,
    of_client: usize,
    held: usize,
    /// The time of the last look at all that waits.
    expired: Time,
}

enum Owner {
    Undecided(Held),
    OfClient(ClientOwned),
    Foreign,
}

struct ClientOwned {
    /// The sequence number of its SYN, if that was captured.
    syn: Option<u32>,
    /// The time of its report.
    reported: Time,
    /// The time of its report or of its last packet.
    active: Time,
}

struct Held {
    packets: Batch,
    syn: u32,
    /// The time of the first packet that was no SYN.
    settled: Option<Time>,
}

fn key(one: SocketAddr, other: SocketAddr) -> Key {
    let canonical = |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
    let (one, other) = (canonical(one), canonical(other));
    (one.min(other), one.max(other))
}

impl Connections {
    pub(super) fn new() -> Connections {
        Connections {
            packets: Packets::new(Limits::live()),
            known: HashMap::new(),
            undecided: 0,
            foreign: 0,
            of_client: 0,
            held: 0,
            expired: Time(i64::MIN / 2),
        }
    }

    /// Takes a packet. Appends it to `out` if it belongs to the client.
    pub(super) fn push(&mut self, packet: &Packet<'_>, out: &mut Batch) {
        let Decoded::Tcp(segment) = self.packets.push(packet) else { return };
        let Segment { source, destination, sequence, flags, .. } = segment;
        let key = key(source, destination);
        let is_syn = flags.has(Flags::SYN) && !flags.has(Flags::ACK);
        if is_syn && self.is_new(&key, sequence, packet.time) {
            self.forget(&key);
            self.make_room();
            self.undecided += 1;
            let held = Held { packets: Batch::default(), syn: sequence, settled: None };
            self.known.insert(key, Owner::Undecided(held));
        }
        match self.known.get_mut(&key) {
            Some(Owner::OfClient(owned)) => {
                if is_syn {
                    owned.syn = Some(sequence);
                }
                owned.active = packet.time;
                out.push(packet);
            }
            Some(Owner::Undecided(held)) => {
                self.held += packet.data.len();
                held.packets.push(packet);
                if !flags.has(Flags::SYN) {
                    held.settled.get_or_insert(packet.time);
                }
                if self.held >= HELD {
                    self.make_room();
                }
            }
            // A connection that was there before the client.
            Some(Owner::Foreign) | None => {}
        }
    }

    /// The kernel reports a connection of the client. Appends its held packets to `out`.
    pub(super) fn claim(&mut self, local: SocketAddr, remote: SocketAddr, time: Time, out: &mut Batch) {
        let key = key(local, remote);
        let syn = match self.known.get(&key) {
            // A later report of the same connection, by a process that shares it.
            Some(Owner::OfClient(owned)) => owned.syn,
            Some(Owner::Undecided(held)) => {
                held.packets.packets().for_each(|packet| out.push(&packet));
                Some(held.syn)
            }
            Some(Owner::Foreign) | None => None,
        };
        self.forget(&key);
        if self.of_client >= OF_CLIENT {
            self.forget_oldest();
        }
        self.of_client += 1;
        self.known.insert(key, Owner::OfClient(ClientOwned { syn, reported: time, active: time }));
    }

    /// Forgets the half of the client's connections whose packets are the oldest.
    fn forget_oldest(&mut self) {
        let active = |owner: &Owner| if let Owner::OfClient(owned) = owner { Some(owned.active) } else { None };
        let mut times: Vec<Time> = self.known.values().filter_map(active).collect();
        times.sort_unstable();
        let Some(&middle) = times.get(times.len() / 2) else { return };
        self.known.retain(|_, owner| active(owner).is_none_or(|active| active > middle));
        self.of_client = self.known.values().filter_map(active).count();
    }

    /// All reports up to this time were taken. What has waited long enough is foreign.
    pub(super) fn expire(&mut self, time: Time) {
        if self.undecided > 0 && time.since(self.expired) > EXPIRE {
            self.expired = time;
            self.decline(|held| held.settled.is_some_and(|settled| time.since(settled) > WAIT));
        }
    }

    /// Whether a SYN begins another connection than the one that is known.
    fn is_new(&self, key: &Key, sequence: u32, time: Time) -> bool {
        match self.known.get(key) {
            Some(Owner::OfClient(owned)) => owned.syn != Some(sequence) && time.since(owned.reported) > SLACK,
            Some(Owner::Undecided(held)) => held.syn != sequence,
            Some(Owner::Foreign) | None => true,
        }
    }

    fn forget(&mut self, key: &Key) {
        match self.known.remove(key) {
            Some(Owner::Undecided(held)) => {
                self.undecided -= 1;
                self.held -= held.packets.bytes().len();
            }
            Some(Owner::Foreign) => self.foreign -= 1,
            Some(Owner::OfClient(_)) => self.of_client -= 1,
            None => {}
        }
    }

    /// Makes room for undecided connections, and for one more.
    fn make_room(&mut self) {
        if self.undecided >= UNDECIDED || self.held >= HELD {
            self.decline(|held| held.settled.is_some());
        }
        if self.undecided >= UNDECIDED || self.held >= HELD {
            self.decline(|_| true);
        }
    }

    /// Makes undecided connections foreign.
    fn decline(&mut self, which: impl Fn(&Held) -> bool) {
        for state in self.known.values_mut() {
            if let Owner::Undecided(held) = state
                && which(held)
            {
                self.undecided -= 1;
                self.held -= held.packets.bytes().len();
                self.foreign += 1;
                *state = Owner::Foreign;
            }
        }
        if self.foreign > FOREIGN {
            self.known.retain(|_, state| !matches!(state, Owner::Foreign));
            self.foreign = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use etherparse::PacketBuilder;

    use super::*;
    use crate::capture::{LinkType, PacketNumber};

    const CLIENT: &str = "10.0.0.1:40000";
    const SERVER: &str = "10.0.0.2:443";
    const MILLISECOND: i64 = 1_000_000;

    /// Connections, and the packets that were let through.
    struct Passing(Connections, Batch);

    impl Passing {
        fn new() -> Passing {
            Passing(Connections::new(), Batch::default())
        }

        /// A segment of the client at a time in milliseconds: `S` a SYN, `.` an ACK.
        fn segment(&mut self, at: i64, from: &str, to: &str, sequence: u32, flags: &str) -> &mut Passing {
            let (from, to): (SocketAddr, SocketAddr) = (from.parse().unwrap(), to.parse().unwrap());
            let octets = |address: SocketAddr| match address {
                SocketAddr::V4(address) => address.ip().octets(),
                SocketAddr::V6(_) => unreachable!("the cases are of IPv4"),
            };
            let mut builder =
                PacketBuilder::ipv4(octets(from), octets(to), 64).tcp(from.port(), to.port(), sequence, 100);
            if flags.contains('S') {
                builder = builder.syn();
            }
            if flags.contains('.') {
                builder = builder.ack(1);
            }
            let mut bytes = Vec::new();
            builder.write(&mut bytes, b"").unwrap();
            let packet = Packet {
                number: PacketNumber(1),
                time: Time(at * MILLISECOND),
                link: LinkType::RAW,
                interface: 0,
                original_length: bytes.len() as u32,
                data: &bytes,
            };
            self.0.push(&packet, &mut self.1);
            self
        }

        fn report(&mut self, at: i64) -> &mut Passing {
            let (local, remote) = (CLIENT.parse().unwrap(), SERVER.parse().unwrap());
            self.0.claim(local, remote, Time(at * MILLISECOND), &mut self.1);
            self
        }

        /// The times of the packets that were let through, in milliseconds.
        fn passed(&self) -> Vec<i64> {
            self.1.packets().map(|packet| packet.time.0 / MILLISECOND).collect()
        }
    }

    #[test]
    fn packets_before_and_after_the_report_pass_in_order() {
        let mut case = Passing::new();
        case.segment(0, CLIENT, SERVER, 7, "S").segment(1, SERVER, CLIENT, 9, "S.").segment(2, CLIENT, SERVER, 8, ".");
        assert_eq!(case.passed(), [0; 0]);
        case.report(1).segment(3, SERVER, CLIENT, 10, ".");
        assert_eq!(case.passed(), [0, 1, 2, 3]);
        // A blocking connect was captured after its report was read.
        let mut case = Passing::new();
        case.report(5).segment(0, CLIENT, SERVER, 7, "S").segment(1, SERVER, CLIENT, 9, "S.");
        assert_eq!(case.passed(), [0, 1]);
    }

    #[test]
    fn another_program_is_left_out_also_with_the_same_addresses() {
        let mut case = Passing::new();
        case.segment(0, CLIENT, SERVER, 7, "S").segment(1, CLIENT, SERVER, 8, ".");
        case.0.expire(Time(500 * MILLISECOND));
        assert_eq!((case.0.undecided, case.0.foreign), (1, 0), "the report may still come");
        case.0.expire(Time(1_002 * MILLISECOND));
        assert_eq!((case.0.undecided, case.0.foreign, case.0.held), (0, 1, 0));
        case.segment(1_003, CLIENT, SERVER, 9, ".");
        assert_eq!(case.passed(), [0; 0]);
        // The client has these addresses next, and then another program again.
        case.segment(2_000, CLIENT, SERVER, 50, "S").report(2_000).segment(2_001, CLIENT, SERVER, 51, ".");
        case.segment(2_900, CLIENT, SERVER, 50, "S");
        assert_eq!(case.passed(), [2_000, 2_001, 2_900], "its SYN was sent again");
        case.segment(3_000, CLIENT, SERVER, 90, "S").segment(3_001, CLIENT, SERVER, 91, ".");
        assert_eq!(case.passed().len(), 3);
    }

    #[test]
    fn connections_of_others_take_a_bounded_room() {
        let mut case = Passing::new();
        for port in 1..=u16::MAX {
            let from = format!("10.0.0.1:{port}");
            case.segment(0, &from, SERVER, 7, "S").segment(1, &from, SERVER, 8, ".");
        }
        assert!(case.0.undecided <= UNDECIDED && case.0.held <= HELD);
        for port in 1..=u16::MAX {
            case.segment(2, &format!("10.0.0.3:{port}"), SERVER, 7, "S").segment(
                3,
                &format!("10.0.0.3:{port}"),
                SERVER,
                8,
                ".",
            );
        }
        assert!(case.0.known.len() <= FOREIGN + UNDECIDED, "{}", case.0.known.len());
        assert_eq!(case.passed(), [0; 0]);
        // One connection that sends a lot before its report could come.
        case.segment(4, CLIENT, SERVER, 7, "S");
        for sequence in 8..600_000 {
            case.segment(5, CLIENT, SERVER, sequence, ".");
            assert!(case.0.held <= HELD + 100, "{}", case.0.held);
        }
    }

    #[test]
    fn connections_of_the_client_take_a_bounded_room_and_the_latest_stay() {
        let mut case = Passing::new();
        let ports = || (0..2u8).flat_map(|host| (1..=u16::MAX).map(move |port| (host, port)));
        for (at, (host, port)) in ports().enumerate() {
            let local = SocketAddr::from(([10, 0, 1, host], port));
            case.0.claim(local, SERVER.parse().unwrap(), Time(at as i64), &mut case.1);
        }
        assert!(case.0.of_client <= OF_CLIENT && case.0.known.len() == case.0.of_client);
        case.segment(1, "10.0.1.1:65535", SERVER, 7, ".").segment(1, "10.0.1.0:1", SERVER, 7, ".");
        assert_eq!(case.passed(), [1]);
    }
}
