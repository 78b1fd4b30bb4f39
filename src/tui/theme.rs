//! Colours with a meaning. A pane names the meaning of a text; a theme decides how it looks.

use ratatui::style::{Color, Modifier, Style};

use crate::view::paint::Tone;

/// A set of colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Theme {
    /// Light text on a dark background.
    #[default]
    Dark,
    /// Dark text on a light background.
    Light,
    /// No colours: bold, dim, underlined and reversed text. It is used if `NO_COLOR` is set.
    Mono,
}

/// Elements of the screen, in addition to the tones of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UiElement {
    /// Lines between panes.
    Border,
    /// Frame of the pane that receives the keys.
    ActiveBorder,
    /// Heads of columns.
    Head,
    /// The selected row of the pane that receives the keys.
    Selected,
    /// The selected row of another pane.
    Resting,
    /// The current screen among the tabs.
    Tab,
    /// Names of keys in the footer.
    Key,
    /// A target of another pane: bytes of the selected field, packets that carry them.
    Linked,
    /// A search hit.
    Found,
    /// A mark that the user set.
    Mark,
    /// Names of JSON members.
    Name,
    /// Values that are JSON strings.
    Text,
    /// JSON numbers, booleans and null.
    Number,
}

impl Theme {
    /// All themes, with the names that `:theme` takes.
    pub const NAMES: [(Theme, &'static str); 3] =
        [(Theme::Dark, "dark"), (Theme::Light, "light"), (Theme::Mono, "mono")];

    /// The theme with a name.
    pub fn named(name: &str) -> Option<Theme> {
        Self::NAMES.iter().find(|(_, known)| *known == name).map(|(theme, _)| *theme)
    }

    /// The name of the theme.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(theme, _)| *theme == self).map_or("", |(_, name)| name)
    }

    /// The next theme. After the last one comes the first.
    pub fn next(self) -> Theme {
        match self {
            Theme::Dark => Theme::Light,
            Theme::Light => Theme::Mono,
            Theme::Mono => Theme::Dark,
        }
    }

    /// The style of text with a tone.
    pub fn tone(self, tone: Tone) -> Style {
        let style = Style::new();
        match (self, tone) {
            (_, Tone::Plain) => style,
            (_, Tone::Strong) => style.add_modifier(Modifier::BOLD),
            (Theme::Mono, Tone::Error) => style.add_modifier(Modifier::BOLD | Modifier::UNDERLINED),
            (Theme::Mono, Tone::Warning) => style.add_modifier(Modifier::UNDERLINED),
            (Theme::Mono, Tone::Dim) => style.add_modifier(Modifier::DIM),
            (_, Tone::Client) => self.colour(80, 25),
            (_, Tone::Server | Tone::Good) => self.colour(114, 28),
            (_, Tone::Error) => self.colour(203, 160).add_modifier(Modifier::BOLD),
            (_, Tone::Warning) => self.colour(221, 130),
            (_, Tone::Dim) => self.colour(245, 243),
        }
    }

    /// A text colour for dark and for light backgrounds, of the 256 colours. Mono has none.
    fn colour(self, dark: u8, light: u8) -> Style {
        match self {
            Theme::Dark => Style::new().fg(Color::Indexed(dark)),
            Theme::Light => Style::new().fg(Color::Indexed(light)),
            Theme::Mono => Style::new(),
        }
    }

    /// The style of an element of the screen.
    pub fn element(self, element: UiElement) -> Style {
        let style = Style::new();
        let ground = |dark: u8, light: u8| match self {
            Theme::Dark => style.bg(Color::Indexed(dark)),
            Theme::Light => style.bg(Color::Indexed(light)),
            Theme::Mono => style.add_modifier(Modifier::REVERSED),
        };
        match element {
            UiElement::Border => match self {
                Theme::Mono => style.add_modifier(Modifier::DIM),
                _ => self.colour(240, 250),
            },
            UiElement::ActiveBorder => self.colour(110, 25),
            UiElement::Head => self.tone(Tone::Dim),
            UiElement::Selected => ground(238, 253).add_modifier(Modifier::BOLD),
            UiElement::Resting => match self {
                Theme::Mono => style.add_modifier(Modifier::UNDERLINED),
                _ => ground(235, 255),
            },
            UiElement::Tab => self.colour(110, 25).add_modifier(Modifier::BOLD | Modifier::UNDERLINED),
            UiElement::Key => self.colour(110, 25).add_modifier(Modifier::BOLD),
            UiElement::Linked => ground(24, 153),
            UiElement::Found => ground(94, 222),
            UiElement::Mark => self.colour(176, 90).add_modifier(Modifier::BOLD),
            UiElement::Name => self.colour(110, 25),
            UiElement::Text => self.colour(150, 28),
            UiElement::Number => self.colour(180, 130),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mono_has_no_colour_and_every_theme_is_reached_by_its_name() {
        let parts = [
            UiElement::Border,
            UiElement::Selected,
            UiElement::Linked,
            UiElement::Key,
            UiElement::Text,
            UiElement::Mark,
        ];
        for style in
            parts.map(|element| Theme::Mono.element(element)).into_iter().chain([Theme::Mono.tone(Tone::Error)])
        {
            assert_eq!((style.fg, style.bg), (None, None));
        }
        for (theme, name) in Theme::NAMES {
            assert_eq!(Theme::named(name), Some(theme));
            assert_ne!(theme.next(), theme);
        }
    }
}
