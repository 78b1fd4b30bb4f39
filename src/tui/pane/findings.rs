//! Findings grouped by rule, the most severe first. Below them is the manual of the selected rule.

use ratatui::layout::Rect;

use super::super::app::App;
use super::super::canvas::{Canvas, Cell, Column};
use super::super::data::FindingLine;
use super::super::layout;
use super::super::screen::Screen;
use super::{packets, table};
use crate::findings;
use crate::view::paint::Tone;
use crate::view::{safe, units};

const COLUMNS: &[Column] = &[
    Column::new(" ", 1),
    Column::new("rule, finding", 30).grows(1),
    Column::new("messages", 12),
    Column::new("packets", 12).shown_from(100),
];

/// Draws the groups, and the manual of the selected rule.
pub fn draw(app: &App, canvas: &mut Canvas<'_>, area: Rect) {
    let list = layout::findings(area);
    let lines = app.session.and_then(|session| app.cache.findings.of(session)).map(Vec::as_slice).unwrap_or_default();
    groups(app, canvas, list, lines);
    let selected = lines.get(app.cursor(Screen::Findings).selected);
    if let Some(line) = selected.filter(|_| list.height < area.height) {
        canvas.divide(area, list.bottom());
        manual(canvas, Rect { y: list.bottom() + 1, height: area.bottom() - list.bottom() - 1, ..area }, line);
    }
}

fn groups(app: &App, canvas: &mut Canvas<'_>, area: Rect, lines: &[FindingLine]) {
    table(
        app,
        canvas,
        area,
        COLUMNS,
        "no findings: no rule was broken\n\"mcptap rules\" lists what is checked",
        |row| match lines.get(row)? {
            FindingLine::Rule { id, severity, title, count } => Some(vec![
                Cell::new("!", (*severity).into()),
                Cell::new(format!("{id}  {title}"), (*severity).into()),
                Cell::new(units::count(*count as u64, "finding"), Tone::Dim),
                Cell::default(),
            ]),
            FindingLine::Finding(finding) => {
                let numbers: Vec<String> =
                    finding.messages.iter().take(4).map(|message| message.0.to_string()).collect();
                Some(vec![
                    Cell::default(),
                    Cell::new(format!("  {}", finding.text), Tone::Plain),
                    Cell::new(numbers.join(" "), Tone::Client),
                    Cell::new(packets(&finding.packets), Tone::Dim),
                ])
            }
        },
    );
}

/// Draws the manual of a rule, with its reference to the specification.
fn manual(canvas: &mut Canvas<'_>, area: Rect, line: &FindingLine) {
    let (dim, plain) = (canvas.tone(Tone::Dim), canvas.tone(Tone::Plain));
    let (id, text) = match line {
        FindingLine::Rule { id, .. } => (id, None),
        FindingLine::Finding(finding) => (&finding.rule, Some(&finding.text)),
    };
    let mut words: Vec<(&str, &str)> = text.map(|text| ("here", text.as_str())).into_iter().collect();
    match (findings::rule(id), line) {
        (Some(rule), _) => words.extend([
            ("rule", rule.title),
            ("why", rule.why),
            ("example", rule.example),
            ("remedy", rule.remedy),
            ("see", rule.spec),
        ]),
        // A rule that only another version of mcptap has.
        (None, FindingLine::Rule { title, .. }) => words.push(("rule", title)),
        (None, FindingLine::Finding(finding)) => words.extend([("rule", &*finding.title), ("see", &*finding.spec)]),
    }
    let mut y = area.y;
    for (name, text) in words {
        for (row, line) in safe::wrap(text, usize::from(area.width.saturating_sub(12)).max(1)).into_iter().enumerate() {
            if y >= area.bottom() {
                return;
            }
            canvas.put(area.x + 1, y, 8, if row == 0 { name } else { "" }, dim);
            canvas.put(area.x + 10, y, area.width.saturating_sub(11), &line, plain);
            y += 1;
        }
    }
}
