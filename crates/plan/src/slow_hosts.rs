//! The hosts of a job that are slower than others, and the graphs in which they are.
//!
//! NCCL gives every host the fewest channels and the least bandwidth that any host has found, so
//! one slow host slows the job.

use crate::JsonSchema;
use serde::Serialize;

use crate::graph::GraphKind;
use crate::machine::{GpuGroup, PlannedMachine};
use crate::plan::Plan;

/// Hosts in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HostRange {
    /// The first, counted over the job.
    pub first: u32,
    /// The last.
    pub last: u32,
}

/// Channels of a graph.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, JsonSchema)]
pub struct ChannelSpeed {
    /// Number of channels.
    pub channels: u32,
    /// Bandwidth of each channel, inside the host and to the network, GB/s.
    pub bandwidth_gbps: f32,
}

impl ChannelSpeed {
    /// Channels whose bandwidths inside the host and to the network are known, GB/s. `inter`: they
    /// leave the host.
    pub const fn new(channels: u32, bw_intra: f32, bw_inter: f32, inter: bool) -> Self {
        Self {
            channels,
            bandwidth_gbps: match inter {
                _ if channels == 0 => 0.0,
                true => bw_intra.min(bw_inter),
                false => bw_intra,
            },
        }
    }

    const fn least(self, other: Self) -> Self {
        Self {
            channels: if self.channels < other.channels {
                self.channels
            } else {
                other.channels
            },
            bandwidth_gbps: self.bandwidth_gbps.min(other.bandwidth_gbps),
        }
    }

    fn total(self) -> f32 {
        self.channels as f32 * self.bandwidth_gbps
    }
}

/// A graph in which hosts are slower than others.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct SlowGraph {
    /// The graph.
    pub graph: GraphKind,
    /// The channels that these hosts found.
    pub found: ChannelSpeed,
    /// The channels of the host that found the most bandwidth in all.
    pub fastest: ChannelSpeed,
}

/// Equal hosts that are slower than others of the job.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SlowHosts {
    /// Name of their machine.
    pub machine: String,
    /// Their numbers.
    pub hosts: Vec<HostRange>,
    /// In which graphs they are slower; at least one.
    pub graphs: Vec<SlowGraph>,
}

impl GpuGroup {
    /// The channels of a graph; none if it was not searched.
    pub fn channel_speed(&self, kind: GraphKind) -> ChannelSpeed {
        self.graph(kind).map_or(ChannelSpeed::default(), |graph| {
            let channels = graph.channels.len() as u32;
            ChannelSpeed::new(channels, graph.bw_intra, graph.bw_inter, self.inter)
        })
    }
}

impl PlannedMachine {
    /// The channels of a graph that all groups of the machine found.
    pub fn channel_speed(&self, kind: GraphKind) -> ChannelSpeed {
        let speeds = self.groups.iter().map(|group| group.channel_speed(kind));
        speeds.reduce(ChannelSpeed::least).unwrap_or_default()
    }
}

impl Plan {
    /// The numbers of the hosts that are a machine, counted over the job.
    pub fn hosts_of(&self, machine: usize) -> Vec<HostRange> {
        let mut ranges: Vec<HostRange> = Vec::new();
        let mut first = 0u32;
        for run in &self.hosts {
            let each = self.machines.get(run.machine as usize);
            let hosts = run.count.saturating_mul(each.map_or(1, |each| each.hosts));
            let next = first.saturating_add(hosts);
            if run.machine as usize == machine && hosts > 0 {
                match ranges.last_mut() {
                    Some(range) if range.last + 1 == first => range.last = next - 1,
                    _ => ranges.push(HostRange {
                        first,
                        last: next - 1,
                    }),
                }
            }
            first = next;
        }
        ranges
    }

    /// The hosts that have fewer or slower channels than the fastest one, in the order of
    /// `machines`.
    pub fn slow_hosts(&self) -> Vec<SlowHosts> {
        let mut slow: Vec<SlowHosts> = Vec::new();
        for (index, machine) in self.machines.iter().enumerate() {
            let graphs: Vec<SlowGraph> = GraphKind::IN_SEARCH_ORDER
                .into_iter()
                .filter_map(|kind| self.slow_graph(machine, kind))
                .collect();
            if !graphs.is_empty() {
                slow.push(SlowHosts {
                    machine: machine.name.clone(),
                    hosts: self.hosts_of(index),
                    graphs,
                });
            }
        }
        slow
    }

    fn slow_graph(&self, machine: &PlannedMachine, graph: GraphKind) -> Option<SlowGraph> {
        let found = machine.channel_speed(graph);
        let all = self.machines.iter().map(|it| it.channel_speed(graph));
        let fastest = all.max_by(|a, b| {
            let bandwidths = a.bandwidth_gbps.total_cmp(&b.bandwidth_gbps);
            a.total().total_cmp(&b.total()).then(bandwidths)
        })?;
        let slow =
            found.channels < fastest.channels || found.bandwidth_gbps < fastest.bandwidth_gbps;
        slow.then_some(SlowGraph {
            graph,
            found,
            fastest,
        })
    }
}
