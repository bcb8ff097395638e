//! Spans of time as bars, a row for each group.

use crate::draw::layout::Area;
use crate::draw::svg::{COLORS, Elements};
use crate::draw::text::shorten;

/// Width of the names of rows, pixels.
const NAMES: f64 = 130.0;
/// Width of the time line, pixels.
const WIDTH: f64 = 1100.0;
/// Height of a row, and of a bar in it, pixels.
const ROW: (f64, f64) = (30.0, 20.0);
/// Upper edge of the first row, pixels.
const TOP: f64 = 56.0;
/// Left edge, pixels.
const LEFT: f64 = 20.0;
/// Ticks of the axis, about.
const TICKS: f64 = 8.0;
/// Longest name of a row, letters.
const LONGEST: usize = 15;
/// Bars that are nearer than this are one, pixels.
const NEAR: f64 = 0.5;

/// A row of a time line.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// Its bars, in order of their starts.
    pub bars: Vec<Bar>,
}

/// A span of time.
#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    /// Start and end, µs.
    pub span_us: [f64; 2],
    /// What pointers and screen readers find.
    pub hint: String,
}

/// A picture of rows of bars: an SVG file, or an element of a page if it is not `alone`. Bars that
/// no pixel separates are drawn as one.
pub fn timeline(title: &str, rows: &[Row], end_us: f64, alone: bool) -> String {
    let mut elements = Elements::default();
    elements.text("t", (LEFT, 26.0), title);
    let scale = WIDTH / end_us.max(f64::MIN_POSITIVE);
    let x = |us: f64| LEFT + NAMES + us * scale;
    let bottom = TOP + rows.len() as f64 * ROW.0;
    let tick = tick(end_us);
    let mut at = 0.0;
    while at <= end_us && tick > 0.0 {
        elements.line("l", [(x(at), TOP - 4.0), (x(at), bottom)], 0.5, "");
        elements.text("d", (x(at), TOP - 8.0), &time(at));
        at += tick;
    }
    for (number, row) in rows.iter().enumerate() {
        let y = TOP + number as f64 * ROW.0;
        let middle = y + ROW.0 / 2.0 + 4.0;
        elements.text(
            "e",
            (LEFT + NAMES - 8.0, middle),
            &shorten(&row.name, LONGEST),
        );
        for bar in joined(&row.bars, NEAR / scale) {
            let [start, end] = bar.span_us;
            let area = Area {
                x: x(start),
                y: y + (ROW.0 - ROW.1) / 2.0,
                width: ((end - start) * scale).max(NEAR),
                height: ROW.1,
            };
            elements.area(&format!("bar b{}", number % COLORS), area, &bar.hint);
        }
    }
    let size = (LEFT + NAMES + WIDTH + 2.0 * LEFT, bottom + 20.0);
    elements.picture(size, title, alone)
}

/// Bars without those that start within `near` µs of the end of the one before.
fn joined(bars: &[Bar], near: f64) -> Vec<Bar> {
    let mut found: Vec<(Bar, usize)> = Vec::new();
    for bar in bars {
        match found.last_mut() {
            Some((last, number)) if bar.span_us[0] - last.span_us[1] < near => {
                last.span_us[1] = last.span_us[1].max(bar.span_us[1]);
                *number += 1;
            }
            _ => found.push((bar.clone(), 1)),
        }
    }
    let named = found.into_iter().map(|(bar, number)| match number {
        1 => bar,
        more => Bar {
            hint: format!("{}, and {} more", bar.hint, more - 1),
            ..bar
        },
    });
    named.collect()
}

/// The distance of ticks: 1, 2 or 5 times a power of ten, µs.
fn tick(end_us: f64) -> f64 {
    if !(end_us > 0.0 && end_us.is_finite()) {
        return 0.0;
    }
    let least = end_us / TICKS;
    let power = 10f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0];
    let step = steps.into_iter().find(|step| step * power >= least);
    step.unwrap_or(10.0) * power
}

/// A time in the unit that suits it.
pub fn time(us: f64) -> String {
    let (value, unit) = match us {
        1e6.. => (us / 1e6, "s"),
        1e3.. => (us / 1e3, "ms"),
        _ => (us, "µs"),
    };
    let digits = match value {
        100.0.. => 0,
        10.0.. => 1,
        _ => 2,
    };
    let text = format!("{value:.digits$}");
    let text = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    };
    format!("{text} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_that_no_pixel_separates_are_one() {
        let bar = |start: f64| Bar {
            span_us: [start, start + 1.0],
            hint: "all-reduce".to_owned(),
        };
        let bars = [bar(0.0), bar(1.1), bar(5.0)];
        let found = joined(&bars, 0.5);
        let spans: Vec<_> = found.iter().map(|it| it.span_us).collect();
        assert_eq!(spans, [[0.0, 2.1], [5.0, 6.0]]);
        assert_eq!(found[0].hint, "all-reduce, and 1 more");
    }

    #[test]
    fn ticks_are_round() {
        for (end, expected) in [(8.0, 1.0), (1000.0, 200.0), (3000.0, 500.0), (0.0, 0.0)] {
            assert_eq!(tick(end), expected, "{end}");
        }
        assert_eq!(time(1500.0), "1.5 ms");
    }
}
