//! Captures that tests write themselves, with packets at known times.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use etherparse::{PacketBuilder, TcpHeader};
use mcptap::export::pcapng;
use mcptap_core::internal::capture::pipe::{self, Pipe, PipeEvent, Start};
use mcptap_core::internal::capture::{LinkType, Packet, PacketNumber, Time};

pub const MILLISECOND: i64 = 1_000_000;

/// The time at which all these captures begin, in nanoseconds.
const START: i64 = 1_790_000_000_000 * MILLISECOND;

/// The sender of a packet.
#[derive(Clone, Copy, PartialEq)]
pub enum Sender {
    Client,
    Server,
}

/// A capture with packets at known times.
#[derive(Default)]
pub struct Wire {
    pub packets: Vec<(i64, LinkType, Vec<u8>)>,
    /// The next sequence numbers of client and server, by the client's port.
    sequences: HashMap<u16, [u32; 2]>,
}

impl Wire {
    /// Adds a TCP segment at a time in milliseconds.
    pub fn segment(&mut self, at: i64, port: u16, from: Sender, flags: &str, payload: &str) {
        let sequences = self.sequences.entry(port).or_insert([1_000, 9_000]);
        let (own, other) = if from == Sender::Client { (0, 1) } else { (1, 0) };
        let ports = [port, 80];
        let mut header = TcpHeader::new(ports[own], ports[other], sequences[own], 60_000);
        header.acknowledgment_number = sequences[other];
        (header.syn, header.ack) = (flags.contains('S'), flags.contains('A'));
        sequences[own] += payload.len() as u32 + u32::from(header.syn);
        let hosts = [[10, 0, 0, 1], [10, 0, 0, 2]];
        let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4(hosts[own], hosts[other], 64).tcp_header(header);
        let mut frame = Vec::new();
        builder.write(&mut frame, payload.as_bytes()).expect("memory takes it");
        self.packets.push((at, LinkType::ETHERNET, frame));
    }

    /// Adds a handshake: a round trip from the capture point to the server takes ten milliseconds,
    /// to the client two.
    pub fn handshake(&mut self, at: i64, port: u16) {
        self.segment(at, port, Sender::Client, "S", "");
        self.segment(at + 10, port, Sender::Server, "SA", "");
        self.segment(at + 12, port, Sender::Client, "A", "");
    }

    /// Adds a pipe packet at a time in milliseconds.
    pub fn pipe(&mut self, at: i64, content: PipeEvent<'_>) {
        let mut data = Vec::new();
        pipe::encode(7, &content, &mut data);
        self.packets.push((at, LinkType::PIPE, data));
    }

    /// A capture of a process's pipes, one line each millisecond: `> ` is sent by the client, `< `
    /// by the server.
    pub fn lines<S: AsRef<str>>(lines: &[S]) -> Wire {
        let mut wire = Wire::default();
        wire.pipe(0, PipeEvent::Start(Start { command: vec!["server".to_owned()], ..Start::default() }));
        for (line, at) in lines.iter().zip(1..) {
            let (pipe, text) = match line.as_ref().split_at(2) {
                ("> ", text) => (Pipe::Stdin, text),
                (_, text) => (Pipe::Stdout, text),
            };
            wire.pipe(at, PipeEvent::Data(pipe, format!("{text}\n").as_bytes()));
        }
        wire
    }

    pub fn write(&self, path: &Path) {
        let mut writer = pcapng::Writer::new(Vec::new()).expect("memory takes it");
        for ((at, link, data), number) in self.packets.iter().zip(1..) {
            let (number, time, link) = (PacketNumber(number), Time(START + at * MILLISECOND), *link);
            let original_length = data.len() as u32;
            writer
                .packet(&Packet { number, time, link, interface: 0, original_length, data })
                .expect("memory takes it");
        }
        fs::write(path, writer.finish().expect("memory takes it")).expect("the file is written");
    }
}
