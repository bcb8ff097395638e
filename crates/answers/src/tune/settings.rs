//! The settings that are tried.

use std::fmt;

use planner::settings::is_known_to;
use planner::{NcclVersion, Settings};
use serde::Serialize;

use crate::JsonSchema;

/// A setting that is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TriedSetting {
    /// The variable.
    pub name: &'static str,
    /// Its value.
    pub value: &'static str,
    /// It matters only where the network joins ranks.
    #[serde(skip)]
    pub network: bool,
    /// What must hold on the machine, which no file tells.
    pub caution: Option<&'static str>,
}

/// Of GPUs that talk to each other across host bridges.
const PEERS: &str = "GPUs must really reach each other across host bridges: with ACS or an IOMMU in the way NCCL \
                     hangs. Try it with the program of CUDA samples p2pBandwidthLatencyTest, or topo doctor";

/// Of NICs that reach GPUs across host bridges.
const DIRECT: &str = "NICs must really reach the memory of GPUs across host bridges: with ACS or an IOMMU in the way \
                      transfers fail or are slow. Compare one run with and without it";

const fn tried(name: &'static str, value: &'static str) -> TriedSetting {
    TriedSetting {
        name,
        value,
        network: false,
        caution: None,
    }
}

const fn on_network(name: &'static str, value: &'static str) -> TriedSetting {
    TriedSetting {
        network: true,
        ..tried(name, value)
    }
}

const fn careful(setting: TriedSetting, caution: &'static str) -> TriedSetting {
    TriedSetting {
        caution: Some(caution),
        ..setting
    }
}

/// All settings that are tried, in this order.
///
/// `NCCL_PROTO` with LL128 is not among them: NCCL rules that protocol out where 128 bytes may
/// arrive out of order, and the results would be wrong.
pub const TRIED: [TriedSetting; 19] = [
    careful(tried("NCCL_P2P_LEVEL", "PXB"), PEERS),
    careful(tried("NCCL_P2P_LEVEL", "PHB"), PEERS),
    careful(tried("NCCL_P2P_LEVEL", "SYS"), PEERS),
    tried("NCCL_MIN_NCHANNELS", "4"),
    tried("NCCL_MIN_NCHANNELS", "8"),
    tried("NCCL_MIN_NCHANNELS", "16"),
    tried("NCCL_ALGO", "ring"),
    tried("NCCL_ALGO", "tree"),
    tried("NCCL_PROTO", "LL"),
    tried("NCCL_PROTO", "Simple"),
    tried("NCCL_NVLS_ENABLE", "0"),
    tried("NCCL_NET_DISABLE_INTRA", "1"),
    on_network("NCCL_CROSS_NIC", "0"),
    on_network("NCCL_CROSS_NIC", "1"),
    on_network("NCCL_NETDEVS_POLICY", "ALL"),
    on_network("NCCL_PXN_DISABLE", "1"),
    careful(on_network("NCCL_NET_GDR_LEVEL", "PHB"), DIRECT),
    careful(on_network("NCCL_NET_GDR_LEVEL", "SYS"), DIRECT),
    on_network("NCCL_NET_GDR_READ", "1"),
];

impl TriedSetting {
    /// Whether a version of NCCL knows the variable.
    pub(super) fn is_known_to(&self, version: NcclVersion) -> bool {
        is_known_to(self.name, version)
    }

    /// Whether the settings have the variable.
    pub(super) fn is_given_in(&self, settings: &Settings) -> bool {
        let mut given = settings.in_force.iter();
        // NCCL reads the level only where P2P is not switched off.
        given.any(|(name, _)| {
            name == self.name || (self.name == "NCCL_P2P_LEVEL" && name == "NCCL_P2P_DISABLE")
        })
    }
}

impl fmt::Display for TriedSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.value)
    }
}
