//! Packets of a connection, with the results of TCP analysis.

use ratatui::layout::Rect;

use super::super::app::{App, unfoldable_layers};
use super::super::canvas::{Canvas, Cell, Column};
use super::super::data::PacketRow;
use super::super::theme::UiElement;
use super::messages::direction;
use super::{bytes, layers, table};
use crate::decode::tcp::{Facts, Flags};
use crate::decode::{Direction, Side};
use crate::event::{Connection, ConnectionKind, Segment};
use crate::view::paint::Tone;
use crate::view::units;

const COLUMNS: &[Column] = &[
    Column::new("#", 7).right(),
    Column::new("time", 11).right(),
    Column::new(" ", 1),
    Column::new("flags", 14),
    Column::new("seq", 10).right(),
    Column::new("ack", 10).right().shown_from(90),
    Column::new("window", 8).right().shown_from(100),
    Column::new("payload", 8).right(),
    Column::new("wire", 8).right().shown_from(110),
    Column::new("analysis", 8).grows(1),
];

/// Lines about the connection, above its packets.
const ABOUT: u16 = 3;

/// From this height on the selected packet is shown below the list.
const TALL: u16 = 30;

/// The area of the list, between the lines about the connection and, if there is room,
/// the selected packet.
pub fn list_area(body: Rect) -> Rect {
    let above = ABOUT.min(body.height / 2);
    let below = if has_detail(body) { (body.height / 2).min(30) } else { 0 };
    Rect { y: body.y + above, height: body.height - above - below, ..body }
}

/// Whether there is room for the selected packet.
pub fn has_detail(body: Rect) -> bool {
    body.height >= TALL
}

/// Draws the selected packet: its headers, as far as they fit, and its bytes.
fn detail(app: &App, canvas: &mut Canvas<'_>, area: Rect) {
    let Some(packet) = app.session.and_then(|session| app.cache.packet.of(session)) else { return };
    let row = if area.width >= 2 * bytes::width(16) { 16 } else { 8 };
    let right = Rect { x: area.right() - bytes::width(row), width: bytes::width(row), ..area };
    let left = Rect { width: right.x - 1 - area.x, ..area };
    let border = canvas.element(UiElement::Border);
    canvas.put(left.right(), area.y - 1, 1, "┬", border);
    canvas.vertical_line(left.right(), area, border);
    let dim = canvas.tone(Tone::Dim);
    canvas.put(area.x + 1, area.y - 1, left.width, " headers ", dim);
    let length = units::size(packet.source.bytes.len() as u64);
    canvas.put(right.x + 1, area.y - 1, right.width - 1, &format!(" {}, {length} ", packet.source.title), dim);
    // Fields of the outer headers are left out first.
    let unfolded = unfoldable_layers(&packet.nodes, area.height.into());
    let mut open = false;
    let nodes = packet.nodes.iter().enumerate().filter(|(_, node)| {
        open = if node.depth == 0 { unfolded.contains(&node.name) } else { open };
        node.depth == 0 || open
    });
    for (y, (index, _)) in (area.y..area.bottom()).zip(nodes) {
        layers::node(canvas, Rect { y, height: 1, ..left }, &packet.nodes, index, |name| unfolded.contains(name));
    }
    bytes::rows(canvas, right, &packet.source.bytes, row.into(), 0, |_| false, None);
}

/// Draws the connection and its packets.
pub fn draw(app: &App, canvas: &mut Canvas<'_>, area: Rect) {
    let theme = canvas.theme;
    let tone = |tone| theme.tone(tone);
    let list = list_area(area);
    if let Some((connection, count)) = app.connection() {
        about(app, canvas, Rect { height: list.y - area.y, ..area }, connection, count);
        canvas.divide(area, list.y - 1);
    }
    if has_detail(area) {
        canvas.divide(area, list.bottom());
        detail(app, canvas, Rect { y: list.bottom() + 1, height: area.bottom() - list.bottom() - 1, ..area });
    }
    table(app, canvas, list, COLUMNS, "no packets of this connection are stored", |row| {
        let packet = app.packet(row)?;
        let (arrow, side) = match packet.from {
            Some(from) if from == packet.client => direction(Direction::ClientToServer),
            Some(_) => direction(Direction::ServerToClient),
            None => (" ", Tone::Dim),
        };
        let (words, odd) = analysis(packet);
        let number = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
        let segment = packet.segment.as_ref();
        Some(vec![
            Cell::new(packet.number.to_string(), tone(Tone::Dim)),
            Cell::new(super::messages::relative(app, packet.time), tone(Tone::Dim)),
            Cell::new(arrow, tone(side)),
            Cell::new(segment.map(|segment| flags(segment.flags)).unwrap_or_default(), tone(Tone::Plain)),
            // Relative numbers as in Wireshark: the SYN has number 0, so the stream begins at 1.
            Cell::new(number(segment.map(sequence)), tone(Tone::Dim)),
            Cell::new(number(segment.and_then(|segment| segment.acknowledged).map(|end| end + 1)), tone(Tone::Dim)),
            Cell::new(number(segment.map(|segment| segment.window.into())), tone(Tone::Dim)),
            Cell::new(segment.map(|segment| units::size(segment.length.into())).unwrap_or_default(), tone(Tone::Plain)),
            Cell::new(units::size(packet.length.into()), tone(Tone::Dim)),
            Cell::new(words, tone(if odd { Tone::Warning } else { Tone::Plain })),
        ])
    });
}

/// Draws two lines about the connection: its endpoints, and the figures of TCP.
fn about(app: &App, canvas: &mut Canvas<'_>, area: Rect, connection: &Connection, count: usize) {
    let (dim, plain, key) = (canvas.tone(Tone::Dim), canvas.tone(Tone::Strong), canvas.element(UiElement::Key));
    let which = format!("connection {} of {count}", app.connection.min(count - 1) + 1);
    let (ends, facts) = match &connection.kind {
        ConnectionKind::Tcp(facts) => {
            let client = connection.client.unwrap_or(Side::First);
            let [from, to] = [client, client.other()].map(|side| facts.endpoints[side.index()].to_string());
            let host = connection.host.as_deref().map(|host| format!(" ({host})")).unwrap_or_default();
            (format!("{from} → {to}{host}  {}", connection.protocol), tcp(facts, client))
        }
        ConnectionKind::Pipe { process, .. } => (format!("pipes of process {process}"), Vec::new()),
    };
    let turn = if count > 1 { "◀ ▶  " } else { "" };
    let pieces = [(format!(" {which}  "), dim), (turn.to_owned(), key), (ends, plain)];
    canvas.pieces(area.x, area.y, area.width, &pieces);
    if area.height > 2 {
        canvas.put(area.x + 1, area.y + 1, area.width.saturating_sub(2), &facts.join("  "), dim);
    }
}

/// The figures of a TCP connection.
fn tcp(facts: &Facts, client: Side) -> Vec<String> {
    let mut words = Vec::new();
    words.push(match facts.round_trip() {
        Some(round_trip) => format!("handshake {}", units::duration(round_trip)),
        None => "handshake not seen".to_owned(),
    });
    for (side, arrow) in [(client, "→"), (client.other(), "←")] {
        let end = &facts.ends[side.index()];
        let mut counted = vec![format!("{arrow} {}, {}", units::count(end.packets, "packet"), units::size(end.bytes))];
        if end.retransmissions > 0 {
            counted.push(format!("{} retransmitted", end.retransmissions));
        }
        for (times, what) in
            [(end.duplicate_acks, "duplicate ACK"), (end.zero_windows, "zero window"), (end.keep_alives, "keep-alive")]
        {
            if times > 0 {
                counted.push(units::count(times.into(), what));
            }
        }
        if end.lost > 0 {
            counted.push(format!("{} not captured", units::size(end.lost)));
        }
        match (end.fin, end.rst) {
            (_, Some(packet)) => counted.push(format!("reset in #{packet}")),
            (Some(packet), None) => counted.push(format!("closed in #{packet}")),
            (None, None) => {}
        }
        words.push(counted.join(", "));
    }
    words
}

fn sequence(segment: &Segment) -> u64 {
    if segment.flags.has(Flags::SYN) { 0 } else { segment.offset + 1 }
}

fn analysis(packet: &PacketRow) -> (String, bool) {
    let names: Vec<&str> = packet.segment.iter().flat_map(|segment| segment.analysis.names()).collect();
    let message = packet.message.map(|message| format!("message {}", message.0));
    match (names.is_empty(), message) {
        (false, Some(message)) => (format!("{}  {message}", names.join(", ")), true),
        (false, None) => (names.join(", "), true),
        (true, Some(message)) if packet.words.is_empty() => (message, false),
        (true, Some(message)) => (format!("{}  {message}", packet.words), false),
        (true, None) => (packet.words.clone(), false),
    }
}

fn flags(flags: Flags) -> String {
    const NAMES: [(u16, &str); 6] = [
        (Flags::SYN, "SYN"),
        (Flags::FIN, "FIN"),
        (Flags::RST, "RST"),
        (Flags::PSH, "PSH"),
        (Flags::ACK, "ACK"),
        (Flags::URG, "URG"),
    ];
    let set: Vec<&str> = NAMES.iter().filter(|(bit, _)| flags.has(*bit)).map(|(_, name)| *name).collect();
    set.join(" ")
}
