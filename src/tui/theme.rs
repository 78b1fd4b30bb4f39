//! Colours with a meaning. A pane names the meaning of a text; the palette decides how it looks.

use ratatui::style::{Color, Modifier, Style};

use crate::view::paint::Tone;

mcptap_core::words! {
    /// A set of colours.
    #[derive(Default)]
    pub enum Theme {
        /// Light text on a dark background.
        #[default]
        Dark = "dark",
        /// Dark text on a light background.
        Light = "light",
        /// No colours: bold, dim, underlined and reversed text. It is used if `NO_COLOR` is set.
        Mono = "mono",
    }
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
    /// The next theme. After the last one comes the first.
    pub fn next(self) -> Theme {
        match self {
            Theme::Dark => Theme::Light,
            Theme::Light => Theme::Mono,
            Theme::Mono => Theme::Dark,
        }
    }
}

/// The number of colours that the terminal shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ColourDepth {
    /// The 256 colours of xterm.
    #[default]
    Full,
    /// The 16 colours whose look the user chose.
    Sixteen,
}

impl ColourDepth {
    /// The depth that a terminal announces in `TERM` and `COLORTERM`.
    pub fn of(term: &str, colorterm: &str) -> ColourDepth {
        /// Terminals with 256 colours whose names do not tell.
        const KNOWN: [&str; 8] = ["alacritty", "contour", "foot", "ghostty", "iterm", "kitty", "rio", "wezterm"];
        let is_full = matches!(colorterm, "truecolor" | "24bit")
            || term.contains("256")
            || term.contains("direct")
            || KNOWN.iter().any(|name| term.contains(name));
        if is_full { ColourDepth::Full } else { ColourDepth::Sixteen }
    }
}

/// A theme on a terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Palette {
    /// The theme that the user sees.
    pub theme: Theme,
    /// The colours of the terminal.
    pub depth: ColourDepth,
}

/// A colour: of 256 for a dark and for a light background, then of 16 for both.
struct Ink(u8, u8, Color, Color);

const ACCENT: Ink = Ink(110, 25, Color::Cyan, Color::Blue);

impl Palette {
    /// The style of text with a tone.
    pub fn tone(self, tone: Tone) -> Style {
        let style = Style::new();
        match (self.theme, tone) {
            (_, Tone::Plain) => style,
            (_, Tone::Strong) => style.add_modifier(Modifier::BOLD),
            (Theme::Mono, Tone::Error) => style.add_modifier(Modifier::BOLD | Modifier::UNDERLINED),
            (Theme::Mono, Tone::Warning) => style.add_modifier(Modifier::UNDERLINED),
            (Theme::Mono, Tone::Dim) => style.add_modifier(Modifier::DIM),
            (_, Tone::Client) => self.ink(&Ink(80, 25, Color::Cyan, Color::Blue)),
            (_, Tone::Server | Tone::Good) => self.ink(&Ink(114, 28, Color::Green, Color::Green)),
            (_, Tone::Error) => self.ink(&Ink(203, 160, Color::Red, Color::Red)).add_modifier(Modifier::BOLD),
            (_, Tone::Warning) => self.ink(&Ink(221, 130, Color::Yellow, Color::Magenta)),
            (_, Tone::Dim) => self.dim(245, 243),
        }
    }

    /// The style of text in a colour. Mono has none.
    fn ink(self, Ink(dark, light, few_dark, few_light): &Ink) -> Style {
        let colour = match (self.theme, self.depth) {
            (Theme::Dark, ColourDepth::Full) => Color::Indexed(*dark),
            (Theme::Light, ColourDepth::Full) => Color::Indexed(*light),
            (Theme::Dark, ColourDepth::Sixteen) => *few_dark,
            (Theme::Light, ColourDepth::Sixteen) => *few_light,
            (Theme::Mono, _) => return Style::new(),
        };
        Style::new().fg(colour)
    }

    /// The style of a grey. With 16 colours no grey is readable on all backgrounds, so the text is
    /// drawn fainter instead.
    fn dim(self, dark: u8, light: u8) -> Style {
        match self.depth {
            ColourDepth::Full => self.ink(&Ink(dark, light, Color::Reset, Color::Reset)),
            ColourDepth::Sixteen => Style::new().add_modifier(Modifier::DIM),
        }
    }

    /// The style of a background. It has the colour of text too, so it is readable whatever the
    /// terminal's own colours are.
    fn ground(self, dark: u8, light: u8, few: (Color, Color)) -> Style {
        match (self.theme, self.depth) {
            (Theme::Mono, _) => Style::new().add_modifier(Modifier::REVERSED),
            (_, ColourDepth::Sixteen) => Style::new().bg(few.0).fg(few.1),
            (Theme::Dark, _) => Style::new().bg(Color::Indexed(dark)).fg(Color::Indexed(255)),
            (Theme::Light, _) => Style::new().bg(Color::Indexed(light)).fg(Color::Indexed(16)),
        }
    }

    /// Whether coloured text keeps its colour on a background. Of 16 colours, some are not
    /// readable on others.
    pub fn keeps_colours(self) -> bool {
        self.depth == ColourDepth::Full
    }

    /// The style of an element of the screen.
    pub fn element(self, element: UiElement) -> Style {
        let style = Style::new();
        let bold = |style: Style| style.add_modifier(Modifier::BOLD);
        let is_light = self.theme == Theme::Light;
        match element {
            UiElement::Border if self.theme == Theme::Mono => style.add_modifier(Modifier::DIM),
            UiElement::Border => self.dim(240, 250),
            UiElement::ActiveBorder | UiElement::Name => self.ink(&ACCENT),
            UiElement::Key => bold(self.ink(&ACCENT)),
            UiElement::Head => self.tone(Tone::Dim),
            UiElement::Selected | UiElement::Tab => {
                let few = if is_light { (Color::Cyan, Color::Black) } else { (Color::Blue, Color::White) };
                bold(self.ground(237, 254, few))
            }
            UiElement::Resting if self.theme == Theme::Mono || self.depth == ColourDepth::Sixteen => {
                style.add_modifier(Modifier::UNDERLINED)
            }
            UiElement::Resting => self.ground(235, 255, (Color::Reset, Color::Reset)),
            UiElement::Linked => {
                let few = if is_light { (Color::Blue, Color::White) } else { (Color::Cyan, Color::Black) };
                self.ground(24, 153, few)
            }
            UiElement::Found => self.ground(94, 222, (Color::Yellow, Color::Black)),
            UiElement::Mark => bold(self.ink(&Ink(176, 90, Color::Magenta, Color::Magenta))),
            UiElement::Text => self.ink(&Ink(150, 28, Color::Green, Color::Green)),
            UiElement::Number => self.ink(&Ink(180, 130, Color::Yellow, Color::Magenta)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ELEMENTS: [UiElement; 13] = [
        UiElement::Border,
        UiElement::ActiveBorder,
        UiElement::Head,
        UiElement::Selected,
        UiElement::Resting,
        UiElement::Tab,
        UiElement::Key,
        UiElement::Linked,
        UiElement::Found,
        UiElement::Mark,
        UiElement::Name,
        UiElement::Text,
        UiElement::Number,
    ];

    /// All palettes, each with the styles of all elements and tones.
    fn styles() -> impl Iterator<Item = (Palette, Vec<Style>)> {
        let depths = [ColourDepth::Full, ColourDepth::Sixteen];
        let palettes = Theme::ALL.into_iter().flat_map(move |theme| depths.map(|depth| Palette { theme, depth }));
        palettes.map(|palette| {
            let tones = [Tone::Client, Tone::Server, Tone::Error, Tone::Warning, Tone::Dim, Tone::Strong];
            let styles = ELEMENTS.map(|element| palette.element(element)).into_iter();
            (palette, styles.chain(tones.map(|tone| palette.tone(tone))).collect())
        })
    }

    #[test]
    fn mono_has_no_colour_and_every_theme_is_reached_by_its_name() {
        for (_, styles) in styles().filter(|(palette, _)| palette.theme == Theme::Mono) {
            assert!(styles.iter().all(|style| (style.fg, style.bg) == (None, None)));
        }
        for theme in Theme::ALL {
            assert_eq!(Theme::named(theme.name()), Some(theme));
            assert_ne!(theme.next(), theme);
        }
    }

    #[test]
    fn text_is_readable_on_every_background() {
        for (palette, styles) in styles() {
            assert!(styles.iter().all(|style| style.bg.is_none() || style.fg.is_some()), "{palette:?}");
        }
    }

    #[test]
    fn sixteen_colours_are_enough() {
        for (_, styles) in styles().filter(|(palette, _)| palette.depth == ColourDepth::Sixteen) {
            let colours = styles.iter().flat_map(|style| [style.fg, style.bg]).flatten();
            assert!(colours.into_iter().all(|colour| !matches!(colour, Color::Indexed(_) | Color::Rgb(..))));
        }
        let depth = |term| ColourDepth::of(term, "");
        assert_eq!([depth("linux"), depth("xterm"), depth("vt220"), depth("screen")], [ColourDepth::Sixteen; 4]);
        assert_eq!([depth("xterm-256color"), depth("xterm-kitty")], [ColourDepth::Full; 2]);
        assert_eq!(ColourDepth::of("xterm", "truecolor"), ColourDepth::Full);
    }
}
