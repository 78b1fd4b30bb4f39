//! The summary of the selected session below the list: peers, calls, findings.

use ratatui::layout::Rect;

use super::super::app::App;
use super::super::canvas::Canvas;
use super::super::data::{FindingLine, SessionRow};
use super::super::theme::UiElement;
use super::sessions::clock;
use crate::mcp::Peers;
use crate::view::outcome;
use crate::view::paint::Tone;
use crate::view::parties::{party, process_name};
use crate::view::{safe, session_list, units};

/// Least width of one part. With less room, fewer parts are shown.
const PART: u16 = 50;

/// Draws as many parts as fit side by side.
pub fn draw(app: &App, canvas: &mut Canvas<'_>, area: Rect) {
    let Some(row) = app.session_row() else { return };
    let border = canvas.element(UiElement::Border);
    let count = (area.width / PART).clamp(1, 3);
    let width = area.width / count;
    for at in 0..count {
        let x = area.x + at * width;
        let part = Rect { x, width: if at + 1 == count { area.right() - x } else { width - 1 }, ..area };
        if at > 0 {
            canvas.put(x - 1, area.y - 1, 1, "┬", border);
            canvas.vertical_line(x - 1, area, border);
        }
        match at {
            0 => facts(canvas, part, row),
            1 => calls(app, canvas, part),
            _ => findings(app, canvas, part),
        }
    }
}

/// Draws a title in the line above a part.
fn title(canvas: &mut Canvas<'_>, area: Rect, text: &str) {
    let dim = canvas.tone(Tone::Dim);
    canvas.put(area.x + 1, area.y - 1, area.width.saturating_sub(2), &format!(" {text} "), dim);
}

fn facts(canvas: &mut Canvas<'_>, area: Rect, row: &SessionRow) {
    let session = &row.session;
    title(canvas, area, &format!("session {}", session.number.0));
    let between = match &session.peers {
        Peers::Process { process, command, .. } => format!("{}  {}", process_name(*process), command.join(" ")),
        Peers::Network { client, server, .. } => format!("{client} → {server}"),
    };
    let lasted = units::duration(session.ended.since(session.started));
    let calls = outcome::calls(&session.outcomes, 0, row.live);
    let latency =
        row.latency.map(|(p50, p95)| format!("{} median, {} p95", units::duration(p50), units::duration(p95)));
    let (seen, sent) = session.bytes;
    let missing = sent.saturating_sub(seen);
    let bytes = match missing {
        0 => format!("{}, all captured", units::size(seen)),
        _ => format!("{}, {} of them not captured", units::size(sent), units::size(missing)),
    };
    let facts = [
        ("server", session_list::name(row)),
        ("client", party(&session.client).unwrap_or_else(|| "gave no name".to_owned())),
        ("peers", between),
        ("revision", session.protocol_version.clone().unwrap_or_else(|| "no revision was agreed on".to_owned())),
        ("transport", session.transport.name().to_owned()),
        ("id", session.session_id.clone().unwrap_or_default()),
        (
            "started",
            format!("{} UTC, {}{lasted}", clock(session.started), if row.live { "running for " } else { "lasted " }),
        ),
        ("messages", format!("{}, {}", session.messages, units::count(session.notifications, "notification"))),
        ("calls", calls),
        ("latency", latency.unwrap_or_default()),
        ("bytes", bytes),
    ];
    let (dim, plain) = (canvas.tone(Tone::Dim), canvas.tone(Tone::Plain));
    let facts = facts.iter().filter(|(_, value)| !value.is_empty());
    for (y, (name, value)) in (area.y..area.bottom()).zip(facts) {
        canvas.put(area.x + 1, y, 9, name, dim);
        canvas.put(area.x + 11, y, area.width.saturating_sub(12), value, plain);
    }
}

/// Draws the calls with the longest total time.
fn calls(app: &App, canvas: &mut Canvas<'_>, area: Rect) {
    title(canvas, area, "calls, longest total time first");
    let Some(figures) = app.session.and_then(|session| app.cache.statistics.of(session)) else {
        return canvas.message(area, "…");
    };
    let (dim, plain, error) = (canvas.tone(Tone::Dim), canvas.tone(Tone::Plain), canvas.tone(Tone::Error));
    let name = area.width.saturating_sub(2 + 7 + 4 + 9 + 9);
    let mut line = |y, [calls, p50, p95]: [String; 3], what: &str, failed: u64, style| {
        canvas.put(area.x + 1, y, name, what, style);
        let x = area.x + 1 + name;
        canvas.put_right(x, y, 7, &calls, style);
        canvas.put_right(x + 7, y, 4, &if failed == 0 { String::new() } else { format!("✗{failed}") }, error);
        canvas.put_right(x + 11, y, 9, &p50, style);
        canvas.put_right(x + 20, y, 9, &p95, style);
    };
    line(area.y, ["calls", "p50", "p95"].map(str::to_owned), "", 0, dim);
    for (y, call) in (area.y + 1..area.bottom()).zip(&figures.calls) {
        let [p50, p95, _] = call.percentiles;
        let time = |time| call.extremes.map(|_| units::duration(time)).unwrap_or_default();
        let name = call.name.strip_prefix("tools/call ").unwrap_or(&call.name);
        line(y, [call.calls.to_string(), time(p50), time(p95)], name, call.errors + call.tool_errors, plain);
    }
}

/// Draws the rules that were broken.
fn findings(app: &App, canvas: &mut Canvas<'_>, area: Rect) {
    title(canvas, area, "findings");
    let Some(lines) = app.session.and_then(|session| app.cache.findings.of(session)) else {
        return canvas.message(area, "…");
    };
    if lines.is_empty() {
        return canvas.message(area, "no findings");
    }
    let rules = lines.iter().filter_map(|line| match line {
        FindingLine::Rule { id, severity, title, count } => Some((id, *severity, title, *count)),
        FindingLine::Finding(_) => None,
    });
    let dim = canvas.tone(Tone::Dim);
    for (y, (id, severity, title, count)) in (area.y..area.bottom()).zip(rules) {
        let style = canvas.tone(severity.into());
        canvas.put_right(area.x + 1, y, 5, &count.to_string(), dim);
        let x = canvas.put(area.x + 7, y, area.width.saturating_sub(8), id, style);
        let room = (area.right() - 1).saturating_sub(x + 2);
        canvas.put(x + 2, y, room, &safe::fit(title, room.into()), dim);
    }
}
