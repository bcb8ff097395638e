//! Tables without lines: columns, a faint header, cells that wrap between words.

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Width, presets};

use crate::{Look, Table};

/// Spaces around a cell.
const PADDING: usize = 2;

/// Longest cell that does not wrap where columns go below others.
const USUAL_MOST: usize = 24;

/// A table that fits into the page. Words, and so numbers, are never broken: columns that have no
/// room beside the others go below, with the first column repeated. The text is indented by the
/// padding of its first column.
pub(crate) fn text(table: &Table, look: Look) -> String {
    let columns = Columns { table, look };
    let panels = columns.panels();
    let panels: Vec<String> = panels.iter().map(|panel| columns.panel(panel)).collect();
    panels.join("\n")
}

struct Columns<'a> {
    table: &'a Table,
    look: Look,
}

impl Columns<'_> {
    fn cells(&self, column: usize) -> impl Iterator<Item = &String> {
        let cells = self
            .table
            .rows
            .iter()
            .filter_map(move |row| row.get(column));
        cells.chain([&self.table.headers[column]])
    }

    /// Width of a column whose cells wrap after each word.
    fn least_width(&self, column: usize) -> usize {
        let words = self.cells(column).flat_map(|cell| cell.split_whitespace());
        let longest = words.map(|word| word.chars().count()).max();
        // An empty column has the width of a letter.
        longest.unwrap_or(0).max(1) + PADDING
    }

    /// Width of a column whose cells do not wrap.
    fn whole_width(&self, column: usize) -> usize {
        let longest = self.cells(column).map(|cell| cell.chars().count()).max();
        longest.unwrap_or(0) + PADDING
    }

    /// Width of a column of which only long cells wrap.
    fn usual_width(&self, column: usize) -> usize {
        let usual = self.whole_width(column).min(USUAL_MOST + PADDING);
        usual.max(self.least_width(column))
    }

    /// The columns that stand side by side, from the top of the page.
    fn panels(&self) -> Vec<Vec<usize>> {
        let columns = self.table.headers.len();
        let least: usize = (0..columns).map(|column| self.least_width(column)).sum();
        if least <= self.look.width {
            return vec![(0..columns).collect()];
        }
        // A mark without a header belongs to the column after it.
        let named = self.table.headers.iter().position(|it| !it.is_empty());
        let keys: Vec<usize> = (0..=named.unwrap_or(0)).collect();
        let beside: usize = keys.iter().map(|&column| self.usual_width(column)).sum();
        let mut panels = vec![keys.clone()];
        let mut used = beside;
        for column in keys.len()..columns {
            used += self.usual_width(column);
            if let Some(panel) = panels.last_mut()
                && (used <= self.look.width || panel.len() == keys.len())
            {
                panel.push(column);
            } else {
                panels.push([&keys[..], &[column]].concat());
                used = beside + self.usual_width(column);
            }
        }
        panels
    }

    /// Widths of these columns: each as wide as its cells, or as their share of the page allows.
    fn widths(&self, columns: &[usize]) -> Vec<usize> {
        let least = columns.iter().map(|&column| self.least_width(column));
        let mut widths: Vec<usize> = least.collect();
        let mut left = self.look.width.saturating_sub(widths.iter().sum());
        let wanted = columns.iter().map(|&column| self.whole_width(column));
        let mut missing: Vec<(usize, usize)> = wanted
            .zip(&widths)
            .map(|(wanted, width)| wanted.saturating_sub(*width))
            .enumerate()
            .map(|(place, missing)| (missing, place))
            .collect();
        // Those that need least first, so that the others share what these leave.
        missing.sort_unstable();
        for (at, (missing, place)) in missing.iter().enumerate() {
            let more = (left / (widths.len() - at)).min(*missing);
            widths[*place] += more;
            left -= more;
        }
        widths
    }

    /// These columns, arranged so that no word is broken.
    fn panel(&self, columns: &[usize]) -> String {
        let mut table = self.table(columns);
        let cells = self.table.rows.iter().chain([&self.table.headers]);
        let cells = cells.flat_map(|row| columns.iter().filter_map(|&column| row.get(column)));
        let mut words: Vec<&str> = cells.flat_map(|cell| cell.split_whitespace()).collect();
        let arranged = table.lines().collect::<Vec<_>>().join("\n");
        let mut shown: Vec<&str> = arranged.split_whitespace().collect();
        words.sort_unstable();
        shown.sort_unstable();
        if words == shown {
            return self.text(&table);
        }
        for (place, width) in self.widths(columns).into_iter().enumerate() {
            if let Some(column) = table.column_mut(place) {
                let width = Width::Fixed(u16::try_from(width).unwrap_or(u16::MAX));
                column.set_constraint(ColumnConstraint::Absolute(width));
            }
        }
        self.text(&table)
    }

    fn table(&self, columns: &[usize]) -> comfy_table::Table {
        let mut table = comfy_table::Table::new();
        table.load_style(presets::NOTHING);
        table.set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(u16::try_from(self.look.width).unwrap_or(u16::MAX));
        table.set_header(columns.iter().map(|&column| &self.table.headers[column]));
        for row in &self.table.rows {
            table.add_row(columns.iter().filter_map(|&column| row.get(column)));
        }
        for (place, column) in columns.iter().enumerate() {
            if let Some(placed) = table.column_mut(place)
                && self.table.right.contains(column)
            {
                placed.set_cell_alignment(CellAlignment::Right);
            }
        }
        table
    }

    fn text(&self, table: &comfy_table::Table) -> String {
        let mut text = String::new();
        for (index, line) in table.lines().enumerate() {
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
