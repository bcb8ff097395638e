//! The numbers of the built-in profile. The file `profiles/nccl-2.30.toml` says the same; a test
//! compares them, so that starting the program reads no file.

use super::profile::{
    BandwidthLimits, CostProfile, Efficiency, ExtraLatency, FORMAT, HardwareLatency, PerAlgorithm,
    PerGeneration, PerScale, ProfileSources, ThreadLimits, TreeFactors,
};

/// All values were taken from here.
const SOURCE: &str = "NCCL 2.30.7, cost model (graph/tuning.cc), public source";

/// Of the thread limits.
const THREADS_SOURCE: &str = "NCCL 2.30.7, device.h and graph/tuning.cc, public source";

/// No value: the algorithm has no such protocol.
const NONE: [f64; 3] = [0.0; 3];

const fn simple(value: f64) -> [f64; 3] {
    [0.0, 0.0, value]
}

const fn same(value: f64) -> PerScale {
    [value; 3]
}

impl CostProfile {
    /// NCCL 2.30's own constants.
    pub fn nccl_2_30() -> Self {
        Self {
            format: FORMAT,
            name: "nccl-2.30".to_owned(),
            sources: ProfileSources {
                base_latency_us: SOURCE.to_owned(),
                hardware_latency_us: SOURCE.to_owned(),
                bandwidth_limits_gbps: SOURCE.to_owned(),
                efficiency: SOURCE.to_owned(),
                tree_correction: SOURCE.to_owned(),
                latency: SOURCE.to_owned(),
                threads: THREADS_SOURCE.to_owned(),
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
            hardware_latency_us: hardware_latency(),
            bandwidth_limits_gbps: bandwidth_limits(),
            efficiency: Efficiency {
                ring_ll: 0.5,
                ring_ll128: 0.92,
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
            tree_correction: TreeFactors {
                ll: [
                    1.0, 1.0, 1.0, 1.0, 0.9, 0.8, 0.7, 0.7, 0.7, 0.7, 0.6, 0.5, 0.4, 0.4, 0.5, 0.6,
                    0.7, 0.8, 0.9, 1.0, 1.0, 1.0, 1.0, 1.0,
                ],
                ll128: [
                    1.0, 1.0, 1.0, 1.0, 1.0, 0.9, 0.8, 0.8, 0.8, 0.7, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6,
                    0.8, 0.9, 0.9, 0.9, 0.9, 1.0, 1.0, 1.0,
                ],
                simple: [
                    0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.8, 0.7, 0.6, 0.6, 0.5, 0.5, 0.5, 0.5, 0.6,
                    0.7, 0.8, 0.7, 0.7, 0.8, 0.9, 0.9, 0.9,
                ],
            },
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
                ring_simple_slow: 256,
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

const fn hardware_latency() -> HardwareLatency {
    HardwareLatency {
        nvlink: PerAlgorithm {
            tree: [0.6, 1.25, 4.0],
            ring: [0.6, 1.9, 3.4],
            collnet_direct: simple(3.7),
            collnet_chain: simple(2.8),
            nvls: simple(25.0),
            nvls_tree: simple(25.0),
            pat: simple(4.0),
        },
        pci: PerAlgorithm {
            tree: [1.0, 1.9, 4.0],
            ring: [1.0, 2.5, 5.7],
            collnet_direct: simple(3.7),
            collnet_chain: simple(2.8),
            nvls: NONE,
            nvls_tree: NONE,
            pat: simple(4.0),
        },
        net: PerAlgorithm {
            tree: [5.0, 8.5, 14.0],
            ring: [2.7, 4.0, 14.0],
            collnet_direct: simple(31.0),
            collnet_chain: simple(30.0),
            nvls: simple(18.0),
            nvls_tree: simple(20.9),
            pat: simple(14.0),
        },
    }
}

const fn bandwidth_limits() -> BandwidthLimits {
    BandwidthLimits {
        ll: PerGeneration {
            volta: [39.0, 39.0, 20.4],
            ampere: [87.7, 22.5, 19.0],
            hopper: [141.0, 45.0, 35.0],
            blackwell: [282.0, 90.0, 70.0],
        },
        ring_ll128_channel: PerGeneration {
            volta: same(20.0),
            ampere: same(20.0),
            hopper: same(36.7),
            blackwell: same(40.0),
        },
        tree_ll128_channel: PerGeneration {
            volta: same(20.0),
            ampere: same(20.0),
            hopper: [36.7, 36.7, 29.0],
            blackwell: [55.6, 31.67, 20.0],
        },
        tree_channel: PerGeneration {
            volta: [26.5, 18.5, 10.0],
            ampere: [24.0, 23.6, 17.8],
            hopper: [38.7, 41.4, 36.0],
            blackwell: [70.0, 42.8, 24.0],
        },
        nvls_tree_channel: PerGeneration {
            volta: [26.5, 18.5, 10.0],
            ampere: [24.0, 23.6, 17.8],
            hopper: [0.0, 57.7, 45.5],
            blackwell: [0.0, 96.0, 80.0],
        },
    }
}

#[cfg(test)]
mod tests {
    use super::super::profile::{CostProfile, NCCL_2_30_TOML};

    #[test]
    fn file_and_constants_agree() {
        let read = CostProfile::from_toml("nccl-2.30.toml", NCCL_2_30_TOML);
        assert_eq!(read, Ok(CostProfile::nccl_2_30()));
    }
}
