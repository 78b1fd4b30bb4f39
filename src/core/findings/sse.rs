//! Rules about server-sent events: what they carry, what may be resumed of them, and the transport of 2024-11-05.

pub(super) mod events;
pub(super) mod legacy;
pub(super) mod resumption;
