//! Switches of an HTTP/1.1 connection to another protocol.

use crate::decode::Direction;
use crate::decode::http::{ExchangeIndex, Head, StartLine};
use crate::decode::websocket::Deflate;

/// A switch of protocols after a 101 response (RFC 9110 section 7.8), or to a tunnel after a 2xx
/// response to CONNECT.
#[derive(Debug, Default)]
pub(super) struct Upgrade {
    /// The exchange that requested the switch, and the new protocol.
    pub(super) to: Option<(ExchangeIndex, Protocol)>,
    /// For each direction, the offset at which HTTP/1.1 ends.
    pub(super) offsets: [Option<u64>; 2],
    /// For each direction, bytes of the new protocol that arrived before both
    /// directions had switched.
    pub(super) bytes: [Vec<u8>; 2],
}

impl Upgrade {
    /// Buffers bytes of the new protocol until both directions have switched.
    ///
    /// There are some only if the client did not wait for the response. If bytes are missing or
    /// exceed `most`, the switch is not followed.
    pub(super) fn opaque(&mut self, direction: Direction, offset: u64, bytes: &[u8], most: usize) {
        let held = &mut self.bytes[direction as usize];
        let follows = self.offsets[direction as usize].is_some_and(|start| start + held.len() as u64 == offset);
        match self.to {
            Some(_) if follows && held.len() + bytes.len() <= most => held.extend_from_slice(bytes),
            Some(_) => *self = Upgrade::default(),
            None => {}
        }
    }
}

/// A protocol that HTTP/1.1 can be switched to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    /// HTTP/2 by upgrade (RFC 7540 section 3.2).
    Http2,
    /// WebSocket (RFC 6455), with the negotiated compression.
    WebSocket(Option<Deflate>),
    /// A tunnel that `CONNECT` requested from a proxy (RFC 9110 section 9.3.6). It may
    /// carry any protocol.
    Tunnel,
}

/// A connection that became a tunnel.
#[derive(Debug)]
pub(in crate::decode::stack) struct Tunnel {
    /// For each direction, the offset at which the tunnel begins.
    pub(in crate::decode::stack) offsets: [u64; 2],
    /// For each direction, the tunnel's first bytes, which arrived together with the heads.
    pub(in crate::decode::stack) bytes: [Vec<u8>; 2],
}

/// Whether the head is a 101 response.
pub(super) fn is_switch(head: &Head) -> bool {
    matches!(head.start, StartLine::Response { status: 101, .. })
}

/// The protocol that a 101 response switches to, if it is supported.
pub(super) fn upgraded(head: &Head) -> Option<Protocol> {
    let named = head.value("upgrade")?;
    match () {
        () if named.eq_ignore_ascii_case("h2c") => Some(Protocol::Http2),
        () if named.eq_ignore_ascii_case("websocket") => {
            let deflate = head.list("sec-websocket-extensions").and_then(|list| Deflate::agreed(&list));
            Some(Protocol::WebSocket(deflate))
        }
        () => None,
    }
}
