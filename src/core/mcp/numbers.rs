//! The numbers that mcptap gives to sessions and messages of a capture.

/// The number of a session, 1-based in order of appearance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionNumber(pub u32);

/// The number of a message in a capture, 1-based in order of completion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageNumber(pub u64);
