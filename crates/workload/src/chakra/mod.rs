//! Chakra's execution traces: the calls of a rank, what they depend on, and computation between
//! them.
//!
//! There are three forms: protobuf (`.et`, schema 0.0.4 and later: length-delimited messages,
//! `GlobalMetadata` and then `Node`s), the same nodes as JSON, as Chakra's jsonizer writes them,
//! and what PyTorch's `ExecutionTraceObserver` writes (JSON, schema 1.0.1 to 1.1.1-chakra.0.0.4),
//! which Chakra's linker may have joined with the kernels of a profiler's trace.
//!
//! In reading order: this file (traces to a workload), `node`, `graph` (the order of nodes),
//! `protobuf`, `json`, `numbers`, `pytorch` (calls that PyTorch records).

mod graph;
mod json;
mod node;
mod numbers;
mod protobuf;
mod pytorch;
mod wire;

use std::collections::HashMap;

use program::Collective;

use crate::call::{Call, Group, MOST_CALLS, MOST_GROUPS, Measured, Wait, Workload};
use crate::error::WorkloadError;
use crate::groups::Members;
pub use json::{is_one, read as read_json};
pub use node::{Communication, Event, MOST_NODES, ProcessGroup, Trace};
pub use protobuf::{is_binary, read as read_protobuf};

/// The calls of traces of one job. The first trace gives their order and their computation, the
/// others the other communicators of its groups, and how long ranks wait for each other. `files`
/// are the names of the traces, `ranks` the number of ranks of the job.
///
/// # Errors
/// A trace has no call, has too many, or names a rank that is not in the job.
pub fn workload(traces: &[Trace], files: &[String], ranks: u32) -> Result<Workload, WorkloadError> {
    let file = |at: usize| files.get(at).map_or("trace", String::as_str);
    let is_call = |event: &Event| matches!(event, Event::Call(_));
    for (at, trace) in traces.iter().enumerate() {
        if !trace.events.iter().any(is_call) {
            let why = "no node is a collective or a transfer with a size; expected an execution trace \
                       of a job of several ranks";
            return Err(WorkloadError::new(file(at), 1, why));
        }
    }
    let Some(first) = traces.first() else {
        let why = "there is no trace; expected one";
        return Err(WorkloadError::new("trace", 1, why));
    };
    let calls = first.events.iter().filter(|it| is_call(it)).count();
    if calls > MOST_CALLS {
        let why = format!("{calls} calls; expected at most {MOST_CALLS}");
        return Err(WorkloadError::new(file(0), 1, why));
    }
    let wrong = |why: String| WorkloadError::new(file(0), 1, why);
    let mut found = Workload::default();
    let mut groups = Groups::new(traces, ranks);
    let others: Vec<ByGroup<'_>> = traces[1..].iter().map(by_group).collect();
    let mut orders: HashMap<String, usize> = HashMap::new();
    let (mut waits, mut compute_us): (Vec<Wait>, f64) = (Vec::new(), 0.0);
    for event in &first.events {
        let call = match event {
            Event::Compute(time) => {
                compute_us += time;
                continue;
            }
            Event::Wait(after) => {
                waits.push(Wait {
                    compute_us: std::mem::take(&mut compute_us),
                    after: after.clone(),
                });
                continue;
            }
            Event::Call(call) => call,
        };
        let (group, size) = groups.of(call, &mut found).map_err(wrong)?;
        let key = first.group_key(call);
        let next = orders.entry(key.clone()).or_default();
        let order = std::mem::replace(next, *next + 1);
        let bytes = call.whole_bytes(size).ok_or_else(|| {
            wrong(format!(
                "node {}: {} bytes of each of {size} ranks; expected a message in 63 bits",
                call.node, call.bytes
            ))
        })?;
        found.calls.push(Call {
            name: format!("node {}", call.node),
            data_type: call.data_type,
            waits: std::mem::take(&mut waits),
            compute_us: std::mem::take(&mut compute_us),
            after: call.after.clone(),
            blocks: false,
            ..Call::new(group, call.collective, bytes)
        });
        found.measured.push(Measured {
            time_us: call.time_us,
            waiting_us: waiting(&others, (&key, order), call),
        });
    }
    found.waits_after = waits;
    found.compute_after_us = compute_us;
    if found.measured.iter().all(|it| it.time_us == 0.0) {
        found.measured.clear();
    }
    found.ranks = first.ranks;
    found.notes = notes(traces, &found);
    Ok(found)
}

fn notes(traces: &[Trace], found: &Workload) -> Vec<String> {
    let first = &traces[0];
    let mut notes = vec![match first
        .events
        .iter()
        .any(|it| matches!(it, Event::Compute(_)))
    {
        true => {
            "Calls and computation follow each other as in the execution trace; computation waits \
                 where the trace depends on a call."
                .to_owned()
        }
        false => {
            "The execution trace has no times of kernels: computation is not known, and calls of \
                  different groups count as if nothing else ran."
                .to_owned()
        }
    }];
    if let Some(schema) = &first.schema {
        notes.push(format!("Schema {schema}."));
    }
    let left_out: u64 = traces.iter().map(|it| it.left_out).sum();
    if left_out > 0 {
        notes.push(format!(
            "{left_out} nodes of communication are left out: they have no size or type, or are of \
             other calls."
        ));
    }
    if found
        .calls
        .iter()
        .any(|it| it.collective == Collective::SendRecv)
    {
        notes.push(
            "A message counts once where it is sent and once where it is received.".to_owned(),
        );
    }
    notes
}

/// The groups of a workload, with the communicators that other ranks know.
struct Groups<'a> {
    traces: &'a [Trace],
    ranks: u32,
    /// By key the group and the size of the communicator of the first trace's rank.
    known: HashMap<String, (usize, u32)>,
}

impl<'a> Groups<'a> {
    fn new(traces: &'a [Trace], ranks: u32) -> Self {
        Self {
            traces,
            ranks,
            known: HashMap::new(),
        }
    }

    /// The group of a call, and the number of ranks of its communicator.
    fn of(&mut self, call: &Communication, found: &mut Workload) -> Result<(usize, u32), String> {
        let key = self.traces[0].group_key(call);
        if let Some(known) = self.known.get(&key) {
            return Ok(*known);
        }
        if found.groups.len() >= MOST_GROUPS {
            return Err(format!("more than {MOST_GROUPS} groups; expected fewer"));
        }
        let here = self.traces[0].ranks_of(call, self.ranks);
        if let Some(rank) = here.iter().find(|rank| **rank >= self.ranks) {
            return Err(format!(
                "node {}: rank {rank} is not in the job, which has {} ranks; expected a cluster of as \
                 many GPUs as the trace has ranks",
                call.node, self.ranks
            ));
        }
        let size = here.len() as u32;
        let members = match size == self.ranks && here.iter().copied().eq(0..size) {
            true => Members::All,
            false => Members::listed(self.communicators(&key, here))?,
        };
        found.groups.push(Group {
            name: key.clone(),
            members,
        });
        let known = (found.groups.len() - 1, size);
        self.known.insert(key, known);
        Ok(known)
    }

    /// A communicator, and those of other ranks' traces with the same description that share no
    /// rank with it.
    fn communicators(&self, key: &str, here: Vec<u32>) -> Vec<Vec<u32>> {
        let mut taken = vec![false; self.ranks as usize];
        let mut take = |list: &[u32]| {
            let free = |rank: &u32| taken.get(*rank as usize) == Some(&false);
            let fits = !list.is_empty() && list.iter().all(free);
            if fits {
                list.iter().for_each(|rank| taken[*rank as usize] = true);
            }
            fits
        };
        take(&here);
        let mut found = vec![here];
        for trace in self.traces {
            for group in trace.groups.iter().filter(|it| it.label() == key) {
                if take(&group.ranks) {
                    found.push(group.ranks.clone());
                }
            }
        }
        found.sort_unstable();
        found
    }
}

/// Calls by group, in order.
type ByGroup<'a> = HashMap<String, Vec<&'a Communication>>;

fn by_group(trace: &Trace) -> ByGroup<'_> {
    let mut found = ByGroup::new();
    for event in &trace.events {
        if let Event::Call(call) = event {
            found.entry(trace.group_key(call)).or_default().push(call);
        }
    }
    found
}

/// How long a rank waits in a call for the last one: its time less the shortest of all traces that
/// have the call and its time.
fn waiting(
    others: &[ByGroup<'_>],
    (key, order): (&str, usize),
    call: &Communication,
) -> Option<f64> {
    let same = others
        .iter()
        .filter_map(|it| it.get(key)?.get(order).copied());
    let same = same.filter(|it| {
        (it.collective, it.bytes) == (call.collective, call.bytes) && it.time_us > 0.0
    });
    let shortest = same.map(|it| it.time_us).min_by(f64::total_cmp)?;
    (call.time_us > 0.0).then(|| (call.time_us - shortest).max(0.0))
}
