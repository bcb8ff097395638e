//! Fabric files: what a simulation assumes of the network and the ranks.
//!
//! A file is TOML. Everything is optional; what is left out is as the plan says, on a switch
//! without contention. docs/simulation.md lists the keys.

pub mod cables;
mod forms;
pub mod host_list;
mod read;
pub mod switch_tree;

use std::collections::BTreeMap;

pub use cables::Cables;
pub use read::FabricError;
pub use switch_tree::{SwitchError, SwitchTree};

/// The assumptions of a simulation beside the plan.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Fabric {
    /// All ports of the network.
    pub network: Network,
    /// Leaf switches under a spine; `None` is one switch without contention.
    pub leaf: Option<Leaf>,
    /// Latencies that replace those of the cost profile, µs.
    pub latency: Latencies<Option<f64>>,
    /// The work of ranks themselves.
    pub ranks: Ranks,
    /// Bytes of FIFO slots.
    pub slots: Slots,
    /// When ranks begin later than others, by rank, µs.
    pub delays: BTreeMap<u32, f64>,
    /// Ports that differ from the others.
    pub ports: Vec<Port>,
    /// Leaf switches with failed uplinks.
    pub uplinks: Vec<Uplink>,
    /// Cables between hosts, if there is no switch.
    pub cables: Cables,
}

/// Why a file describes no fabric.
#[derive(Debug, thiserror::Error)]
pub enum FabricFileError {
    /// A fabric file.
    #[error(transparent)]
    Fabric(#[from] FabricError),
    /// Switches of Slurm or ibnetdiscover.
    #[error(transparent)]
    Switches(#[from] SwitchError),
}

impl Fabric {
    /// Reads a fabric file, or switches as Slurm or ibnetdiscover write them: hosts join the job in
    /// the order of that file, and nothing limits the uplinks.
    ///
    /// # Errors
    /// A line is wrong.
    pub fn from_text(file: &str, text: &str) -> Result<Self, FabricFileError> {
        if !SwitchTree::is_one(text) {
            return Ok(Self::from_toml(file, text)?);
        }
        let tree = SwitchTree::read(file, text)?;
        let hosts = tree.hosts();
        let leaves: Vec<usize> = hosts.iter().filter_map(|it| tree.leaf_of(it)).collect();
        Ok(Self {
            leaf: Some(Leaf {
                of: SwitchTree::leaf_numbers(&leaves),
                ..Leaf::default()
            }),
            ..Self::default()
        })
    }
}

/// The ports of the network.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Network {
    /// The rate of each port in each direction, GB/s, instead of the plan's.
    pub port_gbps: Option<f64>,
    /// Bytes beside the data of each slot.
    pub header_bytes: u32,
    /// Slots that the receiver has room for; 8 if left out.
    pub window_slots: Option<u32>,
}

/// Leaf switches; any two are connected through the spine.
#[derive(Debug, Clone, PartialEq)]
pub struct Leaf {
    /// Hosts of a leaf switch.
    pub hosts: u32,
    /// The leaf switch of each host, where leaf switches differ in their hosts.
    pub of: Vec<u32>,
    /// Whether ports with different numbers are on different leaf switches.
    pub rails: bool,
    /// Bandwidth of a leaf's ports over the bandwidth of its uplinks.
    pub oversubscription: f64,
    /// Uplinks of a leaf; transfers are spread over all evenly.
    pub uplinks: u32,
    /// Latency that the spine adds, µs.
    pub spine_us: f64,
}

impl Default for Leaf {
    fn default() -> Self {
        Self {
            hosts: 1,
            of: Vec::new(),
            rails: false,
            oversubscription: 1.0,
            uplinks: 1,
            spine_us: 0.0,
        }
    }
}

impl Leaf {
    /// The leaf switch of a host.
    pub fn of_host(&self, host: u32) -> u32 {
        let listed = self.of.get(host as usize).copied();
        listed.unwrap_or(host / self.hosts.max(1))
    }

    /// The number of leaf switches of a job.
    pub fn count(&self, hosts: u32) -> u32 {
        match self.of.iter().max() {
            Some(last) => last + 1,
            None => hosts.div_ceil(self.hosts.max(1)),
        }
    }

    /// Hosts of each leaf switch of a job.
    pub fn sizes(&self, hosts: u32) -> Vec<u32> {
        let mut sizes = vec![0; self.count(hosts) as usize];
        if self.of.is_empty() {
            sizes.fill(self.hosts);
        }
        for leaf in &self.of {
            if let Some(size) = sizes.get_mut(*leaf as usize) {
                *size += 1;
            }
        }
        sizes
    }
}

/// Latencies from the end of a transfer until its receiver sees it, µs.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Latencies<T> {
    /// Before the first step.
    pub start: T,
    /// Over NVLink.
    pub nvlink: T,
    /// Over PCI Express or memory of the host.
    pub pci: T,
    /// From port to port.
    pub network: T,
}

impl Latencies<f64> {
    /// These, replaced by those that are given.
    #[must_use]
    pub fn or(self, given: &Latencies<Option<f64>>) -> Self {
        Self {
            start: given.start.unwrap_or(self.start),
            nvlink: given.nvlink.unwrap_or(self.nvlink),
            pci: given.pci.unwrap_or(self.pci),
            network: given.network.unwrap_or(self.network),
        }
    }
}

/// The work of ranks themselves.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Ranks {
    /// Bytes that a rank reduces or copies, GB/s: all its lanes together. `None` takes no time.
    pub work_gbps: Option<f64>,
    /// Ranks of each host, for jobs without a plan.
    pub per_host: Option<u32>,
}

/// Data bytes of a FIFO slot, by protocol, where they differ from the runtime's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Slots {
    /// LL.
    pub ll: Option<u32>,
    /// LL128.
    pub ll128: Option<u32>,
    /// Simple.
    pub simple: Option<u32>,
}

/// A port that differs from the others.
#[derive(Debug, Clone, PartialEq)]
pub struct Port {
    /// Its host.
    pub host: u32,
    /// Its number on the host; `None` is all of them.
    pub nic: Option<u32>,
    /// Rate of sending, GB/s.
    pub send_gbps: Option<f64>,
    /// Rate of receiving, GB/s.
    pub receive_gbps: Option<f64>,
    /// Whether it carries nothing.
    pub failed: bool,
}

/// A leaf switch with failed uplinks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uplink {
    /// The leaf's number, as [`Leaf::of_host`] has it.
    pub leaf: u32,
    /// Its rail; 0 without rails.
    pub rail: u32,
    /// How many of its uplinks failed.
    pub failed: u32,
}

impl Fabric {
    /// Ranks, hosts and leaf switches that the file names but the job does not have.
    ///
    /// # Errors
    /// Which, and what the job has.
    pub fn check(&self, ranks: u32, hosts: u32, rails: u32) -> Result<(), FabricError> {
        let absent = |what: &str, number: u32, count: u32| {
            Err(FabricError::Absent {
                what: what.to_owned(),
                number,
                count,
            })
        };
        if let Some(rank) = self.delays.keys().find(|rank| **rank >= ranks) {
            return absent("rank", *rank, ranks);
        }
        if let Some(port) = self.ports.iter().find(|port| port.host >= hosts) {
            return absent("host", port.host, hosts);
        }
        let nics = self.ports.iter().filter_map(|port| port.nic);
        if let Some(nic) = nics.into_iter().find(|nic| *nic >= rails) {
            return absent("nic", nic, rails);
        }
        if !self.cables.is_empty() {
            return Err(FabricError::Cables);
        }
        let Some(leaf) = &self.leaf else {
            return match self.uplinks.first() {
                Some(uplink) => absent("leaf", uplink.leaf, 0),
                None => Ok(()),
            };
        };
        let given = leaf.of.len() as u32;
        if given > 0 && given != hosts {
            return Err(FabricError::OtherHosts { given, hosts });
        }
        let leaves = leaf.count(hosts);
        let rails = if leaf.rails { rails } else { 1 };
        for uplink in &self.uplinks {
            if uplink.leaf >= leaves {
                return absent("leaf", uplink.leaf, leaves);
            }
            if uplink.rail >= rails {
                return absent("rail", uplink.rail, rails);
            }
        }
        Ok(())
    }

    /// Bytes of a slot, or those of the runtime.
    pub fn slot_bytes(&self, protocol: program::Protocol, usual: u32) -> u32 {
        let given = match protocol {
            program::Protocol::Ll => self.slots.ll,
            program::Protocol::Ll128 => self.slots.ll128,
            program::Protocol::Simple => self.slots.simple,
        };
        given.unwrap_or(usual)
    }
}
