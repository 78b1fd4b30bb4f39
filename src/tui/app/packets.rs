//! The packets screen: the connections, the packets of some of them, and one packet.
//!
//! ```text
//!   connections ── choose the packets ──► packets ── select ──► headers ◄── byte ── bytes
//! ```

use std::ops::Range;
use std::sync::Arc;

use ratatui::layout::Rect;

use super::layer_tree::{ByteCursor, LayerTree};
use super::{App, Cursor, Focus, Screen, commands, detail};
use crate::capture::PacketNumber;
use crate::tui::cursor::Goal;
use crate::tui::data::{ConnectionRow, PacketDetail, PacketRow, PacketScope, Query};
use crate::tui::keys::Command;
use crate::tui::layout::{self, PacketAreas};

/// The state of the packets screen.
#[derive(Debug, Default)]
pub struct PacketView {
    /// The pane that receives the keys.
    pub focus: Focus,
    /// The packets that the user chose to list.
    scope: Option<PacketScope>,
    pub connections: Cursor,
    /// The headers and messages of the selected packet.
    pub headers: LayerTree,
    pub byte: ByteCursor,
    /// Bytes that are lit: those of the selected header or field.
    pub linked: Vec<Range<usize>>,
    /// The packet that `headers` belongs to.
    shown: Option<PacketNumber>,
    /// Name of the header that was selected last.
    last_header: String,
    /// A field of a message that the user came from: the packet, its bytes in it, and its path.
    field: Option<(PacketNumber, Vec<Range<usize>>, String)>,
}

impl App {
    /// The packets that are listed: those of the session, unless the user chose others.
    pub fn packet_scope(&self) -> PacketScope {
        let default = if self.session.is_some() { PacketScope::Session } else { PacketScope::Capture };
        self.packets.scope.unwrap_or(default)
    }

    /// The choices above the connections: all packets, and those of the session.
    pub fn packet_choices(&self) -> &'static [PacketScope] {
        match self.session {
            Some(_) => &[PacketScope::Capture, PacketScope::Session],
            None => &[PacketScope::Capture],
        }
    }

    /// The connections of the capture, once they were read.
    pub fn connections(&self) -> Option<&[ConnectionRow]> {
        self.cache.connections.of(self.session).map(|list| list.connections.as_slice())
    }

    /// The connection whose packets are listed, if it is only one.
    pub fn connection(&self) -> Option<&ConnectionRow> {
        let PacketScope::Connection(id) = self.packet_scope() else { return None };
        self.connections()?.iter().find(|row| row.id == id)
    }

    /// A packet of the list.
    pub fn packet(&self, row: usize) -> Option<&PacketRow> {
        self.cache.packets.of(&(self.session, self.packet_scope()))?.row(row)
    }

    /// The packet in the lower panes. It may be the one before, until the next was read.
    pub fn packet_detail(&self) -> Option<&Arc<PacketDetail>> {
        self.cache.packet.of(self.session)
    }

    /// The path of the JSON field that is lit in the packet, if the user came from one.
    pub fn lit_field(&self) -> Option<&str> {
        let (packet, _, path) = self.packets.field.as_ref()?;
        (self.packets.shown == Some(*packet)).then_some(path.as_str())
    }

    /// The row of the connections that shows what is listed.
    fn scope_row(&self) -> usize {
        let (scope, choices) = (self.packet_scope(), self.packet_choices());
        let own = choices.iter().position(|choice| *choice == scope);
        own.unwrap_or_else(|| {
            let rows = self.connections().unwrap_or_default();
            let at = rows.iter().position(|row| PacketScope::Connection(row.id) == scope).unwrap_or_default();
            choices.len() + at
        })
    }
}

fn areas(app: &App) -> PacketAreas {
    layout::packets(layout::body(app.size), app.packets.focus)
}

fn rows_of(area: Rect) -> usize {
    area.height.into()
}

/// Rows of the list of connections, below its head.
fn connection_rows(app: &App) -> usize {
    rows_of(areas(app).connections).saturating_sub(1)
}

/// Bytes in a row, and rows, of the bytes pane.
fn window(app: &App) -> (usize, usize) {
    let area = areas(app).bytes;
    (layout::bytes_per_row(area), rows_of(area))
}

/// Updates the panes after an input. For another packet they start anew.
pub(super) fn update_panes(app: &mut App) {
    if app.screen != Screen::Packets {
        return;
    }
    if let Some(total) = app.connections().map(|rows| rows.len() + app.packet_choices().len()) {
        let (row, height) = (app.scope_row(), connection_rows(app));
        app.packets.connections.selected = row;
        app.packets.connections.keep_visible(total, height);
    }
    let Some(packet) = app.packet_detail().cloned() else { return };
    let (height, window) = (rows_of(areas(app).headers), window(app));
    let view = &mut app.packets;
    if view.shown == Some(packet.number) {
        return view.headers.update(&packet.nodes, height);
    }
    view.shown = Some(packet.number);
    let message = packet.nodes.iter().find(|node| node.depth == 0 && node.name.starts_with("message "));
    let message = message.map(|node| node.name.clone()).unwrap_or_default();
    view.headers.replace(&packet.nodes, &[&view.last_header, &message, "TCP"], height);
    let lit = view.field.as_ref().filter(|(of, ..)| *of == packet.number).map(|(_, ranges, _)| ranges.clone());
    // Nothing is lit until the user chooses a field.
    view.linked = lit.unwrap_or_default();
    let first = view.linked.first().map_or(0, |range| range.start);
    view.byte = ByteCursor::default();
    view.byte.show(first, packet.source.bytes.len(), window);
    if !view.linked.is_empty() {
        select_node_at(app, &packet, first);
    } else if app.packets.focus == Focus::Layers {
        follow_headers(app, &packet);
    }
}

/// Lists other packets, from the first one on.
pub(super) fn set_scope(app: &mut App, scope: PacketScope) {
    if scope != app.packet_scope() {
        app.packets.scope = Some(scope);
        *app.cursor_mut(Screen::Packets) = Cursor::default();
    }
}

/// Shows a packet that the store found.
pub(super) fn select_packet(app: &mut App, scope: PacketScope, row: usize) {
    commands::show(app, Screen::Packets);
    app.packets.scope = Some(scope);
    if app.packets.focus == Focus::Connections {
        app.packets.focus = Focus::List;
    }
    let height = app.list_height(Screen::Packets);
    app.cursor_mut(Screen::Packets).select(row, row + 1, height);
}

/// The query for the row of a packet. The field that is selected in a message is lit in it.
pub(super) fn locate(app: &mut App, packet: PacketNumber) {
    app.packets.field = if app.screen == Screen::Detail { detail::field_in(app, packet) } else { None };
    app.packets.shown = None;
    app.key_queries.push(Query::LocatePacket(app.session, app.packet_scope(), packet));
}

/// Moves in the pane that receives the keys. Returns false if that is the list.
pub(super) fn go(app: &mut App, to: Goal) -> bool {
    match (app.packets.focus, to) {
        (Focus::Connections, Goal::Key(motion)) => {
            let (choices, height) = (app.packet_choices(), connection_rows(app));
            let Some(rows) = app.connections() else { return true };
            let mut cursor = app.packets.connections;
            cursor.move_by(motion, choices.len() + rows.len(), height);
            choose(app, cursor.selected);
        }
        // The first line is the head.
        (Focus::Connections, Goal::Click(_, 0)) => {}
        (Focus::Connections, Goal::Click(_, line)) => choose(app, app.packets.connections.top + line - 1),
        (Focus::Layers, to) => {
            let Some(packet) = app.packet_detail().cloned() else { return true };
            let height = rows_of(areas(app).headers);
            let headers = &mut app.packets.headers;
            headers.cursor.go(to, headers.len(), height);
            follow_headers(app, &packet);
        }
        (Focus::Bytes, to) => {
            app.packets.byte.goal(to, window(app)).into_iter().for_each(|byte| select_byte(app, byte));
        }
        (Focus::List | Focus::Json, _) => return false,
    }
    true
}

/// Lists the packets of a row of the connections.
fn choose(app: &mut App, row: usize) {
    let choices = app.packet_choices();
    let scope = match row.checked_sub(choices.len()) {
        None => Some(choices[row]),
        Some(at) => app.connections().and_then(|rows| rows.get(at)).map(|row| PacketScope::Connection(row.id)),
    };
    if let Some(scope) = scope {
        set_scope(app, scope);
    }
}

/// Runs a command of these panes.
pub(super) fn run(app: &mut App, command: Command) {
    match (command, app.packets.focus) {
        (Command::Focus(by), focus) => app.packets.focus = focus.moved(&Focus::PACKETS, by),
        (Command::Connections, Focus::Connections) => app.packets.focus = Focus::List,
        (Command::Connections, _) => app.packets.focus = Focus::Connections,
        (Command::Right, Focus::List) => step_scope(app, 1),
        (Command::Left, Focus::List) => step_scope(app, -1),
        (Command::Right | Command::Toggle, Focus::Connections) => app.packets.focus = Focus::List,
        (Command::Left, Focus::Bytes) => select_byte(app, app.packets.byte.offset.saturating_sub(1)),
        (Command::Right, Focus::Bytes) => select_byte(app, app.packets.byte.offset + 1),
        (command, Focus::Layers) => {
            let Some(packet) = app.packet_detail().cloned() else { return };
            let height = rows_of(areas(app).headers);
            app.packets.headers.fold(&packet.nodes, command, height);
            follow_headers(app, &packet);
        }
        _ => {}
    }
}

/// Lists the packets of the next connection (1) or of the previous one (-1).
fn step_scope(app: &mut App, by: isize) {
    let Some(total) = app.connections().map(|rows| rows.len() + app.packet_choices().len()) else { return };
    let row = (app.scope_row() as isize + by).rem_euclid(total as isize) as usize;
    choose(app, row);
}

/// Lights the bytes of the selected header or field.
fn follow_headers(app: &mut App, packet: &PacketDetail) {
    let window = window(app);
    let view = &mut app.packets;
    let Some(node) = view.headers.selected().and_then(|index| packet.nodes.get(index)) else { return };
    view.last_header = node.name.clone();
    view.linked = node.location.iter().map(|(_, range)| range.clone()).collect();
    if let Some(first) = view.linked.first().map(|range| range.start) {
        view.byte.show(first, packet.source.bytes.len(), window);
    }
}

/// Puts the cursor on a byte. The header or field around the byte is selected and lit.
fn select_byte(app: &mut App, offset: usize) {
    let Some(packet) = app.packet_detail().cloned() else { return };
    let window = window(app);
    let view = &mut app.packets;
    let length = packet.source.bytes.len();
    let offset = offset.min(length.saturating_sub(1));
    view.byte.show(offset, length, window);
    select_node_at(app, &packet, offset);
    let node = app.packets.headers.selected().and_then(|index| packet.nodes.get(index));
    let range = node.and_then(|node| node.location.clone()).map(|(_, range)| range);
    app.packets.linked = range.filter(|range| range.contains(&offset)).into_iter().collect();
}

/// Selects the innermost node around a byte: the one with the fewest bytes.
fn select_node_at(app: &mut App, packet: &PacketDetail, offset: usize) {
    let height = rows_of(areas(app).headers);
    let around = packet.nodes.iter().enumerate().filter_map(|(index, node)| {
        let (_, range) = node.location.as_ref().filter(|(_, range)| range.contains(&offset))?;
        Some((range.len(), index))
    });
    if let Some((_, index)) = around.min() {
        app.packets.headers.select(index, height);
    }
}
