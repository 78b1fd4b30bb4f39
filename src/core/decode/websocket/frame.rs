//! The head of a frame (RFC 6455 section 5.2).

use nom::bytes::streaming::take;
use nom::combinator::{cond, map};
use nom::number::streaming::{be_u8, be_u16, be_u64};
use nom::{IResult, Parser};

/// Opcode of a frame that continues a message.
pub(super) const CONTINUATION: u8 = 0;
/// Opcode of a frame that begins a text message.
pub(super) const TEXT: u8 = 1;
/// Opcodes of frames that begin a text message or a binary message.
const DATA: [u8; 2] = [TEXT, 2];
/// Opcode of the frame that closes the connection.
pub(super) const CLOSE: u8 = 8;
/// Opcodes of control frames: close, ping, pong.
const CONTROL: [u8; 3] = [CLOSE, 9, 10];

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameHead {
    /// Whether this is the last fragment of its message.
    pub(super) is_last: bool,
    /// The first reserved bit. Extensions use it to mark a compressed message (RFC 7692 section 6).
    pub(super) is_compressed: bool,
    reserved: bool,
    pub(super) opcode: u8,
    pub(super) length: u64,
    pub(super) key: Option<[u8; 4]>,
}

impl FrameHead {
    pub(super) fn read(input: &[u8]) -> IResult<&[u8], FrameHead> {
        let (input, (first, second)) = (be_u8, be_u8).parse(input)?;
        let (input, length) = match second & 0x7f {
            126 => map(be_u16, u64::from).parse(input)?,
            127 => be_u64(input)?,
            length => (input, u64::from(length)),
        };
        let key = |bytes: &[u8]| [bytes[0], bytes[1], bytes[2], bytes[3]];
        let (input, key) = cond(second & 0x80 != 0, map(take(4usize), key)).parse(input)?;
        let (is_last, is_compressed, reserved) = (first & 0x80 != 0, first & 0x40 != 0, first & 0x30 != 0);
        Ok((input, FrameHead { is_last, is_compressed, reserved, opcode: first & 0x0f, length, key }))
    }

    pub(super) fn is_control(&self) -> bool {
        self.opcode & 8 != 0
    }

    /// The syntax element that was expected instead of this head; `None` for a valid head.
    /// `in_message` is whether a message is incomplete.
    pub(super) fn violation(&self, in_message: bool) -> Option<&'static str> {
        let known = self.opcode == CONTINUATION || DATA.contains(&self.opcode) || CONTROL.contains(&self.opcode);
        match () {
            // Section 5.2: "MUST be 0 unless an extension is negotiated that defines meanings
            // for non-zero values."
            () if self.reserved => Some("a frame without reserved bits"),
            () if !known => Some("a frame of a known type"),
            // Section 5.5: control frames "MUST have a payload length of 125 bytes or less and MUST
            // NOT be fragmented".
            () if self.is_control() && (self.length > 125 || !self.is_last || self.is_compressed) => {
                Some("a control frame that is short and whole")
            }
            () if self.opcode == CONTINUATION && (!in_message || self.is_compressed) => {
                Some("the first frame of a message")
            }
            () if DATA.contains(&self.opcode) && in_message => Some("the rest of a message"),
            // Section 5.2: "the most significant bit MUST be 0".
            () if self.length >> 63 != 0 => Some("a length of 63 bits"),
            () => None,
        }
    }
}
