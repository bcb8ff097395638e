//! The options of merging ports.

use std::fmt;

/// How far apart two network ports are, nearest first. The order is that of NCCL's levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MergeLevel {
    /// The port itself.
    Loc,
    /// Ports of one card.
    Port,
    /// Below one PCI switch.
    Pix,
    /// Below several PCI switches.
    Pxb,
    /// As `Pxb`: no two ports are so far apart.
    P2c,
    /// As `Pxb`: no two ports are so far apart.
    Pxn,
    /// Below one CPU.
    Phb,
    /// Below different CPUs.
    Sys,
    /// Not to be merged.
    Never,
}

impl MergeLevel {
    /// The levels that `NCCL_NET_MERGE_LEVEL` names.
    pub const NAMED: [Self; 8] = [
        Self::Loc,
        Self::Port,
        Self::Pix,
        Self::Pxb,
        Self::P2c,
        Self::Pxn,
        Self::Phb,
        Self::Sys,
    ];

    /// NCCL's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Loc => "LOC",
            Self::Port => "PORT",
            Self::Pix => "PIX",
            Self::Pxb => "PXB",
            Self::P2c => "P2C",
            Self::Pxn => "PXN",
            Self::Phb => "PHB",
            Self::Sys => "SYS",
            Self::Never => "never",
        }
    }

    /// The level with whose name a text begins, as NCCL reads `NCCL_NET_MERGE_LEVEL`.
    pub fn read(text: &str) -> Option<Self> {
        let mut named = Self::NAMED.into_iter();
        named.find(|level| text.starts_with(level.name()))
    }
}

impl fmt::Display for MergeLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Link widths above a virtual device whose ports are not of one card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Widths {
    /// They stay (NCCL 2.27, source).
    Kept,
    /// All PCI functions from the ports to the switch that they share get the sum (2.28, source).
    EveryLink,
    /// That switch and the new PCI function get the sum (2.30, source).
    Shared,
}

/// How ports are merged: settings, and the rules of a version of NCCL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergeOptions {
    /// Farthest ports that are merged without being named (`NCCL_NET_MERGE_LEVEL`).
    pub level: MergeLevel,
    /// Only ports of one rail are merged without being named (`NCCL_NET_MERGE_POLICY`).
    pub same_rail: bool,
    /// Groups of ports that are merged (`NCCL_NET_FORCE_MERGE`).
    pub forced: Option<String>,
    /// The network's transport makes virtual devices (`NCCL_IB_MERGE_NICS`).
    pub allowed: bool,
    /// Most ports of a virtual device.
    pub most: usize,
    /// The treatment of link widths.
    pub widths: Widths,
    /// A PCI function is made below a CPU, too, not only below a switch (2.28, source).
    pub inserts_below_cpus: bool,
    /// Virtual devices have rails and planes (2.30, source).
    pub names_rails: bool,
}

impl Default for MergeOptions {
    /// NCCL's defaults, by the rules of the newest version.
    fn default() -> Self {
        Self {
            level: MergeLevel::Port,
            same_rail: false,
            forced: None,
            allowed: true,
            most: 8,
            widths: Widths::Shared,
            inserts_below_cpus: true,
            names_rails: true,
        }
    }
}

impl MergeOptions {
    /// The same without virtual devices: ports are only numbered.
    #[must_use]
    pub fn without_groups(self) -> Self {
        Self {
            level: MergeLevel::Loc,
            forced: None,
            ..self
        }
    }
}
