//! Rows of a table, and the header that names their columns.
//!
//! A row is `size count type [redop] [root]` and one or two groups of columns with `time`, `algbw`
//! and `busbw`. Other tables are read in `named`. nccl-tests before 2.13 (2022) prints only the
//! columns that a collective has; before 2019 times are in ms. Other programs' output can cut a
//! row; its groups are then in lines of their own.

use std::borrow::Cow;

use crate::results::values::{Damage, Figures, Row, agrees};

/// Types of elements that nccl-tests and rccl-tests print.
const TYPES: [&str; 17] = [
    "float", "half", "double", "bfloat16", "int8", "uint8", "int32", "uint32", "int64", "uint64",
    "f8e4m3", "f8e5m2", "fp8_e4m3", "fp8_e5m2", "char", "int", "fp8",
];

/// Reductions that they print; `none` is none.
pub(crate) const REDUCTIONS: [&str; 7] = ["sum", "prod", "max", "min", "avg", "mulsum", "none"];

/// Columns of a group when no header says it: time, two bandwidths, wrong elements.
const USUAL_GROUP: usize = 4;

/// Most columns of a group.
const MOST_GROUP: usize = 16;

/// Most words of a launcher's prefix.
const MOST_PREFIX: usize = 12;

/// Fewest numbers of a line that continues a row.
const LEAST_CONTINUED: usize = 3;

/// The columns of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Columns of a group.
    group: usize,
    /// The columns of a group with the time and both bandwidths.
    figures: [usize; 3],
    /// The column of a group that counts wrong elements.
    wrong: Option<usize>,
    /// There is a column for the root; `None` if no header says it.
    has_root: Option<bool>,
    /// The only group is in place.
    only_in_place: bool,
}

impl Default for Layout {
    fn default() -> Self {
        Self {
            group: USUAL_GROUP,
            figures: [0, 1, 2],
            wrong: Some(USUAL_GROUP - 1),
            has_root: None,
            only_in_place: false,
        }
    }
}

/// The content of a header line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Header {
    /// The line above the columns; `true` if the only placement is in place.
    Placements(bool),
    /// The names of the columns.
    Columns(Layout),
}

/// Reads a header line.
pub fn header(line: &str) -> Option<Header> {
    let places = [line.contains("out-of-place"), line.contains("in-place")];
    if line.contains('#') && (places[0] || places[1]) {
        return Some(Header::Placements(!places[0]));
    }
    let names: Vec<&str> = line.split_whitespace().collect();
    let begins = |pair: &[&str]| matches!(pair, ["size", "count"] | ["bytes", "N"]);
    let first = names.windows(2).position(begins)?;
    let names = &names[first..];
    let is_leading = |name: &&&str| {
        let known = ["size", "count", "bytes", "N", "type", "redop", "op", "root"];
        known.contains(*name)
    };
    let leading = names.iter().take_while(is_leading).count();
    let (leading, groups) = names.split_at(leading);
    let rest = leading.get(2..)?;
    let orders: [&[&str]; 6] = [
        &["type"],
        &["type", "redop"],
        &["type", "op"],
        &["type", "root"],
        &["type", "redop", "root"],
        &["type", "op", "root"],
    ];
    if !orders.contains(&rest) {
        return None;
    }
    let is_time = |name: &&str| matches!(*name, "time" | "cputime");
    let mut times = groups.iter().enumerate().filter(|it| is_time(it.1));
    let first = times.next()?.0;
    let end = groups.iter().position(|it| *it == "timestamp");
    let group = match times.next() {
        Some((next, _)) => next - first,
        None => end.unwrap_or(groups.len()),
    };
    if !(LEAST_CONTINUED..=MOST_GROUP).contains(&group) {
        return None;
    }
    let place = |name: &str| groups.iter().take(group).position(|it| *it == name);
    Some(Header::Columns(Layout {
        group,
        figures: [first, place("algbw")?, place("busbw")?],
        wrong: place("#wrong"),
        has_root: Some(rest.contains(&"root")),
        only_in_place: false,
    }))
}

impl Layout {
    /// The same columns, whose only group is in place.
    #[must_use]
    pub const fn only_in_place(self, only: bool) -> Self {
        Self {
            only_in_place: only,
            ..self
        }
    }
}

/// A row, as long as its numbers arrive.
#[derive(Debug, Clone)]
pub struct OpenRow {
    row: Row,
    layout: Layout,
    /// Numbers after the reduction; `None` where the program prints N/A.
    numbers: Vec<Option<f64>>,
}

impl OpenRow {
    /// Reads the beginning of a row, after a launcher's prefix.
    pub fn begin(line: &str, layout: Layout) -> Option<Self> {
        let mut words = line.split_whitespace();
        let mut last: [&str; 2] = words.next().map(|word| [after_prefix(word), ""])?;
        last[1] = words.next()?;
        let mut left = MOST_PREFIX;
        let element = loop {
            let word = words.next()?;
            if last.iter().all(|it| is_whole_number(it))
                && let Some(known) = TYPES.iter().find(|it| **it == word)
            {
                break *known;
            }
            last = [after_prefix(last[1]), word];
            left -= 1;
            if left == 0 {
                return None;
            }
        };
        let mut row = Row {
            bytes: last[0].parse().ok()?,
            count: last[1].parse().ok()?,
            element: element.into(),
            ..Row::default()
        };
        let mut rest = words.clone();
        if let Some(word) = words.next()
            && let Some(known) = REDUCTIONS.iter().find(|it| **it == word)
        {
            row.reduction = (word != "none").then_some(Cow::Borrowed(known));
            rest = words;
        }
        let mut open = Self {
            row,
            layout,
            numbers: Vec::new(),
        };
        open.take(rest, line.contains("NCCL "));
        Some(open)
    }

    /// Takes numbers up to the first other word.
    fn take<'a>(&mut self, words: impl Iterator<Item = &'a str>, is_interrupted: bool) {
        for word in words {
            if self.numbers.len() > 2 * MOST_GROUP {
                return;
            }
            if word == "N/A" {
                self.numbers.push(None);
            } else if let Some(number) = number(word) {
                self.numbers.push(Some(number));
            } else {
                let begun = is_interrupted.then(|| leading_number(word)).flatten();
                self.numbers.extend(begun.map(Some));
                return;
            }
        }
    }

    /// Takes a line that continues the row. Returns `false` if it does not.
    pub fn proceed(&mut self, line: &str) -> bool {
        let groups = self.numbers.len() / self.layout.group;
        if groups >= 2 || line.trim_start().starts_with('#') {
            return false;
        }
        let is_number = |word: &&str| *word == "N/A" || number(word).is_some();
        let mut words: Vec<&str> = line.split_whitespace().collect();
        if let Some(first) = words.first_mut() {
            *first = after_prefix(first);
        }
        let words = match words.split_first() {
            Some((first, rest)) if !is_number(first) && first.is_empty() => rest,
            _ => &words[..],
        };
        let head = words.iter().take_while(|it| is_number(it)).count();
        let is_interrupted = line.contains("NCCL ");
        if head < LEAST_CONTINUED || (head < words.len() && !is_interrupted) {
            return false;
        }
        self.take(words.iter().copied(), is_interrupted);
        true
    }

    /// Ends the row.
    ///
    /// # Errors
    /// It contradicts itself, or has no whole placement.
    pub(crate) fn close(mut self) -> Result<Row, Damage> {
        let group = self.layout.group;
        let has_root = match self.layout.has_root {
            Some(has_root) => has_root,
            None => self.numbers.len() % group == 1,
        };
        let mut numbers = &self.numbers[..];
        if has_root && let Some((root, rest)) = numbers.split_first() {
            // -1: the collective has no root.
            let root = root.filter(|root| root.fract() == 0.0 && (0.0..1e9).contains(root));
            self.row.root = root.map(|root| root as u32);
            numbers = rest;
        }
        let mut groups = numbers.chunks_exact(group);
        let mut measured = || groups.next().map(|it| self.measured(it)).transpose();
        let (first, second) = (measured()?, measured()?);
        match (first, second, self.layout.only_in_place) {
            (None, None, _) => return Err(Damage::Cut),
            (only, None, true) => self.row.in_place = only,
            (first, second, _) => {
                self.row.out_of_place = first;
                self.row.in_place = second;
            }
        }
        Ok(self.row)
    }

    /// Reads a group.
    fn measured(&self, group: &[Option<f64>]) -> Result<Figures, Damage> {
        let [time, algorithm_gbps, bus_gbps] = self
            .layout
            .figures
            .map(|at| group.get(at).copied().flatten().ok_or(Damage::Cut));
        let (time, algorithm_gbps, bus_gbps) = (time?, algorithm_gbps?, bus_gbps?);
        let bytes = self.row.bytes as f64;
        // Times of µs, and those of ms before 2019.
        let mut times = [time, 1000.0 * time].into_iter();
        let time_us = times.find(|time| agrees(algorithm_gbps, bytes / time / 1000.0));
        let is_it = time > 0.0 && algorithm_gbps >= 0.0 && bus_gbps >= 0.0;
        let time_us = time_us.filter(|_| is_it);
        let wrong = self.layout.wrong.and_then(|at| *group.get(at)?);
        Ok(Figures {
            time_us: time_us.ok_or(Damage::Contradiction(self.row.bytes))?,
            algorithm_gbps,
            bus_gbps,
            wrong: wrong.filter(|it| *it >= 0.0).map(|it| it as u64),
        })
    }
}

/// The text behind a launcher's prefix in a word: `[1,0]<stdout>:8` is `8`.
pub(crate) fn after_prefix(word: &str) -> &str {
    match word.rfind([':', '>', ']', '|']) {
        Some(at) => &word[at + 1..],
        None => word,
    }
}

pub(crate) fn is_whole_number(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|it| it.is_ascii_digit())
}

/// A number as C prints it.
pub(crate) fn number(word: &str) -> Option<f64> {
    let known = |it: u8| it.is_ascii_digit() || b"+-.eE".contains(&it);
    // rccl-tests marks errors beyond a threshold.
    let word = word.strip_suffix('*').unwrap_or(word);
    if !word.bytes().all(known) {
        return None;
    }
    word.parse().ok().filter(|it: &f64| it.is_finite())
}

/// The number with which a word begins that another program's output continues.
fn leading_number(word: &str) -> Option<f64> {
    let sign = usize::from(word.starts_with('-'));
    let digits = word[sign..]
        .bytes()
        .take_while(|it| it.is_ascii_digit() || *it == b'.');
    number(&word[..sign + digits.count()])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(line: &str) -> Layout {
        match header(line) {
            Some(Header::Columns(layout)) => layout,
            other => panic!("{line}: {other:?}"),
        }
    }

    fn whole(line: &str, layout: Layout) -> Row {
        let open = OpenRow::begin(line, layout);
        open.and_then(|it| it.close().ok()).expect(line)
    }

    fn times(row: &Row) -> Vec<f64> {
        row.placements().map(|it| it.time_us).collect()
    }

    #[test]
    fn columns_of_all_years_are_read() {
        let new = "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong";
        let row = whole(
            "     8388608       2097152     float     sum      -1    84.55   99.22  173.63      0    85.00   98.69  172.71      3",
            columns(new),
        );
        assert_eq!((row.bytes, row.root), (8_388_608, None));
        assert_eq!(times(&row), [84.55, 85.0]);
        assert_eq!(row.in_place.unwrap().wrong, Some(3));
        let old = "#       size         count    type     time   algbw   busbw  error     time   algbw   busbw  error";
        let row = whole(
            "     1048576         32768   float    26.86   39.04   34.16  0e+00    26.51   39.56   34.61    N/A",
            columns(old),
        );
        assert_eq!(times(&row), [26.86, 26.51]);
        assert_eq!(row.out_of_place.unwrap().wrong, None);
        let first = "#      bytes             N    type      op     time  algbw  busbw      res     time  algbw  busbw      res";
        let row = whole(
            "     1000000        250000   float     sum    0.040  25.00  43.75    0e+00    0.050  20.00  35.00    0e+00",
            columns(first),
        );
        assert_eq!(times(&row), [40.0, 50.0]);
        let rooted = "#       size         count    type    root     time   algbw   busbw  error     time   algbw   busbw  error";
        let row = whole(
            "     1048576        262144   float       2    26.86   39.04   39.04  0e+00    26.51   39.56   39.56  0e+00",
            columns(rooted),
        );
        assert_eq!(row.root, Some(2));
    }

    #[test]
    fn columns_of_single_iterations_and_times_of_day_are_skipped() {
        let layout = columns(
            "#  size  count  type  redop  root  time  algbw  busbw  #wrong  i_min  i_max  i_p99  i_cv%  time  algbw  busbw  #wrong  i_min  i_max  i_p99  i_cv% timestamp",
        );
        let row = whole(
            " 1048576 262144 float sum -1 50.00 20.97 36.70 0 48.0 60.0 59.0 2.1 51.00 20.56 35.98 0 48.0 60.0 59.0 2.1 2026-01-02 10:11:12",
            layout,
        );
        assert_eq!(times(&row), [50.0, 51.0]);
    }

    #[test]
    fn rows_without_a_header_and_behind_prefixes_are_read() {
        let line = "[1,0]<stdout>:     1048576        262144     float     sum      -1    52.40   20.01   35.02      0";
        assert_eq!(times(&whole(line, Layout::default())), [52.4]);
        let line = "0: 1048576 262144 half none 3 300304 0.00 0.00 0 1e+05 0.01 0.01 N/A";
        let row = whole(line, Layout::default());
        assert_eq!((times(&row), row.root), (vec![300_304.0, 1e5], Some(3)));
    }

    #[test]
    fn a_row_that_others_cut_goes_on_in_later_lines() {
        let begun = "     8388608       2097152     float     sum      -1n1:65:65 [1] NCCL INFO AllReduce: opCount 0";
        let mut open = OpenRow::begin(begun, Layout::default()).unwrap();
        assert!(!open.proceed("n1:1:1 [0] NCCL INFO 12 coll channels"));
        assert!(!open.proceed("12 13"));
        assert!(open.proceed("   84.55   99.22  173.63      0n1:65:65 [0] NCCL INFO x"));
        assert!(open.proceed("[1,0]<stdout>:   85.00   98.69  172.71      0"));
        assert!(!open.proceed("   85.00   98.69  172.71      0"));
        let row = open.close().unwrap();
        assert_eq!(times(&row), [84.55, 85.0]);
        assert_eq!(row.root, None);
    }

    #[test]
    fn contradictions_are_damage() {
        let line = "8388608 2097152 float sum -1 84.55 9.22 173.63 0 85.00 98.69 172.71 0";
        let open = OpenRow::begin(line, Layout::default()).unwrap();
        assert_eq!(open.close(), Err(Damage::Contradiction(8_388_608)));
        let open = OpenRow::begin("8 2 float sum -1", Layout::default()).unwrap();
        assert_eq!(open.close(), Err(Damage::Cut));
        assert!(OpenRow::begin("8 two float sum", Layout::default()).is_none());
        assert!(OpenRow::begin("size float", Layout::default()).is_none());
    }
}
