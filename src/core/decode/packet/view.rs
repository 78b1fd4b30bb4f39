//! What the layers hand down: the bytes not yet decoded, and the way that was taken to them.

/// Bytes of a packet (or of a datagram that was put together), decoded up to `start`.
///
/// ```text
///  bytes    ├ decoded ┼ captured ──────────┤╌╌╌ cut off by the snap length ╌╌╌┤
///           0       start              bytes.len()                          end
/// ```
///
/// `end` is where the innermost length field says that this layer ends, never beyond what was on the wire. It lies before
/// `bytes.len()` where the link layer padded the packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct View<'a> {
    /// The whole packet or datagram.
    pub bytes: &'a [u8],
    /// Offset of the first byte not yet decoded.
    pub start: usize,
    /// Offset behind the last byte of this layer, as sent.
    pub end: usize,
}

impl<'a> View<'a> {
    /// The captured bytes that are not yet decoded.
    pub fn rest(&self) -> &'a [u8] {
        let end = self.end.min(self.bytes.len());
        self.bytes.get(self.start..end).unwrap_or_default()
    }

    /// The next `N` bytes, without taking them.
    pub fn peek<const N: usize>(&self) -> Option<[u8; N]> {
        self.rest().first_chunk().copied()
    }

    /// The same view, `length` bytes further on.
    pub fn skip(self, length: usize) -> View<'a> {
        View { start: self.start.saturating_add(length), ..self }
    }

    /// The same view, ending `length` bytes from here, where it does not end before.
    pub fn limit(self, length: usize) -> View<'a> {
        View { end: self.end.min(self.start.saturating_add(length)), ..self }
    }

    /// Bytes of this layer that were sent and not captured.
    pub fn missing(&self) -> usize {
        self.end.saturating_sub(self.bytes.len().max(self.start))
    }

    /// Why a header did not fit: the snap length, or a length field that is wrong.
    pub fn too_short(&self, truncated: &'static str, malformed: &'static str) -> &'static str {
        if self.missing() > 0 { truncated } else { malformed }
    }
}

/// Every header that the decoder knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeaderKind {
    Ethernet,
    /// IEEE 802.2 LLC with SNAP.
    Snap,
    Null,
    Sll,
    Sll2,
    Vlan,
    Mpls,
    Pppoe,
    Ipv4,
    Ipv6,
    /// An extension header of IPv6, or the authentication header, by its number.
    Extension(u8),
    /// The fragment header of IPv6.
    Fragment,
    Gre,
    Vxlan,
    Geneve,
    Udp,
    Tcp,
}

/// Is told of each header on the way down, from the outside in: bytes `start..end` of what is decoded.
///
/// One walk serves both uses: the fast path takes `()` and pays nothing, the layer view collects.
pub(super) trait HeaderObserver {
    /// A header of `length` bytes stands at the start of `view`.
    fn header(&mut self, kind: HeaderKind, view: &View<'_>, length: usize);
}

impl HeaderObserver for () {
    fn header(&mut self, _: HeaderKind, _: &View<'_>, _: usize) {}
}
