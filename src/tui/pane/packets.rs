//! Packets: the connections, the packets of one of them or of all, and the selected packet with its
//! headers, the messages in it and its bytes.

use ratatui::layout::Rect;

use super::super::app::App;
use super::super::canvas::{Canvas, Cell, Column, TableView};
use super::super::data::{ConnectionRow, PacketRow, PacketScope};
use super::super::layout::{self, PacketAreas};
use super::super::screen::{Focus, Screen};
use super::super::theme::UiElement;
use super::messages::relative;
use super::{bytes, layers, pane_names, title};
use crate::decode::jsonrpc::Kind;
use crate::decode::tcp::{Facts, Flags};
use crate::decode::{Direction, Side};
use crate::event::{ConnectionKind, Segment};
use crate::view::paint::Tone;
use crate::view::transcript::arrow;
use crate::view::units;

/// Columns of packets of one connection.
const COLUMNS: &[Column] = &[
    Column::new("#", 5).right(),
    Column::new("time", 11).right().shown_from(50),
    Column::new(" ", 1),
    Column::new("flags", 7),
    Column::new("seq", 8).right().shown_from(72),
    Column::new("ack", 8).right().shown_from(84),
    Column::new("window", 6).right().shown_from(120),
    Column::new("payload", 7).right().shown_from(60),
    Column::new("info", 10).grows(1),
];

/// From this width on, both addresses of a packet have columns. Below it only an arrow
/// shows the direction.
const ENDS: u16 = 84;

/// Columns of packets of several connections.
const ALL: &[Column] = &[
    Column::new("#", 5).right(),
    Column::new("time", 11).right().shown_from(50),
    Column::new("source", 21).id().shown_from(ENDS),
    Column::new(" ", 1),
    Column::new("destination", 21).id().shown_from(ENDS),
    Column::new("protocol", 9).shown_from(100),
    Column::new("length", 7).right().shown_from(112),
    Column::new("info", 10).grows(1),
];

/// Columns of the connections.
const CONNECTIONS: &[Column] = &[
    Column::new("connection", 20).grows(1),
    Column::new("protocol", 9).shown_from(52),
    Column::new("packets", 7).right(),
];

/// Draws the panes that there is room for.
pub fn draw(app: &App, canvas: &mut Canvas<'_>, area: Rect) {
    let focus = app.packets.focus;
    let areas = layout::packets(area, focus);
    about(app, canvas, areas.about);
    let visible = [areas.connections, areas.list, areas.headers, areas.bytes];
    let names =
        ["connections", "packets", "headers", "bytes"].into_iter().zip(Focus::PACKETS.map(|pane| pane == focus));
    if visible.iter().filter(|area| area.height > 0).count() == 1 {
        canvas.divide(area, areas.about.bottom());
        pane_names(canvas, area, areas.about.bottom(), names);
    } else {
        lines_between(app, canvas, area, &areas);
    }
    if areas.connections.height > 0 {
        connections(app, canvas, areas.connections);
    }
    if areas.list.height > 0 {
        packets(app, canvas, areas.list);
    }
    let Some(packet) = app.packet_detail().filter(|_| app.rows(Screen::Packets) != Some(0)) else { return };
    if areas.headers.height > 0 {
        layers::tree(canvas, areas.headers, &packet.nodes, &app.packets.headers, |_| false, focus == Focus::Layers);
    }
    if areas.bytes.height > 0 {
        let view = &app.packets;
        bytes::rows(canvas, areas.bytes, &packet.source.bytes, view.byte, &view.linked, focus == Focus::Bytes);
    }
}

/// Draws the lines between the panes, with their titles.
fn lines_between(app: &App, canvas: &mut Canvas<'_>, area: Rect, areas: &PacketAreas) {
    let border = canvas.element(UiElement::Border);
    let focus = app.packets.focus;
    let upper = if areas.list.height > 0 { areas.list } else { areas.connections };
    canvas.divide(area, upper.y - 1);
    canvas.divide(area, upper.bottom());
    if areas.connections.height > 0 {
        title(canvas, areas.connections, focus == Focus::Connections, "connections");
    }
    if areas.list.height > 0 {
        title(canvas, areas.list, focus == Focus::List, "packets");
    }
    if areas.connections.height > 0 && areas.list.height > 0 {
        let x = areas.connections.right();
        canvas.put(x, upper.y - 1, 1, "┬", border);
        canvas.vertical_line(x, upper, border);
        canvas.put(x, upper.bottom(), 1, "┴", border);
    }
    canvas.put(areas.headers.right(), upper.bottom(), 1, "┬", border);
    canvas.vertical_line(areas.headers.right(), areas.headers, border);
    title(canvas, areas.headers, focus == Focus::Layers, "headers");
    let Some(packet) = app.packet_detail() else { return };
    let lit = app.lit_field().map(|path| format!(", {path} is lit")).unwrap_or_default();
    let length = units::size(packet.source.bytes.len() as u64);
    title(canvas, areas.bytes, focus == Focus::Bytes, &format!("{}, {length}{lit}", packet.source.title));
}

/// Draws what is listed: in the second line, the figures of TCP.
fn about(app: &App, canvas: &mut Canvas<'_>, area: Rect) {
    let (dim, strong) = (canvas.tone(Tone::Dim), canvas.tone(Tone::Strong));
    let list = app.cache.connections.of(app.session);
    let (captured, stored) = list.map(|list| list.packets).unwrap_or_default();
    let (what, more, facts) = match app.packet_scope() {
        PacketScope::Capture => {
            let more = match captured.saturating_sub(stored) {
                0 => units::count(stored, "packet"),
                _ => format!("{stored} of {} are stored", units::count(captured, "packet")),
            };
            ("all packets".to_owned(), more, Vec::new())
        }
        PacketScope::Session => {
            let own = app.connections().unwrap_or_default().iter().filter(|row| row.is_own).count();
            let packets = list.map_or(0, |list| list.session_packets);
            let more = format!("{}, {}", units::count(own as u64, "connection"), units::count(packets, "packet"));
            ("packets of this session".to_owned(), more, Vec::new())
        }
        PacketScope::Connection(_) => match app.connection() {
            Some(row) => (name(row, true), protocol(row), figures(row)),
            None => Default::default(),
        },
    };
    let turn = if area.width >= 60 { "  ← → other connections" } else { "  ← →" };
    let pieces = [(format!(" {what}  "), strong), (more, dim), (turn.to_owned(), dim)];
    canvas.pieces(area.x, area.y, area.width, &pieces);
    if area.height > 1 {
        canvas.put(area.x + 1, area.y + 1, area.width.saturating_sub(2), &facts.join("  "), dim);
    }
}

fn connections(app: &App, canvas: &mut Canvas<'_>, area: Rect) {
    let Some(rows) = app.connections() else { return canvas.message(area, "…") };
    let choices = app.packet_choices();
    let list = app.cache.connections.of(app.session);
    let (stored, own) = list.map_or((0, 0), |list| (list.packets.1, list.session_packets));
    let view = TableView {
        cursor: app.packets.connections,
        total: choices.len() + rows.len(),
        active: app.packets.focus == Focus::Connections,
    };
    canvas.table(area, CONNECTIONS, view, |row| {
        let (words, protocol, packets, look) = match row.checked_sub(choices.len()) {
            None if choices[row] == PacketScope::Session => {
                ("those of this session".to_owned(), String::new(), own, Tone::Strong)
            }
            None => ("all packets".to_owned(), String::new(), stored, Tone::Strong),
            Some(at) => {
                let row = rows.get(at)?;
                let look = if row.is_own || app.session.is_none() { Tone::Plain } else { Tone::Dim };
                (name(row, false), self::protocol(row), row.packets, look)
            }
        };
        Some(vec![Cell::new(words, look), Cell::new(protocol, Tone::Dim), super::count_cell(packets, Tone::Plain)])
    });
}

/// The ends of a connection. `whole`: with its host name.
fn name(row: &ConnectionRow, whole: bool) -> String {
    let Some(connection) = &row.connection else { return "no TCP connection".to_owned() };
    match &connection.kind {
        ConnectionKind::Tcp(facts) => {
            let client = connection.client.unwrap_or(Side::First);
            let [from, to] = [client, client.other()].map(|side| facts.endpoints[side.index()]);
            let host = connection.host.as_deref().filter(|_| whole).map(|host| format!(" ({host})"));
            format!("{}  {from} → {to}{}", row.id.0, host.unwrap_or_default())
        }
        ConnectionKind::Pipe { process, .. } => format!("pipes of process {process}"),
    }
}

fn protocol(row: &ConnectionRow) -> String {
    row.connection.as_ref().map_or("other", |connection| connection.protocol).to_owned()
}

fn figures(row: &ConnectionRow) -> Vec<String> {
    match row.connection.as_ref().map(|connection| (&connection.kind, connection.client)) {
        Some((ConnectionKind::Tcp(facts), client)) => tcp(facts, client.unwrap_or(Side::First)),
        _ => Vec::new(),
    }
}

fn packets(app: &App, canvas: &mut Canvas<'_>, area: Rect) {
    let total = match app.rows(Screen::Packets) {
        None => return canvas.message(area, "…"),
        Some(0) => return canvas.message(area, nothing(app)),
        Some(total) => total,
    };
    let list = TableView { cursor: *app.cursor(Screen::Packets), total, active: app.packets.focus == Focus::List };
    let rows = list.cursor.top..list.cursor.top + usize::from(area.height);
    let largest = rows.filter_map(|row| app.packet(row)).map(|packet| packet.number.0).max().unwrap_or(0);
    let digits = largest.checked_ilog10().unwrap_or(0) as u16 + 1;
    let is_one = matches!(app.packet_scope(), PacketScope::Connection(_));
    let columns = if is_one { COLUMNS } else { ALL };
    let column = |column: &Column| if column.title() == "#" { column.widened_to(digits) } else { *column };
    let columns: Vec<Column> = columns.iter().map(column).collect();
    canvas.table(area, &columns, list, |row| {
        let packet = app.packet(row)?;
        Some(if is_one { in_connection(app, packet) } else { among_all(app, packet, area.width) })
    });
}

/// The reason why no packet is listed.
fn nothing(app: &App) -> &'static str {
    match (app.packet_scope(), app.session) {
        (PacketScope::Connection(_), _) => {
            "no packets of this connection are stored: a database has those of MCP sessions"
        }
        (_, None) if app.database.is_some() => "nothing is recorded yet: mcptap sniff records packets",
        (_, None) => "this capture has no packets",
        (_, Some(_)) => "no packets of this session are stored",
    }
}

fn in_connection(app: &App, packet: &PacketRow) -> Vec<Cell> {
    let (arrow, side) = sender(packet);
    let (words, look) = info(packet, false);
    let number = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
    let segment = packet.segment.as_ref();
    vec![
        Cell::new(packet.number.to_string(), Tone::Dim),
        Cell::new(relative(app, packet.time), Tone::Dim),
        Cell::new(arrow, side),
        Cell::new(segment.map(|segment| flags(segment.flags)).unwrap_or_default(), Tone::Plain),
        // Relative numbers as in Wireshark: the SYN has number 0, so the stream begins at 1.
        Cell::new(number(segment.map(sequence)), Tone::Dim),
        Cell::new(number(segment.and_then(|segment| segment.acknowledged).map(|end| end + 1)), Tone::Dim),
        Cell::new(number(segment.map(|segment| segment.window.into())), Tone::Dim),
        match segment.map(|segment| segment.length) {
            Some(0) => Cell::new("·", Tone::Dim),
            length => Cell::new(units::size(length.unwrap_or(packet.length).into()), Tone::Plain),
        },
        Cell::new(words, look),
    ]
}

fn among_all(app: &App, packet: &PacketRow, width: u16) -> Vec<Cell> {
    let (arrow, side) = sender(packet);
    // Between the addresses the arrow leads from the sender to the receiver.
    let arrow = if width > ENDS + 1 { "→" } else { arrow };
    let (words, look) = info(packet, true);
    vec![
        Cell::new(packet.number.to_string(), Tone::Dim),
        Cell::new(relative(app, packet.time), Tone::Dim),
        Cell::new(packet.ends.0.clone(), side),
        Cell::new(arrow, side),
        Cell::new(packet.ends.1.clone(), side),
        Cell::new(packet.protocol.clone(), Tone::Dim),
        Cell::new(units::size(packet.length.into()), Tone::Dim),
        Cell::new(words, look),
    ]
}

/// The direction of a packet as an arrow, and its tone.
fn sender(packet: &PacketRow) -> (&'static str, Tone) {
    match packet.from {
        Some(from) if from == packet.client => arrow(Direction::ClientToServer, Kind::Request),
        Some(_) => arrow(Direction::ServerToClient, Kind::Request),
        None => (" ", Tone::Dim),
    }
}

/// The results of TCP analysis, and the content: a message stands out, other content is plain, and
/// a packet without content is dim. With `flags`, such a packet shows its TCP flags.
fn info(packet: &PacketRow, flags: bool) -> (String, Tone) {
    let names: Vec<&str> = packet.segment.iter().flat_map(|segment| segment.analysis.names()).collect();
    let header = packet.segment.as_ref().filter(|_| flags && packet.info.is_empty()).map(|segment| {
        let acknowledged = segment.acknowledged.map(|end| format!(" ack {}", end + 1)).unwrap_or_default();
        format!("{}  seq {}{acknowledged}", self::flags(segment.flags), sequence(segment))
    });
    let content = header.as_deref().unwrap_or(&packet.info);
    let tone = match (names.is_empty(), packet.message, packet.info.is_empty()) {
        (false, ..) => Tone::Warning,
        (true, Some(_), _) => Tone::Strong,
        (true, None, false) => Tone::Plain,
        (true, None, true) => Tone::Dim,
    };
    let names = names.join(", ");
    let words = [names.as_str(), content].into_iter().filter(|words| !words.is_empty());
    (words.collect::<Vec<_>>().join("  "), tone)
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
