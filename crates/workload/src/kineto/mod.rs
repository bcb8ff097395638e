//! Traces of PyTorch's profiler (Kineto): the collectives that ran, with their measured times.
//!
//! A trace is read in pieces; memory grows with the kernels that are kept only. One trace is of one
//! rank. In reading order: this file (events to calls), [`read`] (JSON), `host` (jobs on
//! processors).

mod host;
mod read;

use std::collections::HashMap;

use plan::cost::DataType;
use program::Collective;

use crate::call::{Call, Group, MOST_CALLS, Measured, Workload};
use crate::error::WorkloadError;
use crate::groups::Members;
pub use read::{is_one, read};

/// Most kernels that are kept of a trace.
pub const MOST_KERNELS: usize = 1 << 22;

/// A trace of one rank.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Trace {
    /// The rank, where the trace says it.
    pub rank: Option<u32>,
    /// Ranks of the job.
    pub world_size: Option<u32>,
    /// Version of NCCL.
    pub nccl_version: Option<String>,
    /// Groups of processes: name, description, ranks.
    pub groups: Vec<ProcessGroup>,
    /// Kernels of collectives.
    pub collectives: Vec<Kernel>,
    /// Start and end of the other kernels, µs.
    pub compute: Vec<[f64; 2]>,
    /// Steps of the profiler.
    pub steps: u32,
    /// Kernels of NCCL without a size or of an unknown collective.
    pub left_out: u64,
}

/// A group of processes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProcessGroup {
    /// Its name: a number.
    pub name: String,
    /// What the program calls it.
    pub description: String,
    /// Its ranks.
    pub ranks: Vec<u32>,
}

/// A kernel of a collective.
#[derive(Debug, Clone, PartialEq)]
pub struct Kernel {
    /// Start, µs.
    pub start_us: f64,
    /// Duration, µs.
    pub time_us: f64,
    /// The collective.
    pub collective: Collective,
    /// Bytes of the whole message.
    pub bytes: u64,
    /// The type of the elements.
    pub data_type: DataType,
    /// Name of the group of processes.
    pub group: String,
    /// Ranks of the group.
    pub size: u32,
    /// Its ranks, where the event has them.
    pub ranks: Vec<u32>,
}

/// The calls of traces of one job: the first trace gives their order and their computation, the
/// others tell how long ranks wait for each other. `files` are the names of the traces.
///
/// # Errors
/// A trace has no collective, or they are of different jobs.
pub fn workload(traces: &[Trace], files: &[String]) -> Result<Workload, WorkloadError> {
    let file = |at: usize| files.get(at).map_or("trace", String::as_str);
    let Some(first) = traces.first() else {
        return Err(WorkloadError::new(
            "trace",
            1,
            "there is no trace; expected one",
        ));
    };
    for (at, trace) in traces.iter().enumerate() {
        if trace.collectives.is_empty() {
            let why = "no kernel of NCCL has a collective's name, size and type, and no call of topo or \
                       Gloo an end and shapes; expected a trace that PyTorch's profiler wrote with CUDA \
                       activities, or on processors with record_shapes and profile_all_threads";
            return Err(WorkloadError::new(file(at), 1, why));
        }
        if trace.world_size != first.world_size {
            let why = format!(
                "the trace is of a job of {} ranks, {} of {}; expected traces of one job",
                size(trace.world_size),
                file(0),
                size(first.world_size)
            );
            return Err(WorkloadError::new(file(at), 1, why));
        }
        let known = traces[..at]
            .iter()
            .any(|it| it.rank.is_some() && it.rank == trace.rank);
        if known {
            let why = format!("another trace is of rank {}, too", size(trace.rank));
            return Err(WorkloadError::new(file(at), 1, why));
        }
    }
    let mut found = Workload {
        ranks: first.world_size,
        ..Workload::default()
    };
    let kernels = in_order(first);
    let others: Vec<ByGroup<'_>> = traces[1..].iter().map(by_group).collect();
    let compute = joined(&first.compute);
    let begin = kernels[0]
        .start_us
        .min(compute.first().map_or(f64::MAX, |it| it[0]));
    // Computation before each call that no call hides.
    let mut done_until = begin;
    let mut orders: HashMap<&str, usize> = HashMap::new();
    for kernel in kernels.into_iter().take(MOST_CALLS) {
        let group = group(&mut found, first, kernel);
        let next = orders.entry(kernel.group.as_str()).or_default();
        let order = std::mem::replace(next, *next + 1);
        let waiting_us = waiting(&others, kernel, order);
        // The call begins with the last rank: until then computation hides nothing of it.
        let [start, end] = [
            kernel.start_us + waiting_us.unwrap_or(0.0),
            kernel.start_us + kernel.time_us,
        ];
        found.calls.push(Call {
            name: String::new(),
            data_type: kernel.data_type,
            compute_us: within(&compute, [done_until, start]),
            overlap_us: within(&compute, [start.max(done_until), end]),
            start_us: Some(start - begin),
            ..Call::new(group, kernel.collective, kernel.bytes)
        });
        found.measured.push(Measured {
            time_us: kernel.time_us,
            waiting_us,
        });
        done_until = done_until.max(end);
    }
    found.compute_after_us = within(&compute, [done_until, f64::MAX]);
    found.notes = notes(traces, first);
    Ok(found)
}

fn size(number: Option<u32>) -> String {
    number.map_or_else(|| "unknown".to_owned(), |it| it.to_string())
}

fn notes(traces: &[Trace], first: &Trace) -> Vec<String> {
    let mut notes = vec![
        "Each call starts when it started in the trace, or when the calls before have ended."
            .to_owned(),
    ];
    if first.steps > 1 {
        notes.push(format!(
            "The trace has {} steps of the profiler; all figures are of the whole trace.",
            first.steps
        ));
    }
    if let Some(version) = &first.nccl_version {
        notes.push(format!("NCCL {version} ran."));
    }
    let left_out: u64 = traces.iter().map(|it| it.left_out).sum();
    if left_out > 0 {
        notes.push(format!(
            "{left_out} calls are left out: they have no size, type or end, or are of other kinds."
        ));
    }
    notes
}

/// The group of a kernel.
fn group(found: &mut Workload, trace: &Trace, kernel: &Kernel) -> usize {
    let known = trace.groups.iter().find(|it| it.name == kernel.group);
    let mut ranks = kernel.ranks.clone();
    if ranks.len() != kernel.size as usize {
        ranks = known.map_or_else(Vec::new, |it| it.ranks.clone());
    }
    if ranks.len() != kernel.size as usize {
        // No list: the ranks of the whole job, or those in a row.
        ranks = (0..kernel.size).collect();
    }
    let name = match known.map_or("", |it| it.description.as_str()) {
        "" | "undefined" => format!("group {}", kernel.group),
        description => description.to_owned(),
    };
    let members = Members::listed(vec![ranks]).unwrap_or(Members::All);
    let same = |it: &Group| it.name == name && it.members == members;
    match found.groups.iter().position(same) {
        Some(at) => at,
        None => {
            found.groups.push(Group { name, members });
            found.groups.len() - 1
        }
    }
}

/// Kernels by group, in order.
type ByGroup<'a> = HashMap<&'a str, Vec<&'a Kernel>>;

/// The kernels of collectives of a trace, in order.
fn in_order(trace: &Trace) -> Vec<&Kernel> {
    let mut kernels: Vec<&Kernel> = trace.collectives.iter().collect();
    kernels.sort_by(|a, b| a.start_us.total_cmp(&b.start_us));
    kernels
}

fn by_group(trace: &Trace) -> ByGroup<'_> {
    let mut found = ByGroup::new();
    for kernel in in_order(trace) {
        found.entry(&kernel.group).or_default().push(kernel);
    }
    found
}

/// How long a rank waits in a call for the last one: its time less the shortest of all traces that
/// have the call.
fn waiting(others: &[ByGroup<'_>], kernel: &Kernel, order: usize) -> Option<f64> {
    let mut shortest: Option<f64> = None;
    for other in others {
        let Some(same) = other
            .get(kernel.group.as_str())
            .and_then(|it| it.get(order))
        else {
            continue;
        };
        if (same.collective, same.bytes) == (kernel.collective, kernel.bytes) {
            shortest = Some(shortest.map_or(same.time_us, |it| it.min(same.time_us)));
        }
    }
    shortest.map(|shortest| (kernel.time_us - shortest).max(0.0))
}

/// Spans in order, those that overlap as one.
fn joined(spans: &[[f64; 2]]) -> Vec<[f64; 2]> {
    let mut spans = spans.to_vec();
    spans.sort_by(|a, b| a[0].total_cmp(&b[0]));
    let mut found: Vec<[f64; 2]> = Vec::new();
    for span in spans {
        match found.last_mut() {
            Some(last) if span[0] <= last[1] => last[1] = last[1].max(span[1]),
            _ => found.push(span),
        }
    }
    found
}

/// How much of these spans lies in a window.
fn within(spans: &[[f64; 2]], [from, to]: [f64; 2]) -> f64 {
    let first = spans.partition_point(|span| span[1] <= from);
    let inside = spans[first..].iter().take_while(|span| span[0] < to);
    inside.map(|span| span[1].min(to) - span[0].max(from)).sum()
}
