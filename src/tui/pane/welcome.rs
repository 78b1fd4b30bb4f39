//! The screen without sessions: how to record one, or why a capture has none.

use std::collections::BTreeMap;

use ratatui::layout::Rect;
use ratatui::style::Style;

use super::super::app::App;
use super::super::canvas::Canvas;
use super::super::data::Progress;
use super::super::theme::UiElement;
use crate::view::paint::Tone;
use crate::view::{safe, units};

/// Limit of the text's width: longer lines are hard to read.
const WIDEST: u16 = 100;

/// The first commands of a new user, and their purpose.
const WAYS: [(&str, &str); 4] = [
    ("mcptap demo", "see it at work, with recordings that are part of mcptap"),
    ("mcptap install", "record a client's servers; without a name it lists the clients"),
    ("mcptap attach", "record STDIO servers that already run (Linux)"),
    ("mcptap read capture.pcapng", "read a capture of tcpdump or Wireshark"),
];

/// Where the others are.
const OTHERS: &str = "Others are run, wrap, sniff and proxy: \"mcptap --help\" lists all.";

/// A line of the text: pieces in their styles.
type StyledLine = Vec<(String, Style)>;

/// Draws the text, in the middle if there is room.
pub fn draw(app: &App, canvas: &mut Canvas<'_>, area: Rect) {
    let width = area.width.saturating_sub(4).min(WIDEST);
    let lines = match (&app.progress, &app.database) {
        (Some(Progress::Reading(..)), _) => {
            return canvas.message(area, "reading: sessions appear as soon as they are seen");
        }
        (_, Some(database)) => first_steps(canvas, usize::from(width), &database.display().to_string()),
        (_, None) => no_session(app, canvas, usize::from(width)),
    };
    let x = area.x + (area.width - width) / 2;
    let y = area.y + (area.height.saturating_sub(lines.len() as u16) / 3);
    for (y, line) in (y..area.bottom()).zip(&lines) {
        canvas.pieces(x, y, width, line);
    }
}

/// The text for a new user.
fn first_steps(canvas: &Canvas<'_>, width: usize, database: &str) -> Vec<StyledLine> {
    let (strong, plain, dim) = (canvas.tone(Tone::Strong), canvas.tone(Tone::Plain), canvas.tone(Tone::Dim));
    let key = canvas.element(UiElement::Key);
    let mut lines = vec![
        vec![
            ("mcptap ".to_owned(), strong),
            ("shows every MCP message, with proof down to the packet.".to_owned(), plain),
        ],
        Vec::new(),
        vec![("Nothing is recorded yet. In another terminal, run one of these:".to_owned(), plain)],
        Vec::new(),
    ];
    for (command, what) in WAYS {
        lines.push(vec![("  $ ".to_owned(), dim), (command.to_owned(), key)]);
        lines.extend(wrapped(what, "    ", width, dim));
        lines.push(Vec::new());
    }
    lines.extend(wrapped(OTHERS, "", width, plain));
    lines.extend(wrapped("Messages appear here while they are recorded.", "", width, plain));
    lines.extend(wrapped(&format!("The database is {database}"), "", width, dim));
    lines
}

/// The text for a capture without MCP.
fn no_session(app: &App, canvas: &Canvas<'_>, width: usize) -> Vec<StyledLine> {
    let (title, found) = (&app.title, &app.cache.unplaced);
    let (strong, dim) = (canvas.tone(Tone::Strong), canvas.tone(Tone::Dim));
    let mut lines = wrapped(&format!("No MCP session in {title}."), "", width, strong);
    lines.push(Vec::new());
    for finding in found {
        lines.push(vec![(format!("! {}", finding.rule), canvas.tone(finding.severity.into()))]);
        lines.extend(wrapped(&finding.text, "  ", width, canvas.tone(Tone::Plain)));
        lines.push(Vec::new());
    }
    if found.is_empty() {
        let why = "It contains neither JSON-RPC over HTTP nor the pipes of a wrapped server.";
        lines.extend(wrapped(why, "", width, dim));
    }
    let connections = app.connections().unwrap_or_default();
    let tcp = connections.iter().filter(|row| row.connection.is_some()).count() as u64;
    let packets = app.cache.connections.of(None).map_or(0, |list| list.packets.0);
    if packets > 0 {
        let mut protocols: BTreeMap<&str, u64> = BTreeMap::new();
        for connection in connections.iter().filter_map(|row| row.connection.as_ref()) {
            *protocols.entry(connection.protocol).or_default() += 1;
        }
        let protocols: Vec<String> = protocols.iter().map(|(name, count)| format!("{count} {name}")).collect();
        let protocols = if protocols.is_empty() { String::new() } else { format!(" ({})", protocols.join(", ")) };
        let found = format!("{}, {}{protocols}", units::count(packets, "packet"), units::count(tcp, "TCP connection"));
        lines.push(vec![(found, canvas.tone(Tone::Plain))]);
        lines.push(Vec::new());
        lines.push(vec![("6".to_owned(), canvas.element(UiElement::Key)), (" shows the packets".to_owned(), dim)]);
    }
    lines
}

fn wrapped(text: &str, indent: &str, width: usize, style: Style) -> Vec<StyledLine> {
    let lines = safe::wrap(text, width.saturating_sub(indent.len()).max(1));
    lines.into_iter().map(|line| vec![(format!("{indent}{}", line.trim_start()), style)]).collect()
}
