//! Which answers the screen is drawn from.

use super::super::data::{PAGE, Request};
use super::super::layout;
use super::{App, Screen};

/// The questions behind the screen as it is.
pub(super) fn needs(app: &App) -> Vec<Request> {
    let mut needs = vec![Request::Sessions];
    let Some(session) = app.session else { return needs };
    match app.screen {
        Screen::Sessions => {}
        Screen::Messages | Screen::Sequence => needs.extend(pages(app)),
        Screen::Detail => {
            needs.extend(pages(app));
            needs.extend(app.selected_message().map(|message| Request::Detail(session, message.row.number)));
        }
        Screen::Layers => needs.push(Request::Steps(session)),
        Screen::Findings => needs.push(Request::Findings(session)),
        Screen::Statistics => needs.push(Request::Statistics(session)),
        Screen::Packets => needs.push(Request::Packets(session)),
        Screen::Tools => needs.push(Request::Capabilities(session)),
        Screen::Stderr => needs.push(Request::Stderr(session)),
    }
    needs
}

/// The pages of messages in view.
fn pages(app: &App) -> impl Iterator<Item = Request> {
    let cursor = app.cursor(Screen::Messages);
    let height = layout::list_height(app.size, app.screen);
    // What is not known yet is asked from the beginning.
    let last = app.message_count().map_or(0, |(total, _)| total.saturating_sub(1));
    let (first, last) = (cursor.top.min(last), (cursor.top + height.max(1) - 1).min(last));
    let session = app.session.unwrap_or_default();
    let filter = app.filter.clone();
    (first / PAGE..=last / PAGE).map(move |page| Request::Messages { session, filter: filter.clone(), page })
}
