//! Tables without lines: columns, a faint header, cells that wrap.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use super::Look;

/// A table that fits into the page.
#[derive(Debug)]
pub struct Columns {
    table: Table,
    look: Look,
}

impl Columns {
    pub fn new(look: Look, headers: &[&str]) -> Self {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(u16::try_from(look.width).unwrap_or(u16::MAX));
        table.set_header(headers);
        Self { table, look }
    }

    /// Aligns these columns to the right.
    pub fn right(mut self, columns: &[usize]) -> Self {
        for column in columns {
            if let Some(column) = self.table.column_mut(*column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        self
    }

    pub fn row(&mut self, cells: Vec<String>) {
        self.table.add_row(cells);
    }

    /// Whether no cell must be broken.
    pub fn fits(&self) -> bool {
        let widths = self.table.column_max_content_widths();
        // A space on either side of a cell, and one before each line.
        let all: usize = widths.iter().map(|width| usize::from(*width) + 2).sum();
        all < self.look.width
    }

    /// The text, indented by the padding of its first column.
    pub fn finish(self) -> String {
        let mut text = String::new();
        for (index, line) in self.table.lines().enumerate() {
            let line = format!(" {}", line.trim_end());
            text.push_str(&if index == 0 {
                self.look.faint(&line)
            } else {
                line
            });
            text.push('\n');
        }
        text
    }
}
