//! The layout of the screen: the area of each pane, for a size of the terminal.
//!
//! ```text
//! ┌ capture.pcapng ▸ 1 weather ▸ messages ───────────────── / tool = get_weather ┐ path, filter
//! │ 1 messages  2 sequence  3 layers  4 findings  5 stats  6 packets  7 tools …  │ tabs
//! │     #       time    method          about                    id   latency    │ ┐
//! │     4   0.013400 →  tools/call      get_weather city=Quito    3    238 ms ██ │ │ the pane
//! │     …                                                                        │ ┘
//! └ ⏎ open · p partner · / filter · ? help ─────────────── live · 103 messages ──┘
//!
//! one message, where there is room                    and where there is not
//! ├ layers ───────┬ json ─────────┬ bytes: packet ─┤  ├ layers ───────┬ json ──────────────────┤
//! │ ▸ Ethernet II │ ▾ result      │ 0000  65 76 65 │  │ ▸ Ethernet II │ ▾ result               │
//! │ ▸ IPv4        │   ▾ content   │ 0008  6d 65 73 │  ├ bytes: packet ┴────────────────────────┤
//! │ ▸ TCP         │               │                │  │ 0000  65 76 65 6e 74 3a 20 6d  event: m│
//! └───────────────┴───────────────┴────────────────┘  └────────────────────────────────────────┘
//!
//! packets                                             On a small screen only the pane that has
//! ├ connections ──┬ packets ───────────────────────┤  the focus is visible.
//! │ all packets   │ 4 0.0131 → PSH ACK  POST /mcp  │
//! ├ headers ──────┴─────────┬ packet #4 ───────────┤
//! │ ▸ Ethernet II           │ 0000  65 76 65 6e 74 │
//! └─────────────────────────┴──────────────────────┘
//! ```
//!
//! Nothing here uses the state of the screen, so the state and the panes both use it.

use ratatui::layout::Rect;

use super::screen::{Focus, Screen};

/// The smallest usable size of the terminal.
pub const LEAST: (u16, u16) = (40, 10);

/// From this width on, the three panes of a message are side by side, and the connections are
/// beside their packets.
const SIDE_BY_SIDE: u16 = 120;

/// From this height on, the selected message is shown below the list or the sequence, and a summary
/// of the selected session below the sessions.
const TALL: u16 = 30;

/// Below this height only one pane of a message or of the packets is visible.
const SMALL: u16 = 16;

/// Widths of the list of connections beside the packets: without and with their protocols.
const CONNECTIONS: [u16; 2] = [46, 56];

/// The panes of one message, without the lines between them. A pane that is not visible
/// has no height.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DetailAreas {
    /// The messages, with their head.
    pub list: Rect,
    pub layers: Rect,
    pub json: Rect,
    pub bytes: Rect,
}

/// The panes of the packets screen, without the lines between them. A pane that is not visible
/// has no height.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketAreas {
    /// Lines about the packets that are listed.
    pub about: Rect,
    /// The connections, with their head.
    pub connections: Rect,
    /// The packets, with their head.
    pub list: Rect,
    pub headers: Rect,
    pub bytes: Rect,
}

/// The areas of the replay screen.
#[derive(Clone, Copy, Debug)]
pub struct ReplayAreas {
    /// The submission, its server and its progress.
    pub status: Rect,
    /// The requests, with their head.
    pub list: Rect,
    /// The recorded answer.
    pub old: Rect,
    /// The new answer.
    pub new: Rect,
}

/// The area inside of the frame and below the tabs.
pub fn body((width, height): (u16, u16)) -> Rect {
    Rect { x: 1, y: 2, width: width.saturating_sub(2), height: height.saturating_sub(3) }
}

/// The area of a screen's list, with its head. `focus` is the pane that receives the keys.
pub fn list_area(size: (u16, u16), screen: Screen, focus: Focus) -> Rect {
    let body = body(size);
    match screen {
        Screen::Messages | Screen::Sequence | Screen::Detail if has_panes(size, screen) => {
            detail(size, screen, focus).list
        }
        Screen::Sessions => sessions(body),
        Screen::Statistics => calls(body),
        Screen::Packets => packets(body, focus).list,
        Screen::Findings => findings(body),
        Screen::Replay => replay(body).list,
        _ => body,
    }
}

/// Visible rows of a screen's list.
pub fn list_height(size: (u16, u16), screen: Screen, focus: Focus) -> usize {
    usize::from(list_area(size, screen, focus).height.saturating_sub(1))
}

/// The area of the sessions, above the summary if there is room for both.
pub fn sessions(body: Rect) -> Rect {
    let below = if body.height >= TALL { (body.height / 2).min(24) } else { 0 };
    Rect { height: body.height - below, ..body }
}

/// Lines of the message rate on the screen of statistics: one if there is little room.
pub fn rate_lines(body: Rect) -> u16 {
    (body.height / 8).saturating_sub(1).clamp(1, 8)
}

/// The area of the list of calls, below the charts.
pub fn calls(body: Rect) -> Rect {
    /// Rows of the histogram, with its head.
    const HISTOGRAM: u16 = 7;
    let above = (rate_lines(body) + HISTOGRAM + 2).min(body.height / 2);
    Rect { y: body.y + above, height: body.height - above, ..body }
}

/// The area of the findings, above the manual of a rule if there is room for both.
pub fn findings(body: Rect) -> Rect {
    let below = if body.height >= SMALL + 2 { (body.height / 3).clamp(9, 14) } else { 0 };
    Rect { height: body.height - below, ..body }
}

/// Divides the replay screen.
pub fn replay(body: Rect) -> ReplayAreas {
    let status = Rect { height: 2.min(body.height), ..body };
    let list = Rect { y: body.y + status.height, height: (body.height * 2 / 5).clamp(3, 16), ..body };
    // One line between the list and the answers holds the titles.
    let y = list.bottom() + 1;
    let height = body.bottom().saturating_sub(y);
    let width = body.width.saturating_sub(1) / 2;
    let old = Rect { x: body.x, y, width, height };
    let new = Rect { x: body.x + width + 1, width: body.width.saturating_sub(width + 1), ..old };
    ReplayAreas { status, list, old, new }
}

/// Divides the packets screen. Where there is no room for all panes, the connections take the place
/// of the packets, or the pane with the focus takes the place of all.
pub fn packets(body: Rect, focus: Focus) -> PacketAreas {
    let none = PacketAreas::default();
    if body.height < SMALL {
        let about = Rect { height: 1.min(body.height), ..body };
        // The line between holds the title.
        let rest = Rect { y: body.y + 2, height: body.height.saturating_sub(2), ..body };
        return match focus {
            Focus::Connections => PacketAreas { about, connections: rest, ..none },
            Focus::Layers => PacketAreas { about, headers: rest, ..none },
            Focus::Bytes => PacketAreas { about, bytes: rest, ..none },
            Focus::List | Focus::Json => PacketAreas { about, list: rest, ..none },
        };
    }
    let about = Rect { height: 2, ..body };
    let lower = (body.height * 2 / 5).min(30);
    let bytes = bytes_width(if body.width >= 2 * bytes_width(16) { 16 } else { 8 }).min(body.width * 3 / 5);
    let y = body.bottom() - lower;
    let headers = Rect { y, height: lower, width: body.width.saturating_sub(bytes + 1), ..body };
    let bytes = Rect { x: headers.right() + 1, width: bytes, ..headers };
    let upper = Rect { y: body.y + 3, height: y.saturating_sub(1 + body.y + 3), ..body };
    let areas = PacketAreas { about, headers, bytes, ..none };
    if body.width + 2 >= SIDE_BY_SIDE {
        let width = CONNECTIONS[usize::from(body.width >= 150)];
        let connections = Rect { width, ..upper };
        let list = Rect { x: upper.x + width + 1, width: upper.width - width - 1, ..upper };
        return PacketAreas { connections, list, ..areas };
    }
    match focus {
        Focus::Connections => PacketAreas { connections: upper, ..areas },
        _ => PacketAreas { list: upper, ..areas },
    }
}

/// Bytes in a row of the bytes pane, so that offset, hexadecimal, text and blanks fit.
pub fn bytes_per_row(area: Rect) -> usize {
    match area.width {
        width if width >= bytes_width(16) => 16,
        width if width >= bytes_width(8) => 8,
        _ => 4,
    }
}

/// Columns of an offset in the bytes pane.
pub const OFFSET: u16 = 6;

/// Width of the bytes pane for rows of this many bytes: offset, hexadecimal, text.
pub const fn bytes_width(row: u16) -> u16 {
    1 + OFFSET + 2 + row * 3 + 1 + row + 1
}

/// The byte of a row at a column of the bytes pane, in hexadecimal or as text.
pub fn byte_at(x: u16, row: usize) -> Option<usize> {
    let hex = usize::from(x).checked_sub(usize::from(1 + OFFSET + 2))?;
    let text = hex.checked_sub(row * 3 + 1);
    Some(text.unwrap_or(hex / 3)).filter(|column| *column < row)
}

/// Whether the panes of the selected message are visible. Below messages and arrows they need
/// a tall terminal.
pub fn has_panes(size: (u16, u16), screen: Screen) -> bool {
    match screen {
        Screen::Detail => true,
        Screen::Messages | Screen::Sequence => body(size).height >= TALL,
        _ => false,
    }
}

/// Divides the screen into the panes of one message. They get most of the room on the detail
/// screen; on the other screens the list does.
pub fn detail(size: (u16, u16), screen: Screen, focus: Focus) -> DetailAreas {
    let body = body(size);
    let strip = match screen {
        Screen::Messages | Screen::Sequence => body.height - (body.height / 2).min(40),
        _ if body.height < SMALL => 2.min(body.height),
        _ => (body.height / 4).clamp(3, 24).min(body.height),
    };
    let list = Rect { height: strip, ..body };
    // One line between the list and the panes.
    let (y, height) = (body.y + strip + 1, body.height.saturating_sub(strip + 1));
    if body.height < SMALL {
        let rest = Rect { y, height, ..body };
        let areas = DetailAreas { list, ..DetailAreas::default() };
        return match focus {
            Focus::Layers => DetailAreas { layers: rest, ..areas },
            Focus::Bytes => DetailAreas { bytes: rest, ..areas },
            Focus::List | Focus::Json | Focus::Connections => DetailAreas { json: rest, ..areas },
        };
    }
    if body.width + 2 >= SIDE_BY_SIDE {
        let bytes = bytes_width(if body.width >= 148 { 16 } else { 8 });
        let left = body.width.saturating_sub(bytes + 2);
        let layers = left * 46 / 100;
        let at = |x, width| Rect { x, y, width, height };
        return DetailAreas {
            list,
            layers: at(body.x, layers),
            json: at(body.x + layers + 1, left - layers),
            bytes: at(body.x + left + 2, bytes),
        };
    }
    let lower = (height * 2 / 5).max(1).min(height);
    let upper = height.saturating_sub(lower + 1);
    let layers = body.width * 9 / 20;
    DetailAreas {
        list,
        layers: Rect { x: body.x, y, width: layers, height: upper },
        json: Rect { x: body.x + layers + 1, y, width: body.width.saturating_sub(layers + 1), height: upper },
        bytes: Rect { x: body.x, y: y + upper + 1, width: body.width, height: lower },
    }
}

/// The area of the help, and its number of columns.
pub fn help((width, height): (u16, u16)) -> (Rect, u16) {
    let columns = (width.saturating_sub(6) / HELP).clamp(1, 3);
    let own = (columns * HELP + 2).min(width.saturating_sub(4));
    (Rect { x: (width - own) / 2, y: 1, width: own, height: height.saturating_sub(2) }, columns)
}

/// Width of a column of the help.
pub const HELP: u16 = 78;

/// The area of the box with the whole text of a value.
pub fn value((width, height): (u16, u16)) -> Rect {
    Rect { x: 3, y: 3, width: width.saturating_sub(6), height: height.saturating_sub(5) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        /// At any usable size the panes lie inside of the frame, none covers another, and the one
        /// with the focus is visible.
        #[test]
        fn panes_share_the_screen(width in LEAST.0..300u16, height in LEAST.1..120u16, focus in 0..4usize) {
            let body = body((width, height));
            let packets = |focus| {
                let areas = packets(body, focus);
                let seen = [areas.connections, areas.list, areas.headers, areas.bytes];
                (seen.into_iter().chain([areas.about]).collect::<Vec<_>>(), seen)
            };
            let message = |focus| {
                let areas = detail((width, height), Screen::Detail, focus);
                let seen = [areas.list, areas.layers, areas.json, areas.bytes];
                (seen.to_vec(), seen)
            };
            for (all, own) in [
                { let (all, seen) = packets(Focus::PACKETS[focus]); (all, seen[focus]) },
                { let (all, seen) = message(Focus::DETAIL[focus]); (all, seen[focus]) },
            ] {
                prop_assert!(own.height > 0 && own.width > 0, "{own:?} of {all:?}");
                for (index, area) in all.iter().enumerate().filter(|(_, area)| area.height > 0) {
                    prop_assert_eq!(area.intersection(body), *area);
                    for other in &all[..index] {
                        prop_assert!(area.intersection(*other).area() == 0, "{area:?} covers {other:?}");
                    }
                }
            }
        }
    }
}
