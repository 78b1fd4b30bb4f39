//! The step table of a session: what happened, layer by layer.

use ratatui::layout::Rect;

use super::super::app::App;
use super::super::canvas::{Canvas, Cell, Column};
use super::super::screen::Screen;
use super::{packets, table};
use crate::decode::jsonrpc::Kind;
use crate::view::paint::Tone;
use crate::view::safe;
use crate::view::steps::Step;
use crate::view::transcript::arrow;

/// From this width on both addresses and the roles of the messages have columns. Below it an arrow
/// shows the direction.
const WIDE: u16 = 108;

/// Below this width the packets have no column either.
const NARROW: u16 = 50;

/// Limit of the width of a pair of addresses.
const ENDS: usize = 48;

/// The columns: addresses and packets are as wide as the visible ones.
fn columns(app: &App, area: Rect) -> Vec<Column> {
    let top = app.cursor(Screen::Layers).top;
    let steps = app.session.and_then(|session| app.cache.steps.of(&session));
    let view = || (top..top + usize::from(area.height)).filter_map(|row| steps?.row(row));
    let widest = |of: fn(&Step) -> String| view().map(|step| safe::width(&of(step))).max().unwrap_or(0);
    let number = Column::new("step", 4).widened_to(widest(|step| step.number.to_string()) as u16).right();
    let layer = Column::new("layer", 5);
    let carriers = Column::new("packets", 7).widened_to(widest(|step| packets(&step.packets)) as u16);
    let detail = Column::new("detail", 20).grows(3);
    if area.width < NARROW {
        return vec![number, layer, Column::new(" ", 1), detail];
    }
    if area.width < WIDE {
        return vec![number, layer, Column::new(" ", 1), carriers, detail];
    }
    let ends = Column::new("direction", 9).widened_to(widest(Step::ends).min(ENDS) as u16);
    let role = Column::new("json-rpc", 12).grows(2);
    vec![number, layer, ends, Column::new("port", 5).right(), carriers, detail, role]
}

/// Draws the table.
pub fn draw(app: &App, canvas: &mut Canvas<'_>, area: Rect) {
    let steps = app.session.and_then(|session| app.cache.steps.of(&session));
    let empty = "no steps yet: each handshake, exchange and message appears here";
    table(app, canvas, area, &columns(app, area), empty, |row| {
        let step = steps?.row(row)?;
        let (layer, detail) = match step.layer {
            "L7" => (Tone::Strong, Tone::Plain),
            "TLS" => (Tone::Warning, Tone::Plain),
            _ => (Tone::Dim, Tone::Dim),
        };
        let number = Cell::new(step.number.to_string(), Tone::Dim);
        let layer = Cell::new(step.layer, layer);
        let carriers = Cell::new(packets(&step.packets), Tone::Plain);
        if area.width < WIDE {
            let (arrow, side) = step.direction.map_or(("↔", Tone::Dim), |way| arrow(way, Kind::Request));
            // The role has no column here, so the words of the messages come first.
            let words = [&*step.about, &*step.detail].into_iter().filter(|words| !words.is_empty());
            let words = words.collect::<Vec<_>>().join("  ");
            let (arrow, words) = (Cell::new(arrow, side), Cell::new(words, detail));
            return Some(match area.width < NARROW {
                true => vec![number, layer, arrow, words],
                false => vec![number, layer, arrow, carriers, words],
            });
        }
        let role = step.role.map(|role| format!("{role}: {}", step.about)).unwrap_or_default();
        Some(vec![
            number,
            layer,
            Cell::new(step.ends(), Tone::Dim),
            Cell::new(step.port.map(|port| port.to_string()).unwrap_or_default(), Tone::Dim),
            carriers,
            Cell::new(step.detail.clone(), detail),
            Cell::new(role, Tone::Client),
        ])
    });
}
