//! What a connection is switched to.

use crate::decode::Direction;
use crate::decode::http::{ExchangeIndex, Head, StartLine};
use crate::decode::websocket::Deflate;

/// A switch of protocols (RFC 9110 section 7.8), from the 101 response on; or to a tunnel, from the 2xx response on.
#[derive(Debug, Default)]
pub(super) struct Upgrade {
    /// The exchange that asked for it, and what it asked for.
    pub(super) to: Option<(ExchangeIndex, Protocol)>,
    /// Where HTTP/1.1 ends in each direction.
    pub(super) offsets: [Option<u64>; 2],
    /// The bytes of each direction behind that which came with the switch.
    pub(super) bytes: [Vec<u8>; 2],
}

impl Upgrade {
    /// Bytes behind the switch. There are some before it is told of both directions only where the client did not wait; where they are too many, or
    /// not whole, nothing is made of them.
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

/// A protocol that is switched to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    /// RFC 7540 section 3.2.
    Http2,
    /// RFC 6455, with the compression that was agreed upon.
    WebSocket(Option<Deflate>),
    /// Whatever goes through the tunnel that `CONNECT` asked a proxy for (RFC 9110 section 9.3.6).
    Tunnel,
}

/// A connection that is a tunnel from here on.
#[derive(Debug)]
pub(in crate::decode::stack) struct Tunnel {
    /// Where it begins in each direction.
    pub(in crate::decode::stack) offsets: [u64; 2],
    /// Its first bytes, which came with the heads that made it.
    pub(in crate::decode::stack) bytes: [Vec<u8>; 2],
}

pub(super) fn is_switch(head: &Head) -> bool {
    matches!(head.start, StartLine::Response { status: 101, .. })
}

/// What a 101 response switches to, of what is known.
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
