//! Variables of NCCL.

use crate::causes::Certainty::Likely;
use crate::causes::cause::{logged, nccl, proves};

causes! { Settings;
    NO_ALGORITHM {
        id: "no-algorithm",
        title: "NCCL_ALGO leaves a collective without an algorithm",
        means: "since 2.31 NCCL_ALGO switches off all that it does not name, and a NCCL_PROTO without a collective's name holds for all",
        advice: "name a default before the special case: NCCL_ALGO=\"ring,tree;allreduce:tree\"; or unset both",
        versions: "2.31 and newer",
        signs: &[
            proves(&["No algorithm/protocol", "available for function"]),
            proves(&["no algorithm/protocol available"]),
            proves(&["NCCL_ALGO was set to"]),
        ],
        proof: "the line",
        excluded: "NCCL_ALGO and NCCL_PROTO are not set",
        sources: &["vllm-project/vllm #58179"],
    }
    CHUNK_SIZE {
        id: "chunk-size",
        title: "NCCL_CHUNK_SIZE gives wrong data",
        means: "the variable is undocumented; sender and receiver of point-to-point calls then cut data differently",
        advice: "unset NCCL_CHUNK_SIZE",
        versions: "all",
        signs: &[logged(&["NCCL_CHUNK_SIZE set by environment"])],
        proof: "right data without the variable",
        excluded: "it is not set",
        sources: &["NVIDIA/nccl #2408"],
    }
    SPLIT_QPS {
        id: "split-qps",
        title: "NCCL_IB_SPLIT_DATA_ON_QPS=1 slows transfers",
        means: "each message is cut into small pieces, one for each queue pair",
        advice: "NCCL_IB_SPLIT_DATA_ON_QPS=0",
        versions: "all",
        signs: &[logged(&["NCCL_IB_SPLIT_DATA_ON_QPS set by environment to 1"])],
        proof: "faster with 0",
        excluded: "0 or unset",
        sources: &["NVIDIA/nccl #2409"],
    }
    P2P_DISABLED {
        id: "p2p-disabled",
        title: "a setting switches peer-to-peer off",
        means: "NCCL_P2P_DISABLE=1 sends data of GPUs of one host through its memory, also past NVLink",
        advice: "unset NCCL_P2P_DISABLE (also in nccl.conf) unless peer-to-peer hangs on this machine",
        versions: "all",
        signs: &[
            logged(&["NCCL_P2P_DISABLE set by environment to 1"]),
            logged(&["NCCL_P2P_LEVEL set by environment to LOC"]),
        ],
        proof: "the log's line",
        excluded: "it is not set",
        sources: &["NCCL user guide, NCCL_P2P_DISABLE"],
    }
    IB_DISABLED {
        id: "ib-disabled",
        title: "a setting switches RDMA off",
        means: "NCCL_IB_DISABLE=1 sends data between hosts through sockets",
        advice: "unset NCCL_IB_DISABLE (also in nccl.conf and in the framework)",
        versions: "all",
        signs: &[logged(&["NCCL_IB_DISABLE set by environment to 1"])],
        proof: "the log's line",
        excluded: "it is not set",
        sources: &["NCCL user guide, NCCL_IB_DISABLE"],
    }
    GDR_LEVEL {
        id: "gdr-level",
        title: "a setting switches GPUDirect RDMA off",
        means: "NCCL_NET_GDR_LEVEL=0 or LOC sends data between GPU and NIC through the host's memory",
        advice: "unset NCCL_NET_GDR_LEVEL",
        versions: "all",
        signs: &[
            logged(&["NCCL_NET_GDR_LEVEL set by environment to 0"]),
            logged(&["NCCL_NET_GDR_LEVEL set by environment to LOC"]),
        ],
        proof: "the log's line",
        excluded: "it is not set",
        sources: &["NVIDIA/nccl #2409", "NCCL user guide, NCCL_NET_GDR_LEVEL"],
    }
    SETTINGS_DIFFER {
        id: "settings-differ",
        title: "the hosts have different settings",
        means: "a variable of NCCL has different values on the hosts of a job, which may choose different algorithms",
        advice: "set the variables in one place for all hosts; remove /etc/nccl.conf that differ",
        versions: "all",
        signs: &[],
        proof: "the logs of two hosts",
        excluded: "equal values on all hosts",
        sources: &["NCCL user guide, environment variables"],
    }
    PLUGIN_NAMED {
        id: "plugin-named",
        title: "the named plug-in does not load",
        means: "NCCL_NET_PLUGIN or NCCL_NET names something that is not there",
        advice: "check the name and LD_LIBRARY_PATH, or unset the variable",
        versions: "all",
        signs: &[proves(&["Failed to initialize any NET plugin"]), nccl(&["network", "not found"], Likely)],
        proof: "the line",
        excluded: "the log names the network",
        sources: &["NCCL user guide, NCCL_NET_PLUGIN"],
    }
}
