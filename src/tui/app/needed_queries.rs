//! The queries whose answers the screen is drawn from.

use super::super::answer_cache::PagedList;
use super::super::data::{PAGE, Query};
use super::super::layout;
use super::{App, Screen};

/// The queries for the current screen.
pub(super) fn needed_queries(app: &App) -> Vec<Query> {
    let mut queries = vec![Query::Sessions];
    if app.screen == Screen::Sessions && !app.sessions.filter.is_empty() {
        queries.push(Query::SessionSearch(app.sessions.filter.clone()));
    }
    if app.screen == Screen::Packets {
        queries.extend(packets(app));
        return queries;
    }
    let Some(session) = app.session else {
        if app.cache.sessions().is_some_and(<[_]>::is_empty) {
            queries.extend([Query::Unplaced, Query::Connections(None)]);
        }
        return queries;
    };
    match app.screen {
        Screen::Sessions => {
            let body = layout::body(app.size);
            if layout::sessions(body).height < body.height {
                queries.extend([Query::Statistics(session), Query::Findings(session)]);
            }
        }
        Screen::Messages | Screen::Sequence | Screen::Detail => {
            if app.screen == Screen::Sequence && app.all_servers {
                queries.push(Query::AllServers(session));
            } else {
                queries.extend(messages(app));
            }
            queries.push(Query::Notes(session));
            let seen = app.selected_message().filter(|_| layout::has_panes(app.size, app.screen));
            queries.extend(seen.map(|message| Query::Detail(message.row.session, message.row.number)));
        }
        Screen::Layers => {
            let loaded = app.cache.steps.of(&session).map_or(0, PagedList::total);
            queries.extend(pages(app, loaded, |row| row).into_iter().map(|page| Query::Steps(session, page)));
        }
        Screen::Findings => queries.push(Query::Findings(session)),
        Screen::Statistics => queries.push(Query::Statistics(session)),
        Screen::Replay | Screen::Packets => {}
        Screen::Tools => queries.push(Query::Capabilities(session)),
        Screen::Stderr => {
            let loaded = app.cache.stderr.of(&session).map_or(0, PagedList::total);
            queries.extend(pages(app, loaded, |row| row).into_iter().map(|page| Query::Stderr(session, page)));
        }
    }
    queries
}

/// Queries for the connections, the visible pages of packets, and the selected packet.
fn packets(app: &App) -> Vec<Query> {
    let (session, scope) = (app.session, app.packet_scope());
    let loaded = app.cache.packets.of(&(session, scope)).map_or(0, PagedList::total);
    let pages = pages(app, loaded, |row| row).into_iter().map(|page| Query::Packets(session, scope, page));
    let selected = app.packet(app.cursor(Screen::Packets).selected);
    let selected = selected.map(|packet| Query::Packet(session, packet.number));
    std::iter::once(Query::Connections(session)).chain(pages).chain(selected).collect()
}

/// Queries for the visible pages of messages.
fn messages(app: &App) -> impl Iterator<Item = Query> {
    let loaded = app.message_count().map_or(0, |(total, _)| app.folds.visible_count(total));
    let mut needed = pages(app, loaded, |row| app.folds.list_row(row));
    if app.follow
        && let Some((total, _)) = app.message_count()
    {
        let height = app.list_height(app.screen);
        let (first, last) = (total.saturating_sub(height.max(1)), total.saturating_sub(1));
        needed.extend(first / PAGE..=last / PAGE);
        needed.sort_unstable();
        needed.dedup();
    }
    let list = app.message_list();
    needed.into_iter().filter_map(move |page| Some(Query::Messages(list.clone()?, page)))
}

/// The visible pages of a list with `loaded` visible rows. `row` converts a visible row to a row
/// of the list.
fn pages(app: &App, loaded: usize, row: impl Fn(usize) -> usize) -> Vec<usize> {
    let cursor = app.cursor(app.screen);
    let height = app.list_height(app.screen);
    // While nothing is known, the first page is needed.
    let last = loaded.saturating_sub(1);
    let (first, last) = (cursor.top.min(last), (cursor.top + height.max(1) - 1).min(last));
    let mut pages: Vec<usize> = (first..=last).map(|seen| row(seen) / PAGE).collect();
    pages.sort_unstable();
    pages.dedup();
    pages
}
