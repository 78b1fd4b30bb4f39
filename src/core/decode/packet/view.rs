//! The state that one layer passes to the next: the bytes not yet decoded, and an
//! observer of headers.

/// Bytes of a packet, or of a reassembled datagram, that are decoded up to `start`.
///
/// ```text
///  bytes    ├ decoded ┼ captured ──────────┤╌╌╌ cut off by the snap length ╌╌╌┤
///           0       start              bytes.len()                          end
/// ```
///
/// `end` is the end of the current layer by its length field, at most the end of the packet on the
/// wire. It is below `bytes.len()` if the link layer padded the packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct View<'a> {
    /// The whole packet or datagram.
    pub bytes: &'a [u8],
    /// Offset of the first byte not yet decoded.
    pub start: usize,
    /// Offset after the last byte of this layer, as sent.
    pub end: usize,
}

impl<'a> View<'a> {
    /// The captured bytes that are not yet decoded.
    pub fn rest(&self) -> &'a [u8] {
        let end = self.end.min(self.bytes.len());
        self.bytes.get(self.start..end).unwrap_or_default()
    }

    /// The next `N` bytes. The view stays as it is.
    pub fn peek<const N: usize>(&self) -> Option<[u8; N]> {
        self.rest().first_chunk().copied()
    }

    /// The same view, starting `length` bytes later.
    pub fn skip(self, length: usize) -> View<'a> {
        View { start: self.start.saturating_add(length), ..self }
    }

    /// The same view, ending at most `length` bytes after its start.
    pub fn limit(self, length: usize) -> View<'a> {
        View { end: self.end.min(self.start.saturating_add(length)), ..self }
    }

    /// Bytes of this layer that were sent and not captured.
    pub fn missing(&self) -> usize {
        self.end.saturating_sub(self.bytes.len().max(self.start))
    }

    /// Why a header does not fit: the snap length cut it off, or a length field is wrong.
    pub fn too_short(&self, truncated: &'static str, malformed: &'static str) -> &'static str {
        if self.missing() > 0 { truncated } else { malformed }
    }
}

/// The kind of a header.
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
    Ppp,
    CiscoHdlc,
    FrameRelay,
    Radiotap,
    /// IEEE 802.11.
    Ieee80211,
    Ipv4,
    Ipv6,
    /// An extension header of IPv6, or the authentication header, with its protocol number.
    Extension(u8),
    /// The fragment header of IPv6.
    Fragment,
    Gre,
    /// GTP-U.
    Gtp,
    Vxlan,
    Geneve,
    Udp,
    Tcp,
}

/// Receives each header of a packet, outermost first.
///
/// One traversal has two uses. Normal decoding passes `()`, which costs nothing. The layer view
/// collects the headers.
pub(super) trait HeaderObserver {
    /// A header of `length` bytes is at the start of `view`.
    fn header(&mut self, kind: HeaderKind, view: &View<'_>, length: usize);
}

impl HeaderObserver for () {
    fn header(&mut self, _: HeaderKind, _: &View<'_>, _: usize) {}
}
