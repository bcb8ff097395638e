//! Tables of pages that are text.

use pages::{Section, Table};

use super::Look;

/// A table that becomes text.
#[derive(Debug)]
pub struct Columns {
    table: Table,
    look: Look,
}

impl Columns {
    /// A table without rows.
    pub fn new(look: Look, headers: &[&str]) -> Self {
        let table = Table::new(headers.iter().copied());
        Self { table, look }
    }

    /// Aligns these columns to the right.
    pub fn right(mut self, columns: &[usize]) -> Self {
        self.table.right = columns.to_vec();
        self
    }

    /// Adds a row.
    pub fn row(&mut self, cells: Vec<String>) {
        self.table.row(cells);
    }

    /// The text, indented by the padding of its first column.
    pub fn finish(self) -> String {
        Section::default().table(self.table).text(self.look)
    }
}
