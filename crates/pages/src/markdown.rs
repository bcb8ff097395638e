//! A page as Markdown.

use crate::page::{Block, Field, Page, Section};
use crate::table::Table;

impl Page {
    /// The page as Markdown.
    pub fn markdown(&self) -> String {
        let mut text = heading("#", &self.title, &self.remark);
        text += &fields(&self.fields);
        for section in &self.sections {
            text += &section.markdown();
        }
        text
    }
}

impl Section {
    fn markdown(&self) -> String {
        let blocks: String = self.blocks.iter().map(Block::markdown).collect();
        heading("##", &self.title, &self.remark) + &blocks
    }
}

impl Block {
    fn markdown(&self) -> String {
        match self {
            Self::Table(table) => table.markdown(),
            Self::Text { text, .. } if text.is_empty() => String::new(),
            Self::Text { label, text, .. } => {
                let text = format!("{} {}", escaped(label), escaped(text));
                format!("{}\n\n", text.trim())
            }
            Self::Entry {
                word, about, text, ..
            } => format!(
                "- **{}** {}: {}\n\n",
                escaped(word),
                escaped(about),
                escaped(text)
            ),
            Self::Fields(all) => fields(all),
            Self::Lines(lines) if lines.trim().is_empty() => String::new(),
            // A fence is longer than any in the text.
            Self::Lines(lines) => {
                let marks = lines.split(|it| it != '`').map(str::len).max();
                let fence = "`".repeat(marks.unwrap_or(0).max(2) + 1);
                format!("{fence}\n{}\n{fence}\n\n", lines.trim_end())
            }
        }
    }
}

impl Table {
    fn markdown(&self) -> String {
        let row = |cells: &[String]| {
            let cells: Vec<String> = cells.iter().map(|it| escaped(it)).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let line = |column: usize| match self.right.contains(&column) {
            true => "--:".to_owned(),
            false => "---".to_owned(),
        };
        let lines: Vec<String> = (0..self.headers.len()).map(line).collect();
        let rows: String = self.rows.iter().map(|it| row(it)).collect();
        format!("{}| {} |\n{rows}\n", row(&self.headers), lines.join(" | "))
    }
}

fn heading(mark: &str, title: &str, remark: &str) -> String {
    let remark = match remark {
        "" => String::new(),
        remark => format!("{}\n\n", escaped(remark)),
    };
    match title {
        "" => remark,
        title => format!("{mark} {}\n\n{remark}", escaped(title)),
    }
}

fn fields(all: &[Field]) -> String {
    let lines = all.iter().map(|it| match it.name.as_str() {
        "" => format!("- {}\n", escaped(&it.value)),
        name => format!("- {}: {}\n", escaped(name), escaped(&it.value)),
    });
    let text: String = lines.collect();
    match text.is_empty() {
        true => text,
        false => text + "\n",
    }
}

/// Text in which nothing is markup.
fn escaped(text: &str) -> String {
    let text = text.trim();
    let mut plain = String::with_capacity(text.len());
    // A list begins so.
    if text.starts_with(['-', '+']) {
        plain.push('\\');
    }
    for letter in text.chars() {
        match letter {
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '|' | '#' | '&' | '~' => {
                plain.extend(['\\', letter])
            }
            '\n' | '\r' => plain.push(' '),
            letter => plain.push(letter),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_from_outside_are_no_markup() {
        let mut page = Page::new("a | b");
        page.field("host", "<script>`x`\n# no");
        let mut table = Table::new(["name", ">GB/s"]);
        table.row(vec!["n|1".to_owned(), "2".to_owned()]);
        let section = page.section("Sizes", "");
        section.table(table);
        section.lines("``` a\nb\n");
        let expected = "# a \\| b\n\n- host: \\<script\\>\\`x\\` \\# no\n\n## Sizes\n\n\
                        | name | GB/s |\n| --- | --: |\n| n\\|1 | 2 |\n\n````\n``` a\nb\n````\n\n";
        assert_eq!(page.markdown(), expected);
    }
}
