//! Conversations for tests: built whole, then changed as networks and captures change them.

use std::net::SocketAddr;

use super::super::fuzz::{Emitted, PromiseChecker};
use super::super::{Flags, Segment, Tcp};
use crate::capture::{Limits, PacketNumber, Time};
use crate::decode::{Anomaly, Ending, Side};

const MILLISECOND: i64 = 1_000_000;

/// A segment that owns its bytes. `Side::First` is the client, whatever the reassembler concludes.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    pub side: Side,
    pub time: i64,
    pub sequence: u32,
    pub acknowledgment: u32,
    pub flags: u16,
    pub window: u16,
    pub options: Vec<u8>,
    pub payload: Vec<u8>,
    pub missing: u32,
}

/// The byte at an offset of a side's stream. The pattern differs at every offset and between sides.
pub fn byte(side: Side, offset: u64) -> u8 {
    (offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8 ^ (side as u8).wrapping_mul(0x5a)
}

/// Bytes `start..start + length` of a side's stream.
pub fn bytes(side: Side, start: u64, length: usize) -> Vec<u8> {
    (start..start + length as u64).map(|offset| byte(side, offset)).collect()
}

/// Two ends that send in turn, each after receiving everything that the other sent before.
#[derive(Clone, Debug)]
pub struct Talk {
    pub frames: Vec<Frame>,
    initial: [u32; 2],
    sent: [u64; 2],
    clock: i64,
}

impl Talk {
    /// A conversation before its handshake.
    pub fn new(initial: [u32; 2]) -> Talk {
        Talk { frames: Vec::new(), initial, sent: [0; 2], clock: 0 }
    }

    /// A whole connection: handshake, turns in segments of at most `segment` bytes, FINs.
    pub fn whole(initial: [u32; 2], turns: &[(Side, usize)], segment: usize) -> Talk {
        let mut talk = Talk::new(initial).handshake();
        for (side, length) in turns {
            talk = talk.send(*side, *length, segment);
        }
        talk.goodbye()
    }

    /// Adds SYN, SYN+ACK and ACK.
    pub fn handshake(mut self) -> Talk {
        self.frame(Side::First, Flags::SYN, 0).sequence = self.initial[0];
        self.frames[0].acknowledgment = 0;
        let initial = self.initial[1];
        self.frame(Side::Second, Flags::SYN | Flags::ACK, 0).sequence = initial;
        self.acknowledge(Side::First)
    }

    /// `side` sends `length` bytes in segments of at most `segment` bytes.
    pub fn send(mut self, side: Side, length: usize, segment: usize) -> Talk {
        let mut left = length;
        while left > 0 {
            let now = left.min(segment);
            left -= now;
            let push = if left == 0 { Flags::PSH } else { 0 };
            self.frame(side, Flags::ACK | push, now);
        }
        self
    }

    /// `side` sends a pure ACK of everything it received.
    pub fn acknowledge(mut self, side: Side) -> Talk {
        self.frame(side, Flags::ACK, 0);
        self
    }

    /// Both sides close their streams, the client first.
    pub fn goodbye(mut self) -> Talk {
        self.fin(Side::First);
        self.fin(Side::Second);
        self.acknowledge(Side::First)
    }

    /// `side` closes its stream.
    pub fn fin(&mut self, side: Side) {
        self.frame(side, Flags::FIN | Flags::ACK, 0);
        self.sent[side.index()] += 1;
    }

    /// Adds a pause.
    pub fn wait(mut self, milliseconds: i64) -> Talk {
        self.clock += milliseconds * MILLISECOND;
        self
    }

    /// Appends a segment with the next `length` bytes. The caller may change it.
    pub fn frame(&mut self, side: Side, flags: u16, length: usize) -> &mut Frame {
        let (own, other) = (side.index(), side.other().index());
        let at = |side: usize, offset: u64| self.initial[side].wrapping_add(1).wrapping_add(offset as u32);
        self.clock += MILLISECOND / 10;
        self.frames.push(Frame {
            side,
            time: self.clock,
            sequence: at(own, self.sent[own]),
            acknowledgment: at(other, self.sent[other]),
            flags,
            window: 64_000,
            options: Vec::new(),
            payload: bytes(side, self.sent[own], length),
            missing: 0,
        });
        self.sent[own] += length as u64;
        self.frames.last_mut().expect("just pushed")
    }
}

/// A reassembler under test, with a sink that records its events.
pub struct Bench {
    pub tcp: Tcp,
    pub checker: PromiseChecker,
    packet: u64,
}

impl Bench {
    pub fn new(limits: Limits) -> Bench {
        Bench { tcp: Tcp::new(limits, |_| true), checker: PromiseChecker::default(), packet: 0 }
    }

    pub fn push(&mut self, frame: &Frame) {
        self.push_on(frame, 50_000);
    }

    /// Pushes a frame of the connection with this client port.
    pub fn push_on(&mut self, frame: &Frame, port: u16) {
        self.packet += 1;
        let packet = PacketNumber(self.packet);
        let origin = self.checker.add_packet(packet, &frame.payload);
        let [client, server] = [SocketAddr::from(([10, 0, 0, 1], port)), SocketAddr::from(([10, 0, 0, 2], 80))];
        let (source, destination) = if frame.side == Side::First { (client, server) } else { (server, client) };
        let segment = Segment {
            time: Time(frame.time),
            packet,
            source,
            destination,
            sequence: frame.sequence,
            acknowledgment: frame.acknowledgment,
            flags: Flags(frame.flags),
            window: frame.window,
            options: &frame.options,
            payload: &frame.payload,
            missing: frame.missing,
            origin: &[origin],
        };
        self.tcp.push(&segment, &mut self.checker);
    }

    pub fn finish(mut self) -> Vec<Emitted> {
        self.tcp.finish(&mut self.checker);
        self.checker.emitted
    }
}

/// Pushes frames as one capture. Returns the events.
pub fn run<'a>(frames: impl IntoIterator<Item = &'a Frame>) -> Vec<Emitted> {
    let mut bench = Bench::new(Limits::default());
    frames.into_iter().for_each(|frame| bench.push(frame));
    bench.finish()
}

/// The events as a conversation: runs of bytes, gaps and ends of the client (`>`) and the server
/// (`<`). The bytes are compared with the pattern, and differences are listed.
pub fn conversation_lines(events: &[Emitted]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    // The client is the end with the higher port.
    let mut client = Side::First;
    let mut run: Option<(Side, u64, u64)> = None;
    let arrow = |client: Side, side: Side| if side == client { '>' } else { '<' };
    let end_run = |lines: &mut Vec<String>, run: &mut Option<(Side, u64, u64)>, client: Side| {
        lines.extend(run.take().map(|(side, start, end)| format!("{} {start}..{end}", arrow(client, side))));
    };
    for event in events {
        if let Emitted::Data { side, offset, bytes: data, .. } = event {
            let speaker = if *side == client { Side::First } else { Side::Second };
            if *data != bytes(speaker, *offset, data.len()) {
                lines.push(format!("wrong bytes at {offset}"));
            }
            let end = offset + data.len() as u64;
            match &mut run {
                Some((before, _, behind)) if before == side => *behind = end,
                _ => {
                    if let Some((side, start, end)) = run.replace((*side, *offset, end)) {
                        lines.push(format!("{} {start}..{end}", arrow(client, side)));
                    }
                }
            }
            continue;
        }
        end_run(&mut lines, &mut run, client);
        match event {
            Emitted::Opened(_, facts) => {
                client = if facts.endpoints[0].port() > 1_024 { Side::First } else { Side::Second };
                lines.push("opened".into());
            }
            Emitted::Gap { side, offset, length, .. } => {
                lines.push(format!("{} gap {offset}..{}", arrow(client, *side), offset + length));
            }
            Emitted::End { side, ending, .. } => {
                let word = match ending {
                    Ending::Finished => "finished",
                    Ending::Reset => "reset",
                    Ending::Cut => "cut",
                };
                lines.push(format!("{} {word}", arrow(client, *side)));
            }
            Emitted::Odd(_, _, Anomaly::Lost { .. } | Anomaly::ClocksDiffer { .. }) => {}
            Emitted::Odd(_, side, anomaly) => lines.push(format!("{} {anomaly:?}", arrow(client, *side))),
            Emitted::Closed(..) => lines.push("closed".into()),
            Emitted::Data { .. } => {}
        }
    }
    end_run(&mut lines, &mut run, client);
    lines
}

/// The conversation that results from these turns where nothing is lost.
pub fn whole(turns: &[(Side, usize)]) -> Vec<String> {
    let mut lines = vec!["opened".to_string()];
    let mut sent = [0; 2];
    for (at, (side, length)) in turns.iter().enumerate() {
        let start = &mut sent[side.index()];
        // Two turns of one side in a row are one run.
        let begins = if at > 0 && turns[at - 1].0 == *side {
            lines.pop();
            let before: usize = turns[..at].iter().rev().take_while(|turn| turn.0 == *side).map(|turn| turn.1).sum();
            *start - before
        } else {
            *start
        };
        *start += length;
        lines.push(format!("{} {begins}..{start}", if *side == Side::First { '>' } else { '<' }));
    }
    lines.extend(["> finished", "< finished", "closed"].map(String::from));
    lines
}
