//! The same conversation in other packets, as links, networks and capture tools change them.
//!
//! Checksums stay as they were: captures are full of wrong ones, because network cards compute
//! them.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use mcptap_core::internal::capture::{LinkType, Packet, PacketNumber, Time};

/// A packet that owns its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub time: Time,
    pub link: LinkType,
    pub interface: u32,
    pub original_length: u32,
    pub data: Vec<u8>,
}

/// The position of the IP datagram in a frame, without padding.
struct Network {
    start: usize,
    end: usize,
    version: u8,
}

/// The positions of the parts of a TCP segment in its frame.
struct Tcp {
    network: usize,
    header: usize,
    payload: Range<usize>,
}

/// The address and port of sender and receiver.
type Flow = (Vec<u8>, Vec<u8>);

const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const PSH: u8 = 0x08;
const ACK: u8 = 0x10;

const TCP: u8 = 6;
const UDP: u8 = 17;
const IPV6_FRAGMENT: u8 = 44;
const GRE: u8 = 47;

impl Frame {
    /// The frame as packet `number` of a capture.
    pub fn packet(&self, number: u64) -> Packet<'_> {
        let Frame { time, link, interface, original_length, ref data } = *self;
        Packet { number: PacketNumber(number), time, link, interface, original_length, data }
    }

    fn u16(&self, at: usize) -> Option<usize> {
        Some(usize::from(u16::from_be_bytes(self.data.get(at..at + 2)?.try_into().ok()?)))
    }

    fn u32(&self, at: usize) -> u32 {
        u32::from_be_bytes(self.data[at..at + 4].try_into().expect("four bytes"))
    }

    fn add(&mut self, at: usize, number: u32) {
        let sum = self.u32(at).wrapping_add(number);
        self.data[at..at + 4].copy_from_slice(&sum.to_be_bytes());
    }

    /// The datagram, if it is whole and directly above the link layer or VLAN tags.
    fn network(&self) -> Option<Network> {
        let start = match self.link {
            LinkType::ETHERNET => {
                let mut kind = 12;
                while matches!(self.u16(kind)?, 0x8100 | 0x88a8) {
                    kind += 4;
                }
                matches!(self.u16(kind)?, 0x0800 | 0x86dd).then_some(kind + 2)?
            }
            LinkType::NULL | LinkType::LOOP => 4,
            LinkType::LINUX_SLL => matches!(self.u16(14)?, 0x0800 | 0x86dd).then_some(16)?,
            // Some systems number raw IP as 12.
            LinkType::RAW | LinkType::IPV4 | LinkType::IPV6 | LinkType(12) => 0,
            _ => return None,
        };
        let version = self.data.get(start)? >> 4;
        let end = match version {
            4 => start + self.u16(start + 2)?,
            6 => start + 40 + self.u16(start + 4)?,
            _ => return None,
        };
        (end <= self.data.len()).then_some(Network { start, end, version })
    }

    /// The TCP segment of the datagram, if it has one.
    fn tcp(&self) -> Option<Tcp> {
        let Network { start, end, version } = self.network()?;
        let (protocol, header) = match version {
            4 => {
                let is_fragment = self.u16(start + 6)? & 0x3fff != 0;
                (!is_fragment).then_some((self.data[start + 9], start + usize::from(self.data[start] & 0x0f) * 4))?
            }
            _ => (self.data[start + 6], start + 40),
        };
        let payload = header + usize::from(self.data.get(header + 12)? >> 4) * 4;
        (protocol == TCP && payload <= end).then_some(Tcp { network: start, header, payload: payload..end })
    }

    fn flags(&self, tcp: &Tcp) -> u8 {
        self.data[tcp.header + 13]
    }

    fn flow(&self, tcp: &Tcp) -> Flow {
        let (source, length) = if self.data[tcp.network] >> 4 == 4 { (12, 4) } else { (8, 16) };
        let end = |address: usize, port: usize| {
            let address = tcp.network + address;
            [&self.data[address..address + length], &self.data[port..port + 2]].concat()
        };
        (end(source, tcp.header), end(source + length, tcp.header + 2))
    }

    /// Corrects the lengths after a change of the payload. A datagram of 64 KiB or more gets length
    /// 0, as TSO makes it.
    fn measured(mut self, tcp: &Tcp) -> Frame {
        self.original_length = self.data.len() as u32;
        let length = self.data.len() - tcp.network;
        let (at, length) = if self.data[tcp.network] >> 4 == 4 { (2, length) } else { (4, length - 40) };
        let length = u16::try_from(length).unwrap_or(0).to_be_bytes();
        self.data[tcp.network + at..tcp.network + at + 2].copy_from_slice(&length);
        self
    }

    /// The segment with only these bytes of the payload.
    fn part(&self, tcp: &Tcp, part: Range<usize>) -> Frame {
        let mut frame = self.clone();
        if part.end < tcp.payload.len() {
            frame.data[tcp.header + 13] &= !FIN;
        }
        if part.len() < tcp.payload.len() {
            // A single byte without PSH looks like a keep-alive probe.
            frame.data[tcp.header + 13] |= PSH;
        }
        frame.add(tcp.header + 4, part.start as u32);
        frame.data.truncate(tcp.payload.start);
        frame.data.extend_from_slice(&self.data[tcp.payload.start + part.start..tcp.payload.start + part.end]);
        frame.measured(tcp)
    }

    fn with(&self, link: LinkType, data: Vec<u8>) -> Frame {
        Frame { link, original_length: data.len() as u32, data, ..*self }
    }
}

/// Random numbers, the same in every run (SplitMix64).
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// A number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }
}

/// Shuffles each run of `window` packets.
pub fn shuffled(frames: &[Frame], window: usize, seed: u64) -> Vec<Frame> {
    let mut random = Random(seed);
    let mut shuffled = frames.to_vec();
    for window in shuffled.chunks_mut(window) {
        for last in (1..window.len()).rev() {
            window.swap(last, random.below(last + 1));
        }
    }
    shuffled
}

/// Shuffles each run of `window` packets, but leaves the SYNs of a connection before
/// its other packets.
pub fn shuffled_behind_handshakes(frames: &[Frame], window: usize, seed: u64) -> Vec<Frame> {
    let mut shuffled = shuffled(frames, window, seed);
    for window in shuffled.chunks_mut(window) {
        let mut places: HashMap<Option<Flow>, Vec<usize>> = HashMap::new();
        for (at, frame) in window.iter().enumerate() {
            places.entry(connection(frame)).or_default().push(at);
        }
        for places in places.values() {
            let mut frames: Vec<Frame> = places.iter().map(|at| window[*at].clone()).collect();
            frames.sort_by_key(|frame| frame.tcp().is_none_or(|tcp| frame.flags(&tcp) & SYN == 0));
            places.iter().zip(frames).for_each(|(at, frame)| window[*at] = frame);
        }
    }
    shuffled
}

/// Reverses each run of `window` packets.
pub fn reversed(frames: &[Frame], window: usize) -> Vec<Frame> {
    frames.chunks(window).flat_map(|window| window.iter().rev().cloned()).collect()
}

/// The two ends of a frame's connection, independent of the direction.
fn connection(frame: &Frame) -> Option<Flow> {
    let (source, destination) = frame.flow(&frame.tcp()?);
    Some(if source < destination { (source, destination) } else { (destination, source) })
}

/// Whether a server sent this frame: its port is lower than that of the client.
pub fn is_of_server(frame: &Frame) -> bool {
    let ports = frame.tcp().and_then(|tcp| Some((frame.u16(tcp.header)?, frame.u16(tcp.header + 2)?)));
    ports.is_some_and(|(source, destination)| source < destination)
}

/// The packets of clients and those of servers, as two taps capture them.
pub fn directions(frames: &[Frame]) -> [Vec<Frame>; 2] {
    let (servers, clients) = frames.iter().partition::<Vec<&Frame>, _>(|frame| is_of_server(frame));
    [clients, servers].map(|direction| direction.into_iter().cloned().collect())
}

/// Runs of adjacent packets of one connection. Other packets are runs of their own.
pub fn runs(frames: &[Frame]) -> Vec<&[Frame]> {
    frames.chunk_by(|before, frame| connection(before).is_some() && connection(before) == connection(frame)).collect()
}

/// Whether there are IP fragments. Their content is not rewritten.
pub fn has_fragments(frames: &[Frame]) -> bool {
    frames.iter().any(|frame| {
        let network = frame.network().filter(|network| network.version == 4);
        network.is_some_and(|network| frame.u16(network.start + 6).is_some_and(|field| field & 0x3fff != 0))
    })
}

/// Repeats every packet after `after` further packets.
pub fn doubled(frames: &[Frame], after: usize) -> Vec<Frame> {
    let late = std::iter::repeat_n(None, after).chain(frames.iter().map(Some));
    let first = frames.iter().map(Some).chain(std::iter::repeat_n(None, after));
    first.zip(late).flat_map(|(first, again)| [first, again]).flatten().cloned().collect()
}

/// Splits every payload into segments of 1 to `most` bytes.
pub fn split(frames: &[Frame], most: usize, seed: u64) -> Vec<Frame> {
    let mut random = Random(seed);
    let mut parts = Vec::new();
    for frame in frames {
        match frame.tcp().filter(|tcp| !tcp.payload.is_empty() && frame.flags(tcp) & (SYN | RST) == 0) {
            None => parts.push(frame.clone()),
            Some(tcp) => {
                let mut start = 0;
                while start < tcp.payload.len() {
                    let end = (start + 1 + random.below(most)).min(tcp.payload.len());
                    parts.push(frame.part(&tcp, start..end));
                    start = end;
                }
            }
        }
    }
    parts
}

/// Joins adjacent segments of a connection up to `most` bytes of payload, as
/// receive offloading does.
pub fn merged(frames: &[Frame], most: usize) -> Vec<Frame> {
    let mut merged: Vec<Frame> = Vec::new();
    let mut last: HashMap<Flow, usize> = HashMap::new();
    for frame in frames {
        if let Some(tcp) = frame.tcp() {
            let flow = frame.flow(&tcp);
            if let Some(before) = last.get(&flow).map(|at| &mut merged[*at])
                && let Some(joined) = joined(before, frame, &tcp, most)
            {
                *before = joined;
                continue;
            }
            last.remove(&(flow.1.clone(), flow.0.clone()));
            last.insert(flow, merged.len());
        }
        merged.push(frame.clone());
    }
    merged
}

fn joined(before: &Frame, frame: &Frame, tcp: &Tcp, most: usize) -> Option<Frame> {
    let front = before.tcp()?;
    let plain = (before.flags(&front) & (FIN | SYN | RST) | frame.flags(tcp) & (SYN | RST)) == 0;
    let follows = before.u32(front.header + 4).wrapping_add(front.payload.len() as u32) == frame.u32(tcp.header + 4);
    let knows_the_same = before.u32(front.header + 8) == frame.u32(tcp.header + 8);
    let length = front.payload.len() + tcp.payload.len();
    let filled = !front.payload.is_empty() && !tcp.payload.is_empty();
    (plain && follows && knows_the_same && filled && length <= most).then(|| {
        let mut joined = before.clone();
        joined.data[front.header + 13] |= frame.flags(tcp);
        joined.data.truncate(front.payload.end);
        joined.data.extend_from_slice(&frame.data[tcp.payload.clone()]);
        joined.measured(&front)
    })
}

/// Removes that many of a thousand TCP packets.
pub fn thinned(frames: &[Frame], per_mille: usize, seed: u64) -> Vec<Frame> {
    let mut random = Random(seed);
    frames.iter().filter(|frame| frame.tcp().is_none() || random.below(1_000) >= per_mille).cloned().collect()
}

/// Removes the packets of each connection before the first payload that `begins` accepts.
pub fn without_beginnings(frames: &[Frame], begins: impl Fn(&[u8]) -> bool) -> Vec<Frame> {
    let mut begun: HashSet<Option<Flow>> = HashSet::new();
    let keeps = |frame: &&Frame| {
        let Some(tcp) = frame.tcp() else { return true };
        let flow = connection(frame);
        let keeps = begun.contains(&flow) || begins(&frame.data[tcp.payload]);
        if keeps {
            begun.insert(flow);
        }
        keeps
    };
    frames.iter().filter(keeps).cloned().collect()
}

/// Removes the packets with a payload that `these` accepts.
pub fn without(frames: &[Frame], these: impl Fn(&[u8]) -> bool) -> Vec<Frame> {
    let keeps = |frame: &&Frame| frame.tcp().is_none_or(|tcp| !these(&frame.data[tcp.payload]));
    frames.iter().filter(keeps).cloned().collect()
}

/// Changes the sequence numbers of every direction so that the first one is `first`.
pub fn renumbered(frames: &[Frame], first: u32) -> Vec<Frame> {
    let mut shifts: HashMap<Flow, u32> = HashMap::new();
    for frame in frames {
        if let Some(tcp) = frame.tcp() {
            shifts.entry(frame.flow(&tcp)).or_insert_with(|| first.wrapping_sub(frame.u32(tcp.header + 4)));
        }
    }
    let mut frames = frames.to_vec();
    for frame in &mut frames {
        let Some(tcp) = frame.tcp() else { continue };
        let (source, destination) = frame.flow(&tcp);
        let back = shifts.get(&(destination.clone(), source.clone())).copied().unwrap_or(0);
        frame.add(tcp.header + 4, shifts[&(source, destination)]);
        if frame.flags(&tcp) & ACK != 0 {
            frame.add(tcp.header + 8, back);
        }
    }
    frames
}

/// Changes the time of every packet, by its position and time.
pub fn timed(frames: &[Frame], time: impl Fn(usize, Time) -> Time) -> Vec<Frame> {
    frames.iter().enumerate().map(|(at, frame)| Frame { time: time(at, frame.time), ..frame.clone() }).collect()
}

/// The layers below a datagram.
#[derive(Clone, Copy, Debug)]
pub enum Carriage {
    /// Ethernet with these VLAN tags.
    Ethernet(&'static [u16]),
    /// Raw IP without a link layer.
    Raw,
    /// Linux cooked capture.
    Cooked,
    /// GRE over IPv4.
    Gre,
    /// VXLAN over UDP over IPv4.
    Vxlan,
}

/// Puts every datagram on other layers.
pub fn carried(frames: &[Frame], carriage: Carriage) -> Vec<Frame> {
    let carry = |frame: &Frame| {
        let Network { start, end, .. } = frame.network()?;
        let datagram = &frame.data[start..end];
        let kind = ether_type(datagram);
        Some(match carriage {
            Carriage::Ethernet(tags) => frame.with(LinkType::ETHERNET, ethernet(datagram, tags)),
            Carriage::Raw => frame.with(LinkType::RAW, datagram.to_vec()),
            Carriage::Cooked => {
                let head = [0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0];
                frame.with(LinkType::LINUX_SLL, [&head[..], &kind, datagram].concat())
            }
            Carriage::Gre => {
                let tunnel = ipv4(GRE, &[&[0, 0], &kind[..], datagram].concat());
                frame.with(LinkType::ETHERNET, ethernet(&tunnel, &[]))
            }
            Carriage::Vxlan => {
                let inner = [&[8, 0, 0, 0, 0, 0, 42, 0][..], &ethernet(datagram, &[])].concat();
                let length = (inner.len() as u16 + 8).to_be_bytes();
                let head = [&[0xc0, 0, 0x12, 0xb5][..], &length, &[0, 0]].concat();
                frame.with(LinkType::ETHERNET, ethernet(&ipv4(UDP, &[head, inner].concat()), &[]))
            }
        })
    };
    frames.iter().map(|frame| carry(frame).unwrap_or_else(|| frame.clone())).collect()
}

fn ether_type(datagram: &[u8]) -> [u8; 2] {
    if datagram[0] >> 4 == 4 { [0x08, 0x00] } else { [0x86, 0xdd] }
}

fn ethernet(datagram: &[u8], tags: &[u16]) -> Vec<u8> {
    let mut data = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    for tag in tags {
        data.extend_from_slice(&[0x81, 0x00]);
        data.extend_from_slice(&tag.to_be_bytes());
    }
    data.extend_from_slice(&ether_type(datagram));
    data.extend_from_slice(datagram);
    data
}

fn ipv4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u16 + 20).to_be_bytes();
    let mut data = vec![0x45, 0, length[0], length[1], 0, 0, 0x40, 0, 64, protocol, 0, 0];
    data.extend_from_slice(&[192, 0, 2, 1, 198, 51, 100, 1]);
    data.extend_from_slice(payload);
    data
}

/// Splits every datagram into fragments of at most `size` bytes of payload (a multiple of 8). With
/// `backwards` the last fragment comes first.
pub fn fragmented(frames: &[Frame], size: usize, backwards: bool) -> Vec<Frame> {
    let mut pieces = Vec::new();
    for (identification, frame) in frames.iter().enumerate() {
        let Some(tcp) = frame.tcp() else {
            pieces.push(frame.clone());
            continue;
        };
        let payload = &frame.data[tcp.header..tcp.payload.end];
        let mut fragments: Vec<Frame> = (0..payload.len())
            .step_by(size)
            .map(|start| fragment(frame, &tcp, start..(start + size).min(payload.len()), identification as u32))
            .collect();
        if backwards {
            fragments.reverse();
        }
        pieces.append(&mut fragments);
    }
    pieces
}

/// These bytes of the payload of a frame's datagram, as a fragment (RFC 791 section 3.1, RFC 8200
/// section 4.5).
fn fragment(frame: &Frame, tcp: &Tcp, part: Range<usize>, identification: u32) -> Frame {
    let more = u16::from(tcp.header + part.end < tcp.payload.end);
    let mut data = frame.data[..tcp.header].to_vec();
    let header = &mut data[tcp.network..];
    if header[0] >> 4 == 4 {
        header[4..6].copy_from_slice(&(identification as u16).to_be_bytes());
        header[6..8].copy_from_slice(&(more << 13 | (part.start / 8) as u16).to_be_bytes());
    } else {
        let next = std::mem::replace(&mut header[6], IPV6_FRAGMENT);
        data.extend_from_slice(&[next, 0]);
        data.extend_from_slice(&(part.start as u16 | more).to_be_bytes());
        data.extend_from_slice(&identification.to_be_bytes());
    }
    data.extend_from_slice(&frame.data[tcp.header + part.start..tcp.header + part.end]);
    frame.with(frame.link, data).measured(tcp)
}
