//! The layout of the screen.
//!
//! ```text
//! ┌ capture.pcapng ▸ 1 weather ▸ messages ───────────────── / tool = get_weather ┐ path, filter
//! │ 1 messages  2 sequence  3 layers  4 findings  5 stats  6 packets  7 tools …  │ tabs
//! │     #       time    method          about                    id   latency    │ ┐
//! │     4   0.013400 →  tools/call      get_weather city=Quito    3    238 ms ██ │ │ the pane
//! │     …                                                                        │ ┘
//! └ ⏎ open · p partner · / filter · ? help ─────────────── live · 103 messages ──┘
//!
//! one message, where there is room                    and where there is not
//! ├ layers ───────┬ json ─────────┬ bytes: packet ─┤  ├ layers ───────┬ json ──────────────────┤
//! │ ▸ Ethernet II │ ▾ result      │ 0000  65 76 65 │  │ ▸ Ethernet II │ ▾ result               │
//! │ ▸ IPv4        │   ▾ content   │ 0008  6d 65 73 │  ├ bytes: packet ┴────────────────────────┤
//! │ ▸ TCP         │               │                │  │ 0000  65 76 65 6e 74 3a 20 6d  event: m│
//! └───────────────┴───────────────┴────────────────┘  └────────────────────────────────────────┘
//! ```

use std::ops::Range;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::app::{App, Mode};
use super::canvas::Canvas;
use super::data::{Progress, STEPS};
use super::keys::{Binding, Command, KEYS, sign};
use super::pane;
use super::replay::run::RequestState;
use super::screen::Screen;
use super::theme::UiElement;
use crate::view::paint::Tone;
use crate::view::{parties, safe, units};

/// The smallest usable size of the terminal.
const LEAST: (u16, u16) = (40, 10);

/// From this width on, the three panes of a message are side by side.
const SIDE_BY_SIDE: u16 = 120;

/// From this height on, the selected message is shown below the list or the sequence.
const TALL: u16 = 30;

/// The panes of one message, without the lines between them.
#[derive(Clone, Copy, Debug)]
pub struct DetailAreas {
    /// The messages, with their head.
    pub list: Rect,
    pub layers: Rect,
    pub json: Rect,
    pub bytes: Rect,
}

/// The area inside of the frame and below the tabs.
pub fn body((width, height): (u16, u16)) -> Rect {
    Rect { x: 1, y: 2, width: width.saturating_sub(2), height: height.saturating_sub(3) }
}

/// The area of a screen's list, with its head.
pub fn list_area(size: (u16, u16), screen: Screen) -> Rect {
    match screen {
        Screen::Messages | Screen::Sequence | Screen::Detail if has_panes(size, screen) => detail(size, screen).list,
        Screen::Sessions => pane::sessions::list_area(body(size)),
        Screen::Statistics => pane::statistics::calls_area(body(size)),
        Screen::Packets => pane::packets::list_area(body(size)),
        Screen::Findings => pane::findings::list_area(body(size)),
        Screen::Replay => replay(body(size)).list,
        _ => body(size),
    }
}

/// The areas of the replay screen.
#[derive(Clone, Copy, Debug)]
pub struct ReplayAreas {
    /// The submission, its server and its progress.
    pub status: Rect,
    /// The requests, with their head.
    pub list: Rect,
    /// The recorded answer.
    pub old: Rect,
    /// The new answer.
    pub new: Rect,
}

/// Divides the replay screen.
pub fn replay(body: Rect) -> ReplayAreas {
    let status = Rect { height: 2.min(body.height), ..body };
    let list = Rect { y: body.y + status.height, height: (body.height * 2 / 5).clamp(3, 16), ..body };
    // One line between the list and the answers holds the titles.
    let y = list.bottom() + 1;
    let height = body.bottom().saturating_sub(y);
    let width = body.width.saturating_sub(1) / 2;
    let old = Rect { x: body.x, y, width, height };
    let new = Rect { x: body.x + width + 1, width: body.width.saturating_sub(width + 1), ..old };
    ReplayAreas { status, list, old, new }
}

/// Visible rows of a screen's list.
pub fn list_height(size: (u16, u16), screen: Screen) -> usize {
    usize::from(list_area(size, screen).height.saturating_sub(1))
}

/// Bytes in a row of the bytes pane, so that offset, hexadecimal, text and blanks fit.
pub fn bytes_per_row(size: (u16, u16)) -> usize {
    if detail(size, Screen::Detail).bytes.width >= pane::bytes::width(16) { 16 } else { 8 }
}

/// Whether the panes of the selected message are visible. Below messages and arrows they need
/// a tall terminal.
pub fn has_panes(size: (u16, u16), screen: Screen) -> bool {
    match screen {
        Screen::Detail => true,
        Screen::Messages | Screen::Sequence => body(size).height >= TALL,
        _ => false,
    }
}

/// Divides the screen into the panes of one message. They get most of the room on the detail
/// screen; on the other screens the list does.
pub fn detail(size: (u16, u16), screen: Screen) -> DetailAreas {
    let body = body(size);
    let strip = match screen {
        Screen::Messages | Screen::Sequence => body.height - (body.height / 2).min(40),
        _ => (body.height / 4).clamp(3, 24).min(body.height),
    };
    let list = Rect { height: strip, ..body };
    // One line between the list and the panes.
    let (y, height) = (body.y + strip + 1, body.height.saturating_sub(strip + 1));
    if body.width + 2 >= SIDE_BY_SIDE {
        let bytes = pane::bytes::width(if body.width >= 148 { 16 } else { 8 });
        let left = body.width.saturating_sub(bytes + 2);
        let layers = left * 46 / 100;
        let at = |x, width| Rect { x, y, width, height };
        return DetailAreas {
            list,
            layers: at(body.x, layers),
            json: at(body.x + layers + 1, left - layers),
            bytes: at(body.x + left + 2, bytes),
        };
    }
    let lower = (height * 2 / 5).max(1).min(height);
    let upper = height.saturating_sub(lower + 1);
    let layers = body.width * 9 / 20;
    DetailAreas {
        list,
        layers: Rect { x: body.x, y, width: layers, height: upper },
        json: Rect { x: body.x + layers + 1, y, width: body.width.saturating_sub(layers + 1), height: upper },
        bytes: Rect { x: body.x, y: y + upper + 1, width: body.width, height: lower },
    }
}

/// Draws everything. Returns the position of the terminal's cursor while a text is edited.
pub fn draw(app: &App, buffer: &mut Buffer) -> Option<(u16, u16)> {
    let area = buffer.area;
    let mut canvas = Canvas { buffer, theme: app.theme };
    if area.width < LEAST.0 || area.height < LEAST.1 {
        canvas.message(area, &format!("terminal too small: at least {} × {}", LEAST.0, LEAST.1));
        return None;
    }
    frame(app, &mut canvas, area);
    tabs(app, &mut canvas, area.width - 2);
    let body = body((area.width, area.height));
    match app.screen {
        Screen::Sessions => pane::sessions::draw(app, &mut canvas, body),
        Screen::Messages | Screen::Sequence if !has_panes(app.size, app.screen) => {
            pane::detail::list(app, &mut canvas, body);
        }
        Screen::Layers => pane::steps::draw(app, &mut canvas, body),
        Screen::Findings => pane::findings::draw(app, &mut canvas, body),
        Screen::Statistics => pane::statistics::draw(app, &mut canvas, body),
        Screen::Packets => pane::packets::draw(app, &mut canvas, body),
        Screen::Tools => pane::tools::draw(app, &mut canvas, body),
        Screen::Stderr => pane::stderr::draw(app, &mut canvas, body),
        Screen::Replay => pane::replay::draw(app, &mut canvas, body),
        Screen::Messages | Screen::Sequence | Screen::Detail => pane::detail::draw(app, &mut canvas, body),
    }
    match &app.mode {
        Mode::Browse => None,
        Mode::Help(top) => {
            pane::help::draw(app, &mut canvas, *top);
            None
        }
        Mode::Value(top) => {
            pane::value::draw(app, &mut canvas, *top);
            None
        }
        Mode::Form => pane::replay::form::draw(app, &mut canvas),
        Mode::Prompt(prompt, line) => Some(pane::prompt::draw(app, &mut canvas, *prompt, line)),
    }
}

fn frame(app: &App, canvas: &mut Canvas<'_>, area: Rect) {
    let border = canvas.element(UiElement::Border);
    let (right, bottom) = (area.right() - 1, area.bottom() - 1);
    canvas.outline(area, border);
    let end = path(app, canvas, area.width - 4);
    if !app.filter.is_empty() {
        let style = canvas.tone(Tone::Warning);
        let room = (right - 1).saturating_sub(end + 1);
        canvas.put_right(right - 1 - room, 0, room, &format!(" / {} ", app.filter), style);
    }
    let state = state(app);
    let words = if state.0.is_empty() { String::new() } else { format!(" {} ", state.0) };
    let width = (safe::width(&words) as u16).min(area.width / 2);
    let style = canvas.tone(state.1);
    canvas.put_right(right - 1 - width, bottom, width, &words, style);
    footer(app, canvas, bottom, right - 2 - width);
}

/// The path in the top line: `capture.pcapng ▸ 1 weather ▸ messages`.
fn path(app: &App, canvas: &mut Canvas<'_>, width: u16) -> u16 {
    let (plain, dim) = (canvas.tone(Tone::Strong), canvas.tone(Tone::Dim));
    let mut pieces = vec![(format!(" {} ", app.title), dim)];
    if app.screen != Screen::Sessions
        && let Some(row) = app.session_row()
    {
        pieces.push(("▸".to_owned(), dim));
        pieces.push((format!(" {} {} ", row.session.number.0, parties::server(&row.session)), plain));
    }
    pieces.push(("▸".to_owned(), dim));
    pieces.push((format!(" {} ", app.screen.name()), plain));
    let taken: usize = pieces.iter().map(|(text, _)| safe::width(text)).sum();
    // If a filter needs the room, the file name is left out first.
    if taken + app.filter.len() > usize::from(width) && pieces.len() > 3 {
        pieces.drain(..2);
    }
    canvas.pieces(2, 0, width, &pieces)
}

/// The tabs: screen, columns and number of each.
pub fn tab_positions(app: &App) -> Vec<(Screen, Range<u16>, usize)> {
    // With less room the blanks go first, then the tab of the sessions (esc leads there), then the
    // names of the last tabs.
    let fits =
        |positions: &Vec<(Screen, Range<u16>, usize)>| positions.last().is_none_or(|(_, at, _)| at.end < app.size.0);
    let tight = |names: usize| tab_positions_with(app, 1, false, names);
    let choices =
        [(2, true), (1, true), (1, false)].map(|(gap, sessions)| tab_positions_with(app, gap, sessions, usize::MAX));
    choices.into_iter().find(fits).or_else(|| (2..8).rev().map(tight).find(fits)).unwrap_or_else(|| tight(2))
}

/// The tabs with `gap` blanks between two, with or without the sessions, and with the names of the
/// first `names` tabs.
fn tab_positions_with(app: &App, gap: u16, sessions: bool, names: usize) -> Vec<(Screen, Range<u16>, usize)> {
    let mut x = 2;
    let mut positions = Vec::new();
    for (number, screen) in Screen::ALL.into_iter().enumerate() {
        let is_left_out = match screen {
            Screen::Sessions => !sessions,
            // Without a replay there is nothing to show.
            Screen::Replay => app.replays.run.is_none() && app.screen != screen,
            Screen::Detail => true,
            _ => false,
        };
        if is_left_out {
            continue;
        }
        let is_named = number <= names || screen == app.screen || screen == Screen::Replay;
        let end = if is_named { x + 2 + screen.name().len() as u16 } else { x + 1 };
        positions.push((screen, x..end, number));
        x = end + gap;
    }
    positions
}

fn tabs(app: &App, canvas: &mut Canvas<'_>, end: u16) {
    let (dim, key, here) = (canvas.tone(Tone::Dim), canvas.element(UiElement::Key), canvas.element(UiElement::Tab));
    let shown = if app.screen == Screen::Detail { Screen::Messages } else { app.screen };
    for (screen, at, number) in tab_positions(app) {
        let x = canvas.put(at.start, 1, end.saturating_sub(at.start), &number.to_string(), key);
        let style = if screen == shown { here } else { dim };
        canvas.put(x + 1, 1, at.end.min(end).saturating_sub(x + 1), screen.name(), style);
    }
}

/// The keys of the screen, as many as fit; or the notice about the last key.
fn footer(app: &App, canvas: &mut Canvas<'_>, y: u16, end: u16) {
    if let Some(notice) = &app.notice {
        let style = canvas.tone(if notice.failed { Tone::Error } else { Tone::Good });
        canvas.put(2, y, end.saturating_sub(2), &format!(" {} ", notice.text), style);
        return;
    }
    let (dim, key) = (canvas.tone(Tone::Dim), canvas.element(UiElement::Key));
    let shown = |binding: &&Binding| {
        !binding.short.is_empty() && binding.scope.includes(app.screen) && is_of_use(binding.command, app)
    };
    let width = |binding: &Binding| (sign(binding.keys[0]).chars().count() + binding.short.len() + 3) as u16;
    let mut put = |x, binding: &Binding| {
        let x = canvas.put(x, y, width(binding), &format!(" {}", sign(binding.keys[0])), key);
        canvas.put(x, y, width(binding), &format!(" {} ", binding.short), dim)
    };
    // The help key is always shown: it leads to all others.
    let (help, others): (Vec<&Binding>, Vec<&Binding>) =
        KEYS.iter().filter(shown).partition(|binding| binding.command == Command::Help);
    let room: u16 = help.iter().map(|binding| width(binding)).sum();
    let mut x = 2;
    for binding in others {
        if x + width(binding) + room <= end {
            x = put(x, binding);
        }
    }
    for binding in help.into_iter().filter(|binding| x + width(binding) <= end) {
        put(x, binding);
    }
}

/// Whether a key that works everywhere does something on this screen. The footer has no
/// room for others.
fn is_of_use(command: Command, app: &App) -> bool {
    let screen = app.screen;
    match command {
        Command::Help | Command::Quit => true,
        _ if app.session.is_none() => false,
        Command::ShowPacket => !matches!(
            screen,
            Screen::Sessions | Screen::Statistics | Screen::Tools | Screen::Stderr | Screen::Replay | Screen::Packets
        ),
        Command::Back => screen != Screen::Sessions,
        Command::Open => !matches!(screen, Screen::Statistics | Screen::Stderr),
        Command::Filter => screen != Screen::Replay,
        _ => true,
    }
}

/// The state at the lower right: import, replay, or the position in the list.
fn state(app: &App) -> (String, Tone) {
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
        Screen::Sessions => rows("session"),
        Screen::Layers => match steps() {
            Some(steps) if steps.is_complete() && steps.total() >= STEPS => {
                ("not all steps are listed: mcptap layers shows all".to_owned(), Tone::Warning)
            }
            Some(steps) if !steps.is_complete() => (format!("{row} of {}+ steps", steps.total()), Tone::Warning),
            _ => rows("step"),
        },
        Screen::Packets => rows("packet"),
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

/// The same for a list of messages, to which a filter may still be applied.
fn messages(app: &App, row: usize) -> (String, Tone) {
    let Some((total, complete)) = app.message_count() else { return (String::new(), Tone::Dim) };
    let all = app.session_row().map_or(0, |row| row.session.messages);
    let row = app.folds.list_row(row.saturating_sub(1)) + 1;
    match (app.filter.is_empty(), complete) {
        _ if total == 0 && complete => (units::count(all, "message"), Tone::Dim),
        (true, _) => (format!("{row} of {}", units::count(total as u64, "message")), Tone::Dim),
        (false, true) => (format!("{row} of {total} found in {}", units::count(all, "message")), Tone::Dim),
        (false, false) => (format!("searching: {total} found in {}", units::count(all, "message")), Tone::Warning),
    }
}
