//! The actions of the commands in the key table.

use super::super::copy;
use super::super::cursor::Goal;
use super::super::data::{FindingLine, MessageLine, NoteTarget, Query};
use super::super::editor::Editor;
use super::super::keys::{Command, Motion};
use super::super::theme::Theme;
use super::{App, Effect, Focus, Mode, PacketView, Prompt, Screen, detail, packets, replay, session_view};
use crate::capture::PacketNumber;
use crate::mcp::{MessageNumber, SessionNumber};
use crate::store::FindingRow;

/// Runs a command.
pub(super) fn run(app: &mut App, command: Command) -> Vec<Effect> {
    match command {
        Command::Quit => return vec![Effect::Quit],
        Command::Suspend => return vec![Effect::Suspend],
        Command::Redraw => return vec![Effect::Redraw],
        Command::CopyMessage | Command::CopyPath | Command::CopyValue | Command::CopyCurl => {
            return copy_command(app, command);
        }
        Command::Move(motion) => move_cursor(app, motion),
        Command::Open => open(app),
        Command::Back if app.screen == Screen::Replay && replay::stop(app) => return vec![Effect::StopReplay],
        Command::Back if app.screen == Screen::Packets && app.packets.focus != Focus::List => {
            app.packets.focus = Focus::List;
        }
        Command::Back => back(app),
        Command::Replay => replay::request_form(app),
        Command::Difference(by) => replay::next_difference(app, by),
        Command::Answers => replay::focus(app),
        Command::Show(screen) => show(app, screen),
        Command::Tab(by) => {
            let tabs = &Screen::ALL[..Screen::ALL.len() - 1];
            let at = tabs.iter().position(|tab| *tab == app.screen).unwrap_or(Screen::Messages as usize);
            show(app, tabs[(at as isize + by as isize).rem_euclid(tabs.len() as isize) as usize]);
        }
        Command::Message(by) => step_message(app, by),
        Command::Partner => partner(app),
        Command::NextProblem => {
            let after = app.folds.list_row(app.cursor(Screen::Messages).selected);
            app.key_queries.extend(app.message_list().map(|list| Query::NextProblem(list, after)));
        }
        Command::Mark => mark(app),
        Command::NextMark => next_mark(app),
        Command::Follow => {
            app.follow = !app.follow;
            app.notify(if app.follow { "following the newest message" } else { "not following the newest message" });
        }
        Command::Filter => {
            let filter = if app.screen == Screen::Sessions { &app.sessions.filter } else { &app.filter };
            app.mode = Mode::Prompt(Prompt::Filter, Editor::line(filter));
        }
        Command::Sort => session_view::next_sort(app),
        Command::AllSessions => session_view::toggle_all(app),
        Command::Search => {
            let needle = app.detail.search.as_ref().map(|found| found.needle.clone()).unwrap_or_default();
            app.mode = Mode::Prompt(Prompt::Search, Editor::line(&needle));
        }
        Command::OpenCommandLine => app.mode = Mode::Prompt(Prompt::Command, Editor::line("")),
        Command::AllServers => all_servers(app),
        Command::Zoom(by) => app.zoom = app.zoom.saturating_add_signed(by).min(6),
        Command::NextTheme => return vec![set_theme(app, app.palette.theme.next())],
        Command::Help => app.mode = Mode::Help(0),
        Command::Fold => fold(app),
        Command::FoldAll => fold_all(app),
        Command::ShowPacket => show_packet(app),
        Command::Connections => packets::run(app, command),
        Command::Left | Command::Right | Command::Toggle | Command::UnfoldAll | Command::Focus(_)
            if app.screen == Screen::Packets =>
        {
            packets::run(app, command);
        }
        Command::Left
        | Command::Right
        | Command::Toggle
        | Command::UnfoldAll
        | Command::Focus(_)
        | Command::SearchHit(_) => {
            detail::run(app, command);
        }
    }
    Vec::new()
}

/// Sets a theme, also for the next start.
pub(super) fn set_theme(app: &mut App, theme: Theme) -> Effect {
    app.palette.theme = theme;
    app.notify(format!("theme {}, remembered; :theme auto takes the terminal's", theme.name()));
    Effect::RememberTheme(Some(theme))
}

fn move_cursor(app: &mut App, motion: Motion) {
    let is_done = match app.screen {
        Screen::Detail => detail::go(app, Goal::Key(motion)),
        Screen::Packets => packets::go(app, Goal::Key(motion)),
        Screen::Replay => replay::move_cursor(app, motion),
        _ => false,
    };
    if is_done {
        return;
    }
    let Some(total) = app.rows(app.screen) else { return };
    let (screen, height) = (app.screen, app.list_height(app.screen));
    app.cursor_mut(screen).move_by(motion, total, height);
    after_move(app, motion == Motion::End);
}

/// Selects a row of the screen's list.
pub(super) fn select_row(app: &mut App, row: usize) {
    let Some(total) = app.rows(app.screen) else { return };
    let (screen, height) = (app.screen, app.list_height(app.screen));
    app.cursor_mut(screen).select(row, total, height);
    after_move(app, false);
}

/// Reacts to a new selected row. `to_end` means that the key went to the last row.
fn after_move(app: &mut App, to_end: bool) {
    let screen = app.screen;
    match screen {
        Screen::Sessions => {
            let selected = app.cursor(screen).selected;
            let chosen = app.listed_session(selected).map(|row| row.session.number);
            if chosen != app.session {
                select_session(app, chosen);
            }
        }
        // Moving away from the end stops following. Moving to the end continues it.
        Screen::Messages | Screen::Sequence | Screen::Detail => app.follow &= to_end,
        _ => {}
    }
}

/// Selects another session. Its lists begin at the top.
pub(super) fn select_session(app: &mut App, session: Option<SessionNumber>) {
    app.session = session;
    let sessions = *app.cursor(Screen::Sessions);
    app.cursors = Default::default();
    *app.cursor_mut(Screen::Sessions) = sessions;
    app.follow = false;
    app.folds.clear();
    app.packets = PacketView::default();
}

pub(super) fn show(app: &mut App, screen: Screen) {
    // A capture without a session still has packets.
    if !matches!(screen, Screen::Sessions | Screen::Packets) && app.session.is_none() {
        app.notify("no session yet: 6 shows the packets");
    } else if screen != app.screen {
        if screen == Screen::Sessions {
            app.history.clear();
        } else if app.history.last() != Some(&screen) {
            app.history.push(app.screen);
        } else {
            app.history.pop();
        }
        app.screen = screen;
    }
}

pub(super) fn back(app: &mut App) {
    let lists = matches!(app.screen, Screen::Messages | Screen::Sequence);
    if app.screen == Screen::Sessions && !app.sessions.filter.is_empty() {
        session_view::set_filter(app, String::new());
    } else if lists && !app.filter.is_empty() {
        set_filter(app, String::new());
    } else if let Some(screen) = app.history.pop() {
        app.screen = screen;
    } else if app.screen != Screen::Sessions {
        app.screen = Screen::Sessions;
    }
}

/// Sets another filter. The selected message stays selected if the new list contains it.
pub(super) fn set_filter(app: &mut App, filter: String) {
    if filter == app.filter {
        return;
    }
    let selected = app.selected_message().map(|message| message.row.number);
    app.filter = filter;
    // The folds are rows of the previous list.
    app.folds.clear();
    if app.filter.is_empty() && !app.follow {
        app.key_queries.extend(selected.and_then(|message| locate(app, message)));
    } else if !app.filter.is_empty() {
        *app.cursor_mut(Screen::Messages) = Default::default();
    }
    if !matches!(app.screen, Screen::Messages | Screen::Sequence | Screen::Detail) {
        show(app, Screen::Messages);
    }
}

fn open(app: &mut App) {
    match app.screen {
        Screen::Sessions => {
            // The messages that the search found.
            if app.session.is_some() && !app.sessions.filter.is_empty() {
                set_filter(app, app.sessions.filter.clone());
            }
            show(app, Screen::Messages);
        }
        Screen::Sequence if app.all_servers => open_in_session(app),
        Screen::Messages | Screen::Sequence if app.selected_note().is_some() => open_note(app),
        Screen::Messages | Screen::Sequence => {
            if app.selected_message().is_some() {
                show(app, Screen::Detail);
            }
        }
        Screen::Packets => open_packet(app),
        _ => match row_target(app).unwrap_or_default() {
            (Some(message), _) => open_message(app, message),
            (None, Some(packet)) => packets::locate(app, packet),
            _ => app.notify("no message belongs to this row"),
        },
    }
}

/// The message and the packet that the selected row is about.
fn row_target(app: &App) -> Option<(Option<MessageNumber>, Option<PacketNumber>)> {
    let row = app.cursor(app.screen).selected;
    let session = app.session?;
    let of_finding = |finding: &FindingRow| (finding.messages.first().copied(), finding.packets.first().copied());
    Some(match app.screen {
        Screen::Layers => {
            let step = app.cache.steps.of(&session)?.row(row)?;
            (step.messages.first().copied(), step.packets.first().copied())
        }
        Screen::Findings => match app.cache.findings.of(session)?.get(row)? {
            FindingLine::Finding(finding) => of_finding(finding),
            FindingLine::Rule { .. } => match app.cache.findings.of(session)?.get(row + 1)? {
                FindingLine::Finding(finding) => of_finding(finding),
                FindingLine::Rule { .. } => return None,
            },
        },
        Screen::Tools => (app.cache.capabilities.of(session)?.get(row)?.message, None),
        Screen::Replay => {
            let run = app.replays.run.as_ref()?;
            let is_own = run.submission.as_ref()?.session == session;
            (Some(run.rows.get(row).filter(|_| is_own)?.number), None)
        }
        Screen::Packets => (None, Some(app.packet(row)?.number)),
        Screen::Messages | Screen::Sequence | Screen::Detail => {
            if let Some(note) = app.selected_note() {
                return Some((None, note.packet));
            }
            let line = app.selected_message()?;
            (Some(line.row.number), line.row.packets.first().copied())
        }
        Screen::Sessions | Screen::Statistics | Screen::Stderr => return None,
    })
}

/// Goes from a row to the packet that carries it, among the others of its connection.
fn show_packet(app: &mut App) {
    let shown = if app.screen == Screen::Detail { detail::packet(app) } else { None };
    match shown.or_else(|| row_target(app)?.1) {
        Some(packet) => packets::locate(app, packet),
        None => app.notify("no packet is known for this row"),
    }
}

/// Switches between the lifeline of one server and those of all servers of the host.
fn all_servers(app: &mut App) {
    app.all_servers = !app.all_servers;
    app.notify(if app.all_servers { "all servers of this host" } else { "only this server" });
}

/// Opens the selected message of all servers.
fn open_in_session(app: &mut App) {
    if let Some((session, message)) = app.selected_message().map(|line| (line.row.session, line.row.number)) {
        app.all_servers = false;
        open_message_of(app, session, message);
    }
}

/// Opens a message in its own session.
fn open_message_of(app: &mut App, session: SessionNumber, message: MessageNumber) {
    if app.session != Some(session) {
        select_session(app, Some(session));
    }
    open_message(app, message);
}

/// Goes to the place that shows more about the selected note.
fn open_note(app: &mut App) {
    let Some(note) = app.selected_note() else { return };
    match (note.target, note.packet) {
        (Some(NoteTarget::Message(message)), _) => open_message(app, message),
        (Some(NoteTarget::Stderr), _) => show(app, Screen::Stderr),
        (None, Some(packet)) => packets::locate(app, packet),
        (None, None) => {}
    }
}

/// Acts on the selected row of the pane that has the focus: opens the message that the packet
/// carries, folds a header, or goes to the packets of a connection.
fn open_packet(app: &mut App) {
    if matches!(app.packets.focus, Focus::Connections | Focus::Layers) {
        return packets::run(app, Command::Toggle);
    }
    match app.packet(app.cursor(Screen::Packets).selected).map(|packet| packet.message) {
        Some(Some((session, message))) => open_message_of(app, session, message),
        Some(None) => app.notify("this packet carries no message"),
        None => {}
    }
}

fn partner_in_all_servers(app: &mut App) {
    let found = app.selected_message().map(|line| (line.row.session, line.partner())).and_then(|(session, partner)| {
        let own = |line: &MessageLine| line.row.session == session && Some(line.row.number) == partner;
        app.cache.all_servers.of(app.session?)?.lines.iter().position(own)
    });
    match found {
        Some(row) => select_row(app, row),
        None => app.notify("no answer, or none is expected"),
    }
}

/// Folds or unfolds the group of the selected message.
fn fold(app: &mut App) {
    let Some(list) = app.message_list() else { return };
    let row = app.folds.list_row(app.cursor(Screen::Messages).selected);
    if !app.folds.unfold(row) {
        app.key_queries.push(Query::Group(list, row));
    }
}

/// Unfolds everything. If nothing is folded, folds all groups.
fn fold_all(app: &mut App) {
    let Some(list) = app.message_list() else { return };
    let selected = app.selected_message().map(|message| message.row.number);
    if app.folds.clear() {
        app.key_queries.extend(selected.and_then(|message| locate(app, message)));
    } else {
        app.key_queries.push(Query::Groups(list));
    }
}

/// Folds groups that the store found. The selection stays on its row, or on the row
/// that represents it.
pub(super) fn fold_groups(app: &mut App, groups: Vec<Vec<usize>>) {
    if groups.is_empty() {
        return app.notify("no batch and no operation here: there is nothing to fold");
    }
    let row = app.folds.list_row(app.cursor(Screen::Messages).selected);
    app.folds.fold_all(groups);
    let total = app.message_count().map_or(0, |(total, _)| app.folds.visible_count(total));
    let (seen, height) = (app.folds.visible_row(row), app.list_height(app.screen));
    app.cursor_mut(Screen::Messages).select(seen, total, height);
}

/// Opens a message in detail, wherever it is in the list.
fn open_message(app: &mut App, message: MessageNumber) {
    app.follow = false;
    set_filter(app, String::new());
    app.key_queries.extend(locate(app, message));
    show(app, Screen::Detail);
}

/// The query for the row of a message in the current list.
pub(super) fn locate(app: &App, message: MessageNumber) -> Option<Query> {
    Some(Query::Locate(app.message_list()?, message))
}

/// Selects a row of the list of messages.
pub(super) fn select_message(app: &mut App, row: usize) {
    app.follow = false;
    app.folds.reveal(row);
    let height = app.list_height(app.screen);
    let row = app.folds.visible_row(row);
    // The store found this row, although the list may not have been read that far.
    let total = app.message_count().map_or(0, |(total, _)| app.folds.visible_count(total)).max(row + 1);
    app.cursor_mut(Screen::Messages).select(row, total, height);
}

fn step_message(app: &mut App, by: i8) {
    let Some(total) = app.rows(Screen::Messages) else { return };
    let motion = if by < 0 { Motion::Up } else { Motion::Down };
    let height = app.list_height(app.screen);
    app.follow = false;
    app.cursor_mut(Screen::Messages).move_by(motion, total, height);
}

fn partner(app: &mut App) {
    if app.screen == Screen::Sequence && app.all_servers {
        return partner_in_all_servers(app);
    }
    match app.selected_message().map(|message| message.partner()) {
        Some(Some(partner)) => app.key_queries.extend(locate(app, partner)),
        Some(None) => app.notify("no answer, or none is expected"),
        None => {}
    }
}

fn mark(app: &mut App) {
    let Some(message) = app.selected_message() else { return };
    let mark = (message.row.session, message.row.number);
    if !app.marks.remove(&mark) {
        app.marks.insert(mark);
    }
}

fn next_mark(app: &mut App) {
    let Some(session) = app.session else { return };
    let current = app.selected_message().map_or(MessageNumber(0), |message| message.row.number);
    let own = app.marks.iter().filter(|(of, _)| *of == session).map(|(_, message)| *message);
    let (mut later, mut earlier): (Vec<_>, Vec<_>) = own.partition(|message| *message > current);
    later.append(&mut earlier);
    match later.first() {
        Some(message) => app.key_queries.extend(locate(app, *message)),
        None => app.notify("no message is marked: m marks the selected one"),
    }
}

fn copy_command(app: &mut App, command: Command) -> Vec<Effect> {
    match detail::selected_detail(app).map(|detail| copy::text(&detail, &app.detail, command)) {
        None => app.notify("open the message first"),
        Some(None) => app.notify("nothing to copy here"),
        Some(Some((_, text))) if text.len() > copy::LONGEST => {
            app.notify_error("too long for the terminal's clipboard: :export writes it to a file");
        }
        Some(Some((what, text))) => {
            app.notify(format!("copied {what}"));
            return vec![Effect::Copy(text)];
        }
    }
    Vec::new()
}
