//! The speed of collectives.

use crate::causes::cause::{fits, logged};

causes! { Speed;
    AMD_LINK_SPEEDS {
        id: "amd-link-speeds",
        title: "other speeds for AMD's CPUs choose another protocol",
        means: "newer versions know each generation's speed, and switch protocols at other sizes on machines whose NICs and GPUs are on other NUMA nodes",
        advice: "compare the plans of both versions; NCCL_PROTO for the sizes in question, or familyid of the older table in the file",
        versions: "2.30.5 and newer",
        // An older version wrote this line: the family of Zen 3 and 4 is 25.
        signs: &[fits(&["AuthenticAMD", "familyid=\"175\""])],
        proof: "the plans of both versions differ at the measured size",
        excluded: "equal plans of both versions",
        sources: &["NVIDIA/nccl #2441"],
    }
    SOCKET_LINK_UNDERRATED {
        id: "socket-link-underrated",
        title: "NCCL underrates the link between sockets",
        means: "GPUs of several sockets get few channels and a low bandwidth, because NCCL has a low constant for this CPU",
        advice: "write a graph file of better rings, or use 2.31 and newer",
        versions: "before 2.31 on Zen 5; Granite Rapids in all",
        signs: &[logged(&["Pattern", "bw 0.100000/0.100000", "type SYS"])],
        proof: "the log's graphs with bandwidth 0.1 and SYS, and a bound that is much higher",
        excluded: "graphs near the bound",
        sources: &["NVIDIA/nccl #2127", "NVIDIA/nccl #2107", "rtx6kpro, nccl-tuning"],
    }
    REVERSED_RING {
        id: "reversed-ring",
        title: "reversed rings load one direction of a link twice",
        means: "two rings in opposite directions use each link between sockets in one direction more than the other",
        advice: "write a graph with rings of one direction",
        versions: "all",
        signs: &[],
        proof: "a simulation of the graph: the load of the link's directions",
        excluded: "equal loads",
        unseen: "a graph file does not say what a link loses that carries both directions at once; only the times of both graphs on the machine do",
        sources: &["NVIDIA/nccl #1239"],
    }
    FEW_PEER_CHANNELS {
        id: "few-peer-channels",
        title: "sends between hosts use few channels",
        means: "since 2.20 fewer channels carry a send to a peer on another host",
        advice: "NCCL_NCHANNELS_PER_NET_PEER=4",
        versions: "2.20 and newer",
        signs: &[],
        proof: "two runs of nccl-tests: faster with the setting",
        excluded: "equally fast",
        sources: &["NVIDIA/nccl #1272", "ROCm/rocm-systems #6453"],
    }
    PROFILER_COST {
        id: "profiler-cost",
        title: "a profiler plug-in slows small messages",
        means: "the plug-in's thread takes 4 to 13 % at small sizes",
        advice: "measure without NCCL_PROFILER_PLUGIN",
        versions: "2.31.2",
        signs: &[logged(&["PROFILER/Plugin: Loaded"])],
        proof: "two runs of nccl-tests: faster without the plug-in",
        excluded: "no plug-in in the log",
        sources: &["NVIDIA/nccl #2355"],
    }
    SYMMETRIC_FEW_CTAS {
        id: "symmetric-few-ctas",
        title: "symmetric kernels take too few blocks",
        means: "the model of symmetric memory believes that few blocks fill the links",
        advice: "NCCL_SYM_CTAS=64, measured on this machine",
        versions: "2.29 and newer",
        signs: &[logged(&["[Symmetric]:", "-> Kernel ReduceScatter"])],
        proof: "two runs of nccl-tests: faster with the setting",
        excluded: "no symmetric windows",
        sources: &["NVIDIA/nccl #2305", "NVIDIA/nccl #2280"],
    }
    PROTOCOL_OVERHEAD {
        id: "protocol-overhead",
        title: "NVLink's protocol takes its share",
        means: "no program reaches the links' raw bandwidth: about four fifths are data",
        advice: "compare with the bound and with measured machines of the kind, not with the data sheet",
        versions: "all",
        signs: &[],
        proof: "the measured share is that of other machines of the kind",
        excluded: "far below other machines of the kind",
        unseen: "it is no fault: the measured share is compared with that of machines of the kind, and with the bound",
        sources: &["NVIDIA/nccl #2140", "NVIDIA/nccl #1807"],
    }
    SLOW_RANK {
        id: "slow-rank",
        title: "a rank is late again and again",
        means: "the others wait for one rank at each collective, so the collective looks slow",
        advice: "look at this rank's host: clocks, power cap, thermal limit, loader, other jobs (`nvidia-smi -q -d PERFORMANCE`)",
        versions: "all",
        signs: &[],
        proof: "recorders: the same rank enters last in most collectives; Inspector: its kernels are the shortest",
        excluded: "another rank is last each time",
        sources: &["pytorch.org, flight recorder tutorial"],
    }
    SLOW_PAIR {
        id: "slow-pair",
        title: "a pair of GPUs is slower than its like",
        means: "a measured bandwidth is far below that of the other pairs that are joined alike, and a ring or tree through it is as slow",
        advice: "`nvidia-smi nvlink -s` and -e, `nvidia-smi -q` and `lspci -vv` for these GPUs: a link down, narrower or slower; measure again with the GPUs idle",
        versions: "all",
        signs: &[],
        proof: "nvbandwidth's matrix, measured twice on an idle machine",
        excluded: "all pairs of one kind within 15 %",
        sources: &["NVIDIA/nvbandwidth README", "CUDA samples, p2pBandwidthLatencyTest"],
    }
}
