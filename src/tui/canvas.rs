//! Drawing functions for panes. All text goes through [`Canvas::put`]: whatever a peer sent reaches
//! the terminal only as visible characters, each in its own columns.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style};

use super::cursor::Cursor;
use super::theme::{Palette, UiElement};
use crate::view::paint::Tone;
use crate::view::safe;

/// The screen while it is drawn.
pub struct Canvas<'b> {
    pub buffer: &'b mut Buffer,
    pub theme: Palette,
}

/// Text in a column of a table.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    pub text: String,
    /// `None` for the mark that a user set.
    pub tone: Option<Tone>,
}

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    title: &'static str,
    width: u16,
    /// Weight of the column when the remaining width is divided.
    grows: u16,
    right: bool,
    /// A long text loses its middle instead of its end.
    is_id: bool,
    /// The column is shown in tables of at least this width.
    min_table_width: u16,
}

impl Column {
    /// A column with this title, `width` characters wide.
    pub const fn new(title: &'static str, width: u16) -> Column {
        Column { title, width, grows: 0, right: false, is_id: false, min_table_width: 0 }
    }

    pub fn title(&self) -> &'static str {
        self.title
    }

    /// Widens the column to at least this width.
    pub fn widened_to(&self, width: u16) -> Column {
        Column { width: self.width.max(width), ..*self }
    }

    /// Aligns the text to the right.
    pub const fn right(self) -> Column {
        Column { right: true, ..self }
    }

    /// Shortens long texts in the middle: ids differ at both ends.
    pub const fn id(self) -> Column {
        Column { is_id: true, ..self }
    }

    /// Gives the column this share of the remaining width.
    pub const fn grows(self, parts: u16) -> Column {
        Column { grows: parts, ..self }
    }

    /// Leaves the column out of narrower tables.
    pub const fn shown_from(self, width: u16) -> Column {
        Column { min_table_width: width, ..self }
    }
}

/// A list and its visible window.
#[derive(Clone, Copy, Debug)]
pub struct TableView {
    /// Selected row and first visible row.
    pub cursor: Cursor,
    /// The number of rows.
    pub total: usize,
    /// Whether the list receives the keys.
    pub active: bool,
}

impl Canvas<'_> {
    pub fn tone(&self, tone: Tone) -> Style {
        self.theme.tone(tone)
    }

    /// The style of an element of the screen.
    pub fn element(&self, element: UiElement) -> Style {
        self.theme.element(element)
    }

    /// Writes `text` as visible characters, cut to `width` columns. Returns the column after it.
    pub fn put(&mut self, x: u16, y: u16, width: u16, text: &str, style: Style) -> u16 {
        if width == 0 || !self.buffer.area.contains((x, y).into()) {
            return x;
        }
        // The style replaces the previous one: nothing of it shows through.
        let style = Style::reset().patch(style);
        self.buffer.set_stringn(x, y, safe::fit(text, usize::from(width)), usize::from(width), style).0
    }

    /// Writes `text` aligned to the right end of the columns.
    pub fn put_right(&mut self, x: u16, y: u16, width: u16, text: &str, style: Style) {
        let fitted = safe::fit(text, usize::from(width));
        let blank = usize::from(width).saturating_sub(safe::width(&fitted)) as u16;
        self.put(x + blank, y, width - blank, &fitted, style);
    }

    /// Writes pieces of text one after the other. Returns the column after them.
    pub fn pieces(&mut self, x: u16, y: u16, width: u16, pieces: &[(String, Style)]) -> u16 {
        let end = x.saturating_add(width);
        pieces.iter().fold(x, |x, (text, style)| self.put(x, y, end.saturating_sub(x), text, *style))
    }

    /// Applies a style to cells. Coloured text keeps its colour where that is readable.
    pub fn apply_style(&mut self, area: Rect, style: Style) {
        let area = area.intersection(self.buffer.area);
        for position in area.positions() {
            let cell = &mut self.buffer[position];
            let colour = cell.fg;
            cell.set_style(style);
            if self.theme.keeps_colours() && colour != Color::Reset {
                cell.set_fg(colour);
            }
        }
    }

    /// Writes dim text into the upper half of an area, for empty lists. Long sentences
    /// take several lines.
    pub fn message(&mut self, area: Rect, text: &str) {
        let room = area.width.saturating_sub(2).clamp(1, 76);
        let lines: Vec<String> = text.lines().flat_map(|line| safe::wrap(line, room.into())).collect();
        let style = self.tone(Tone::Dim);
        let top = area.y + area.height.saturating_sub(lines.len() as u16) / 3;
        for (y, line) in (top..area.bottom()).zip(lines) {
            let line = line.trim_end();
            let width = (safe::width(line) as u16).min(area.width);
            self.put(area.x + (area.width - width) / 2, y, width, line, style);
        }
    }

    /// Draws a horizontal line from `x` to before `end`.
    pub fn horizontal_line(&mut self, x: u16, end: u16, y: u16, style: Style) {
        for x in x..end {
            self.put(x, y, 1, "─", style);
        }
    }

    /// Draws a vertical line as high as an area.
    pub fn vertical_line(&mut self, x: u16, area: Rect, style: Style) {
        for y in area.y..area.bottom() {
            self.put(x, y, 1, "│", style);
        }
    }

    /// Draws a line across the screen that joins its frame.
    pub fn divide(&mut self, area: Rect, y: u16) {
        let border = self.element(UiElement::Border);
        self.horizontal_line(area.x, area.right(), y, border);
        self.put(area.x - 1, y, 1, "├", border);
        self.put(area.right(), y, 1, "┤", border);
    }

    /// Draws a frame along the edges of an area.
    pub fn outline(&mut self, area: Rect, style: Style) {
        self.vertical_line(area.x, area, style);
        self.vertical_line(area.right() - 1, area, style);
        for (y, left, right) in [(area.y, "┌", "┐"), (area.bottom() - 1, "└", "┘")] {
            self.horizontal_line(area.x, area.right(), y, style);
            self.put(area.x, y, 1, left, style);
            self.put(area.right() - 1, y, 1, right, style);
        }
    }

    /// Draws an empty box over the screen, with a title above and a hint below.
    pub fn draw_box(&mut self, area: Rect, title: &str, hint: &str) {
        if area.width < 4 || area.height < 2 {
            return;
        }
        let (border, strong, dim) =
            (self.element(UiElement::ActiveBorder), self.tone(Tone::Strong), self.tone(Tone::Dim));
        for y in area.y..area.bottom() {
            for x in area.x..area.right() {
                self.buffer[(x, y)].reset();
            }
        }
        self.outline(area, border);
        self.put(area.x + 2, area.y, area.width - 4, &format!(" {title} "), strong);
        self.put(area.x + 2, area.bottom() - 1, area.width - 4, &format!(" {hint} "), dim);
    }

    /// Draws a table: the titles of its columns, below them the visible rows. A row that was not
    /// read yet is a dot.
    pub fn table(&mut self, area: Rect, columns: &[Column], list: TableView, row: impl Fn(usize) -> Option<Vec<Cell>>) {
        // One blank on both sides keeps text away from the frame.
        let positions = positions(Rect { x: area.x + 1, width: area.width.saturating_sub(2), ..area }, columns);
        let head = self.element(UiElement::Head);
        for (column, (x, width)) in columns.iter().zip(&positions) {
            self.put_aligned(column, (*x, area.y, *width), column.title, head);
        }
        for line in 1..area.height {
            let (index, y) = (list.cursor.top + usize::from(line) - 1, area.y + line);
            if index >= list.total {
                break;
            }
            match row(index) {
                Some(cells) => {
                    for ((column, (x, width)), cell) in columns.iter().zip(&positions).zip(&cells) {
                        let style = cell.tone.map_or(self.element(UiElement::Mark), |tone| self.tone(tone));
                        self.put_aligned(column, (*x, y, *width), &cell.text, style);
                    }
                }
                None => {
                    self.put(area.x + 2, y, 1, "·", head);
                }
            }
            if index == list.cursor.selected {
                self.select(Rect { y, height: 1, ..area }, list.active);
            }
        }
        let rows = Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area };
        self.scroll_bar(rows, list.cursor.top, list.total);
    }

    fn put_aligned(&mut self, column: &Column, (x, y, width): (u16, u16, u16), text: &str, style: Style) {
        match column {
            Column { right: true, .. } => self.put_right(x, y, width, text, style),
            Column { is_id: true, .. } => {
                self.put(x, y, width, &safe::fit_middle(text, width.into()), style);
            }
            _ => drop(self.put(x, y, width, text, style)),
        }
    }

    /// Draws a scroll bar on the line to the right of the rows. There is none if all
    /// rows are visible.
    pub fn scroll_bar(&mut self, rows: Rect, top: usize, total: usize) {
        let height = usize::from(rows.height);
        if total <= height || height == 0 {
            return;
        }
        let bar = (height * height / total).max(1);
        // The bar touches the first or last line only if the first or last row is visible.
        let (free, hidden) = (height - bar, total - height);
        let above =
            (top.min(hidden) * free).div_ceil(hidden).min(if top < hidden { free.saturating_sub(1) } else { free });
        let style = self.element(UiElement::ActiveBorder);
        for line in above..above + bar {
            self.put(rows.right(), rows.y + line as u16, 1, "█", style);
        }
    }

    /// Highlights the selected row.
    pub fn select(&mut self, row: Rect, active: bool) {
        let style = self.element(if active { UiElement::Selected } else { UiElement::Resting });
        self.apply_style(row, style);
    }
}

/// Position and width of each column, with one blank between two. The width of a hidden
/// column is 0.
fn positions(area: Rect, columns: &[Column]) -> Vec<(u16, u16)> {
    let shown = |column: &&Column| column.min_table_width <= area.width;
    let taken: u16 = columns.iter().filter(shown).map(|column| column.width + 1).sum::<u16>().saturating_sub(1);
    let parts: u16 = columns.iter().filter(shown).map(|column| column.grows).sum();
    let mut left = area.width.saturating_sub(taken);
    let mut parts_left = parts;
    let mut x = area.x;
    let place = |column: &Column| {
        if column.min_table_width > area.width {
            return (x, 0);
        }
        let more = (left * column.grows).checked_div(parts_left).unwrap_or(0);
        left -= more;
        parts_left -= column.grows;
        let width = (column.width + more).min(area.right().saturating_sub(x));
        let place = (x, width);
        x = (x + width + 1).min(area.right());
        place
    };
    columns.iter().map(place).collect()
}

impl Cell {
    pub fn new(text: impl Into<String>, tone: Tone) -> Cell {
        Cell { text: text.into(), tone: Some(tone) }
    }
}

/// A horizontal bar, `width` columns long for `full`, in steps of an eighth of a column.
pub fn bar(value: u64, full: u64, width: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (u128::from(value) * width as u128 * 8 / u128::from(full.max(1))).min(width as u128 * 8) as usize;
    // A value above zero is always visible.
    let eighths = if value > 0 { eighths.max(1) } else { 0 };
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}

/// A duration as a bar on a logarithmic scale: one column for each power of ten from 100 µs on.
pub fn duration_bar(nanoseconds: i64, width: usize) -> String {
    const FROM: f64 = 100_000.0;
    let columns = (nanoseconds.max(1) as f64 / FROM).log10().max(0.0);
    bar((columns * 1_000.0) as u64 + 1, width as u64 * 1_000, width)
}

/// Vertical bars of `lines` lines, one for each value. The largest value fills all lines; a value
/// above zero is always visible.
pub fn vertical_bars(values: &[u64], lines: usize) -> Vec<String> {
    const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = values.iter().copied().max().unwrap_or(0).max(1);
    let eighths = |value: u64| match value {
        0 => 0,
        _ => ((u128::from(value) * lines as u128 * 8 / u128::from(most)) as usize).max(1),
    };
    let line =
        |above: usize| values.iter().map(|value| BARS[eighths(*value).saturating_sub(above * 8).min(8)]).collect();
    (0..lines).rev().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_share_the_room_and_leave_when_there_is_none() {
        let columns = [
            Column::new("a", 3),
            Column::new("b", 5).grows(1),
            Column::new("c", 4).shown_from(40),
            Column::new("d", 2).grows(3),
        ];
        let area = |width| Rect { x: 1, y: 0, width, height: 3 };
        assert_eq!(positions(area(20), &columns), [(1, 3), (5, 7), (13, 0), (13, 8)]);
        assert_eq!(positions(area(40), &columns).last(), Some(&(21, 20)));
        assert!(positions(area(6), &columns).iter().all(|(x, width)| x + width <= 7));
    }

    #[test]
    fn a_column_of_the_duration_bar_is_a_factor_of_ten() {
        let shown = [0, 100_000, 1_000_000, 10_000_000, 316_228_000, 100_000_000_000, i64::MAX];
        let shown = shown.map(|nanoseconds| duration_bar(nanoseconds, 6));
        assert_eq!(shown, ["▏", "▏", "█", "██", "███▌", "██████", "██████"]);
    }

    #[test]
    fn bars_have_eighths() {
        assert_eq!(bar(50, 100, 8), "████");
        assert_eq!(bar(1, 1_000_000, 8), "▏");
        assert_eq!(bar(u64::MAX, 1, 2), "██");
        assert_eq!(bar(0, 10, 4), "");
        assert_eq!(vertical_bars(&[0, 1, 8], 1), [" ▁█"]);
        assert_eq!(vertical_bars(&[0, 1, 8, 5], 2), ["  █▂", " ▂██"]);
    }
}
