//! The theme at the start: the one that the user chose last, or else the one that fits the
//! terminal's background.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::time::Duration;

use etcetera::BaseStrategy;
use terminal_colorsaurus::{QueryOptions, ThemeMode, theme_mode};

use super::theme::{ColourDepth, Theme};

/// The time for which a reply of the terminal is awaited. Terminals reply at once; a slow network
/// between takes a part of a second. Those that know no reply at all are rare.
const PATIENCE: Duration = Duration::from_millis(500);

/// The theme to begin with. Asks the terminal if nothing else is known, so the terminal must not
/// be in use yet.
pub fn initial_theme() -> Theme {
    remembered()
        .or_else(asked)
        .or_else(|| std::env::var("COLORFGBG").ok().and_then(|colours| announced(&colours)))
        .unwrap_or_default()
}

/// The number of colours of this terminal.
pub fn colour_depth() -> ColourDepth {
    let variable = |name| std::env::var(name).unwrap_or_default();
    ColourDepth::of(&variable("TERM"), &variable("COLORTERM"))
}

/// The theme for the background that the terminal reports (OSC 11).
fn asked() -> Option<Theme> {
    let mut options = QueryOptions::default();
    options.timeout = PATIENCE;
    match theme_mode(options).ok()? {
        ThemeMode::Dark => Some(Theme::Dark),
        ThemeMode::Light => Some(Theme::Light),
    }
}

/// The theme for the value of `COLORFGBG`, such as `15;0`. The last number is the background, one
/// of the 16 colours.
fn announced(colours: &str) -> Option<Theme> {
    match colours.rsplit(';').next()?.parse().ok()? {
        7 | 9..=15 => Some(Theme::Light),
        0..=6 | 8 => Some(Theme::Dark),
        16u8.. => None,
    }
}

/// The theme that the user chose last.
fn remembered() -> Option<Theme> {
    let name = fs::read_to_string(file()?).ok()?;
    Theme::named(name.trim())
}

/// Remembers the theme for the next start; `None` forgets it.
pub fn remember(theme: Option<Theme>) -> io::Result<()> {
    let Some(file) = file() else { return Ok(()) };
    match theme {
        Some(theme) => {
            if let Some(folder) = file.parent() {
                DirBuilder::new().mode(0o700).recursive(true).create(folder)?;
            }
            fs::write(file, format!("{}\n", theme.name()))
        }
        None => match fs::remove_file(file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        },
    }
}

fn file() -> Option<PathBuf> {
    let directories = etcetera::choose_base_strategy().ok()?;
    Some(directories.state_dir()?.join("mcptap").join("theme"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminals_announce_their_background() {
        assert_eq!(announced("15;0"), Some(Theme::Dark));
        assert_eq!(announced("0;15"), Some(Theme::Light));
        assert_eq!(announced("0;default;7"), Some(Theme::Light));
        assert_eq!([announced("15;default"), announced(""), announced("0;200")], [None; 3]);
    }
}
