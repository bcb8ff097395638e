//! The parts of an execution trace that are kept.

use std::collections::HashMap;

use plan::cost::DataType;
use program::Collective;
use serde::Deserialize;

/// Most nodes of a trace.
pub const MOST_NODES: usize = 1 << 22;

/// A trace of one rank: computation, calls and waits in order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Trace {
    /// The version of the schema, where the trace has it.
    pub schema: Option<String>,
    /// Ranks of the job, where the trace says it.
    pub ranks: Option<u32>,
    /// Groups of processes.
    pub groups: Vec<ProcessGroup>,
    /// What the rank does.
    pub events: Vec<Event>,
    /// Nodes of communication that are not kept.
    pub left_out: u64,
}

/// A step of a rank.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// Computation, µs.
    Compute(f64),
    /// A call, which computation does not wait for.
    Call(Communication),
    /// Computation waits for these calls, counted from the first.
    Wait(Vec<usize>),
}

/// A group of processes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ProcessGroup {
    /// Its name: a number.
    #[serde(rename = "pg_name")]
    pub name: String,
    /// What the program calls it.
    #[serde(rename = "pg_desc")]
    pub description: String,
    /// Its ranks; empty if it has all.
    pub ranks: Vec<u32>,
    /// Its size.
    #[serde(rename = "group_size", alias = "pg_size")]
    pub size: u32,
}

impl ProcessGroup {
    /// The name of its group in a workload: the description, if it has one.
    pub fn label(&self) -> String {
        match self.description.as_str() {
            "" | "undefined" => group_label(&self.name),
            description => description.to_owned(),
        }
    }
}

fn group_label(name: &str) -> String {
    match name {
        "" => "all".to_owned(),
        name => format!("group {name}"),
    }
}

/// A collective, or a message that is sent or received.
#[derive(Debug, Clone, PartialEq)]
pub struct Communication {
    /// Id of its node.
    pub node: u64,
    /// The collective.
    pub collective: Collective,
    /// Bytes: of the whole message, or what this rank gives.
    pub bytes: u64,
    /// `bytes` is what this rank gives to an all-gather.
    pub of_rank: bool,
    /// The type of the elements.
    pub data_type: DataType,
    /// Name of its group of processes; may be empty.
    pub group: String,
    /// Ranks of its group, where the node has them.
    pub ranks: Vec<u32>,
    /// Ranks of its group, if only their number is known; 0: not known.
    pub size: u32,
    /// It begins after these earlier calls, counted from the first.
    pub after: Vec<usize>,
    /// What it took, µs; 0: not measured.
    pub time_us: f64,
}

impl Communication {
    /// Bytes of the whole message of a communicator of `size` ranks.
    pub(super) fn whole_bytes(&self, size: u32) -> Option<u64> {
        let whole = match self.of_rank {
            true => self.bytes.checked_mul(u64::from(size))?,
            false => self.bytes,
        };
        i64::try_from(whole).ok().filter(|it| *it > 0)?;
        Some(whole)
    }
}

impl Trace {
    fn process_group(&self, name: &str) -> Option<&ProcessGroup> {
        self.groups.iter().find(|it| it.name == name)
    }

    /// The name of a call's group in a workload.
    pub(super) fn group_key(&self, call: &Communication) -> String {
        match self.process_group(&call.group) {
            Some(group) => group.label(),
            // Two ranks that send to each other.
            None if call.group.is_empty() && !call.ranks.is_empty() => {
                let ranks: Vec<String> = call.ranks.iter().map(u32::to_string).collect();
                format!("ranks {}", ranks.join("-"))
            }
            None => group_label(&call.group),
        }
    }

    /// The ranks of a call's communicator in a job of `ranks`.
    pub(super) fn ranks_of(&self, call: &Communication, ranks: u32) -> Vec<u32> {
        if !call.ranks.is_empty() {
            return call.ranks.clone();
        }
        let group = self.process_group(&call.group);
        if let Some(group) = group.filter(|it| !it.ranks.is_empty()) {
            return group.ranks.clone();
        }
        let size = match group.map_or(call.size, |it| it.size) {
            0 => ranks,
            size => size,
        };
        // At most one rank more than the job has, so that the caller notices.
        (0..size.min(ranks.saturating_add(1))).collect()
    }
}

/// Joins the groups of a list with those that are known.
pub(super) fn join(known: &mut Vec<ProcessGroup>, more: Vec<ProcessGroup>) {
    let mut places: HashMap<String, usize> = HashMap::new();
    for (at, group) in known.iter().enumerate() {
        places.insert(group.name.clone(), at);
    }
    for group in more {
        match places.get(&group.name) {
            Some(at) => known[*at] = group,
            None => {
                places.insert(group.name.clone(), known.len());
                known.push(group);
            }
        }
    }
}
