//! Mouse clicks on a tab, a key in the bottom line, a row or a pane. The mouse is optional: each
//! click does what some keys do.

use ratatui::layout::{Position, Rect};

use super::super::cursor::Goal;
use super::super::keys::Command;
use super::super::layout;
use super::{App, Effect, Focus, Mode, Screen, bars, commands, detail, packets};

/// Runs the action of a click at this position.
pub(super) fn click(app: &mut App, x: u16, y: u16) -> Vec<Effect> {
    match app.mode {
        Mode::Help(_) | Mode::Value(_) => app.mode = Mode::Browse,
        Mode::Prompt(..) | Mode::Form => {}
        Mode::Browse => {
            if y == 1
                && let Some(tab) = bars::tabs(app).into_iter().find(|tab| tab.columns.contains(&x))
            {
                return commands::run(app, Command::Show(tab.screen));
            }
            if y + 1 == app.size.1
                && let Some(hint) = bars::hints(app).into_iter().find(|hint| hint.columns.contains(&x))
            {
                return commands::run(app, hint.binding.command);
            }
            let at = Position { x, y };
            if app.screen == Screen::Packets {
                return click_packets(app, at);
            }
            if !layout::has_panes(app.size, app.screen) {
                return click_list(app, layout::list_area(app.size, app.screen, app.focus()), y);
            }
            let areas = layout::detail(app.size, app.screen, app.focus());
            let panes = [
                (areas.list, Focus::List),
                (areas.layers, Focus::Layers),
                (areas.json, Focus::Json),
                (areas.bytes, Focus::Bytes),
            ];
            if let Some((area, focus)) = panes.into_iter().find(|(area, _)| area.contains(at)) {
                return click_pane(app, focus, area, at);
            }
        }
    }
    Vec::new()
}

/// The column and the line of a click in an area.
fn goal(area: Rect, at: Position) -> Goal {
    Goal::Click(at.x - area.x, usize::from(at.y - area.y))
}

/// Selects a row or byte in a pane of a message. On other screens it opens the detail screen.
fn click_pane(app: &mut App, focus: Focus, area: Rect, at: Position) -> Vec<Effect> {
    app.detail.focus = focus;
    if focus == Focus::List {
        return click_list(app, area, at.y);
    }
    if app.screen != Screen::Detail {
        return commands::run(app, Command::Open);
    }
    detail::go(app, goal(area, at));
    Vec::new()
}

/// Selects a row or a byte in a pane of the packets screen.
fn click_packets(app: &mut App, at: Position) -> Vec<Effect> {
    let areas = layout::packets(layout::body(app.size), app.packets.focus);
    let panes = [
        (areas.connections, Focus::Connections),
        (areas.list, Focus::List),
        (areas.headers, Focus::Layers),
        (areas.bytes, Focus::Bytes),
    ];
    let Some((area, focus)) = panes.into_iter().find(|(area, _)| area.contains(at)) else { return Vec::new() };
    app.packets.focus = focus;
    if focus == Focus::List {
        return click_list(app, area, at.y);
    }
    packets::go(app, goal(area, at));
    Vec::new()
}

/// Selects a row of a list. A click on the selected row opens it.
fn click_list(app: &mut App, area: Rect, y: u16) -> Vec<Effect> {
    // The first line is the head.
    let Some(line) = y.checked_sub(area.y + 1).filter(|line| line + 1 < area.height) else { return Vec::new() };
    let row = app.cursor(app.screen).top + usize::from(line);
    if app.rows(app.screen).is_none_or(|rows| row >= rows) {
        return Vec::new();
    }
    if app.cursor(app.screen).selected == row && app.screen != Screen::Detail {
        return commands::run(app, Command::Open);
    }
    commands::select_row(app, row);
    Vec::new()
}
