//! A writer for pcapng files (draft-ietf-opsawg-pcapng), which Wireshark and mcptap read.

mod pipes;

use std::io::{self, Write};

use crate::capture::{LinkType, Packet};
use pipes::Pipes;

const SECTION: u32 = 0x0a0d_0d0a;
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
const INTERFACE: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
const SECRETS: u32 = 10;
/// "TLSK": the secrets are a TLS key log.
const TLS_KEY_LOG: u32 = 0x544c_534b;

const INTERFACE_NAME: u16 = 2;
const INTERFACE_DESCRIPTION: u16 = 3;
const TIME_RESOLUTION: u16 = 9;
const APPLICATION: u16 = 4;

/// Writes one section in little-endian byte order, with times in nanoseconds.
///
/// A file may mix link types. There is one interface for each link type, described before its first
/// packet. A wrapped process is an interface too: Wireshark shows the lines of its pipes (see
/// `pipes`). After every call the file is complete, except for what `out` buffers, and for lines of
/// pipes without their end.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    /// The link type of each interface; `None` for that of a process.
    interfaces: Vec<Option<LinkType>>,
    pipes: Pipes,
    /// The block that is being written. It is output in one piece.
    block: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Begins the file.
    pub fn new(out: W) -> io::Result<Writer<W>> {
        let mut writer = Writer { out, interfaces: Vec::new(), pipes: Pipes::default(), block: Vec::new() };
        writer.begin(SECTION);
        writer.number(BYTE_ORDER_MAGIC);
        writer.block.extend_from_slice(&[1, 0, 0, 0]); // version 1.0
        writer.block.extend_from_slice(&(-1i64).to_le_bytes()); // "the size of the section is not specified"
        writer.option(APPLICATION, b"mcptap");
        writer.end_of_options();
        writer.end()?;
        Ok(writer)
    }

    /// The interface of all packets with a link type.
    fn interface(&mut self, link: LinkType) -> io::Result<u32> {
        if let Some(known) = self.interfaces.iter().position(|known| *known == Some(link)) {
            return Ok(known as u32);
        }
        let interface = self.describe(link, None, None)?;
        self.interfaces[interface as usize] = Some(link);
        Ok(interface)
    }

    /// Writes the description of a new interface. Returns its id.
    fn describe(&mut self, link: LinkType, name: Option<&str>, description: Option<&str>) -> io::Result<u32> {
        self.begin(INTERFACE);
        self.number(link.0.into()); // 16 bits, followed by 16 that are reserved
        self.number(0); // no snap length
        if let Some(name) = name {
            self.option(INTERFACE_NAME, name.as_bytes());
        }
        if let Some(description) = description {
            self.option(INTERFACE_DESCRIPTION, description.as_bytes());
        }
        self.option(TIME_RESOLUTION, &[9]);
        self.end_of_options();
        self.end()?;
        self.interfaces.push(None);
        Ok(self.interfaces.len() as u32 - 1)
    }

    /// Writes a packet. Its number is its position in the file. Pipe packets keep their order too.
    ///
    /// The format has no times before 1970. They are written in two's complement, as other programs
    /// do and as mcptap reads them.
    pub fn packet(&mut self, packet: &Packet<'_>) -> io::Result<()> {
        if packet.link == LinkType::PIPE && self.pipe_packet(packet)? {
            return Ok(());
        }
        // The order of all packets stays.
        self.flush_lines()?;
        let interface = self.interface(packet.link)?;
        let captured = u32::try_from(packet.data.len()).map_err(|_| too_long("a packet"))?;
        let ticks = packet.time.0 as u64;
        self.begin(ENHANCED_PACKET);
        self.number(interface);
        self.number((ticks >> 32) as u32);
        self.number(ticks as u32);
        self.number(captured);
        self.number(packet.original_length);
        self.padded(packet.data);
        self.end()
    }

    /// Embeds TLS secrets, as NSS key log lines. Wireshark applies them to the packets that follow.
    pub fn secrets(&mut self, key_log: &[u8]) -> io::Result<()> {
        let length = u32::try_from(key_log.len()).map_err(|_| too_long("a key log"))?;
        self.flush_lines()?;
        self.begin(SECRETS);
        self.number(TLS_KEY_LOG);
        self.number(length);
        self.padded(key_log);
        self.end()
    }

    /// Flushes `out`.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Writes incomplete lines, ends the file and returns `out`.
    pub fn finish(mut self) -> io::Result<W> {
        self.flush_lines()?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn number(&mut self, number: u32) {
        self.block.extend_from_slice(&number.to_le_bytes());
    }

    /// Every field of variable length is padded to 32 bits.
    fn padded(&mut self, bytes: &[u8]) {
        self.block.extend_from_slice(bytes);
        self.align();
    }

    fn align(&mut self) {
        self.block.resize(self.block.len().next_multiple_of(4), 0);
    }

    /// Writes an option. Its length has 16 bits, so a longer text is cut between two characters.
    fn option(&mut self, code: u16, value: &[u8]) {
        let mut length = value.len().min(usize::from(u16::MAX));
        while length < value.len() && value[length] & 0xc0 == 0x80 {
            length -= 1;
        }
        self.block.extend_from_slice(&code.to_le_bytes());
        self.block.extend_from_slice(&(length as u16).to_le_bytes());
        self.padded(&value[..length]);
    }

    fn end_of_options(&mut self) {
        self.number(0);
    }

    fn begin(&mut self, kind: u32) {
        self.block.clear();
        self.number(kind);
        self.number(0); // the length, once it is known
    }

    fn end(&mut self) -> io::Result<()> {
        let length = u32::try_from(self.block.len() + 4).map_err(|_| too_long("a block"))?;
        self.block[4..8].copy_from_slice(&length.to_le_bytes());
        self.number(length);
        self.out.write_all(&self.block)
    }
}

fn too_long(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("{what} of more than 4 GiB does not fit into a pcapng block"))
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::Writer;
    use crate::capture::pipe::{self, Exit, Pipe, PipeEvent, Start};
    use crate::capture::{LinkType, Packet, PacketNumber, Time};
    use crate::source::reader::CaptureFileReader;
    use crate::source::{Item, Source};

    #[derive(Clone, Debug)]
    enum WriteCall {
        Packet {
            time: i64,
            link: u16,
            beyond: u32,
            data: Vec<u8>,
        },
        Secrets(Vec<u8>),
        /// A pipe packet: the process and the event.
        Pipe(u32, u8, Vec<u8>),
    }

    fn entries() -> impl Strategy<Value = Vec<WriteCall>> {
        let link = prop::sample::select(vec![0u16, 1, 101, 113, 147, 276]);
        let packet = (any::<i64>(), link, any::<u16>(), vec(any::<u8>(), 0..80))
            .prop_map(|(time, link, beyond, data)| WriteCall::Packet { time, link, beyond: beyond.into(), data });
        let secrets = vec(any::<u8>(), 0..50).prop_map(WriteCall::Secrets);
        // Short lines over few letters: many line ends, JSON and noise.
        let bytes = vec(prop::sample::select(b"{}[1\n\r ".to_vec()), 0..12);
        let pipe = (1..3u32, 0..7u8, bytes).prop_map(|(process, event, bytes)| WriteCall::Pipe(process, event, bytes));
        vec(prop_oneof![6 => packet, 1 => secrets, 12 => pipe], 0..40)
    }

    fn pipe_packet(process: u32, event: u8, bytes: &[u8]) -> Vec<u8> {
        let event = match event {
            0 => PipeEvent::Start(Start { command: vec!["/bin/server".to_owned()], ..Start::default() }),
            1 => PipeEvent::EndOfFile(Pipe::Stdout),
            2 => PipeEvent::Data(Pipe::Stderr, bytes),
            3 => PipeEvent::Lost(Pipe::Stdin, 5),
            4 => PipeEvent::Exit(Exit { code: Some(1), signal: None }),
            5 => PipeEvent::Data(Pipe::Stdin, bytes),
            _ => PipeEvent::Data(Pipe::Stdout, bytes),
        };
        let mut data = Vec::new();
        pipe::encode(process, &event, &mut data);
        data
    }

    fn pipe_chunk(time: i64, data: &[u8]) -> Packet<'_> {
        let original_length = data.len() as u32;
        Packet { number: PacketNumber(0), time: Time(time), link: LinkType::PIPE, interface: 0, original_length, data }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn written_files_are_read_again(entries in entries()) {
            let mut writer = Writer::new(Vec::new()).unwrap();
            for entry in &entries {
                match entry {
                    WriteCall::Packet { time, link, beyond, data } => {
                        let packet = Packet {
                            number: PacketNumber(0),
                            time: Time(*time),
                            link: LinkType(*link),
                            interface: 9,
                            original_length: data.len() as u32 + beyond,
                            data,
                        };
                        writer.packet(&packet).unwrap();
                    }
                    WriteCall::Secrets(lines) => writer.secrets(lines).unwrap(),
                    WriteCall::Pipe(process, event, bytes) => {
                        let data = pipe_packet(*process, *event, bytes);
                        writer.packet(&pipe_chunk(i64::from(*event), &data)).unwrap();
                    }
                }
            }
            let file = writer.finish().unwrap();
            let mut reader = CaptureFileReader::new("written", &file[..]);
            let mut number = 0;
            for entry in &entries {
                match entry {
                    WriteCall::Pipe(process, event, bytes) => {
                        number += 1;
                        let Some(Item::Packet(packet)) = reader.next().unwrap() else { panic!("a pipe packet") };
                        prop_assert_eq!((packet.number, packet.link), (PacketNumber(number), LinkType::PIPE));
                        prop_assert_eq!(packet.time, Time(i64::from(*event)));
                        prop_assert_eq!(packet.data, &pipe_packet(*process, *event, bytes)[..]);
                    }
                    WriteCall::Secrets(lines) => {
                        let item = reader.next().unwrap();
                        prop_assert!(matches!(item, Some(Item::Secrets(read)) if read == lines));
                    }
                    WriteCall::Packet { time, link, beyond, data } => {
                        number += 1;
                        let Some(Item::Packet(packet)) = reader.next().unwrap() else { panic!("a packet") };
                        prop_assert_eq!(packet.number, PacketNumber(number));
                        prop_assert_eq!(packet.time, Time(*time));
                        prop_assert_eq!(packet.link, LinkType(*link));
                        prop_assert_eq!(packet.original_length, data.len() as u32 + beyond);
                        prop_assert_eq!(packet.data, &data[..]);
                    }
                }
            }
            prop_assert!(matches!(reader.next(), Ok(None)));
        }
    }

    #[test]
    fn an_empty_file_is_a_section_without_interfaces() {
        let file = Writer::new(Vec::new()).unwrap().finish().unwrap();
        assert_eq!(file.len(), 44);
        assert!(file.windows(6).any(|part| part == b"mcptap"));
    }

    #[test]
    fn a_long_name_is_cut_between_characters() {
        let mut writer = Writer::new(Vec::new()).unwrap();
        writer.describe(LinkType::ETHERNET, Some(&"ü".repeat(40_000)), None).unwrap();
        let file = writer.finish().unwrap();
        let start = file.windows(2).position(|pair| pair == "ü".as_bytes()).unwrap();
        assert_eq!(file[start - 2..start], 65_534u16.to_le_bytes());
        assert!(matches!(CaptureFileReader::new("written", &file[..]).next(), Ok(None)));
    }
}
