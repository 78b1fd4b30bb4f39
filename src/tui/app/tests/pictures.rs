//! Draws pictures of real screens, made from the samples, into `docs/pictures`:
//!
//! ```text
//! cargo test --lib pictures -- --ignored
//! ```

use std::fmt::Write;
use std::fs;

use ratatui::buffer::Buffer;
use ratatui::style::{Color, Modifier};

use super::*;

/// Pixels of a character cell, and of the letters in it.
const CELL: (f32, f32) = (9.0, 19.0);
const LETTERS: f32 = 15.0;

/// The colours in place of the terminal's own.
struct Ground {
    text: &'static str,
    ground: &'static str,
}

const DARK: Ground = Ground { text: "#d8dee9", ground: "#1b1e24" };
const LIGHT: Ground = Ground { text: "#24292f", ground: "#ffffff" };

/// Seconds for which a screen of an animation stays.
const STAYS: usize = 4;

/// Draws a buffer as an SVG picture.
fn svg(buffer: &Buffer, ground: &Ground) -> String {
    let mut out = head(buffer, ground, "");
    letters(&mut out, buffer, ground);
    out + "</svg>\n"
}

/// Draws several buffers of one size as an SVG picture that shows them in turn. A viewer without
/// animations shows the last one.
fn animation(buffers: &[Buffer], ground: &Ground) -> String {
    let (count, share) = (buffers.len(), 100.0 / buffers.len() as f32);
    let whole = count * STAYS;
    let style = format!(
        "<style>.s {{ visibility: hidden; animation: s {whole}s step-end infinite }} .s:last-child {{ visibility: visible }}\n\
         @keyframes s {{ 0% {{ visibility: visible }} {share:.3}% {{ visibility: hidden }} 100% {{ visibility: hidden }} }}\n\
         @media (prefers-reduced-motion) {{ .s {{ animation: none }} }}</style>\n"
    );
    let mut out = head(&buffers[0], ground, &style);
    for (at, buffer) in buffers.iter().enumerate() {
        // A negative delay begins in the middle: each screen is at its place from the start.
        let delay = at * STAYS;
        let _ = writeln!(out, "<g class=\"s\" style=\"animation-delay: {}s\">", delay as isize - whole as isize);
        letters(&mut out, buffer, ground);
        out.push_str("</g>\n");
    }
    out + "</svg>\n"
}

fn head(buffer: &Buffer, ground: &Ground, style: &str) -> String {
    let (width, height) = (f32::from(buffer.area.width) * CELL.0 + 16.0, f32::from(buffer.area.height) * CELL.1 + 16.0);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\">\n\
         {style}<rect width=\"100%\" height=\"100%\" rx=\"6\" fill=\"{}\"/>\n",
        ground.ground
    )
}

fn letters(out: &mut String, buffer: &Buffer, ground: &Ground) {
    let (columns, rows) = (buffer.area.width, buffer.area.height);
    let _ = writeln!(
        out,
        "<g font-family=\"DejaVu Sans Mono, Menlo, Consolas, monospace\" font-size=\"{LETTERS}\" xml:space=\"preserve\">"
    );
    for y in 0..rows {
        let mut x = 0;
        while x < columns {
            let first = &buffer[(x, y)];
            // Neighbours of one style are drawn as one run. A wide character is a run of its own,
            // so that it cannot shift others.
            let wide = |symbol: &str| unicode_width::UnicodeWidthStr::width(symbol) > 1;
            let mut text = first.symbol().to_owned();
            let is_wide = wide(first.symbol());
            let mut end = x + if is_wide { 2 } else { 1 };
            while !is_wide
                && end < columns
                && buffer[(end, y)].style() == first.style()
                && !wide(buffer[(end, y)].symbol())
            {
                text.push_str(buffer[(end, y)].symbol());
                end += 1;
            }
            run(out, (x, end, y), &text, first, ground);
            x = end;
        }
    }
    out.push_str("</g>\n");
}

/// The screens of `mcptap demo`: from the sessions to the call that hangs, then from a value of
/// another session to its packets.
fn demo() -> Vec<Buffer> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("samples");
    let files =
        ["causes/hang/stdio.pcapng", "weather/capture.pcapng", "helpdesk/capture.pcapng", "helpdesk/stdio.pcapng"];
    let mut story = Story::files(&files.map(|file| folder.join(file)), (118, 32));
    story.app.palette.theme = Theme::Dark;
    let keys = ["", "G<enter>", "e", "<enter>", "0g<enter>", "G<enter><tab>g<tab>/Quito<enter>"];
    keys.iter().map(|keys| story.press(keys).buffer()).collect()
}

fn run(out: &mut String, (x, end, y): (u16, u16, u16), text: &str, cell: &ratatui::buffer::Cell, ground: &Ground) {
    let (left, top) = (8.0 + f32::from(x) * CELL.0, 8.0 + f32::from(y) * CELL.1);
    let width = f32::from(end - x) * CELL.0;
    if cell.bg != Color::Reset {
        let fill = colour(cell.bg, ground.ground);
        let _ = writeln!(
            out,
            "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{:.1}\" fill=\"{fill}\"/>",
            CELL.1
        );
    }
    if text.trim().is_empty() {
        return;
    }
    let mut style = String::new();
    if cell.modifier.contains(Modifier::BOLD) {
        style.push_str(" font-weight=\"bold\"");
    }
    if cell.modifier.contains(Modifier::UNDERLINED) {
        style.push_str(" text-decoration=\"underline\"");
    }
    // A browser drops blanks at the ends of a text, and stretches the rest over their place.
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace(' ', "\u{a0}");
    let fill = colour(cell.fg, ground.text);
    let base = top + CELL.1 * 0.75;
    let _ = writeln!(
        out,
        "<text x=\"{left:.1}\" y=\"{base:.1}\" textLength=\"{width:.1}\" lengthAdjust=\"spacingAndGlyphs\" fill=\"{fill}\"{style}>{text}</text>"
    );
}

/// A colour as `#rrggbb`. The themes use only the colour cube and the greys of the 256 colours.
fn colour(colour: Color, own: &str) -> String {
    let level = |step: u8| if step == 0 { 0 } else { 55 + 40 * step };
    match colour {
        Color::Indexed(grey @ 232..) => format!("#{0:02x}{0:02x}{0:02x}", 8 + 10 * (grey - 232)),
        Color::Indexed(cube @ 16..) => {
            let (red, green, blue) = ((cube - 16) / 36, (cube - 16) / 6 % 6, (cube - 16) % 6);
            format!("#{:02x}{:02x}{:02x}", level(red), level(green), level(blue))
        }
        _ => own.to_owned(),
    }
}

#[test]
#[ignore = "writes docs/pictures"]
fn pictures() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/pictures");
    fs::create_dir_all(&directory).unwrap();
    let pictures = [
        ("message", "weather", (150, 40), Theme::Dark, "<enter>G<enter><tab>g<tab>/Quito<enter>"),
        ("message-light", "weather", (150, 40), Theme::Light, "<enter>G<enter><tab>g<tab>/Quito<enter>"),
        ("sessions", "helpdesk", (150, 36), Theme::Dark, ""),
        ("messages", "helpdesk", (150, 36), Theme::Dark, "<enter>j"),
        ("sequence", "helpdesk", (120, 16), Theme::Dark, "<enter>2++++"),
        ("servers", "helpdesk", (120, 16), Theme::Dark, "<enter>2ajj"),
        ("layers", "weather", (130, 30), Theme::Dark, "<enter>3jjjj"),
        ("findings", "helpdesk", (120, 26), Theme::Dark, "<enter>4jj"),
        ("statistics", "helpdesk", (120, 24), Theme::Dark, "<enter>5"),
        ("packets", "weather", (120, 30), Theme::Dark, "<enter>6"),
        ("replay-form", "weather", (120, 20), Theme::Dark, "<enter>GR"),
        ("filter", "weather", (100, 20), Theme::Dark, "<enter>/tool = get_weather and l"),
    ];
    for (name, sample, size, theme, keys) in pictures {
        let mut story = Story::sample(sample, size);
        story.app.palette.theme = theme;
        story.press(keys);
        let ground = if theme == Theme::Light { LIGHT } else { DARK };
        fs::write(directory.join(format!("{name}.svg")), svg(&story.buffer(), &ground)).unwrap();
    }
    fs::write(directory.join("demo.svg"), animation(&demo(), &DARK)).unwrap();
    // A real server runs here, so the latencies differ each time.
    let station = "target/weather-station.sh";
    fs::write(station, super::replay::SERVER).unwrap();
    let mut story = Story::sample("weather", (120, 26));
    story.app.palette.theme = Theme::Dark;
    story.press(&format!("<enter>:replay -- sh {station} 19 false<enter><enter>")).replay().press("G");
    fs::write(directory.join("replay.svg"), svg(&story.buffer(), &DARK)).unwrap();
    fs::remove_file(station).unwrap();
}
