//! A script language for packets. Any bytes are a script, so a fuzzer writes conversations instead
//! of checksums and sequence numbers.
//!
//! ```text
//!  ┌──────┬────────┬────────────────┐
//!  │ step │ length │ payload        │   repeated
//!  └──────┴────────┴────────────────┘
//!    bits 0-1  one of three TCP connections, or the pipes of a process
//!    bit  2    the direction
//!    bits 3-5  the action
//!    bit  6    much later than the step before
//!    bit  7    the snap length cut the packet
//! ```
//!
//! With the action 7 the payload describes a unit of a protocol, which `composer` writes.

mod composer;
mod messages;

use std::net::Ipv6Addr;

use etherparse::{PacketBuilder, TcpHeader, VlanId};

use self::composer::{Side, Unit, compose};
use self::messages::message;
use crate::capture::pipe::{self, Exit, Pipe, PipeEvent, Start};
use crate::capture::{LinkType, Time};

/// A packet of a capture that owns its bytes.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The time when it was captured.
    pub time: Time,
    /// Its link type.
    pub link: LinkType,
    /// Its length on the wire.
    pub original_length: u32,
    /// The captured bytes.
    pub data: Vec<u8>,
}

const MILLISECOND: i64 = 1_000_000;

/// The next sequence number of the client and of the server, for each connection. They
/// soon wrap around.
type Sequences = [[u32; 2]; 3];

/// The key log of the connections of scripts.
pub fn secrets() -> Vec<u8> {
    (0..3).map(composer::secrets).collect::<String>().into_bytes()
}

/// The packets that a script describes.
pub fn packets(mut data: &[u8]) -> Vec<Observed> {
    let mut packets = Vec::new();
    let mut sequences: Sequences = [[u32::MAX - 300, 1_000], [5_000, u32::MAX - 20], [0, 0]];
    let mut sides = [[Side::default(); 2]; 3];
    let mut time = Time(1_000 * MILLISECOND);
    while let [step, length, rest @ ..] = data {
        let (payload, rest) = rest.split_at(usize::from(*length).min(rest.len()));
        data = rest;
        let later = if step & 0x40 == 0 { 1 } else { i64::from(*length) };
        time = time.plus(later * MILLISECOND);
        let (flow, back, action) = (usize::from(step & 3), step & 4 != 0, step >> 3 & 7);
        let packet = match sequences.get_mut(flow) {
            Some(sequences) => {
                let number = flow as u16;
                let unit = match action {
                    7 => compose(&mut sides[flow][usize::from(back)], number, back, payload),
                    _ => Unit::Bytes(payload.to_vec()),
                };
                let frame = match unit {
                    Unit::Bytes(bytes) => segment(sequences, number, back, action, &bytes),
                    Unit::Datagram(port, bytes) => datagram(port, back, &bytes),
                };
                frame.map(|data| (LinkType::ETHERNET, data))
            }
            None => Some((LinkType::PIPE, chunk(back, action, later, payload))),
        };
        let Some((link, mut data)) = packet else { continue };
        let original_length = data.len() as u32;
        if step & 0x80 != 0 {
            data.truncate(data.len().saturating_sub(payload.len() / 2));
        }
        packets.push(Observed { time, link, original_length, data });
        // This packet overtook the one before.
        if (action, link) == (6, LinkType::ETHERNET) && packets.len() > 1 {
            let last = packets.len() - 1;
            packets.swap(last - 1, last);
        }
    }
    packets
}

/// A frame of a connection; `None` if it was not captured.
fn segment(sequences: &mut [u32; 2], flow: u16, back: bool, action: u8, payload: &[u8]) -> Option<Vec<u8>> {
    let [own, other] = if back { [1, 0] } else { [0, 1] };
    let length = payload.len() as u32;
    let ports = [40_000 + flow, 8_000 + flow];
    let mut header = TcpHeader::new(ports[own], ports[other], sequences[own], 1_024);
    header.acknowledgment_number = sequences[other];
    header.ack = true;
    let mut payload = payload;
    match action {
        // Retransmits bytes, equal or different.
        1 => header.sequence_number = sequences[own].wrapping_sub(length),
        // A SYN. After the first it opens another connection.
        2 => {
            header.syn = true;
            header.ack = back;
            header.sequence_number = sequences[own].wrapping_add(length << 16);
            sequences[own] = header.sequence_number.wrapping_add(1);
            payload = &[];
        }
        3 => {
            header.fin = true;
            sequences[own] = sequences[own].wrapping_add(length + 1);
        }
        4 => {
            sequences[own] = sequences[own].wrapping_add(length);
            return None;
        }
        5 => {
            header.rst = length.is_multiple_of(8);
            payload = &[];
        }
        _ => sequences[own] = sequences[own].wrapping_add(length),
    }
    let mut frame = Vec::new();
    let written = if flow == 2 {
        let hosts = [1, 2].map(|host| Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, host).octets());
        let builder =
            PacketBuilder::ethernet2([2; 6], [4; 6]).single_vlan(VlanId::default()).ipv6(hosts[own], hosts[other], 64);
        builder.tcp_header(header).write(&mut frame, payload)
    } else {
        let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4(HOSTS[own], HOSTS[other], 64);
        builder.tcp_header(header).write(&mut frame, payload)
    };
    written.ok().map(|()| frame)
}

/// The addresses of client and server.
const HOSTS: [[u8; 4]; 2] = [[10, 0, 0, 1], [10, 0, 0, 2]];

/// A frame with a datagram.
fn datagram(port: u16, back: bool, payload: &[u8]) -> Option<Vec<u8>> {
    let ([own, other], ports) = if back { ([1, 0], [port, 40_000]) } else { ([0, 1], [40_000, port]) };
    let mut frame = Vec::new();
    let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4(HOSTS[own], HOSTS[other], 64);
    builder.udp(ports[0], ports[1]).write(&mut frame, payload).ok()?;
    Some(frame)
}

/// A pipe packet.
fn chunk(back: bool, action: u8, later: i64, payload: &[u8]) -> Vec<u8> {
    let pipe = if back { Pipe::Stdout } else { Pipe::Stdin };
    let mut line = None;
    let content = match action {
        1 => PipeEvent::Start(Start { name: Some("fuzz".into()), ..Start::default() }),
        2 => PipeEvent::EndOfFile(pipe),
        3 => PipeEvent::Exit(Exit { code: Some(0), signal: None }),
        4 => PipeEvent::Lost(pipe, payload.len() as u64),
        // More bytes than a stream can have.
        5 => PipeEvent::Lost(pipe, u64::MAX - payload.len() as u64),
        6 => PipeEvent::Data(Pipe::Stderr, payload),
        7 => PipeEvent::Data(pipe, line.get_or_insert([&message(payload)[..], b"\n"].concat())),
        _ => PipeEvent::Data(pipe, payload),
    };
    let mut packet = Vec::new();
    // The ids make more processes than connections that are tracked.
    pipe::encode(later as u32, &content, &mut packet);
    packet
}
