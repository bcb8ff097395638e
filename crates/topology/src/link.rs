//! Links: what directly connects two nodes.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::path::PathType;

/// The type of a link. NCCL calls these `LINK_*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum LinkType {
    /// Inside a device.
    Loc,
    /// NVLink.
    Nvl,
    /// Chip-to-chip between GPU and CPU.
    C2c,
    /// PCI Express.
    Pci,
    /// Between two CPUs.
    Sys,
    /// Between a NIC and its network port.
    Net,
}

impl LinkType {
    /// NCCL's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Loc => "LOC",
            Self::Nvl => "NVL",
            Self::C2c => "C2C",
            Self::Pci => "PCI",
            Self::Sys => "SYS",
            Self::Net => "NET",
        }
    }

    /// The type of a path made of this link alone; a NET link does not make a path longer.
    pub const fn path_type(self) -> PathType {
        match self {
            Self::Loc | Self::Net => PathType::Loc,
            Self::Nvl => PathType::Nvl,
            Self::C2c => PathType::C2c,
            Self::Pci => PathType::Pix,
            Self::Sys => PathType::Sys,
        }
    }
}

impl fmt::Display for LinkType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A link of a [`System`](crate::System). Links are numbered by node, in the nodes' link order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u32);

impl LinkId {
    /// The number, for indexing.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// One direction of a link between two nodes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Link {
    /// Type.
    pub kind: LinkType,
    /// Bandwidth in this direction, GB/s.
    pub bw: f32,
}
