//! Text for people: numbers, lists, colors, and the parts of a page.

pub(crate) mod bound;
pub(crate) mod branch;
pub(crate) mod channels;
pub(crate) mod connections;
pub(crate) mod differences;
pub(crate) mod document;
pub(crate) mod grid;
pub(crate) mod groups;
pub(crate) mod job_plan;
pub(crate) mod machine;
pub(crate) mod matrix;
pub(crate) mod measured;
pub(crate) mod names;
pub(crate) mod path;
pub(crate) mod paths;
pub(crate) mod plan;
pub(crate) mod planned_machines;
pub(crate) mod program;
pub(crate) mod rank;
pub(crate) mod settings;
pub(crate) mod slow_hosts;
pub(crate) mod summary;
pub(crate) mod table;
pub(crate) mod trail;
pub(crate) mod tree;
pub(crate) mod version;
pub(crate) mod what_if;
pub(crate) mod words;

pub(crate) use planner::explain::ranges;
pub(crate) use planner::explain::{count, gbps};
use topology::PathType;

use crate::environment::Environment;

/// Where the values of a page's head begin.
pub(crate) const FIELD: &str = "           ";

/// How the page looks: its width, and whether it may be colored.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Look {
    pub width: usize,
    /// ANSI colors are allowed.
    pub color: bool,
}

impl Environment {
    /// The look of pages on standard output.
    pub(crate) const fn look(&self) -> Look {
        Look {
            width: self.width,
            color: self.color,
        }
    }
}

impl Look {
    fn paint(self, code: &str, text: &str) -> String {
        if self.color && !text.is_empty() {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }

    pub(crate) fn heading(self, text: &str) -> String {
        self.paint("1", text)
    }

    /// A heading with a remark, on the next lines where it does not fit beside.
    pub(crate) fn title(self, title: &str, remark: &str) -> String {
        let heading = self.heading(title);
        if remark.is_empty() {
            return format!("{heading}\n");
        }
        if title.chars().count() + 2 + remark.chars().count() <= self.width {
            return format!("{heading}  {}\n", self.faint(remark));
        }
        format!(
            "{heading}\n{}",
            self.faint(&wrap(remark, "  ", "  ", self.width))
        )
    }

    /// A part of a page below its title.
    pub(crate) fn section(self, title: &str, remark: &str, body: &str) -> String {
        format!("\n{}{body}", self.title(title, remark))
    }

    /// A line of a page's head with its name.
    pub(crate) fn field(self, name: &str, value: &str) -> String {
        // The name is colored, so its own length would mislead the wrapping.
        wrap(value, FIELD, FIELD, self.width).replacen(
            FIELD,
            &format!("  {}", self.faint(&format!("{name:<9}"))),
            1,
        )
    }

    /// Something of less importance.
    pub(crate) fn faint(self, text: &str) -> String {
        self.paint("2", text)
    }

    /// Something to notice.
    pub(crate) fn notice(self, text: &str) -> String {
        self.paint("33", text)
    }

    /// A cell of a matrix, colored by the distance that it shows.
    pub(crate) fn nearness(self, text: &str) -> String {
        match text.trim().get(..2) {
            Some("NV" | "C2") => self.paint("32", text),
            Some("PI" | "P2") => self.paint("36", text),
            Some("PX") => self.paint("34", text),
            Some("PH" | "NO") => self.paint("33", text),
            Some("SY" | "NE" | "DI") => self.paint("31", text),
            _ => text.to_owned(),
        }
    }
}

/// A value, or a dash.
pub(crate) fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "–".to_owned(), |value| value.to_string())
}

/// µs with as many digits as matter.
pub(crate) fn microseconds(time: f64) -> String {
    let digits = match time {
        100.0.. => 0,
        10.0.. => 1,
        _ => 2,
    };
    format!("{time:.digits$}")
}

/// A time in ms with as many digits as matter.
pub(crate) fn milliseconds(us: f64) -> String {
    let value = us / 1e3;
    let digits = match value {
        100.0.. => 0,
        10.0.. => 1,
        1.0.. => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}

/// How much more something is, as a share of 1: `+12 %`, `-3.1 %`, or `×17` from ten times on.
pub(crate) fn percent(more: f64) -> String {
    match more * 100.0 {
        percent if percent.abs() < 0.05 => "±0 %".to_owned(),
        900.0.. => format!("×{:.0}", more + 1.0),
        percent if percent.abs() >= 10.0 => format!("{percent:+.0} %"),
        percent => format!("{percent:+.1} %"),
    }
}

pub(crate) fn legend(kind: PathType) -> String {
    format!("  {kind}  {}\n", kind.meaning())
}

/// The members of each key, in the order of the first of each.
pub(crate) fn group<K: PartialEq, T>(all: impl IntoIterator<Item = (K, T)>) -> Vec<(K, Vec<T>)> {
    let mut groups: Vec<(K, Vec<T>)> = Vec::new();
    for (key, member) in all {
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, members)) => members.push(member),
            None => groups.push((key, vec![member])),
        }
    }
    groups
}

/// A page without blanks at the ends of lines.
pub(crate) fn trim_lines(text: &str) -> String {
    let lines = text.lines();
    lines.map(|line| format!("{}\n", line.trim_end())).collect()
}

/// Breaks a text into lines, the later ones indented.
pub(crate) fn wrap(text: &str, first: &str, later: &str, width: usize) -> String {
    let mut lines = String::new();
    let mut line = first.to_owned();
    let mut empty = true;
    for word in text.split_whitespace() {
        if !empty && line.chars().count() + 1 + word.chars().count() > width {
            lines.push_str(line.trim_end());
            lines.push('\n');
            line = later.to_owned();
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    lines.push_str(line.trim_end());
    lines.push('\n');
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn color_only_where_allowed() {
        let plain = Look {
            width: 80,
            color: false,
        };
        assert_eq!(plain.nearness("SYS"), "SYS");
        let colored = Look {
            color: true,
            ..plain
        };
        assert!(colored.nearness("SYS").starts_with('\u{1b}'));
        assert_eq!(colored.nearness("48"), "48");
    }

    #[test]
    fn wraps_at_words() {
        assert_eq!(wrap("one two three", "- ", "  ", 9), "- one two\n  three\n");
    }
}
