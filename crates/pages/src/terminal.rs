//! A page on a terminal.

use crate::columns;
use crate::{Block, Field, Page, Section, Table, Tone};

/// Where the values of a page's head begin.
pub const FIELD: &str = "           ";

/// The indent below the word of an entry.
const BELOW: &str = "             ";

/// How the page looks: its width, and whether it may be colored.
#[derive(Debug, Clone, Copy)]
pub struct Look {
    /// Characters of a line.
    pub width: usize,
    /// ANSI colors are allowed.
    pub color: bool,
}

impl Look {
    fn paint(self, code: &str, text: &str) -> String {
        if self.color && !text.is_empty() {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }

    /// A heading.
    pub fn heading(self, text: &str) -> String {
        self.paint("1", text)
    }

    /// A heading with a remark, on the next lines where it does not fit beside.
    pub fn title(self, title: &str, remark: &str) -> String {
        self.titled(Tone::Plain, title, remark)
    }

    fn titled(self, tone: Tone, title: &str, remark: &str) -> String {
        let heading = match tone {
            Tone::Plain => self.heading(title),
            tone => self.tone(tone, title),
        };
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
    pub fn section(self, title: &str, remark: &str, body: &str) -> String {
        format!("\n{}{body}", self.title(title, remark))
    }

    /// Lines of a page's head.
    pub fn fields(self, fields: &[Field]) -> String {
        let line = |field: &Field| {
            let value = joined(&field.value, &field.hint);
            match field.tone {
                Tone::Plain => self.field(&field.name, &value),
                tone => self.tone(tone, &wrap(&value, FIELD, FIELD, self.width)),
            }
        };
        fields.iter().map(line).collect()
    }

    /// A text as important as its tone says.
    pub fn tone(self, tone: Tone, text: &str) -> String {
        match tone {
            Tone::Plain => text.to_owned(),
            Tone::Faint => self.faint(text),
            Tone::Notice => self.notice(text),
        }
    }

    /// A line of a page's head with its name.
    pub fn field(self, name: &str, value: &str) -> String {
        // The name is colored, so its own length would mislead the wrapping.
        wrap(value, FIELD, FIELD, self.width).replacen(
            FIELD,
            &format!("  {}", self.faint(&format!("{name:<9}"))),
            1,
        )
    }

    /// Something of less importance.
    pub fn faint(self, text: &str) -> String {
        self.paint("2", text)
    }

    /// Something to notice.
    pub fn notice(self, text: &str) -> String {
        self.paint("33", text)
    }

    /// A cell of a matrix, colored by the distance that it shows.
    pub fn nearness(self, text: &str) -> String {
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

impl Page {
    /// The page as text, no line longer than the look's width where words allow that.
    pub fn text(&self, look: Look) -> String {
        let mut text = match self.title.is_empty() {
            true => String::new(),
            false => look.title(&self.title, &self.remark),
        };
        text.push_str(&look.fields(&self.fields));
        for section in &self.sections {
            text.push_str(&section.text(look));
        }
        // Nothing is above the first section of a page without a head.
        trim_lines(text.strip_prefix('\n').unwrap_or(&text))
    }
}

impl Section {
    /// The section as text, with an empty line before its title.
    pub fn text(&self, look: Look) -> String {
        let body: String = self.blocks.iter().map(|it| it.text(look)).collect();
        match self.title.is_empty() {
            true => body,
            false => {
                let remark = joined(&self.remark, &self.hint);
                format!("\n{}{body}", look.titled(self.tone, &self.title, &remark))
            }
        }
    }
}

impl Table {
    /// The table as text, indented by the padding of its first column.
    pub fn text(&self, look: Look) -> String {
        columns::text(self, look)
    }
}

impl Block {
    fn text(&self, look: Look) -> String {
        match self {
            Self::Table(table) => table.text(look),
            Self::Text {
                label,
                text,
                hint,
                tone,
                first,
                later,
            } => {
                let (text, first) = (joined(text, hint), format!("{first}{label}"));
                look.tone(*tone, &wrap(&text, &first, later, look.width))
            }
            Self::Entry {
                word,
                about,
                text,
                tone,
            } => {
                let below = look.tone(*tone, &wrap(text, BELOW, BELOW, look.width));
                wrap(about, &format!("  {word:<10} "), BELOW, look.width) + &below
            }
            Self::Fields(fields) => look.fields(fields),
            Self::Lines(lines) => lines.clone(),
        }
    }
}

/// A text with what only the program says after it.
fn joined(text: &str, hint: &str) -> String {
    match (text, hint) {
        ("", only) | (only, "") => only.to_owned(),
        _ if hint.starts_with([',', ';', ':', '.']) => format!("{text}{hint}"),
        _ => format!("{text} {hint}"),
    }
}

/// A page without blanks at the ends of lines.
pub fn trim_lines(text: &str) -> String {
    let lines = text.lines();
    lines.map(|line| format!("{}\n", line.trim_end())).collect()
}

/// Breaks a text into lines, the later ones indented.
pub fn wrap(text: &str, first: &str, later: &str, width: usize) -> String {
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
