//! Tables whose columns only their header tells: other columns or another order than those of
//! nccl-tests, and those of the OSU micro-benchmarks.

use program::Collective;

use crate::results::row::{REDUCTIONS, after_prefix, is_whole_number, number};
use crate::results::values::{Damage, Figures, Row, Table, agrees};

/// Most columns of a table.
const MOST_COLUMNS: usize = 48;

/// Most words before a row that are a launcher's prefix.
const MOST_PREFIX: usize = 4;

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Column {
    Size,
    Count,
    Type,
    Reduction,
    Root,
    Time,
    AlgorithmBandwidth,
    BusBandwidth,
    Wrong,
    Other,
}

impl Column {
    fn of(name: &str) -> Self {
        let name = name.split('(').next().unwrap_or_default();
        match name.trim().to_ascii_lowercase().as_str() {
            "size" | "bytes" | "msgsize" | "msg_size" | "message size" | "msg size" => Self::Size,
            "count" | "n" | "elements" => Self::Count,
            "type" | "datatype" | "dtype" => Self::Type,
            "redop" | "op" => Self::Reduction,
            "root" => Self::Root,
            "time" | "cputime" | "latency" | "avg latency" | "avg lat" => Self::Time,
            "algbw" | "alg bw" | "algorithm bandwidth" => Self::AlgorithmBandwidth,
            "busbw" | "bus bw" | "bus bandwidth" => Self::BusBandwidth,
            "#wrong" | "wrong" | "#errors" => Self::Wrong,
            _ => Self::Other,
        }
    }
}

/// The columns of one measurement, by their places.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Group {
    time: Option<usize>,
    algorithm: Option<usize>,
    bus: Option<usize>,
    wrong: Option<usize>,
}

/// The columns that a header names.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NamedColumns {
    columns: Vec<Column>,
    groups: Vec<Group>,
    /// Times of the table in µs.
    unit: f64,
    /// Sizes of the table in bytes.
    size_unit: f64,
    /// The last column may be several words.
    has_timestamp: bool,
    pub(crate) only_in_place: bool,
}

/// The names of columns in a line that could be a header.
fn names(line: &str) -> Vec<&str> {
    let line = match line.find("# ").or_else(|| line.find('#')) {
        // `#wrong` is no beginning.
        Some(at) if !line[at..].starts_with("#wrong") => &line[at + 1..],
        _ => line,
    };
    let is_osu = ["Latency", "Lat(", "Bandwidth"]
        .iter()
        .any(|it| line.contains(it));
    match is_osu {
        true => {
            let parts = line.split("  ").flat_map(|it| it.split('\t'));
            parts.map(str::trim).filter(|it| !it.is_empty()).collect()
        }
        false => line.split_whitespace().collect(),
    }
}

/// Whether a line looks like a header of measurements.
pub(crate) fn is_header(line: &str) -> bool {
    let has = |words: &[&str]| words.iter().any(|it| line.contains(it));
    line.contains('#')
        && has(&["size", "Size", "bytes", "Bytes"])
        && has(&[
            "algbw",
            "busbw",
            "Latency(us)",
            "Latency (us)",
            "Bandwidth (MB/s)",
        ])
}

impl NamedColumns {
    /// Reads a header; `None` if it has no size, no time, or nothing that tells what is timed.
    pub(crate) fn of(line: &str) -> Option<Self> {
        if !is_header(line) {
            return None;
        }
        Self::of_names(&names(line)).filter(|it| it.groups.iter().all(|it| it.time.is_some()))
    }

    /// The columns with these names; `None` as for [`of`](Self::of), where a bandwidth tells the
    /// time, too.
    pub(crate) fn of_names(names: &[&str]) -> Option<Self> {
        if names.len() > MOST_COLUMNS {
            return None;
        }
        let columns: Vec<Column> = names.iter().map(|it| Column::of(it)).collect();
        if columns.iter().filter(|it| **it == Column::Size).count() != 1 {
            return None;
        }
        let places = (0..).zip(&columns).filter(|it| *it.1 == Column::Time);
        let times: Vec<usize> = places.map(|it| it.0).collect();
        let name_of = |place: usize| names[place].to_ascii_lowercase();
        let unit = match times.first().map(|it| name_of(*it)).unwrap_or_default() {
            name if name.contains("(ms)") => 1e3,
            name if name.contains("(s)") => 1e6,
            _ => 1.0,
        };
        let size = columns.iter().position(|it| *it == Column::Size)?;
        let size_unit = match name_of(size) {
            name if name.contains("(k") => 1024.0,
            name if name.contains("(m") => f64::from(1 << 20),
            name if name.contains("(g") => f64::from(1 << 30),
            _ => 1.0,
        };
        let groups: Vec<Group> = match times.is_empty() {
            false => (0..times.len().min(2))
                .map(|it| group(&columns, &times, it))
                .collect(),
            true => vec![bandwidths(&columns)?],
        };
        Some(Self {
            groups,
            size_unit,
            has_timestamp: names.last() == Some(&"timestamp"),
            columns,
            unit,
            only_in_place: false,
        })
    }

    /// Reads a line; `None` if it is no row.
    pub(crate) fn row(&self, line: &str) -> Option<Result<Row, Damage>> {
        if line.contains('#') || line.contains("NCCL ") {
            return None;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let count = self.columns.len();
        let prefix = match self.has_timestamp {
            true => 0,
            false => words.len().saturating_sub(count),
        };
        let is_prefix = prefix == 0
            || prefix <= MOST_PREFIX && words[prefix - 1].ends_with([':', '>', ']', '|']);
        let cells: Vec<&str> = match is_prefix {
            true => words[prefix..].iter().map(|it| after_prefix(it)).collect(),
            false => words,
        };
        let whole = is_prefix && cells.len() >= count;
        if !whole {
            let numbers = cells.iter().filter(|it| number(it).is_some()).count();
            let is_near = cells.len() + 2 >= count && cells.len() <= count + 2;
            return (is_near && numbers >= 3.max(count / 2)).then_some(Err(Damage::Cut));
        }
        self.row_of(&cells)
    }

    /// Reads the cells of a row; `None` if they are none.
    pub(crate) fn row_of(&self, cells: &[&str]) -> Option<Result<Row, Damage>> {
        let cell = |wanted: Column| {
            let at = self.columns.iter().position(|it| *it == wanted)?;
            cells.get(at).copied()
        };
        let bytes = cell(Column::Size).filter(|it| is_whole_number(it))?;
        let bytes = bytes.parse::<u64>().ok()? as f64 * self.size_unit;
        let mut row = Row {
            bytes: bytes as u64,
            count: cell(Column::Count)
                .and_then(|it| it.parse().ok())
                .unwrap_or(0),
            element: cell(Column::Type).unwrap_or("bytes").to_owned().into(),
            reduction: cell(Column::Reduction)
                .filter(|it| REDUCTIONS.contains(it) && *it != "none")
                .map(|it| it.to_owned().into()),
            root: cell(Column::Root).and_then(|it| it.parse().ok()),
            ..Row::default()
        };
        let mut read = self
            .groups
            .iter()
            .map(|it| self.figures(it, cells, row.bytes));
        let (first, second) = match (read.next()?, read.next().transpose()) {
            (Ok(first), Ok(second)) => (first, second),
            (Err(damage), _) | (_, Err(damage)) => return Some(Err(damage)),
        };
        match (second, self.only_in_place) {
            (None, true) => row.in_place = Some(first),
            (second, _) => {
                row.out_of_place = Some(first);
                row.in_place = second;
            }
        }
        Some(Ok(row))
    }

    /// Reads a measurement. A bus bandwidth that no column has is the algorithm's.
    fn figures(&self, group: &Group, cells: &[&str], bytes: u64) -> Result<Figures, Damage> {
        let number = |place: Option<usize>| number(cells.get(place?)?);
        let at = |place| number(place).filter(|it| *it >= 0.0).ok_or(Damage::Cut);
        let wrong = at(group.wrong).ok().map(|it| it as u64);
        let time_us = match (group.time, group.algorithm) {
            (Some(time), _) => at(Some(time))? * self.unit,
            (None, Some(_)) => bytes as f64 / at(group.algorithm)? / 1e3,
            // The collective and the number of ranks tell it later.
            (None, None) => {
                return Ok(Figures {
                    time_us: 0.0,
                    algorithm_gbps: 0.0,
                    bus_gbps: Some(at(group.bus)?)
                        .filter(|it| *it > 0.0)
                        .ok_or(Damage::Cut)?,
                    wrong,
                });
            }
        };
        if !time_us.is_finite() || time_us <= 0.0 {
            return Err(Damage::Contradiction(bytes));
        }
        let expected = bytes as f64 / time_us / 1e3;
        let algorithm_gbps = match group.algorithm {
            Some(place) => at(Some(place))?,
            None => expected,
        };
        match agrees(algorithm_gbps, expected) {
            true => Ok(Figures {
                time_us,
                algorithm_gbps,
                bus_gbps: at(group.bus).unwrap_or(algorithm_gbps),
                wrong,
            }),
            false => Err(Damage::Contradiction(bytes)),
        }
    }

    /// Whether rows have a bus bandwidth.
    pub(crate) fn has_bus(&self) -> bool {
        self.groups.iter().all(|it| it.bus.is_some())
    }
}

/// The columns that belong to a time: those behind it, up to the next one, else those before it.
fn group(columns: &[Column], times: &[usize], number: usize) -> Group {
    let time = times[number];
    let next = times.get(number + 1).copied().unwrap_or(columns.len());
    let last = number.checked_sub(1).map_or(0, |it| times[it] + 1);
    let find = |wanted: Column| {
        let is_it = |at: &usize| columns[*at] == wanted;
        // Columns before the first time belong to it, unless there are as many behind it.
        let behind = (time + 1..next).find(is_it);
        behind.or_else(|| (last..time).rev().find(is_it))
    };
    Group {
        time: Some(time),
        algorithm: find(Column::AlgorithmBandwidth),
        bus: find(Column::BusBandwidth),
        wrong: find(Column::Wrong),
    }
}

/// The bandwidths of a table without a time; `None` if it has none.
fn bandwidths(columns: &[Column]) -> Option<Group> {
    let find = |wanted: Column| columns.iter().position(|it| *it == wanted);
    let [algorithm, bus] = [Column::AlgorithmBandwidth, Column::BusBandwidth].map(find);
    algorithm.or(bus)?;
    Some(Group {
        time: None,
        algorithm,
        bus,
        wrong: find(Column::Wrong),
    })
}

/// The program and collective of a title of the OSU micro-benchmarks, such as
/// `# OSU NCCL-CUDA Allreduce Latency Test v7.4`.
pub(crate) fn osu(line: &str) -> Option<(&'static str, Option<Collective>)> {
    let title = line.split_once("# OSU ")?.1;
    let name = title.split_once(" Test")?.0;
    let known = [
        (
            "Allreduce Latency",
            "osu_allreduce",
            Some(Collective::AllReduce),
        ),
        (
            "Allgather Latency",
            "osu_allgather",
            Some(Collective::AllGather),
        ),
        (
            "Reduce_scatter Latency",
            "osu_reduce_scatter",
            Some(Collective::ReduceScatter),
        ),
        (
            "Broadcast Latency",
            "osu_bcast",
            Some(Collective::Broadcast),
        ),
        ("Reduce Latency", "osu_reduce", Some(Collective::Reduce)),
        (
            "Personalized Exchange Latency",
            "osu_alltoall",
            Some(Collective::AllToAll),
        ),
        ("Gather Latency", "osu_gather", Some(Collective::Gather)),
        ("Scatter Latency", "osu_scatter", Some(Collective::Scatter)),
    ];
    let is_blocking = !name.contains("Non-blocking");
    let found = known.into_iter().find(|it| {
        let before = name.strip_suffix(it.0);
        is_blocking && before.is_some_and(|it| it.ends_with(' '))
    });
    Some(found.map_or(("osu", None), |it| (it.1, it.2)))
}

/// Whether the OSU micro-benchmarks count the bytes of one rank's piece.
const fn counts_pieces(collective: Collective) -> bool {
    matches!(
        collective,
        Collective::AllGather | Collective::AllToAll | Collective::Gather | Collective::Scatter
    )
}

/// Makes sizes of the OSU micro-benchmarks those of whole messages. Without the number of ranks,
/// the collective of a table whose sizes are those of pieces is left open.
pub(crate) fn whole_messages(table: &mut Table) {
    if !table.collective.is_some_and(counts_pieces) {
        return;
    }
    let Some(ranks) = table.rank_count() else {
        table.collective = None;
        return;
    };
    table.rows.retain_mut(|row| {
        let Some(bytes) = row.bytes.checked_mul(u64::from(ranks)) else {
            return false;
        };
        row.bytes = bytes;
        for figures in row.out_of_place.iter_mut().chain(&mut row.in_place) {
            figures.algorithm_gbps = bytes as f64 / figures.time_us / 1e3;
            figures.bus_gbps = figures.algorithm_gbps;
        }
        true
    });
}

/// The number of ranks in a launcher's command, such as `mpirun -np 16 ./osu_allreduce`.
pub(crate) fn ranks_of_command(line: &str) -> Option<u32> {
    let mut words = line.split_whitespace();
    while let Some(word) = words.next() {
        let Some(option) = word.strip_prefix('-') else {
            continue;
        };
        let option = option.trim_start_matches('-');
        let value = match option {
            "np" | "n" | "ntasks" => words.next(),
            _ => option.strip_prefix("ntasks="),
        };
        if let Some(ranks) = value.and_then(|it| it.parse().ok()) {
            return (1..=1 << 20).contains(&ranks).then_some(ranks);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(header: &str, line: &str) -> Option<Row> {
        NamedColumns::of(header).expect(header).row(line)?.ok()
    }

    #[test]
    fn columns_in_any_order_are_found_by_name() {
        let header = "# type  size  count  ranks  algbw  busbw  time  #wrong  host";
        let read = row(
            header,
            "[1,0]<stdout>: float 1048576 262144 8 20.01 35.02 52.40 0 node1",
        );
        let read = read.unwrap();
        let figures = read.out_of_place.unwrap();
        assert_eq!((read.bytes, &*read.element), (1 << 20, "float"));
        assert_eq!((figures.time_us, figures.bus_gbps), (52.4, 35.02));
        assert_eq!(figures.wrong, Some(0));
        assert!(row(header, "float 1048576 262144 8 29.01 35.02 52.40 0 node1").is_none());
        assert!(row(header, "some words that are no row at all, however many").is_none());
    }

    #[test]
    fn a_bandwidth_belongs_to_the_time_before_it() {
        let header = "#NVL GPUs protocol size algbw busbw #wrong time algbw busbw #wrong";
        let read = row(
            header,
            "NVL4 12 tree 17179869184 127.87 234.43 0 134159 128.06 234.77 0",
        );
        let figures = read.unwrap().out_of_place.unwrap();
        assert_eq!((figures.algorithm_gbps, figures.bus_gbps), (128.06, 234.77));
    }

    #[test]
    fn latencies_of_the_osu_benchmarks_are_times() {
        let short = "# Size       Avg Latency(us)";
        let figures = row(short, "1048576                 52.40")
            .unwrap()
            .out_of_place
            .unwrap();
        assert_eq!(figures.time_us, 52.4);
        assert!((figures.algorithm_gbps - 20.01).abs() < 0.01);
        let long = "# Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations";
        let read = row(long, "1048576    52.40    24.80    158.96    1000").unwrap();
        assert_eq!(read.out_of_place.unwrap().time_us, 52.4);
        assert!(NamedColumns::of("# Size      Bandwidth (MB/s)").is_none());
        assert_eq!(
            osu("# OSU MPI-CUDA Reduce Latency Test v7.3").unwrap().0,
            "osu_reduce"
        );
        assert_eq!(osu("# OSU MPI-CUDA Latency Test v7.3"), Some(("osu", None)));
        assert_eq!(
            osu("# OSU MPI Non-blocking Allreduce Latency Test")
                .unwrap()
                .1,
            None
        );
        assert_eq!(
            ranks_of_command("mpirun -np 16 ./osu_allreduce -d cuda"),
            Some(16)
        );
        assert_eq!(ranks_of_command("srun --ntasks=8 osu_bcast"), Some(8));
    }
}
