//! The line at the bottom: filters, searches and commands.

use std::path::PathBuf;

use super::super::data::Query;
use super::super::theme::Theme;
use super::{App, Effect, Mode, Prompt, Screen, commands, detail, session_view};
use crate::filter::{self, Completion, Filter};
use crate::mcp::{MessageNumber, SessionNumber};
use crate::view::session_list::SortKey;

/// The commands, each with its arguments and its effect.
pub const COMMANDS: &[(&str, &str)] = &[
    ("export", "[marked] FILE: write the listed messages, or only the marked ones, as JSON lines"),
    ("filter", "EXPR: show only messages that match"),
    ("goto", "N: select message N"),
    ("session", "N: open session N"),
    ("sort", "number, started, server, calls, fail, open or findings: the order of the sessions"),
    ("replay", "[--to URL | -- COMMAND]: send the session again, and compare the answers"),
    ("theme", "dark, light, mono or auto: remembered for the next start"),
    ("help", "show the keys"),
    ("q", "quit"),
];

/// Handles a key while a line is edited.
pub(super) fn key(app: &mut App, key: &str) -> Vec<Effect> {
    let Mode::Prompt(prompt, line) = &mut app.mode else { return Vec::new() };
    let prompt = *prompt;
    match key {
        "esc" => app.mode = Mode::Browse,
        "backspace" if line.text().is_empty() => app.mode = Mode::Browse,
        "tab" => {
            if let Some(first) = completions(prompt, line.text(), line.cursor()).into_iter().next() {
                line.complete(first.start, &first.text);
            }
        }
        "enter" => {
            let text = line.text().trim().to_owned();
            return accept(app, prompt, &text);
        }
        key => {
            line.key(key);
        }
    }
    Vec::new()
}

/// The possible completions at the cursor.
pub fn completions(prompt: Prompt, text: &str, cursor: usize) -> Vec<Completion> {
    match prompt {
        Prompt::Filter => filter::complete(text, cursor),
        Prompt::Command => {
            let written = text.get(..cursor).unwrap_or_default();
            let fits = COMMANDS.iter().filter(|(name, _)| name.len() > written.len() && name.starts_with(written));
            fits.map(|(name, help)| Completion { start: 0, text: (*name).to_owned(), help }).collect()
        }
        Prompt::Search => Vec::new(),
    }
}

fn accept(app: &mut App, prompt: Prompt, text: &str) -> Vec<Effect> {
    match prompt {
        Prompt::Filter => match Filter::parse(text) {
            Ok(_) => {
                app.mode = Mode::Browse;
                match app.screen {
                    Screen::Sessions => session_view::set_filter(app, text.to_owned()),
                    _ => commands::set_filter(app, text.to_owned()),
                }
            }
            // The line stays open, and the error above it points at the column.
            Err(error) => app.notify_error(error.to_string()),
        },
        Prompt::Search => {
            app.mode = Mode::Browse;
            detail::search(app, text);
        }
        Prompt::Command => {
            app.mode = Mode::Browse;
            return command(app, text);
        }
    }
    Vec::new()
}

fn command(app: &mut App, text: &str) -> Vec<Effect> {
    let (name, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let rest = rest.trim();
    match name {
        "" => {}
        "q" | "quit" => return vec![Effect::Quit],
        "help" => app.mode = Mode::Help(0),
        "theme" => match Theme::named(rest) {
            Some(theme) => return vec![commands::set_theme(app, theme)],
            None if rest == "auto" => {
                app.notify("the theme is chosen by the terminal's background at the next start");
                return vec![Effect::RememberTheme(None)];
            }
            None => app.notify_error("there is no such theme: write dark, light, mono or auto"),
        },
        "filter" => return accept(app, Prompt::Filter, rest),
        "goto" => match rest.parse() {
            Ok(number) if app.session.is_some() => app.key_queries.extend(commands::locate(app, MessageNumber(number))),
            _ => app.notify_error("goto takes the number of a message, as in :goto 7"),
        },
        "session" => match rest.parse().map(SessionNumber) {
            Ok(number) if app.cache.session(number).is_some() => {
                commands::select_session(app, Some(number));
                commands::run(app, super::super::keys::Command::Show(Screen::Messages));
            }
            _ => app.notify_error("there is no such session"),
        },
        "sort" => match SortKey::named(rest) {
            Some(key) => session_view::set_sort(app, key),
            None => app.notify_error("sort takes number, started, server, calls, fail, open or findings"),
        },
        "replay" => super::replay::command(app, rest),
        "export" => match app.message_list() {
            Some(list) if !rest.is_empty() => {
                let marked = rest.strip_prefix("marked").filter(|file| file.starts_with(char::is_whitespace));
                let only: Vec<MessageNumber> = match marked {
                    Some(_) => {
                        app.marks.iter().filter(|(of, _)| *of == list.session).map(|(_, number)| *number).collect()
                    }
                    None => Vec::new(),
                };
                if marked.is_some() && only.is_empty() {
                    app.notify_error("no message is marked: m marks the selected one");
                } else {
                    let path = PathBuf::from(marked.unwrap_or(rest).trim());
                    app.key_queries.push(Query::Export(list, only, path));
                }
            }
            Some(_) => app.notify_error("export takes the name of a new file, as in :export messages.jsonl"),
            None => app.notify_error("no session yet"),
        },
        other => app.notify_error(format!("unknown command \"{other}\": tab completes, ? shows the keys")),
    }
    Vec::new()
}
