//! The start of a job.

use crate::causes::Certainty::{Likely, Possible, Proved};
use crate::causes::cause::{logged, nccl, proves};

causes! { Start;
    RINGS_DIFFER {
        id: "rings-differ",
        title: "the ranks computed different rings",
        means: "the ranks computed different rings: their hosts or settings differ",
        advice: "compare the hosts' topologies and NCCL_ variables",
        versions: "all",
        signs: &[proves(&["does not loop back to start"])],
        proof: "the line",
        excluded: "the job starts",
        sources: &["NVIDIA/nccl #1020", "NVIDIA/nccl #179", "NVIDIA/nccl #879"],
    }
    VERSIONS_DIFFER {
        id: "versions-differ",
        title: "the ranks run different versions of NCCL",
        means: "the ranks run different versions of NCCL",
        advice: "install one version on all hosts, and check LD_LIBRARY_PATH",
        versions: "all",
        signs: &[nccl(&["Mismatched", "version"], Proved)],
        proof: "two versions in the logs of one job",
        excluded: "one version",
        sources: &["NCCL user guide, troubleshooting"],
    }
    NETWORKS_DIFFER {
        id: "networks-differ",
        title: "the hosts have different networks",
        means: "the hosts' NICs or plug-ins differ, so ranks cannot agree on connections",
        advice: "give all hosts the same NICs and names; do not use NCCL_IGNORE_NET_MISMATCH=1",
        versions: "all",
        signs: &[nccl(&["network", "mismatch"], Likely)],
        proof: "logs or topology files of two hosts with different NICs",
        excluded: "equal NICs on all hosts",
        sources: &["NVIDIA/nccl #856", "NVIDIA/nccl #1277", "NVIDIA/nccl #2428"],
    }
    DUPLICATE_GPU {
        id: "duplicate-gpu",
        title: "two ranks use one GPU",
        means: "two ranks use the same GPU",
        advice: "give each process its own GPU: by local rank, or by CUDA_VISIBLE_DEVICES",
        versions: "all",
        signs: &[proves(&["Duplicate GPU detected"])],
        proof: "the line",
        excluded: "the job starts",
        sources: &["NCCL user guide, troubleshooting"],
    }
    GPU_UNSEEN {
        id: "gpu-unseen",
        title: "a process asks for a GPU that it does not see",
        means: "a process asked for a GPU that it does not see",
        advice: "check CUDA_VISIBLE_DEVICES and the number of processes per host",
        versions: "all",
        signs: &[proves(&["invalid device ordinal"])],
        proof: "the line",
        excluded: "the process sees all GPUs that it names",
        sources: &["CUDA runtime API, cudaErrorInvalidDevice"],
    }
    DRIVER_OLD {
        id: "driver-old",
        title: "the driver is too old",
        means: "the driver is older than this CUDA runtime needs",
        advice: "update the driver, or use a library for an older CUDA",
        versions: "all",
        signs: &[proves(&["CUDA driver version is insufficient"])],
        proof: "the line",
        excluded: "another program of this CUDA runs",
        sources: &["CUDA compatibility guide"],
    }
    NO_INTERFACE {
        id: "no-interface",
        title: "no network interface fits",
        means: "no network interface fits",
        advice: "check NCCL_SOCKET_IFNAME against `ip link`",
        versions: "all",
        signs: &[nccl(&["No socket interface found"], Proved), nccl(&["no socket interface found"], Proved)],
        proof: "the line",
        excluded: "the log names an interface",
        sources: &["NCCL user guide, NCCL_SOCKET_IFNAME"],
    }
    WRONG_INTERFACE {
        id: "wrong-interface",
        title: "the hosts cannot reach each other over the chosen interface",
        means: "the hosts cannot reach each other over the chosen interface",
        advice: "set NCCL_SOCKET_IFNAME to an interface of the common network",
        versions: "all",
        signs: &[
            nccl(&["No route to host"], Likely),
            nccl(&["Network is unreachable"], Likely),
        ],
        proof: "the log names an interface, such as docker0, that the other host does not reach",
        excluded: "`ping` from that interface answers",
        sources: &["NCCL user guide, NCCL_SOCKET_IFNAME"],
    }
    NO_ANSWER {
        id: "no-answer",
        title: "no answer over TCP",
        means: "no answer over TCP: a wrong interface, a firewall, or a host that is down",
        advice: "check NCCL_SOCKET_IFNAME, routes and firewalls between the two hosts",
        versions: "all",
        signs: &[nccl(&["Connection timed out"], Likely)],
        proof: "the line, and the same address does not answer by hand",
        excluded: "the address answers",
        sources: &["NCCL user guide, troubleshooting"],
    }
    NOT_LISTENING {
        id: "not-listening",
        title: "a peer's process does not listen",
        means: "the peer's process does not listen: it ended, or a firewall answers",
        advice: "look for the rank that ended first; check NCCL_SOCKET_IFNAME and firewalls",
        versions: "all",
        signs: &[nccl(&["Connection refused"], Likely)],
        proof: "the peer's process has ended",
        excluded: "the peer's process runs",
        sources: &["NCCL user guide, troubleshooting"],
    }
    GRAPH_FILE {
        id: "graph-file",
        title: "a graph file of other GPUs",
        means: "the graph file is for other GPUs than this communicator's",
        advice: "unset NCCL_GRAPH_FILE (also in nccl.conf), or write one for this set of GPUs",
        versions: "all",
        signs: &[proves(&["XML Import Channel", "not found"])],
        proof: "the line",
        excluded: "NCCL_GRAPH_FILE is not set, also not in nccl.conf",
        sources: &["Azure/azhpc-images #327", "NVIDIA/nccl #1008"],
    }
    DEVICE_NOT_IN_FILE {
        id: "device-not-in-file",
        title: "a device is not in the topology file",
        means: "a device of the job is not in the topology file",
        advice: "check NCCL_TOPO_FILE against this machine",
        versions: "all",
        signs: &[nccl(&["could not find", "in topology"], Proved)],
        proof: "the line",
        excluded: "NCCL_TOPO_FILE is not set",
        sources: &["aws/aws-ofi-nccl #785"],
    }
    XML_NODES {
        id: "xml-nodes",
        title: "the machine has too many devices for NCCL's XML",
        means: "NCCL holds a fixed number of XML nodes; with many NICs the joined topology has more",
        advice: "leave out NICs that the job does not use (NCCL_IB_HCA, FI_* of the plug-in), or use a version with a larger limit; NCCL_TOPO_FILE does not help",
        versions: "all; the limit differs",
        signs: &[proves(&["too many XML nodes"])],
        proof: "the line",
        excluded: "the job starts",
        sources: &["NVIDIA/nccl #2160", "NVIDIA/nccl #2386"],
    }
    SHARED_MEMORY {
        id: "shared-memory",
        title: "too little shared memory",
        means: "a segment of shared memory could not be made: /dev/shm is full or small, often in a container",
        advice: "start the container with --shm-size=1g or more, or --ipc=host; check /dev/shm on bare metal",
        versions: "all",
        proof: "the line, and `df /dev/shm`",
        excluded: "free space in /dev/shm",
        sources: &["NCCL user guide, troubleshooting"],
    }
    NO_VERBS {
        id: "no-verbs",
        title: "the library for InfiniBand is missing",
        means: "the library for InfiniBand and RoCE is missing, so NCCL uses sockets",
        advice: "install libibverbs (rdma-core) in the image if the host has such ports",
        versions: "all",
        signs: &[nccl(&["Failed to open libibverbs"], Proved)],
        proof: "the line",
        excluded: "the log says NET/IB",
        sources: &["NCCL user guide, troubleshooting"],
    }
    NO_PLUGIN {
        id: "no-plugin",
        title: "the cloud's network plug-in is missing",
        means: "hosts with EFA or another network of a cloud need its plug-in; without it NCCL uses sockets",
        advice: "install aws-ofi-nccl (or the cloud's plug-in) in the image, and check LD_LIBRARY_PATH",
        versions: "all",
        signs: &[
            logged(&["NET/Plugin", "Could not find"]),
            logged(&["NET/Plugin", "No plugin found"]),
        ],
        proof: "the log says that no plug-in was found, and sockets on a host with EFA",
        excluded: "the log names the plug-in",
        sources: &["aws/aws-ofi-nccl README"],
    }
    SLOW_START {
        id: "slow-start",
        title: "the start takes minutes at thousands of ranks",
        means: "rank 0 answers all ranks, and each rank computes what grows with the square of their number",
        advice: "use a newer NCCL; more roots (TORCH_NCCL_RANKS_PER_ROOT), lazy groups",
        versions: "before 2.28",
        signs: &[],
        proof: "the times of the start's phases in the log",
        excluded: "fewer than a thousand ranks",
        sources: &["NVIDIA/nccl #1156", "NVIDIA/nccl #1789", "NVIDIA/nccl #1791"],
    }
    SLOW_KERNEL_LOAD {
        id: "slow-kernel-load",
        title: "loading the kernels takes a minute",
        means: "the driver translates or loads NCCL's kernels for this GPU at the first call",
        advice: "use a build for this GPU; CUDA_MODULE_LOADING=LAZY; keep the driver's cache",
        versions: "2.25 to 2.27 on Blackwell",
        signs: &[],
        proof: "the phase `kernels` in the time of the start",
        excluded: "a short phase `kernels`",
        sources: &["NVIDIA/nccl #1646"],
    }
    TWO_JOBS {
        id: "two-jobs",
        title: "ranks of two jobs meet",
        means: "a rank got a message of another job or of an older start: ids or addresses are used twice",
        advice: "make one id for each job and start; give each job its own address and port",
        versions: "all",
        signs: &[nccl(&["mismatch", "magic"], Likely), nccl(&["Bootstrap", "unexpected"], Possible)],
        proof: "the line, and two jobs with one address",
        excluded: "one job on these hosts",
        sources: &["NCCL user guide, ncclCommInitRank"],
    }
}
