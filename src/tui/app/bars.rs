//! What the bars around the screen show, and where: the tabs above, the keys and the state below.
//! The mouse finds here what it clicked on.

use std::ops::Range;

use super::App;
use crate::tui::data::{Progress, STEPS};
use crate::tui::keys::{Binding, Command, KEYS, sign};
use crate::tui::replay::run::RequestState;
use crate::tui::screen::Screen;
use crate::view::paint::Tone;
use crate::view::{safe, units};

/// A tab: its screen, its columns, its number, and whether it shows its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tab {
    pub screen: Screen,
    pub columns: Range<u16>,
    pub number: usize,
    pub is_named: bool,
}

/// The screen whose tab is on: details belong to the messages.
pub fn current_tab(app: &App) -> Screen {
    if app.screen == Screen::Detail { Screen::Messages } else { app.screen }
}

/// The tabs. With less room the blanks between them go first, then the names of the last ones. The
/// tab that is on is always named.
pub fn tabs(app: &App) -> Vec<Tab> {
    let fits = |tabs: &Vec<Tab>| tabs.last().is_none_or(|tab| tab.columns.end < app.size.0);
    let wide = [2, 1].map(|gap| tabs_with(app, (2, gap), usize::MAX));
    let tight = (0..Screen::ALL.len()).rev().map(|names| tabs_with(app, (1, 1), names));
    wide.into_iter().chain(tight).find(fits).unwrap_or_else(|| tabs_with(app, (1, 0), 0))
}

/// The tabs from column `x` on, with `gap` blanks between two. Of the sessions, only the
/// number is shown while another screen is on and not all names fit; of the others the first
/// `names` are named.
fn tabs_with(app: &App, (mut x, gap): (u16, u16), names: usize) -> Vec<Tab> {
    let mut tabs = Vec::new();
    for (number, screen) in Screen::ALL.into_iter().enumerate() {
        let is_left_out = match screen {
            // Without a replay there is nothing to show.
            Screen::Replay => app.replays.run.is_none() && app.screen != screen,
            Screen::Detail => true,
            _ => false,
        };
        if is_left_out {
            continue;
        }
        let is_first = number <= names && (number > 0 || names == usize::MAX);
        let is_named = is_first || screen == current_tab(app);
        let end = if is_named { x + 2 + screen.name().len() as u16 } else { x + 1 };
        tabs.push(Tab { screen, columns: x..end, number, is_named });
        x = end + gap;
    }
    tabs
}

/// A key in the bottom line, and its columns.
#[derive(Clone, Debug)]
pub struct Hint {
    pub columns: Range<u16>,
    pub binding: &'static Binding,
}

/// The keys in the bottom line, as many as fit before the state.
pub fn hints(app: &App) -> Vec<Hint> {
    let end = app.size.0.saturating_sub(3 + state_width(app));
    let shown = |binding: &&Binding| {
        !binding.short.is_empty() && binding.scope.includes(app.screen) && is_of_use(binding.command, app)
    };
    let width = |binding: &Binding| (safe::width(sign(binding.keys[0])) + binding.short.len() + 3) as u16;
    // The help key is always shown: it leads to all others.
    let (help, others): (Vec<&Binding>, Vec<&Binding>) =
        KEYS.iter().filter(shown).partition(|binding| binding.command == Command::Help);
    let room: u16 = help.iter().map(|binding| width(binding)).sum();
    let mut x = 2;
    let mut hints = Vec::new();
    let mut put = |binding: &'static Binding, room: u16| {
        if x + width(binding) + room <= end {
            hints.push(Hint { columns: x..x + width(binding), binding });
            x += width(binding);
        }
    };
    others.into_iter().for_each(|binding| put(binding, room));
    help.into_iter().for_each(|binding| put(binding, 0));
    hints
}

/// Columns of the state at the lower right, with the blanks around it.
pub fn state_width(app: &App) -> u16 {
    match safe::width(&state(app).0) as u16 {
        0 => 0,
        width => (width + 2).min(app.size.0 / 2),
    }
}

/// Whether a key that works everywhere does something on this screen. The footer has no
/// room for others.
fn is_of_use(command: Command, app: &App) -> bool {
    let screen = app.screen;
    match command {
        Command::Help | Command::Quit => true,
        Command::Back => screen != Screen::Sessions,
        _ if app.session.is_none() && screen != Screen::Packets => false,
        Command::Replay | Command::Filter if app.session.is_none() => false,
        Command::ShowPacket => !matches!(
            screen,
            Screen::Sessions | Screen::Statistics | Screen::Tools | Screen::Stderr | Screen::Replay | Screen::Packets
        ),
        Command::Open => !matches!(screen, Screen::Statistics | Screen::Stderr),
        Command::Filter => !matches!(screen, Screen::Replay | Screen::Packets),
        Command::Replay => screen != Screen::Packets,
        _ => true,
    }
}

/// The state at the lower right: import, replay, or the position in the list.
pub fn state(app: &App) -> (String, Tone) {
    match &app.progress {
        Some(Progress::Reading(read, Some(total))) => {
            let percent = u128::from(*read) * 100 / u128::from((*total).max(1));
            return (format!("reading {percent} % of {}", units::size(*total)), Tone::Warning);
        }
        Some(Progress::Reading(read, None)) => return (format!("reading, {}", units::size(*read)), Tone::Warning),
        Some(Progress::Failed(why)) => return (why.clone(), Tone::Error),
        Some(Progress::Done) | None => {}
    }
    if let Some(run) = app.replays.run.as_ref().filter(|run| run.is_going()) {
        let done =
            run.rows.iter().filter(|row| !matches!(row.state, RequestState::Waiting | RequestState::Sent)).count();
        return (format!("replaying {done} of {}", run.rows.len()), Tone::Warning);
    }
    let live = match (app.session_row().is_some_and(|row| row.live), app.follow) {
        _ if app.screen == Screen::Sessions => "",
        (true, true) => "live, following · ",
        (true, false) => "live · ",
        (false, true) => "following · ",
        (false, false) => "",
    };
    let (position, tone) = position(app);
    let tone = if live.is_empty() || tone != Tone::Dim { tone } else { Tone::Good };
    match position.is_empty() {
        true => (live.trim_end_matches(" · ").to_owned(), tone),
        false => (format!("{live}{position}"), tone),
    }
}

/// The selected row of the screen's list, and the number of rows.
fn position(app: &App) -> (String, Tone) {
    let row = app.cursor(app.screen).selected + 1;
    let of = |total: usize, noun: &str| match total {
        0 => (String::new(), Tone::Dim),
        _ => (format!("{row} of {}", units::count(total as u64, noun)), Tone::Dim),
    };
    let rows = |noun: &str| app.rows(app.screen).map_or((String::new(), Tone::Dim), |total| of(total, noun));
    let steps = || app.session.and_then(|session| app.cache.steps.of(&session));
    match app.screen {
        Screen::Sessions => sessions(app, row),
        Screen::Layers => match steps() {
            Some(steps) if steps.is_complete() && steps.total() >= STEPS => {
                ("not all steps are listed: mcptap layers shows all".to_owned(), Tone::Warning)
            }
            Some(steps) if !steps.is_complete() => (format!("{row} of {}+ steps", steps.total()), Tone::Warning),
            _ => rows("step"),
        },
        Screen::Packets => match app.cache.packets.of(&(app.session, app.packet_scope())) {
            Some(list) if !list.is_complete() && list.total() > 0 => {
                (format!("{row} of {} packets, not all are listed", list.total()), Tone::Warning)
            }
            _ => rows("packet"),
        },
        Screen::Stderr | Screen::Tools => rows("line"),
        Screen::Findings => {
            let findings = app.session_row().map_or(0, |row| row.findings.iter().sum());
            (if findings == 0 { String::new() } else { units::count(findings, "finding") }, Tone::Dim)
        }
        Screen::Replay => rows("request"),
        Screen::Statistics => {
            (app.session_row().map(|row| units::count(row.session.messages, "message")).unwrap_or_default(), Tone::Dim)
        }
        Screen::Messages | Screen::Sequence | Screen::Detail => messages(app, row),
    }
}

/// The same for the sessions, which may be searched.
fn sessions(app: &App, row: usize) -> (String, Tone) {
    let (Some(listed), Some(all)) = (app.session_count(), app.cache.sessions().map(<[_]>::len)) else {
        return (String::new(), Tone::Dim);
    };
    let count = |number: usize| units::count(number as u64, "session");
    if app.sessions.filter.is_empty() {
        let words = if listed == 0 { String::new() } else { format!("{row} of {}", count(listed)) };
        return (words, Tone::Dim);
    }
    match app.cache.sessions_found(&app.sessions.filter) {
        Some((_, true)) if listed == 0 => (format!("none of {}", count(all)), Tone::Dim),
        Some((_, true)) => (format!("{row} of {listed} found in {}", count(all)), Tone::Dim),
        _ => (format!("searching: {listed} found in {}", count(all)), Tone::Warning),
    }
}

/// The same for a list of messages, to which a filter may still be applied.
fn messages(app: &App, row: usize) -> (String, Tone) {
    let Some((total, complete)) = app.message_count() else { return (String::new(), Tone::Dim) };
    let all = app.session_row().map_or(0, |row| row.session.messages);
    let row = (app.folds.list_row(row.saturating_sub(1)) + 1).min(total.max(1));
    match (app.filter.is_empty(), complete) {
        _ if total == 0 && complete => (units::count(all, "message"), Tone::Dim),
        (true, _) => (format!("{row} of {}", units::count(total as u64, "message")), Tone::Dim),
        (false, true) => (format!("{row} of {total} found in {}", units::count(all, "message")), Tone::Dim),
        (false, false) => (format!("searching: {total} found in {}", units::count(all, "message")), Tone::Warning),
    }
}
