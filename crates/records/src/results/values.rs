//! Measurements, as values.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use program::{Collective, Protocol};

/// The content of files.
#[derive(Debug, Clone, Default)]
pub struct Results {
    /// The files, in order.
    pub files: Vec<String>,
    /// The tables that have rows, in order.
    pub tables: Vec<Table>,
    /// Lines that were read.
    pub lines: u64,
    /// Something was left out because too much is kept.
    pub is_full: bool,
    /// Headers whose columns are not understood, the first ones of each file.
    pub unread: Vec<UnreadHeader>,
}

/// A header whose columns are not understood: its table is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadHeader {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: u64,
    /// Its text, cut after 120 characters.
    pub text: String,
}

/// The maker of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tool {
    /// nccl-tests.
    #[default]
    NcclTests,
    /// rccl-tests.
    RcclTests,
    /// The OSU micro-benchmarks.
    Osu,
    /// `topo run`.
    TopoRun,
    /// NCCL's Inspector, in a job.
    Inspector,
}

impl Tool {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NcclTests => "nccl-tests",
            Self::RcclTests => "rccl-tests",
            Self::Osu => "OSU micro-benchmarks",
            Self::TopoRun => "topo run",
            Self::Inspector => "NCCL's Inspector",
        }
    }
}

impl std::fmt::Display for Tool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// The measurements of one run of a program.
#[derive(Debug, Clone, Default)]
pub struct Table {
    /// The file.
    pub file: String,
    /// The line of the first row, from 1; 0 in JSON.
    pub line: u64,
    /// Its maker.
    pub tool: Tool,
    /// The program, such as `all_reduce_perf`.
    pub program: Option<String>,
    /// The collective; `None` if the program is unknown.
    pub collective: Option<Collective>,
    /// The file does not name the program: the collective is that of the columns and bandwidths.
    pub is_guessed: bool,
    /// NCCL's version, such as `2.27.7`.
    pub nccl: Option<String>,
    /// The ranks' GPUs, by rank.
    pub devices: Arc<Vec<Device>>,
    /// Number of ranks, if the file says it otherwise than by GPUs.
    pub ranks: Option<u32>,
    /// Number of hosts, if the file says it otherwise than by GPUs.
    pub hosts: Option<u32>,
    /// NCCL's variables of the job, by name.
    pub settings: Arc<Vec<(String, String)>>,
    /// The rows in order.
    pub rows: Vec<Row>,
    /// Rows that are left out: without a whole placement, with other columns than the header, or
    /// whose columns contradict each other.
    pub damaged: u64,
    /// The line of the first of them, from 1; 0 without any.
    pub first_damaged: u64,
    /// Those whose columns contradict each other.
    pub contradictions: Option<Contradictions>,
    /// No column has the bus bandwidth: that of rows is the algorithm's.
    pub lacks_bus: bool,
    /// The average bus bandwidth that the program prints, GB/s.
    pub average_bus_gbps: Option<f64>,
    /// Wrong elements that the program counts at its end.
    pub out_of_bounds: Option<u64>,
    /// The calls of a job, where it was timed.
    pub timing: Option<Box<Timing>>,
}

/// Calls that were timed in a job, beside its computation.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Timing {
    /// The communicator's id.
    pub communicator: String,
    /// Ranks that wrote each of these calls.
    pub ranks: u32,
    /// Calls that are left out, because the processor's clock timed them.
    pub launched: u64,
    /// Their hosts.
    pub hosts: Vec<String>,
    /// Calls of each row by time, all or a part of them.
    pub calls: Vec<Vec<Call>>,
}

/// A call of a job.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Call {
    /// When it was written, s since 1970; 0 if that is unknown.
    pub when: u64,
    /// How long it ran on the rank where it was shortest, µs.
    pub time_us: f64,
    /// Ranks that wrote it.
    pub ranks: u32,
}

/// Why a row is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Damage {
    /// It has no whole placement, or other columns than the header.
    Cut,
    /// Its columns contradict each other. Bytes of the message.
    Contradiction(u64),
}

/// Rows whose columns contradict each other: the bandwidth is not the size by the time, or the bus
/// bandwidth is not that of the collective.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contradictions {
    /// Their number.
    pub rows: u64,
    /// The line of the first one, from 1; 0 in JSON.
    pub line: u64,
    /// The least and the greatest of their sizes, bytes.
    pub bytes: (u64, u64),
}

/// The GPU of a rank.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Device {
    /// The rank.
    pub rank: u32,
    /// Its communicator, if the ranks have several.
    pub group: u32,
    /// The host's name.
    pub host: String,
    /// The process's number of the GPU.
    pub number: u32,
    /// The bus id as it is written: `0000:1b:00` or `0x1b`.
    pub bus: String,
    /// The model.
    pub model: String,
}

/// One message size.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Row {
    /// Its line, from 1; 0 in JSON.
    pub line: u64,
    /// Bytes of the whole message; all ranks' pieces together for collectives that gather or
    /// scatter.
    pub bytes: u64,
    /// Elements as the program counts them.
    pub count: u64,
    /// Type of the elements.
    pub element: Cow<'static, str>,
    /// The reduction; `None` without one.
    pub reduction: Option<Cow<'static, str>>,
    /// The root; `None` without one.
    pub root: Option<u32>,
    /// With two buffers.
    pub out_of_place: Option<Figures>,
    /// With one buffer.
    pub in_place: Option<Figures>,
    /// The choice that ran, if the file has it.
    pub ran: Option<Box<Ran>>,
    /// Time that the file predicts, µs.
    pub predicted_us: Option<f64>,
}

/// A choice that a file names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    /// The algorithm's name.
    pub algorithm: String,
    /// The protocol, if there is one.
    pub protocol: Option<Protocol>,
    /// Channels.
    pub channels: Option<u32>,
}

/// How much a bandwidth may differ from what the other columns give: a share, and GB/s, because
/// columns are rounded to two decimals.
const ROUNDED: (f64, f64) = (0.03, 0.006);

/// Whether a bandwidth is what the other columns give, both in GB/s.
pub(crate) fn agrees(bandwidth: f64, expected: f64) -> bool {
    (bandwidth - expected).abs() <= ROUNDED.0 * expected + ROUNDED.1
}

/// A measurement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figures {
    /// Time, µs.
    pub time_us: f64,
    /// Message bytes per time, GB/s.
    pub algorithm_gbps: f64,
    /// Bus bandwidth, GB/s.
    pub bus_gbps: f64,
    /// Wrong elements; `None` if they were not checked.
    pub wrong: Option<u64>,
}

impl Row {
    /// The measurement: with two buffers, else with one.
    pub fn measured(&self) -> Option<&Figures> {
        self.out_of_place.as_ref().or(self.in_place.as_ref())
    }

    /// Both placements.
    pub fn placements(&self) -> impl Iterator<Item = &Figures> {
        self.out_of_place.iter().chain(&self.in_place)
    }
}

impl Table {
    /// Number of ranks of a communicator; `None` if the file does not say.
    pub fn rank_count(&self) -> Option<u32> {
        let first = self.devices.iter().map(|it| it.group).min();
        let group = first.map(|first| self.devices.iter().filter(|it| it.group == first).count());
        // An excerpt may show the last ranks alone.
        let is_one = group == Some(self.devices.len());
        let last = self
            .devices
            .iter()
            .map(|it| it.rank.saturating_add(1))
            .max();
        let last = last.filter(|_| is_one).unwrap_or(0);
        self.ranks.or(group.map(|count| (count as u32).max(last)))
    }

    /// Number of hosts; `None` if the file names none.
    pub fn host_count(&self) -> Option<u32> {
        let hosts: BTreeSet<&str> = self.devices.iter().map(|it| it.host.as_str()).collect();
        let is_cut = self.rank_count() > Some(self.devices.len() as u32) && self.ranks.is_none();
        let listed = (!hosts.is_empty() && !is_cut).then_some(hosts.len() as u32);
        self.hosts.or(listed)
    }

    /// Counts a row that is left out.
    pub(crate) fn leave_out(&mut self, damage: Damage, line: u64) {
        self.damaged += 1;
        self.first_damaged = match self.first_damaged {
            0 => line,
            first => first.min(line),
        };
        let Damage::Contradiction(bytes) = damage else {
            return;
        };
        let all = self.contradictions.get_or_insert(Contradictions {
            rows: 0,
            line,
            bytes: (bytes, bytes),
        });
        all.rows += 1;
        all.line = all.line.min(line);
        all.bytes = (all.bytes.0.min(bytes), all.bytes.1.max(bytes));
    }

    /// Leaves out the rows whose bus bandwidth is not that of the collective among these ranks.
    pub fn leave_out_contradictions(&mut self) {
        let (Some(collective), Some(ranks), false) =
            (self.collective, self.rank_count(), self.lacks_bus)
        else {
            return;
        };
        let factor = collective.bus_factor(ranks);
        let agrees = |row: &Row| {
            let expected = |it: &Figures| factor * row.bytes as f64 / it.time_us / 1e3;
            row.placements().all(|it| agrees(it.bus_gbps, expected(it)))
        };
        let left: Vec<Row> = self.rows.extract_if(.., |row| !agrees(row)).collect();
        for row in left {
            self.leave_out(Damage::Contradiction(row.bytes), row.line);
        }
    }

    /// Wrong elements of all rows.
    pub fn wrong(&self) -> u64 {
        let rows = self.rows.iter().flat_map(Row::placements);
        let counted = rows.filter_map(|it| it.wrong);
        counted.fold(0, u64::saturating_add)
    }
}
