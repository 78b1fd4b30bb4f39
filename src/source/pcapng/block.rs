//! The bodies of pcapng blocks, and their options.

use nom::bytes::complete::take;
use nom::number::Endianness;
use nom::number::complete::{i64, u16, u32};
use nom::{IResult, Parser};

use crate::capture::pipe_record::ENTERPRISE;
use crate::capture::{LinkType, Time};

/// Errors in a block's body. Each message follows the block's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BodyError {
    #[error("it is too short")]
    Short,
    #[error("it claims {claimed} captured bytes and has room for {room}")]
    Packet { claimed: u32, room: usize },
    #[error("it is on interface {0}, which this section does not describe")]
    UnknownInterface(u32),
    #[error("its section has too many interfaces")]
    TooManyInterfaces,
    #[error("an option is broken; times on this interface may be wrong")]
    Option,
    #[error("it claims {claimed} bytes of secrets and has room for {room}")]
    Secrets { claimed: u32, room: usize },
    #[error("pcapng version {0}.{1} is not known; read as version 1.0")]
    Version(u16, u16),
}

/// Errors of nom stay inside this file: each means that the bytes are too short here.
type Parsed<'a, T> = IResult<&'a [u8], T, ()>;

/// Parses the section header after its byte-order magic. The section's length and options
/// are not used.
pub(super) fn section(order: Endianness, body: &[u8]) -> Result<(), BodyError> {
    let head: Parsed<'_, _> = (u32(order), u16(order), u16(order), take(8usize)).parse(body);
    match head {
        // Files of version 1.2 exist. Their content is that of version 1.0.
        Ok((_, (_, 1, _, _))) => Ok(()),
        Ok((_, (_, major, minor, _))) => Err(BodyError::Version(major, minor)),
        Err(_) => Err(BodyError::Short),
    }
}

/// An interface description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Interface {
    pub(super) link: LinkType,
    /// The snap length in bytes; zero for none.
    pub(super) snap_length: u32,
    pub(super) clock: Clock,
}

/// Parses an interface description as far as possible, and returns the error in it. Even a damaged
/// description takes an id, because the ids of the following ones depend on it.
pub(super) fn interface(order: Endianness, body: &[u8]) -> (Option<Interface>, Option<BodyError>) {
    let head: Parsed<'_, _> = (u16(order), u16(order), u32(order)).parse(body);
    let Ok((mut rest, (link, _reserved, snap_length))) = head else { return (None, Some(BodyError::Short)) };
    let mut clock = Clock::default();
    let mut fault = None;
    while !rest.is_empty() {
        let Ok((behind, (code, value))) = option(order)(rest) else {
            fault = Some(BodyError::Option);
            break;
        };
        rest = behind;
        match code {
            option_code::END => break,
            option_code::TIME_RESOLUTION => match value {
                &[resolution] => clock.resolution = Resolution::new(resolution),
                _ => fault = Some(BodyError::Option),
            },
            option_code::TIME_OFFSET => match i64::<_, ()>(order)(value) {
                Ok(([], seconds)) => clock.offset = seconds,
                _ => fault = Some(BodyError::Option),
            },
            _ => {}
        }
    }
    (Some(Interface { link: LinkType(link), snap_length, clock }), fault)
}

/// Codes of the options that matter here: those of an interface description, and one with bytes
/// of some program.
mod option_code {
    pub const END: u16 = 0;
    pub const TIME_RESOLUTION: u16 = 9;
    pub const TIME_OFFSET: u16 = 14;
    pub const CUSTOM: u16 = 2_989;
}

/// Parses an option: its code and value. The padding to 32 bits is skipped and may be missing
/// at the end.
fn option<'a>(order: Endianness) -> impl Fn(&'a [u8]) -> Parsed<'a, (u16, &'a [u8])> {
    move |input| {
        let (rest, (code, length)) = (u16(order), u16(order)).parse(input)?;
        let (rest, value) = take(length)(rest)?;
        let padding = (value.len().next_multiple_of(4) - value.len()).min(rest.len());
        let (rest, _) = take(padding)(rest)?;
        Ok((rest, (code, value)))
    }
}

/// The clock of an interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Clock {
    resolution: Resolution,
    /// if_tsoffset: seconds to be added.
    offset: i64,
}

impl Clock {
    /// The time that corresponds to `ticks`.
    ///
    /// Ticks are unsigned. Writers whose clock is before 1970 write negative ticks as if they were
    /// unsigned. So a time beyond the range of [`Time`] is read as negative, and one that is still
    /// out of range becomes the nearest possible time.
    pub(super) fn time(&self, ticks: u64) -> Time {
        let unsigned = self.nanoseconds(ticks.into());
        let either = i64::try_from(unsigned).or_else(|_| i64::try_from(self.nanoseconds((ticks as i64).into())));
        Time(either.unwrap_or(if unsigned < 0 { i64::MIN } else { i64::MAX }))
    }

    fn nanoseconds(&self, ticks: i128) -> i128 {
        let since = match self.resolution {
            Resolution::Multiple(nanoseconds) => ticks * i128::from(nanoseconds),
            Resolution::Fraction(parts) => ticks / i128::from(parts),
            Resolution::Binary(exponent) => (ticks * 1_000_000_000) >> exponent,
        };
        since + i128::from(self.offset) * 1_000_000_000
    }
}

/// The length of a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Resolution {
    /// This many nanoseconds per tick.
    Multiple(u64),
    /// This many ticks per nanosecond.
    Fraction(u64),
    /// Two to the power of minus this number, in seconds; at most 127.
    Binary(u8),
}

impl Resolution {
    /// if_tsresol: "If the most significant bit is equal to zero, the remaining bits indicate
    /// the resolution of the timestamp as a negative power of 10". If it is one: "as a negative
    /// power of 2".
    fn new(value: u8) -> Resolution {
        let exponent = u32::from(value & 0x7f);
        match value {
            128.. => Resolution::Binary(value & 0x7f),
            0..=9 => Resolution::Multiple(10u64.pow(9 - exponent)),
            // With more than 10^28 ticks per second, 64 bits do not count up to one nanosecond.
            _ => 10u64.checked_pow(exponent - 9).map_or(Resolution::Multiple(0), Resolution::Fraction),
        }
    }
}

impl Default for Resolution {
    /// "If this option is not present, a resolution of 10^-6 is assumed".
    fn default() -> Resolution {
        Resolution::new(6)
    }
}

/// The contents of a packet block.
#[derive(Debug)]
pub(super) struct PacketBody<'a> {
    pub(super) interface: u32,
    /// `None` if the block has no time.
    pub(super) ticks: Option<u64>,
    pub(super) original_length: u32,
    pub(super) data: &'a [u8],
}

/// Options after the data are read by [`packet_option`] alone. Damage in them does not
/// affect the packet itself.
pub(super) fn enhanced_packet(order: Endianness, body: &[u8]) -> Result<PacketBody<'_>, BodyError> {
    let (rest, interface) = u32::<_, ()>(order)(body).map_err(|_| BodyError::Short)?;
    timed_packet(order, interface, rest)
}

/// The block that enhanced packets replaced: its interface id has 16 bits, followed by a
/// count of drops.
pub(super) fn obsolete_packet(order: Endianness, body: &[u8]) -> Result<PacketBody<'_>, BodyError> {
    let (rest, (interface, _drops)) = (u16::<_, ()>(order), u16(order)).parse(body).map_err(|_| BodyError::Short)?;
    timed_packet(order, interface.into(), rest)
}

/// A packet from its time on, which is the same in both blocks.
fn timed_packet(order: Endianness, interface: u32, rest: &[u8]) -> Result<PacketBody<'_>, BodyError> {
    let u32 = || u32::<_, ()>(order);
    let (rest, (high, low, captured, original_length)) =
        (u32(), u32(), u32(), u32()).parse(rest).map_err(|_| BodyError::Short)?;
    let ticks = Some(u64::from(high) << 32 | u64::from(low));
    Ok(PacketBody { interface, ticks, original_length, data: data(rest, captured)? })
}

/// A simple packet block has no interface id: readers "MUST" assume the first interface of
/// the section. Its captured length is the smaller of the original length and that
/// interface's snap length.
pub(super) fn simple_packet(order: Endianness, body: &[u8], snap_length: u32) -> Result<PacketBody<'_>, BodyError> {
    let (rest, original_length) = u32::<_, ()>(order)(body).map_err(|_| BodyError::Short)?;
    let captured = match snap_length {
        0 => original_length,
        limit => original_length.min(limit),
    };
    Ok(PacketBody { interface: 0, ticks: None, original_length, data: data(rest, captured)? })
}

fn data(body: &[u8], captured: u32) -> Result<&[u8], BodyError> {
    let taken: Parsed<'_, _> = take(captured)(body);
    taken.map(|(_, data)| data).map_err(|_| BodyError::Packet { claimed: captured, room: body.len() })
}

/// The custom option of mcptap in an enhanced packet block with so many captured bytes.
pub(super) fn packet_option(order: Endianness, body: &[u8], captured: usize) -> Option<&[u8]> {
    let mut rest = body.get(20 + captured.next_multiple_of(4)..)?;
    while let Ok((behind, (code, value))) = option(order)(rest) {
        match code {
            option_code::END => break,
            option_code::CUSTOM => return custom(order, value),
            _ => rest = behind,
        }
    }
    None
}

/// The bytes of mcptap in a custom block or option. `None` for those of others.
pub(super) fn custom(order: Endianness, body: &[u8]) -> Option<&[u8]> {
    let (rest, enterprise) = u32::<_, ()>(order)(body).ok()?;
    (enterprise == ENTERPRISE).then_some(rest)
}

/// The content of an exported PDU, after its tags. Their numbers are big-endian.
pub(super) fn exported_pdu(mut data: &[u8]) -> Option<&[u8]> {
    loop {
        let head: Parsed<'_, _> = (u16(Endianness::Big), u16(Endianness::Big)).parse(data);
        let (rest, (tag, length)) = head.ok()?;
        data = rest.get(usize::from(length)..)?;
        if tag == 0 {
            return Some(data);
        }
    }
}

/// "TLSK": the secrets are a TLS key log.
const TLS_KEY_LOG: u32 = 0x544c_534b;

/// The key log lines of a decryption secrets block, without padding; `None` for secrets
/// of other protocols.
pub(super) fn key_log(order: Endianness, body: &[u8]) -> Result<Option<&[u8]>, BodyError> {
    let (rest, (kind, length)) = (u32::<_, ()>(order), u32(order)).parse(body).map_err(|_| BodyError::Short)?;
    let taken: Parsed<'_, _> = take(length)(rest);
    match taken {
        Ok((_, secrets)) => Ok((kind == TLS_KEY_LOG).then_some(secrets)),
        Err(_) => Err(BodyError::Secrets { claimed: length, room: rest.len() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_of_every_resolution_read_the_same_moment() {
        let clock = |resolution, offset| Clock { resolution: Resolution::new(resolution), offset };
        let moment = Time(1_500_000_000_250_000_000);
        assert_eq!(clock(3, 0).time(1_500_000_000_250), moment);
        assert_eq!(Clock::default().time(1_500_000_000_250_000), moment);
        assert_eq!(clock(9, 0).time(1_500_000_000_250_000_000), moment);
        assert_eq!(clock(10, 0).time(15_000_000_002_500_000_000), moment);
        assert_eq!(clock(0x80 | 2, 0).time(1_500_000_000 * 4 + 1), moment);
        assert_eq!(clock(0x80 | 20, 1_500_000_000).time(1 << 18), moment, "relative to if_tsoffset");
        assert_eq!(clock(6, -1).time(0), Time(-1_000_000_000), "before 1970");
    }

    #[test]
    fn times_beyond_the_range_are_negative_or_stay_at_its_ends() {
        let clock = |resolution, offset| Clock { resolution: Resolution::new(resolution), offset };
        assert_eq!(clock(6, 0).time(-505_425_287i64 as u64), Time(-505_425_287_000));
        assert_eq!(clock(9, 0).time(i64::MIN as u64), Time(i64::MIN));
        assert_eq!(clock(0, 0).time(1 << 62), Time(i64::MAX));
        assert_eq!(clock(6, i64::MIN).time(0), Time(i64::MIN));
        assert_eq!(clock(127, 0).time(u64::MAX), Time(0));
        for resolution in 0..=255 {
            for offset in [i64::MIN, 0, i64::MAX] {
                assert!(clock(resolution, offset).time(0) <= clock(resolution, offset).time(i64::MAX as u64));
            }
        }
    }
}
