//! The encoding of records in columns and blobs: variable-length numbers, words as numbers, keys.
//!
//! A blob has no tags: the version of the schema determines its layout. A file is not trusted:
//! every read is checked and may return [`Damaged`].

use crate::capture::PacketNumber;
use crate::decode::jsonrpc::Kind;
use crate::decode::tls::RecordGroupKind;
use crate::decode::{Direction, Side};
use crate::findings::Severity;
use crate::mcp::{Carrier, Transport};

/// The file contains something that the writer never writes. The text names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the database is damaged: {0} cannot be read")]
pub struct Damaged(pub &'static str);

/// Appends variable-length numbers to a blob: seven bits per byte, low bits first, the high bit set
/// on all bytes but the last (LEB128).
#[derive(Debug, Default)]
pub(super) struct BlobWriter(pub(super) Vec<u8>);

impl BlobWriter {
    pub(super) fn u64(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    /// Zigzag encoding: numbers near zero stay short, whatever their sign.
    pub(super) fn i64(&mut self, value: i64) {
        self.u64(((value << 1) ^ (value >> 63)) as u64);
    }

    /// The difference between `before` and `value`, which may be negative.
    pub(super) fn step(&mut self, before: u64, value: u64) {
        self.i64(value.wrapping_sub(before) as i64);
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.u64(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    /// A presence byte, then the value.
    pub(super) fn option<T>(&mut self, value: Option<T>, put: impl FnOnce(&mut BlobWriter, T)) {
        self.u64(value.is_some().into());
        if let Some(value) = value {
            put(self, value);
        }
    }

    pub(super) fn packets(&mut self, packets: &[PacketNumber]) {
        self.u64(packets.len() as u64);
        let mut before = 0;
        for packet in packets {
            self.step(before, packet.0);
            before = packet.0;
        }
    }
}

/// Reads the output of a [`BlobWriter`].
#[derive(Debug)]
pub(super) struct BlobReader<'a> {
    rest: &'a [u8],
    /// The name of the blob, for the error.
    what: &'static str,
}

impl<'a> BlobReader<'a> {
    pub(super) fn new(blob: &'a [u8], what: &'static str) -> BlobReader<'a> {
        BlobReader { rest: blob, what }
    }

    pub(super) fn damaged(&self) -> Damaged {
        Damaged(self.what)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The number of bytes left.
    pub(super) fn len(&self) -> usize {
        self.rest.len()
    }

    pub(super) fn u64(&mut self) -> Result<u64, Damaged> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.rest.split_first().ok_or(Damaged(self.what))?;
            self.rest = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(self.damaged())
    }

    pub(super) fn u32(&mut self) -> Result<u32, Damaged> {
        u32::try_from(self.u64()?).map_err(|_| self.damaged())
    }

    pub(super) fn i64(&mut self) -> Result<i64, Damaged> {
        let value = self.u64()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    pub(super) fn step(&mut self, before: u64) -> Result<u64, Damaged> {
        Ok(before.wrapping_add(self.i64()? as u64))
    }

    pub(super) fn take(&mut self, length: usize) -> Result<&'a [u8], Damaged> {
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or(Damaged(self.what))?;
        self.rest = rest;
        Ok(bytes)
    }

    pub(super) fn bytes(&mut self) -> Result<&'a [u8], Damaged> {
        let length = self.u64()?;
        self.take(usize::try_from(length).map_err(|_| self.damaged())?)
    }

    pub(super) fn string(&mut self) -> Result<String, Damaged> {
        String::from_utf8(self.bytes()?.to_vec()).map_err(|_| self.damaged())
    }

    pub(super) fn option<T>(
        &mut self,
        get: impl FnOnce(&mut BlobReader<'a>) -> Result<T, Damaged>,
    ) -> Result<Option<T>, Damaged> {
        match self.u64()? {
            0 => Ok(None),
            _ => get(self).map(Some),
        }
    }

    /// A list. Each member takes at least a byte, so no count can request more memory than the
    /// blob has bytes.
    pub(super) fn list<T>(
        &mut self,
        mut get: impl FnMut(&mut BlobReader<'a>) -> Result<T, Damaged>,
    ) -> Result<Vec<T>, Damaged> {
        let count = self.u64()?;
        if count > self.rest.len() as u64 {
            return Err(self.damaged());
        }
        (0..count).map(|_| get(self)).collect()
    }

    pub(super) fn packets(&mut self) -> Result<Vec<PacketNumber>, Damaged> {
        let mut before = 0;
        self.list(|decoder| {
            before = decoder.step(before)?;
            Ok(PacketNumber(before))
        })
    }
}

/// A blob that is one list of packet numbers.
pub(super) fn packet_list(packets: &[PacketNumber]) -> Vec<u8> {
    // One number of the largest size, and differences of at most two bytes.
    let mut encoder = BlobWriter(Vec::with_capacity(8 + 2 * packets.len()));
    encoder.packets(packets);
    encoder.0
}

/// A word with few values, stored as its position in a list. Lists grow only at their end.
pub(super) trait Code: Copy + PartialEq + 'static {
    const ALL: &'static [Self];
    const WHAT: &'static str;

    fn code(self) -> i64 {
        Self::ALL.iter().position(|value| *value == self).unwrap_or(0) as i64
    }

    fn from_code(code: i64) -> Result<Self, Damaged> {
        usize::try_from(code).ok().and_then(|code| Self::ALL.get(code).copied()).ok_or(Damaged(Self::WHAT))
    }
}

impl Code for Transport {
    const ALL: &'static [Transport] =
        &[Transport::Stdio, Transport::HttpSse, Transport::StreamableHttp, Transport::Http, Transport::WebSocket];
    const WHAT: &'static str = "a transport";
}

impl Code for Direction {
    const ALL: &'static [Direction] = &[Direction::ClientToServer, Direction::ServerToClient];
    const WHAT: &'static str = "a direction";
}

impl Code for Side {
    const ALL: &'static [Side] = &[Side::First, Side::Second];
    const WHAT: &'static str = "a side";
}

impl Code for Kind {
    const ALL: &'static [Kind] = &[Kind::Request, Kind::Notification, Kind::Response, Kind::Error, Kind::Invalid];
    const WHAT: &'static str = "a kind of message";
}

impl Code for Carrier {
    const ALL: &'static [Carrier] =
        &[Carrier::RequestBody, Carrier::ResponseBody, Carrier::SseEvent, Carrier::Line, Carrier::WebSocket];
    const WHAT: &'static str = "a carrier";
}

impl Code for Severity {
    const ALL: &'static [Severity] = &[Severity::Info, Severity::Warning, Severity::Error];
    const WHAT: &'static str = "a severity";
}

impl Code for RecordGroupKind {
    const ALL: &'static [RecordGroupKind] = &[
        RecordGroupKind::Handshake,
        RecordGroupKind::ApplicationData,
        RecordGroupKind::Alert,
        RecordGroupKind::SessionTickets,
        RecordGroupKind::Decrypted,
    ];
    const WHAT: &'static str = "a TLS step";
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_lists_and_bytes_survive_the_round_trip(
            numbers: Vec<u64>, signed: Vec<i64>, bytes: Vec<u8>, option: Option<u64>,
        ) {
            let mut encoder = BlobWriter::default();
            let packets: Vec<_> = numbers.iter().copied().map(PacketNumber).collect();
            encoder.packets(&packets);
            signed.iter().for_each(|number| encoder.i64(*number));
            encoder.bytes(&bytes);
            encoder.option(option, BlobWriter::u64);
            let mut decoder = BlobReader::new(&encoder.0, "a test");
            prop_assert_eq!(decoder.packets().unwrap(), packets);
            for number in signed {
                prop_assert_eq!(decoder.i64().unwrap(), number);
            }
            prop_assert_eq!(decoder.bytes().unwrap(), &bytes[..]);
            prop_assert_eq!(decoder.option(BlobReader::u64).unwrap(), option);
            prop_assert!(decoder.is_empty());
        }

        #[test]
        fn any_bytes_are_read_or_refused(blob: Vec<u8>) {
            let mut decoder = BlobReader::new(&blob, "a test");
            let _ = decoder.packets();
            let _ = decoder.string();
            let _ = decoder.u32();
        }
    }

    #[test]
    fn words_keep_their_numbers() {
        assert_eq!(<Kind as Code>::ALL.map_codes(), [0, 1, 2, 3, 4]);
        assert_eq!(Carrier::from_code(3), Ok(Carrier::Line));
        assert_eq!(Carrier::from_code(5), Err(Damaged("a carrier")));
        assert_eq!(Carrier::from_code(-1), Err(Damaged("a carrier")));
    }

    trait Codes {
        fn map_codes(&self) -> Vec<i64>;
    }

    impl<T: Code> Codes for &[T] {
        fn map_codes(&self) -> Vec<i64> {
            self.iter().map(|value| value.code()).collect()
        }
    }
}
