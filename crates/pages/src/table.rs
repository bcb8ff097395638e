//! A table as data.

use serde::Serialize;

/// A table: each column is declared once, with its unit and alignment.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Table {
    /// What stands above each column, with the unit.
    pub headers: Vec<String>,
    /// The columns of numbers, which end on the right.
    pub right: Vec<usize>,
    /// Rows × columns.
    pub rows: Vec<Vec<String>>,
    /// The devices of each row, which a picture beside the table marks; empty: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<Vec<String>>,
}

/// The cells of a row, of anything that has a text.
#[macro_export]
macro_rules! row {
    ($($cell:expr),* $(,)?) => { vec![$($cell.to_string()),*] };
}

impl Table {
    /// A table without rows. A header with `>` before it is that of numbers: `>time µs`.
    pub fn new<'a>(headers: impl IntoIterator<Item = &'a str>) -> Self {
        let mut table = Self::default();
        for header in headers {
            let name = header.strip_prefix('>');
            table.right.extend(name.map(|_| table.headers.len()));
            table.headers.push(name.unwrap_or(header).to_owned());
        }
        table
    }

    /// Adds a row. A name from outside that has a line break stays in its row.
    pub fn row(&mut self, cells: Vec<String>) {
        let cells = cells.into_iter().map(|it| it.replace('\n', "\\n"));
        self.rows.push(cells.collect());
    }

    /// Adds a row about devices.
    pub fn row_of(&mut self, devices: Vec<String>, cells: Vec<String>) {
        self.row(cells);
        self.devices.push(devices);
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}
