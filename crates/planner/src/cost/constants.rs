//! The numbers of the built-in profiles. The files `profiles/nccl-*.toml` say the same; a test
//! compares them, so that starting the program reads no file.

use plan::NcclVersion;

use super::profile::{
    BandwidthLimits, CostProfile, Efficiency, ExtraLatency, FORMAT, HardwareLatency, PerAlgorithm,
    PerGeneration, PerScale, ProfileSources, ThreadLimits, TreeFactors,
};

/// Where the values of a version were taken from.
fn source(version: NcclVersion) -> String {
    match version {
        NcclVersion::V2_27 | NcclVersion::V2_28 | NcclVersion::V2_29 | NcclVersion::V2_30 => {
            format!("NCCL {version}, cost model (graph/tuning.cc), public source")
        }
        NcclVersion::V2_31 => format!("NCCL {version}, costs that the binary predicts"),
        NcclVersion::V2_32 | NcclVersion::V2_32_6 => {
            let version = NcclVersion::V2_32;
            format!("NCCL {version}, constants that the binary hands to tuner plug-ins")
        }
    }
}

/// Of the thread limits.
fn threads_source(version: NcclVersion) -> String {
    let version = version.min(NcclVersion::V2_30);
    format!("NCCL {version}, device.h and graph/tuning.cc, public source")
}

/// No value: the algorithm has no such protocol.
const NONE: [f64; 3] = [0.0; 3];

const fn simple(value: f64) -> [f64; 3] {
    [0.0, 0.0, value]
}

const fn same(value: f64) -> PerScale {
    [value; 3]
}

impl CostProfile {
    /// The constants of a version of NCCL.
    pub fn of(version: NcclVersion) -> Self {
        let text = source(version);
        Self {
            format: FORMAT,
            name: version.profile().to_owned(),
            sources: ProfileSources {
                base_latency_us: text.clone(),
                hardware_latency_us: text.clone(),
                bandwidth_limits_gbps: text.clone(),
                efficiency: text.clone(),
                tree_correction: text.clone(),
                latency: text.clone(),
                threads: threads_source(version),
            },
            base_latency_us: PerAlgorithm {
                tree: [6.8, 14.0, 8.4],
                ring: [6.6, 14.0, 8.4],
                collnet_direct: NONE,
                collnet_chain: NONE,
                nvls: NONE,
                nvls_tree: NONE,
                pat: [8.0, 8.0, 8.0],
            },
            hardware_latency_us: hardware_latency(version),
            bandwidth_limits_gbps: bandwidth_limits(version),
            efficiency: Efficiency {
                ring_ll: 0.5,
                ring_ll128: 0.92,
                ring_simple: 1.0,
                tree: 0.92,
                tree_ll_divisor: 3.8,
                tree_ll128_one_node: 7.0 / 9.0,
                tree_ll128_several_nodes: 120.0 / 128.0,
                tree_on_one_gpu: 0.85,
                pat: 0.75,
                nvls: PerGeneration {
                    volta: 0.0,
                    ampere: 0.0,
                    hopper: 0.85,
                    blackwell: 0.74,
                },
                collnet_direct_gather: 0.9,
                collnet_direct_hopper: 0.85,
            },
            tree_correction: tree_factors(),
            latency: ExtraLatency {
                net_overhead_us: 1.0,
                net_overhead_amd_us: 2.0,
                net_overhead_simple_factor: 3.0,
                collnet_direct_gpu_us: 0.4,
                pat_overlap: 3.5,
                pat_rank_us: 2.8,
                ring_simple_volta_factor: 1.9,
                ring_simple_factor: 1.4,
                ring_simple_bytes: 64,
            },
            threads: ThreadLimits {
                // 2.31 and newer cut messages of slow rings as if they had all threads.
                ring_simple_slow: if version < NcclVersion::V2_31 {
                    256
                } else {
                    512
                },
                ring_simple_slow_gbps: 12.0,
                simple: 512,
                ll: 512,
                ll128: 640,
                switch: 640,
                threshold_ll: 8,
                threshold_ll128: 8,
                threshold_simple: 64,
                threshold_collnet: 512,
            },
        }
    }
}

/// The share of their bandwidth that trees reach, by size.
const fn tree_factors() -> TreeFactors {
    TreeFactors {
        ll: [
            1.0, 1.0, 1.0, 1.0, 0.9, 0.8, 0.7, 0.7, 0.7, 0.7, 0.6, 0.5, 0.4, 0.4, 0.5, 0.6, 0.7,
            0.8, 0.9, 1.0, 1.0, 1.0, 1.0, 1.0,
        ],
        ll128: [
            1.0, 1.0, 1.0, 1.0, 1.0, 0.9, 0.8, 0.8, 0.8, 0.7, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.8,
            0.9, 0.9, 0.9, 0.9, 1.0, 1.0, 1.0,
        ],
        simple: [
            0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.8, 0.7, 0.6, 0.6, 0.5, 0.5, 0.5, 0.5, 0.6, 0.7,
            0.8, 0.7, 0.7, 0.8, 0.9, 0.9, 0.9,
        ],
    }
}

fn hardware_latency(version: NcclVersion) -> HardwareLatency {
    // 2.27 has no values for PAT inside nodes; the network counts as for a tree.
    let pat = |value| match version {
        NcclVersion::V2_27 => NONE,
        _ => simple(value),
    };
    let nvls_tree = match version {
        NcclVersion::V2_27 => 14.0,
        _ => 20.9,
    };
    HardwareLatency {
        nvlink: PerAlgorithm {
            tree: [0.6, 1.25, 4.0],
            ring: [0.6, 1.9, 3.4],
            collnet_direct: simple(3.7),
            collnet_chain: simple(2.8),
            nvls: simple(25.0),
            nvls_tree: simple(25.0),
            pat: pat(4.0),
        },
        pci: PerAlgorithm {
            tree: [1.0, 1.9, 4.0],
            ring: [1.0, 2.5, 5.7],
            collnet_direct: simple(3.7),
            collnet_chain: simple(2.8),
            nvls: NONE,
            nvls_tree: NONE,
            pat: pat(4.0),
        },
        net: PerAlgorithm {
            tree: [5.0, 8.5, 14.0],
            ring: [2.7, 4.0, 14.0],
            collnet_direct: simple(31.0),
            collnet_chain: simple(30.0),
            nvls: simple(18.0),
            nvls_tree: simple(nvls_tree),
            pat: pat(14.0),
        },
    }
}

/// Until 2.27 Blackwell had twice the limits of Hopper; every version since measured more of them.
fn bandwidth_limits(version: NcclVersion) -> BandwidthLimits {
    let v27 = version == NcclVersion::V2_27;
    let ring_ll128 = match version {
        NcclVersion::V2_27 => same(73.4),
        NcclVersion::V2_28 => [73.4, 34.6, 73.4],
        _ => same(40.0),
    };
    let (ll, tree_ll128) = match version {
        NcclVersion::V2_32 | NcclVersion::V2_32_6 => (282.4, 36.7),
        _ => (282.0, 31.67),
    };
    let nvls_tree = match version {
        NcclVersion::V2_27 | NcclVersion::V2_28 | NcclVersion::V2_29 => 43.8,
        _ => 80.0,
    };
    BandwidthLimits {
        ll: PerGeneration {
            volta: [39.0, 39.0, 20.4],
            ampere: [87.7, 22.5, 19.0],
            hopper: [141.0, 45.0, 35.0],
            blackwell: [ll, 90.0, 70.0],
        },
        ring_ll128_channel: PerGeneration {
            volta: same(20.0),
            ampere: same(20.0),
            hopper: same(36.7),
            blackwell: ring_ll128,
        },
        tree_ll128_channel: PerGeneration {
            volta: same(20.0),
            ampere: same(20.0),
            hopper: [36.7, 36.7, 29.0],
            blackwell: if v27 {
                [73.4, 73.4, 58.0]
            } else {
                [55.6, tree_ll128, 20.0]
            },
        },
        tree_channel: PerGeneration {
            volta: [26.5, 18.5, 10.0],
            ampere: [24.0, 23.6, 17.8],
            hopper: [38.7, 41.4, 36.0],
            blackwell: if v27 {
                [77.4, 82.8, 72.0]
            } else {
                [70.0, 42.8, 24.0]
            },
        },
        nvls_tree_channel: PerGeneration {
            volta: [26.5, 18.5, 10.0],
            ampere: [24.0, 23.6, 17.8],
            hopper: [0.0, 57.7, 45.5],
            blackwell: [0.0, 96.0, nvls_tree],
        },
    }
}

#[cfg(test)]
mod tests {
    use plan::NcclVersion;

    use super::super::profile::{CostProfile, built_in_toml};

    #[test]
    fn files_and_constants_agree() {
        for version in NcclVersion::ALL {
            let name = format!("{}.toml", version.profile());
            let read = CostProfile::from_toml(&name, built_in_toml(version));
            assert_eq!(read, Ok(CostProfile::of(version)), "{version}");
        }
    }
}
