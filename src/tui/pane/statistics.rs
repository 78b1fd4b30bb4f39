//! Figures: message rate, histogram of latencies, and each method and tool.

use ratatui::layout::Rect;

use super::super::app::App;
use super::super::canvas::{Canvas, Cell, Column, bar, vertical_bars};
use super::super::data::Statistics;
use super::super::layout;
use super::{count_cell, table};
use crate::view::paint::Tone;
use crate::view::timing::Medians;
use crate::view::units;

const COLUMNS: &[Column] = &[
    Column::new("method, tool", 18).grows(2),
    Column::new("calls", 6).right(),
    Column::new("errors", 6).right(),
    Column::new("tool err", 8).right().shown_from(60),
    Column::new("cancelled", 9).right().shown_from(100),
    Column::new("negative", 8).right().shown_from(90),
    Column::new("open", 5).right().shown_from(90),
    Column::new("min", 8).right().shown_from(110),
    Column::new("p50", 8).right().shown_from(44),
    Column::new("p95", 8).right().shown_from(54),
    Column::new("p99", 8).right().shown_from(120),
    Column::new("max", 8).right().shown_from(90),
    Column::new("upload", 7).right().shown_from(150),
    Column::new("network", 7).right().shown_from(150),
    Column::new("server", 7).right().shown_from(150),
    Column::new("stream", 7).right().shown_from(150),
    Column::new("total", 10).right().shown_from(100),
    Column::new("share", 8).grows(1).shown_from(76),
];

/// Limit of the longest bar of the histogram: a longer one shows no more.
const LONGEST: usize = 120;

/// Draws the figures.
pub fn draw(app: &App, canvas: &mut Canvas<'_>, area: Rect) {
    let Some(figures) = app.session.and_then(|session| app.cache.statistics.of(session)) else {
        return canvas.message(area, "…");
    };
    let calls = layout::calls(area);
    rate(canvas, area, figures);
    let used = 1 + layout::rate_lines(area);
    histogram(canvas, Rect { y: area.y + used, height: (calls.y - area.y).saturating_sub(used + 1), ..area }, figures);
    canvas.divide(area, calls.y - 1);
    let time: i64 = figures.calls.iter().fold(0, |sum, call| sum.saturating_add(call.total));
    table(app, canvas, calls, COLUMNS, "no calls: the client sent no request yet", |row| {
        let call = figures.calls.get(row)?;
        let shown = |value: i64| call.extremes.map(|_| units::duration(value)).unwrap_or_default();
        let [least, most] = call.extremes.unwrap_or_default();
        let [p50, p95, p99] = call.percentiles;
        let Medians { upload, network, server, stream } = call.parts;
        let part = |time: Option<i64>| time.map(units::duration).unwrap_or_default();
        Some(vec![
            Cell::new(call.name.clone(), Tone::Strong),
            Cell::new(call.calls.to_string(), Tone::Plain),
            count_cell(call.errors, Tone::Error),
            count_cell(call.tool_errors, Tone::Error),
            count_cell(call.cancelled, Tone::Warning),
            count_cell(call.negatives, Tone::Warning),
            count_cell(call.calls.saturating_sub(call.settled), Tone::Warning),
            Cell::new(shown(least), Tone::Dim),
            Cell::new(shown(p50), Tone::Plain),
            Cell::new(shown(p95), Tone::Plain),
            Cell::new(shown(p99), Tone::Plain),
            Cell::new(shown(most), Tone::Dim),
            Cell::new(part(upload), Tone::Dim),
            Cell::new(part(network), Tone::Dim),
            Cell::new(part(server), Tone::Dim),
            Cell::new(part(stream), Tone::Dim),
            Cell::new(units::duration(call.total), Tone::Dim),
            Cell::new(bar(call.total.max(0) as u64, time.max(0) as u64, 16), Tone::Client),
        ])
    });
}

/// Draws the number of messages over time.
fn rate(canvas: &mut Canvas<'_>, area: Rect, figures: &Statistics) {
    let (dim, line) = (canvas.tone(Tone::Dim), canvas.tone(Tone::Server));
    let peak = figures.rate.iter().max().copied().unwrap_or(0);
    let time = figures.part.saturating_mul(figures.rate.len() as i64).max(1);
    let words = format!(
        "messages  {}{}   {:.1} per second   {} from client, {} from server   peak {peak} in {}",
        figures.counted,
        if figures.counted < figures.messages { format!(" of {} counted", figures.messages) } else { String::new() },
        figures.rate.iter().sum::<u64>() as f64 * 1e9 / time as f64,
        units::size(figures.bytes[0]),
        units::size(figures.bytes[1]),
        units::duration(figures.part),
    );
    canvas.put(area.x + 1, area.y, area.width - 2, &words, dim);
    // Each value is as wide as there is room for.
    let wide = (usize::from(area.width - 2) / figures.rate.len().max(1)).clamp(1, 4);
    for (y, bars) in (area.y + 1..).zip(vertical_bars(&figures.rate, layout::rate_lines(area).into())) {
        let bars: String = bars.chars().flat_map(|bar| std::iter::repeat_n(bar, wide)).collect();
        canvas.put(area.x + 1, y, area.width - 2, &bars, line);
    }
}

/// Draws the latencies by powers of two.
fn histogram(canvas: &mut Canvas<'_>, area: Rect, figures: &Statistics) {
    let (dim, fill) = (canvas.tone(Tone::Dim), canvas.tone(Tone::Client));
    let used = |count: &u64| *count > 0;
    let Some(first) = figures.histogram.iter().position(used) else {
        canvas.put(area.x + 1, area.y, area.width, "latency  no call was answered", dim);
        return;
    };
    let last = figures.histogram.iter().rposition(used).unwrap_or(first);
    canvas.put(area.x + 1, area.y, area.width, "latency", dim);
    let rows = usize::from(area.height.saturating_sub(1)).max(1);
    // Neighbouring bars are joined until all fit.
    let join = (last - first + 1).div_ceil(rows);
    let groups: Vec<(usize, u64)> = (first..=last)
        .step_by(join)
        .map(|at| (at, figures.histogram[at..(at + join).min(last + 1)].iter().sum()))
        .collect();
    let most = groups.iter().map(|(_, count)| *count).max().unwrap_or(1);
    for (line, (at, count)) in groups.iter().enumerate() {
        let y = area.y + 1 + line as u16;
        let bound = |power: usize| units::duration(1_000i64 << power.min(50));
        let range =
            if *at == 0 { format!("below {}", bound(join)) } else { format!("{} to {}", bound(*at), bound(at + join)) };
        canvas.put_right(area.x + 1, y, 20, &range, dim);
        let width = usize::from(area.width).saturating_sub(34).min(LONGEST);
        let x = canvas.put(area.x + 23, y, width as u16, &bar(*count, most, width), fill);
        canvas.put(x + 1, y, 10, &count.to_string(), dim);
    }
}
