//! IEEE 802.11 up to the IP header, with or without a radiotap header in front.

use super::link::snap;
use super::view::{HeaderKind, HeaderObserver, View};

/// A radiotap header (<https://www.radiotap.org>), then an 802.11 frame.
///
/// Version 0, a pad byte, the length of the header (little-endian), bitmaps of the fields that are
/// present, the fields in order of their bits. Only the flags matter here.
pub(super) fn radiotap<'a>(view: View<'a>, observer: &mut impl HeaderObserver) -> Result<View<'a>, &'static str> {
    const TIMESTAMP: u32 = 1;
    const FLAGS: u32 = 1 << 1;
    const MORE_BITMAPS: u32 = 1 << 31;
    let header: [u8; 8] = view.peek().ok_or(view.too_short("truncated radiotap header", "malformed radiotap"))?;
    let length = usize::from(u16::from_le_bytes([header[2], header[3]]));
    if header[0] != 0 || length < header.len() {
        return Err("malformed radiotap");
    }
    let bytes = view.rest().get(..length).ok_or(view.too_short("truncated radiotap header", "malformed radiotap"))?;
    observer.header(HeaderKind::Radiotap, &view, length);
    let bitmap =
        |at: usize| bytes.get(at..at + 4).map(|bytes| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
    let present = bitmap(4).unwrap_or_default();
    let mut at = 4;
    while bitmap(at).is_some_and(|bitmap| bitmap & MORE_BITMAPS != 0) {
        at += 4;
    }
    at += 4;
    if present & TIMESTAMP != 0 {
        // Fields are aligned to their size.
        at = at.next_multiple_of(8) + 8;
    }
    let flags = if present & FLAGS != 0 { bytes.get(at).copied().unwrap_or_default() } else { 0 };
    frame(view.skip(length), flags, observer)
}

/// An 802.11 frame (IEEE 802.11-2020 section 9.2). `flags` are those of radiotap.
pub(super) fn frame<'a>(
    view: View<'a>,
    flags: u8,
    observer: &mut impl HeaderObserver,
) -> Result<View<'a>, &'static str> {
    // Radiotap: "frame has padding between 802.11 header and payload (to 32-bit boundary)".
    const PADDED: u8 = 0x20;
    const DATA: u8 = 2;
    const WITHOUT_CONTENT: u8 = 0x4;
    const QUALITY_OF_SERVICE: u8 = 0x8;
    const TO_AND_FROM_SYSTEM: u8 = 0x03;
    const FRAGMENTS_FOLLOW: u8 = 0x04;
    const PROTECTED: u8 = 0x40;
    const HAS_HT_CONTROL: u8 = 0x80;
    const AGGREGATED: u8 = 0x80;
    let header: [u8; 24] = view.peek().ok_or(view.too_short("truncated 802.11 header", "malformed 802.11"))?;
    let [control, of_frame, ..] = header;
    let (kind, subtype) = (control >> 2 & 3, control >> 4);
    if kind != DATA || subtype & WITHOUT_CONTENT != 0 {
        return Err("802.11 without data");
    }
    let mut length = header.len();
    if of_frame & TO_AND_FROM_SYSTEM == TO_AND_FROM_SYSTEM {
        length += 6;
    }
    let mut is_aggregated = false;
    if subtype & QUALITY_OF_SERVICE != 0 {
        is_aggregated = view.rest().get(length).is_some_and(|byte| byte & AGGREGATED != 0);
        length += 2;
        if of_frame & HAS_HT_CONTROL != 0 {
            length += 4;
        }
    }
    if flags & PADDED != 0 {
        length = length.next_multiple_of(4);
    }
    // The sequence control field: the lowest four bits of its first byte are the fragment number.
    let is_fragment = of_frame & FRAGMENTS_FOLLOW != 0 || header[22] & 0x0f != 0;
    observer.header(HeaderKind::Ieee80211, &view, length);
    match (of_frame & PROTECTED != 0, is_aggregated, is_fragment) {
        (true, ..) => Err("encrypted 802.11"),
        (_, true, _) => Err("802.11 aggregate"),
        (.., true) => Err("802.11 fragment"),
        _ => snap(view.skip(length), observer),
    }
}
