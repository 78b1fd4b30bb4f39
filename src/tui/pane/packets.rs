//! Packets of the session's connections, with what TCP analysis says of them.

use ratatui::layout::Rect;

use super::super::app::App;
use super::super::canvas::{Canvas, Cell, Column};
use super::super::data::PacketRow;
use super::table;
use crate::decode::tcp::Flags;
use crate::view::paint::Tone;
use crate::view::units;

const COLUMNS: &[Column] = &[
    Column::new("#", 7).right(),
    Column::new("time", 11).right(),
    Column::new("conn", 5).right(),
    Column::new(" ", 1),
    Column::new("flags", 14),
    Column::new("seq", 10).right(),
    Column::new("ack", 10).right().from(90),
    Column::new("window", 8).right().from(100),
    Column::new("payload", 8).right(),
    Column::new("wire", 8).right().from(110),
    Column::new("analysis", 8).grows(1),
];

/// Draws the list.
pub fn draw(app: &App, canvas: &mut Canvas<'_>, area: Rect) {
    let theme = canvas.theme;
    let tone = |tone| theme.tone(tone);
    let packets = app.session.and_then(|session| app.pages.packets(session)).unwrap_or_default();
    table(app, canvas, area, COLUMNS, "no packets: none were kept, or a pipe carried the session", |row| {
        let packet = packets.get(row)?;
        let (arrow, side) = match packet.from {
            Some(from) if from == packet.client => ("→", Tone::Client),
            Some(_) => ("←", Tone::Server),
            None => (" ", Tone::Dim),
        };
        let (words, odd) = analysis(packet);
        let number = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
        let segment = packet.segment.as_ref();
        Some(vec![
            Cell::new(packet.number.to_string(), tone(Tone::Dim)),
            Cell::new(super::messages::relative(app, packet.time), tone(Tone::Dim)),
            // Pipes are numbered from the top down, where TCP connections are not.
            Cell::new(connection(packet), tone(Tone::Dim)),
            Cell::new(arrow, tone(side)),
            Cell::new(segment.map(|segment| flags(segment.flags)).unwrap_or_default(), tone(Tone::Plain)),
            Cell::new(number(segment.map(|segment| segment.offset)), tone(Tone::Dim)),
            Cell::new(number(segment.and_then(|segment| segment.acknowledged)), tone(Tone::Dim)),
            Cell::new(number(segment.map(|segment| segment.window.into())), tone(Tone::Dim)),
            Cell::new(segment.map(|segment| units::size(segment.length.into())).unwrap_or_default(), tone(Tone::Plain)),
            Cell::new(units::size(packet.length.into()), tone(Tone::Dim)),
            Cell::new(words, tone(if odd { Tone::Warning } else { Tone::Plain })),
        ])
    });
}

fn connection(packet: &PacketRow) -> String {
    if packet.segment.is_some() { packet.connection.to_string() } else { String::new() }
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
