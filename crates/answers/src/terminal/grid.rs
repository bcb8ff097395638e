//! Grids of short cells in blocks of columns; columns beyond the page width go below.

use super::Look;

/// Spaces between columns.
pub(crate) const GAP: usize = 2;

/// A matrix whose columns form blocks that are kept together if they fit.
#[derive(Debug, Default)]
pub(crate) struct Grid {
    pub(crate) labels: Vec<String>,
    pub(crate) blocks: Vec<Vec<Column>>,
}

/// One column; it has a cell for every row.
#[derive(Debug)]
pub(crate) struct Column {
    pub(crate) header: String,
    pub(crate) cells: Vec<String>,
}

impl Column {
    fn width(&self) -> usize {
        self.cells
            .iter()
            .chain([&self.header])
            .map(|text| text.chars().count())
            .max()
            .unwrap_or(0)
    }
}

impl Grid {
    fn label_width(&self) -> usize {
        self.labels.iter().map(String::len).max().unwrap_or(0) + GAP
    }

    /// Columns of the page that the grid takes when nothing is put below.
    pub(crate) fn width(&self) -> usize {
        self.label_width()
            + self
                .blocks
                .iter()
                .flatten()
                .map(|column| column.width() + GAP)
                .sum::<usize>()
    }

    /// Blanks the first block below its own rows, because the other blocks mirror it.
    pub(crate) fn blank_mirrored(&mut self) {
        let own = self.blocks.first().map_or(0, Vec::len);
        for column in self.blocks.iter_mut().take(1).flatten() {
            column.cells.iter_mut().skip(own).for_each(String::clear);
        }
    }

    /// Draws the columns side by side up to the page width, the rest below.
    pub(crate) fn draw(&self, look: Look) -> String {
        let room = look.width.saturating_sub(self.label_width() + GAP);
        let mut panels: Vec<(usize, Vec<&Column>)> = Vec::new();
        for block in &self.blocks {
            let whole: usize = block.iter().map(|column| column.width() + GAP).sum();
            let mut open = panels.last().is_some_and(|(used, _)| used + whole <= room);
            for column in block {
                let width = column.width() + GAP;
                match panels.last_mut() {
                    Some((used, columns)) if open && *used + width <= room => {
                        *used += width;
                        columns.push(column);
                    }
                    _ => panels.push((width, vec![column])),
                }
                open = true;
            }
        }
        let panels: Vec<String> = panels
            .iter()
            .map(|(_, columns)| self.draw_panel(columns, look))
            .collect();
        panels.join("\n")
    }

    fn draw_panel(&self, columns: &[&Column], look: Look) -> String {
        let label_width = self.label_width();
        let widths: Vec<usize> = columns.iter().map(|it| it.width() + GAP).collect();
        let mut header = " ".repeat(label_width);
        for (column, width) in columns.iter().zip(&widths) {
            push(&mut header, &column.header, &column.header, *width);
        }
        let mut text = format!("  {}\n", look.faint(header.trim_end()));
        for (row, label) in self.labels.iter().enumerate() {
            // Rows without a cell in this panel (affinities of NICs) are left out.
            if columns.iter().all(|column| column.cells[row].is_empty()) {
                continue;
            }
            let mut line = "  ".to_owned();
            push(&mut line, label, label, label_width);
            for (column, width) in columns.iter().zip(&widths) {
                let cell = &column.cells[row];
                let word = cell.trim();
                let before = cell.len() - cell.trim_start().len();
                line.extend(std::iter::repeat_n(' ', before));
                push(
                    &mut line,
                    &look.nearness(word),
                    word,
                    width.saturating_sub(before),
                );
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// Adds a text that looks as wide as `shown`, with blanks up to a width.
fn push(line: &mut String, text: &str, shown: &str, width: usize) {
    line.push_str(text);
    let blanks = width.saturating_sub(shown.chars().count());
    line.extend(std::iter::repeat_n(' ', blanks));
}
