//! Real captures, dissected by tshark. The names of segments must agree with it, and the rules hold
//! here too.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

use super::super::fuzz::{Emitted, PromiseChecker};
use super::super::{Analysis, Delivery, Facts, Flags, Segment, SegmentFact, Sink, Tcp};
use crate::capture::{Limits, PacketNumber, PacketRange, Time};
use crate::decode::{Anomaly, ConnectionId, Side};
use crate::support::needs::{self, have_program};
use crate::support::waits::Finishes;

/// Fields of tshark that describe a segment, then those of its names in the order of
/// [`Analysis::NAMES`].
const FIELDS: [&str; 28] = [
    "frame.number",
    "frame.time_epoch",
    "ip.src",
    "ip.dst",
    "tcp.srcport",
    "tcp.dstport",
    "tcp.seq_raw",
    "tcp.ack_raw",
    "tcp.flags",
    "tcp.window_size_value",
    "tcp.options",
    "tcp.len",
    "tcp.payload",
    "tcp.analysis.retransmission",
    "tcp.analysis.fast_retransmission",
    "tcp.analysis.spurious_retransmission",
    "tcp.analysis.out_of_order",
    "tcp.analysis.lost_segment",
    "tcp.analysis.ack_lost_segment",
    "tcp.analysis.duplicate_ack",
    "tcp.analysis.keep_alive",
    "tcp.analysis.keep_alive_ack",
    "tcp.analysis.zero_window",
    "tcp.analysis.zero_window_probe",
    "tcp.analysis.zero_window_probe_ack",
    "tcp.analysis.window_update",
    "tcp.analysis.window_full",
    "tcp.analysis.reused_ports",
];

const CAPTURES: [&str; 8] = [
    "samples/hosted-redirect/capture.pcapng",
    "tests/captures/06_netem_loss/capture.pcap",
    "tests/captures/06_ooo_keepalive/capture.pcap",
    "tests/captures/06_gap_keepalive/capture.pcap",
    "tests/captures/06_overlap_conflict/capture.pcap",
    "tests/captures-public/zeek/206_example_a.pcap",
    "tests/captures-public/arkime/tcp-reassembly-synthetic.pcap",
    "tests/captures-public/pcapplusplus/one_tcp_stream_max_seq.pcap",
];

/// A segment that owns its bytes, with tshark's names for it.
struct TsharkSegment {
    packet: u64,
    time: i64,
    addresses: [SocketAddr; 2],
    sequence: u32,
    acknowledgment: u32,
    flags: u16,
    window: u16,
    options: Vec<u8>,
    payload: Vec<u8>,
    missing: u32,
    analysis: Analysis,
}

impl TsharkSegment {
    fn read(row: &str) -> Option<TsharkSegment> {
        let fields: Vec<&str> = row.split('\t').collect();
        let [
            number,
            time,
            source,
            destination,
            from,
            to,
            seq,
            ack,
            flags,
            window,
            options,
            length,
            payload,
            names @ ..,
        ] = &fields[..]
        else {
            return None;
        };
        let address = |ip: &str, port: &str| Some(SocketAddr::new(ip.parse::<IpAddr>().ok()?, parse(port)?));
        let (seconds, nanoseconds) = time.split_once('.')?;
        let bits = names.iter().enumerate().filter(|(_, name)| !name.is_empty()).map(|(bit, _)| 1 << bit);
        let mut analysis = Analysis(bits.sum());
        // In tshark's fields, unlike on its screen, the special retransmissions are plain ones too.
        if analysis.has(Analysis::FAST_RETRANSMISSION | Analysis::SPURIOUS_RETRANSMISSION) {
            analysis.0 &= !Analysis::RETRANSMISSION;
        }
        let payload = hex(payload);
        Some(TsharkSegment {
            packet: parse(number)?,
            time: parse::<i64>(seconds)? * 1_000_000_000 + parse::<i64>(nanoseconds)?,
            addresses: [address(source, from)?, address(destination, to)?],
            sequence: parse(seq)?,
            acknowledgment: parse(ack)?,
            flags: parse(flags)?,
            window: parse(window)?,
            options: hex(options),
            missing: parse::<u32>(length)?.saturating_sub(payload.len() as u32),
            payload,
            analysis,
        })
    }

    fn push(&self, tcp: &mut Tcp, origin: PacketRange, sink: &mut impl Sink) {
        let segment = Segment {
            time: Time(self.time),
            packet: PacketNumber(self.packet),
            source: self.addresses[0],
            destination: self.addresses[1],
            sequence: self.sequence,
            acknowledgment: self.acknowledgment,
            flags: Flags(self.flags),
            window: self.window,
            options: &self.options,
            payload: &self.payload,
            missing: self.missing,
            origin: &[origin],
        };
        tcp.push(&segment, sink);
    }
}

fn parse<T: TryFrom<u64>>(text: &str) -> Option<T> {
    let value = text.strip_prefix("0x").map_or_else(|| text.parse(), |hex| u64::from_str_radix(hex, 16));
    T::try_from(value.ok()?).ok()
}

fn hex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks_exact(2).filter_map(|pair| std::str::from_utf8(pair).ok());
    digits.filter_map(|pair| u8::from_str_radix(pair, 16).ok()).collect()
}

/// The captures with their segments.
static READ: LazyLock<Vec<(&'static str, Vec<TsharkSegment>)>> = LazyLock::new(|| {
    let read = CAPTURES.into_iter().map(|name| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name);
        let mut command = Command::new("tshark");
        command.arg("-r").arg(path).args(["-Y", "ip && tcp && !icmp", "-T", "fields", "-E", "occurrence=f"]);
        command.args(FIELDS.iter().flat_map(|field| ["-e", field]));
        let output = command.finished();
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8_lossy(&output.stdout);
        (name, text.lines().map(|row| TsharkSegment::read(row).expect("a row of fields")).collect())
    });
    read.collect()
});

/// A sink that records the names of each packet.
#[derive(Default)]
struct Named(Vec<(u64, Vec<&'static str>)>);

impl Sink for Named {
    fn opened(&mut self, _: ConnectionId, _: &Facts) {}
    fn segment(&mut self, fact: &SegmentFact<'_>) {
        self.0.push((fact.packet.0, fact.analysis.names().collect()));
    }
    fn delivered(&mut self, _: Delivery<'_>) {}
    fn anomaly(&mut self, _: ConnectionId, _: Side, _: PacketNumber, _: Anomaly) {}
    fn closed(&mut self, _: ConnectionId, _: &Facts) {}
}

#[test]
fn segments_are_called_what_tshark_calls_them() {
    if !have_program(&needs::TSHARK) {
        return;
    }
    for (name, rows) in READ.iter() {
        let (mut tcp, mut named) = (Tcp::new(Limits::default(), |_| true), Named::default());
        for row in rows {
            let origin = PacketRange { packet: PacketNumber(row.packet), start: 0, end: row.payload.len() as u32 };
            row.push(&mut tcp, origin, &mut named);
        }
        let expected: Vec<_> = rows.iter().map(|row| (row.packet, row.analysis.names().collect())).collect();
        assert_eq!(named.0, expected, "{name}");
    }
}

/// Runs of bytes in order of delivery, each with the sender's port. A gap is `None`.
type Runs = Vec<(u16, Option<Vec<u8>>)>;

/// The bytes that each connection delivered, by its ports.
fn conversations<'a>(rows: impl Iterator<Item = &'a TsharkSegment>) -> Vec<([u16; 2], Runs)> {
    let (mut tcp, mut checker) = (Tcp::new(Limits::default(), |_| true), PromiseChecker::default());
    for row in rows {
        let origin = checker.add_packet(PacketNumber(row.packet), &row.payload);
        row.push(&mut tcp, origin, &mut checker);
    }
    tcp.finish(&mut checker);
    let mut open = std::collections::BTreeMap::new();
    let mut conversations = Vec::new();
    for event in checker.emitted {
        match event {
            Emitted::Opened(id, facts) => {
                open.insert(id, (facts.endpoints.map(|end| end.port()), Runs::new()));
            }
            Emitted::Data { connection, side, bytes, .. } => {
                let (ports, runs) = open.get_mut(&connection).expect("open");
                let port = ports[side.index()];
                match runs.last_mut() {
                    Some((before, Some(run))) if *before == port => run.extend(bytes),
                    _ => runs.push((port, Some(bytes))),
                }
            }
            Emitted::Gap { connection, side, .. } => {
                let (ports, runs) = open.get_mut(&connection).expect("open");
                runs.push((ports[side.index()], None));
            }
            Emitted::Closed(id, _) => {
                let (mut ports, runs) = open.remove(&id).expect("open");
                ports.sort_unstable();
                conversations.push((ports, runs));
            }
            Emitted::End { .. } | Emitted::Odd(..) => {}
        }
    }
    conversations.sort();
    conversations
}

#[test]
fn packets_of_a_real_capture_may_change_places() {
    if !have_program(&needs::TSHARK) {
        return;
    }
    // Order matters where ports are reused at once, or where copies differ.
    let without_meaning = |name: &str| !name.contains("synthetic") && !name.contains("conflict");
    for (name, rows) in READ.iter().filter(|(name, _)| without_meaning(name)) {
        let expected = conversations(rows.iter());
        for window in [2, 4, 7] {
            let shuffled = rows.chunks(window).flat_map(|rows| rows.iter().rev());
            assert!(conversations(shuffled) == expected, "{name}, reversed within windows of {window}");
        }
        let doubled = rows.iter().flat_map(|row| [row, row]);
        assert!(conversations(doubled) == expected, "{name}, every packet twice");
    }
}

#[test]
fn other_bytes_sent_again_are_found_in_a_real_capture() {
    if !have_program(&needs::TSHARK) {
        return;
    }
    let (_, rows) = READ.iter().find(|(name, _)| name.contains("conflict")).expect("its capture");
    let (mut tcp, mut checker) = (Tcp::new(Limits::default(), |_| true), PromiseChecker::default());
    for row in rows {
        let origin = checker.add_packet(PacketNumber(row.packet), &row.payload);
        row.push(&mut tcp, origin, &mut checker);
    }
    let conflict = |event: &&Emitted| matches!(event, Emitted::Odd(_, _, Anomaly::OverlapConflict { .. }));
    let again = rows.iter().filter(|row| row.analysis.has(Analysis::ANY_RETRANSMISSION));
    assert_eq!(checker.emitted.iter().filter(conflict).count(), again.count());
}
