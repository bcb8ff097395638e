//! Path types: how far apart two nodes are.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The type of a path, best first. The order is NCCL's (`PATH_*`, 0 to 11), so types compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
#[repr(u8)]
pub enum PathType {
    /// The node itself.
    Loc = 0,
    /// NVLink only, directly or through NVSwitches.
    Nvl = 1,
    /// NVLink through one intermediate GPU.
    Nvb = 2,
    /// A chip-to-chip link between GPU and CPU.
    C2c = 3,
    /// At most one PCI switch.
    Pix = 4,
    /// Several PCI switches, without a CPU.
    Pxb = 5,
    /// GPU to NIC through a C2C link to the CPU.
    P2c = 6,
    /// GPU to NIC through another GPU, which drives the NIC.
    Pxn = 7,
    /// Through the PCI host bridge of one CPU.
    Phb = 8,
    /// Through the interconnect between CPUs.
    Sys = 9,
    /// Through the network.
    Net = 10,
    /// Not connected.
    Dis = 11,
}

impl PathType {
    /// Every type, best first.
    pub const ALL: [Self; 12] = [
        Self::Loc,
        Self::Nvl,
        Self::Nvb,
        Self::C2c,
        Self::Pix,
        Self::Pxb,
        Self::P2c,
        Self::Pxn,
        Self::Phb,
        Self::Sys,
        Self::Net,
        Self::Dis,
    ];

    /// NCCL's three-letter name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Loc => "LOC",
            Self::Nvl => "NVL",
            Self::Nvb => "NVB",
            Self::C2c => "C2C",
            Self::Pix => "PIX",
            Self::Pxb => "PXB",
            Self::P2c => "P2C",
            Self::Pxn => "PXN",
            Self::Phb => "PHB",
            Self::Sys => "SYS",
            Self::Net => "NET",
            Self::Dis => "DIS",
        }
    }

    /// An explanation for a legend.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Loc => "same device",
            Self::Nvl => "NVLink, directly or through NVSwitches",
            Self::Nvb => "NVLink through one other GPU",
            Self::C2c => "chip-to-chip link between GPU and CPU",
            Self::Pix => "at most one PCI switch",
            Self::Pxb => "several PCI switches, no CPU",
            Self::P2c => "GPU to NIC over a C2C link and the CPU",
            Self::Pxn => "GPU to NIC through another GPU that drives the NIC",
            Self::Phb => "through the PCI host bridge of one CPU",
            Self::Sys => "through the interconnect between CPUs",
            Self::Net => "through the network",
            Self::Dis => "not connected",
        }
    }

    /// The type with this rank (0 to 11).
    pub const fn from_rank(rank: u8) -> Option<Self> {
        if (rank as usize) < Self::ALL.len() {
            Some(Self::ALL[rank as usize])
        } else {
            None
        }
    }

    /// The next worse type, or `None` after [`PathType::Dis`].
    pub const fn next(self) -> Option<Self> {
        Self::from_rank(self as u8 + 1)
    }
}

impl fmt::Display for PathType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The text names no path type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no path type; expected one of LOC NVL NVB C2C PIX PXB P2C PXN PHB SYS NET DIS")]
pub struct UnknownPathType(pub String);

impl FromStr for PathType {
    type Err = UnknownPathType;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.name() == text)
            .ok_or_else(|| UnknownPathType(text.to_owned()))
    }
}
