//! Machines of a plan: enough to read the channels without the topology file.

use crate::JsonSchema;
use serde::{Deserialize, Serialize};
use topology::{CpuArch, CpuModel, CpuVendor};

use crate::channel::GraphPaths;
use crate::graph::{Graph, GraphKind};
use crate::trail::Trail;
use crate::transport::Transports;

/// One kind of machine in the job, with its graphs: a host, or several that form one NVLink domain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Machine")]
pub struct PlannedMachine {
    /// Its name.
    pub name: String,
    /// A description in one line.
    pub summary: String,
    /// Hosts in it: 1, or those of the NVLink domain.
    pub hosts: u32,
    /// Its CPUs.
    pub cpu: MachineCpu,
    /// Its GPUs; the n-th has rank n in the machine.
    pub gpus: Vec<MachineGpu>,
    /// Its network ports.
    pub nics: Vec<MachineNic>,
    /// The GPUs that were searched together: normally one group of all GPUs.
    pub groups: Vec<GpuGroup>,
}

/// The kind of the CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MachineCpu {
    /// Architecture.
    #[schemars(with = "crate::schema::CpuArchName")]
    pub arch: CpuArch,
    /// Vendor.
    #[schemars(with = "crate::schema::CpuVendorName")]
    pub vendor: CpuVendor,
    /// Generation.
    #[schemars(with = "crate::schema::CpuModelName")]
    pub model: CpuModel,
}

/// A GPU, one rank.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MachineGpu {
    /// Rank in the machine, from 0.
    pub rank: u32,
    /// Host within the NVLink domain; left out if 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub host: u32,
    /// NVML device number.
    pub dev: i32,
    /// PCI bus id, `dddd:bb:dd.f`.
    pub bus_id: String,
    /// Compute capability × 10.
    pub sm: i32,
    /// GPUDirect RDMA possible.
    pub gdr: bool,
    /// NUMA node of the nearest CPU, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numa: Option<i32>,
    /// The processors near the GPU, as groups of hexadecimal words, the most significant first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_affinity: Option<String>,
}

/// A network port.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MachineNic {
    /// NCCL's id. Channels name the port by it.
    pub id: i64,
    /// Host within the NVLink domain; left out if 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub host: u32,
    /// The net plug-in's device number.
    pub dev: i32,
    /// Name, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// PCI bus id of the adapter, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bus_id: Option<String>,
    /// Bandwidth, GB/s.
    pub speed: f32,
    /// Port number.
    pub port: i32,
    /// GPUDirect RDMA possible.
    pub gdr: bool,
}

/// GPUs that NCCL plans together. A machine has several groups if its GPUs cannot reach each other,
/// or if the network is faster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Group")]
pub struct GpuGroup {
    /// The GPUs, by their rank in the machine, in the order in which NCCL lists them.
    pub ranks: Vec<i32>,
    /// The job has ranks outside the group, so channels go through the network.
    pub inter: bool,
    /// The widest path that a channel could have, GB/s.
    pub max_bw: f32,
    /// The most that one GPU can send, GB/s.
    pub total_bw: f32,
    /// The graphs that were found; ranks are those in the machine. A graph without channels was not
    /// found.
    pub graphs: Vec<Graph>,
    /// The paths of the hops of all channels.
    pub paths: Vec<GraphPaths>,
    /// How each search went.
    pub trails: Vec<Trail>,
    /// How bytes travel between the GPUs, and from them to network ports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transports: Option<Transports>,
}

impl PlannedMachine {
    /// The GPUs of one of its groups by their rank in the machine, ascending, with their device
    /// numbers.
    pub fn members(&self, group: &GpuGroup) -> Vec<(u32, i32)> {
        let members = group.members().into_iter();
        members
            .map(|gpu| (gpu, self.gpus.get(gpu as usize).map_or(-1, |gpu| gpu.dev)))
            .collect()
    }
}

impl GpuGroup {
    /// The GPUs by their rank in the machine, ascending.
    pub fn members(&self) -> Vec<u32> {
        let mut members: Vec<u32> = self.ranks.iter().map(|rank| *rank as u32).collect();
        members.sort_unstable();
        members
    }

    /// The graph of a search.
    pub fn graph(&self, kind: GraphKind) -> Option<&Graph> {
        self.graphs.iter().find(|graph| graph.kind == kind)
    }

    /// The paths behind a graph.
    pub fn paths(&self, kind: GraphKind) -> Option<&GraphPaths> {
        self.paths.iter().find(|paths| paths.kind == kind)
    }

    /// How a search went.
    pub fn trail(&self, kind: GraphKind) -> Option<&Trail> {
        self.trails.iter().find(|trail| trail.kind == kind)
    }
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde calls it with a reference"
)]
fn is_zero(number: &u32) -> bool {
    *number == 0
}
