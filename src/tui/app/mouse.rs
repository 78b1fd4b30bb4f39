//! Mouse clicks on a tab, a row or a pane. The mouse is optional: each click does what
//! some keys do.

use ratatui::layout::{Position, Rect};

use super::super::keys::Command;
use super::super::layout;
use super::{App, Effect, Focus, Mode, Screen, commands, detail};

/// Runs the action of a click at this position.
pub(super) fn click(app: &mut App, x: u16, y: u16) -> Vec<Effect> {
    match app.mode {
        Mode::Help(_) | Mode::Value(_) => app.mode = Mode::Browse,
        Mode::Prompt(..) | Mode::Form => {}
        Mode::Browse => {
            if let Some((screen, _, _)) =
                layout::tab_positions(app).into_iter().find(|(_, at, _)| at.contains(&x) && y == 1)
            {
                return commands::run(app, Command::Show(screen));
            }
            if !layout::has_panes(app.size, app.screen) {
                return click_list(app, layout::list_area(app.size, app.screen), y);
            }
            let areas = layout::detail(app.size, app.screen);
            let at = Position { x, y };
            for (area, focus) in [
                (areas.list, Focus::List),
                (areas.layers, Focus::Layers),
                (areas.json, Focus::Json),
                (areas.bytes, Focus::Bytes),
            ] {
                if area.contains(at) {
                    return click_pane(app, focus, area, at);
                }
            }
        }
    }
    Vec::new()
}

/// Selects a row or byte in a pane of a message. On other screens it opens the detail screen.
fn click_pane(app: &mut App, focus: Focus, area: Rect, at: Position) -> Vec<Effect> {
    if focus == Focus::List {
        app.detail.focus = focus;
        return click_list(app, area, at.y);
    }
    app.detail.focus = focus;
    if app.screen != Screen::Detail {
        return commands::run(app, Command::Open);
    }
    detail::click(app, area, at.x, at.y);
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
