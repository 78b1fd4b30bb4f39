//! The help: the table of keys, and nothing else.

use ratatui::layout::Rect;

use super::super::canvas::Canvas;
use super::super::keys::{KEYS, Where, sign};
use super::super::theme::Part;
use crate::view::paint::Tone;

/// Lines of the help: a heading, or keys and what they do.
fn lines() -> Vec<(String, &'static str)> {
    let mut lines = Vec::new();
    for place in [
        Where::Everywhere,
        Where::Lists,
        Where::Messages,
        Where::Sequence,
        Where::Detail,
        Where::Packets,
        Where::Replay,
    ] {
        if !lines.is_empty() {
            lines.push((String::new(), ""));
        }
        lines.push((place.title().to_owned(), ""));
        for binding in KEYS.iter().filter(|binding| binding.on == place) {
            let keys: Vec<&str> = binding.keys.iter().map(|key| sign(key)).collect();
            lines.push((format!("  {}", keys.join(" ")), binding.help));
        }
    }
    lines
}

/// Draws it over the screen.
pub fn draw(canvas: &mut Canvas<'_>, screen: Rect, top: usize) {
    let width = screen.width.saturating_sub(4).min(84);
    let area = Rect { x: (screen.width - width) / 2, y: 1, width, height: screen.height - 2 };
    canvas.boxed(area, "keys", "↑ ↓ scroll · any other key closes");
    let key = canvas.part(Part::Key);
    let (plain, strong) = (canvas.tone(Tone::Plain), canvas.tone(Tone::Strong));
    let lines = lines();
    for (line, (keys, help)) in lines.iter().skip(top).take(area.height.saturating_sub(2).into()).enumerate() {
        let y = area.y + 1 + line as u16;
        let heading = help.is_empty();
        canvas.put(area.x + 2, y, 18, keys, if heading { strong } else { key });
        canvas.put(area.x + 21, y, width.saturating_sub(23), help, plain);
    }
}
