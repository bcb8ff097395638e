//! Elements of an SVG picture.

use std::fmt::Write;

use crate::draw::layout::Area;
use crate::draw::text::escape;

/// Colors and fonts of pictures and pages, for light and dark screens.
pub const STYLE: &str = include_str!("style.css");

/// Colors of channels.
pub const COLORS: usize = 8;

/// Elements in drawing order. Positions are pixels; text is kept as text.
#[derive(Debug, Clone, Default)]
pub struct Elements {
    text: String,
}

/// Heads of arrows, one for each color of channels. A page has them once and outside of what it
/// hides, because a browser does not draw those of a hidden picture.
pub fn arrowheads() -> String {
    let head = |color: usize| {
        format!(
            "<marker id=\"a{color}\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"4.5\" markerHeight=\"4.5\" \
             orient=\"auto-start-reverse\"><path class=\"c{color}\" d=\"M0 0L8 4L0 8z\"/></marker>\n"
        )
    };
    (0..COLORS).map(head).collect()
}

/// A position as it is written: with one decimal at most.
fn number(value: f64) -> String {
    let text = format!("{value:.1}");
    match text.strip_suffix(".0") {
        Some("-0") => "0".to_owned(),
        Some(whole) => whole.to_owned(),
        None => text,
    }
}

/// A curve between two points: by two control points.
#[derive(Debug, Clone, Copy)]
pub struct Curve {
    /// Where it begins.
    pub from: (f64, f64),
    /// Its control points.
    pub by: [(f64, f64); 2],
    /// Where it ends.
    pub to: (f64, f64),
}

impl Elements {
    fn push(&mut self, arguments: std::fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = self.text.write_fmt(arguments);
        self.text.push('\n');
    }

    /// A rectangle with rounded corners and a hint that pointers and screen readers find.
    pub fn area(&mut self, class: &str, area: Area, hint: &str) {
        let Area {
            x,
            y,
            width,
            height,
        } = area;
        let [x, y, width, height] = [x, y, width, height].map(number);
        let hint = match hint {
            "" => String::new(),
            hint => format!("<title>{}</title>", escape(hint)),
        };
        self.push(format_args!(
            r#"<rect class="{class}" x="{x}" y="{y}" width="{width}" height="{height}" rx="4">{hint}</rect>"#
        ));
    }

    /// A line of text; `class` says how it is aligned to `x`.
    pub fn text(&mut self, class: &str, at: (f64, f64), text: &str) {
        let (x, y, text) = (number(at.0), number(at.1), escape(text));
        let class = match class {
            "" => String::new(),
            class => format!(r#" class="{class}""#),
        };
        self.push(format_args!(
            r#"<text{class} x="{x}" y="{y}">{text}</text>"#
        ));
    }

    /// A straight line of this width with a hint.
    pub fn line(&mut self, class: &str, ends: [(f64, f64); 2], width: f64, hint: &str) {
        let [(x1, y1), (x2, y2)] = ends.map(|(x, y)| (number(x), number(y)));
        let (width, hint) = (number(width), escape(hint));
        self.push(format_args!(
            r#"<path class="{class}" stroke-width="{width}" d="M{x1} {y1}L{x2} {y2}"><title>{hint}</title></path>"#
        ));
    }

    /// A curve of this width with a hint; with an arrowhead if `marker` names one.
    pub fn curve(&mut self, class: &str, curve: Curve, width: Option<f64>, rest: (&str, &str)) {
        let at = |(x, y): (f64, f64)| format!("{} {}", number(x), number(y));
        let (from, to) = (at(curve.from), at(curve.to));
        let [first, second] = curve.by.map(at);
        let (marker, hint) = rest;
        let marker = match marker {
            "" => String::new(),
            id => format!(r#" marker-end="url(#{id})""#),
        };
        let width = width.map_or_else(String::new, |width| {
            format!(r#" stroke-width="{}""#, number(width))
        });
        self.push(format_args!(
            r#"<path class="{class}"{width}{marker} d="M{from}C{first} {second} {to}"><title>{}</title></path>"#,
            escape(hint)
        ));
    }

    /// Begins a group, which [`Self::end`] ends.
    pub fn begin(&mut self, class: &str, id: &str) {
        let id = match id {
            "" => String::new(),
            id => format!(r#" id="{}""#, escape(id)),
        };
        self.push(format_args!(r#"<g class="{class}"{id}>"#));
    }

    /// Ends a group.
    pub fn end(&mut self) {
        self.push(format_args!("</g>"));
    }

    /// Adds elements at another place.
    pub fn shifted(&mut self, by: (f64, f64), other: &Self) {
        self.push(format_args!(
            r#"<g transform="translate({} {})">"#,
            number(by.0),
            number(by.1)
        ));
        self.text.push_str(&other.text);
        self.end();
    }

    /// The whole picture of this size: a file of its own if it is `alone`, else for a page that has
    /// [`STYLE`] and [`arrowheads`].
    pub fn picture(&self, size: (f64, f64), title: &str, alone: bool) -> String {
        let (width, height) = (number(size.0.ceil()), number(size.1.ceil()));
        let shared = match alone {
            true => format!(
                "<style>\n{STYLE}</style>\n<defs>\n{}</defs>\n",
                arrowheads()
            ),
            false => String::new(),
        };
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
             role=\"img\" aria-label=\"{title}\">\n<title>{title}</title>\n{shared}\
             <rect class=\"paper\" width=\"100%\" height=\"100%\" style=\"stroke:none\"/>\n{}</svg>\n",
            self.text,
            title = escape(title),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Converters of pictures know no variables, and take the color that comes before.
    #[test]
    fn each_color_is_given_by_value_and_by_name() {
        let light = STYLE.split("@media").next().unwrap();
        let value = |name: &str| {
            let (_, rest) = light.split_once(&format!("{name}: ")).unwrap();
            rest.split_once(';').unwrap().0
        };
        let declarations: Vec<&str> = STYLE.split([';', '{', '}']).map(str::trim).collect();
        let mut named = 0;
        for pair in declarations.windows(2) {
            let Some((property, name)) = pair[1].split_once(": var(") else {
                continue;
            };
            let name = name.trim_end_matches(')');
            assert_eq!(pair[0], format!("{property}: {}", value(name)));
            named += 1;
        }
        assert!(named > 20, "{named}");
    }
}
