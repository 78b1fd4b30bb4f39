//! The queries whose answers the screen is drawn from.

use super::super::data::{PAGE, Request};
use super::super::pages::List;
use super::super::{layout, pane};
use super::{App, Screen};
use crate::mcp::SessionNumber;

/// The queries for the current screen.
pub(super) fn needs(app: &App) -> Vec<Request> {
    let mut needs = vec![Request::Sessions];
    let Some(session) = app.session else {
        if app.pages.sessions().is_some_and(<[_]>::is_empty) {
            needs.push(Request::Unplaced);
        }
        return needs;
    };
    match app.screen {
        Screen::Sessions => {
            if pane::sessions::has_summary(layout::body(app.size)) {
                needs.extend([Request::Statistics(session), Request::Findings(session)]);
            }
        }
        Screen::Messages | Screen::Sequence | Screen::Detail => {
            if app.screen == Screen::Sequence && app.together {
                needs.push(Request::Together(session));
            } else {
                needs.extend(messages(app, session));
            }
            let seen = app.selected_message().filter(|_| layout::has_panes(app.size, app.screen));
            needs.extend(seen.map(|message| Request::Detail(message.row.session, message.row.number)));
        }
        Screen::Layers => {
            let known = app.pages.steps(session).map_or(0, List::total);
            needs.extend(pages(app, known, |row| row).into_iter().map(|page| Request::Steps { session, page }));
        }
        Screen::Findings => needs.push(Request::Findings(session)),
        Screen::Statistics => needs.push(Request::Statistics(session)),
        Screen::Packets => {
            needs.push(Request::Connections(session));
            if let Some((connection, _)) = app.connection() {
                let connection = connection.id;
                let known = app.pages.packets(session, connection).map_or(0, List::total);
                needs.extend(pages(app, known, |row| row).into_iter().map(|page| Request::Packets {
                    session,
                    connection,
                    page,
                }));
                let selected = app.packet(app.cursor(Screen::Packets).selected);
                let seen = selected.filter(|_| pane::packets::has_detail(layout::body(app.size)));
                needs.extend(seen.map(|packet| Request::Packet(session, packet.number)));
            }
        }
        Screen::Replay => {}
        Screen::Tools => needs.push(Request::Capabilities(session)),
        Screen::Stderr => {
            let known = app.pages.stderr(session).map_or(0, List::total);
            needs.extend(pages(app, known, |row| row).into_iter().map(|page| Request::Stderr { session, page }));
        }
    }
    needs
}

/// Queries for the visible pages of messages.
fn messages(app: &App, session: SessionNumber) -> impl Iterator<Item = Request> {
    let known = app.message_count().map_or(0, |(total, _)| app.folds.seen(total));
    let filter = app.filter.clone();
    let mut needed = pages(app, known, |row| app.folds.row(row));
    if app.follow
        && let Some((total, _)) = app.message_count()
    {
        let height = layout::list_height(app.size, app.screen);
        let (first, last) = (total.saturating_sub(height.max(1)), total.saturating_sub(1));
        needed.extend(first / PAGE..=last / PAGE);
        needed.sort_unstable();
        needed.dedup();
    }
    needed.into_iter().map(move |page| Request::Messages { session, filter: filter.clone(), page })
}

/// The visible pages of a list with `known` visible rows. `row` converts a visible row to a row of
/// the list.
fn pages(app: &App, known: usize, row: impl Fn(usize) -> usize) -> Vec<usize> {
    let cursor = app.cursor(app.screen);
    let height = layout::list_height(app.size, app.screen);
    // While nothing is known, the first page is needed.
    let last = known.saturating_sub(1);
    let (first, last) = (cursor.top.min(last), (cursor.top + height.max(1) - 1).min(last));
    let mut pages: Vec<usize> = (first..=last).map(|seen| row(seen) / PAGE).collect();
    pages.dedup();
    pages
}
