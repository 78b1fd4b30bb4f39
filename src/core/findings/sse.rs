//! Rules about server-sent events: their content, resumption, and the transport of 2024-11-05.

pub(super) mod events;
pub(super) mod legacy;
pub(super) mod resumption;
