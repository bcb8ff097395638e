//! The meaning of NCCL's warnings, and advice.

/// A kind of warning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meaning {
    /// Words of the warning; all must be there.
    pub words: &'static [&'static str],
    /// Its meaning.
    pub means: &'static str,
    /// Advice.
    pub advice: &'static str,
}

const fn meaning(
    words: &'static [&'static str],
    means: &'static str,
    advice: &'static str,
) -> Meaning {
    Meaning {
        words,
        means,
        advice,
    }
}

/// The kinds of warnings that are explained, the narrow ones first.
pub const MEANINGS: [Meaning; 34] = [
    meaning(
        &["does not loop back to start"],
        "the ranks computed different rings: their hosts or settings differ",
        "compare the hosts' topologies and NCCL_ variables",
    ),
    meaning(
        &["SHARP coll init error"],
        "the SHARP service refused the job, so the network does not reduce",
        "check the SHARP aggregation manager, or set NCCL_COLLNET_ENABLE=0 to stop trying",
    ),
    meaning(
        &["Cannot initialize CollNet"],
        "the network does not reduce; rings and trees are used instead",
        "harmless without SHARP; set NCCL_COLLNET_ENABLE=0 to stop trying",
    ),
    meaning(
        &["Failed to open libibverbs"],
        "the library for InfiniBand and RoCE is missing, so NCCL uses sockets",
        "install libibverbs (rdma-core) in the image if the host has such ports",
    ),
    meaning(
        &["ibv_reg_mr"],
        "memory could not be registered with the NIC: mostly the limit of locked memory",
        "raise `ulimit -l`; for GPU memory load nvidia-peermem or use a kernel with DMA-BUF",
    ),
    meaning(
        &["ibv_create_qp"],
        "the NIC gave no queue pair: limits of locked memory or of the device",
        "raise `ulimit -l`; check other jobs on the host",
    ),
    meaning(
        &["ibv_modify_qp"],
        "the NIC could not reach the peer's port: wrong GID, VLAN, subnet or a port that is down",
        "check NCCL_IB_GID_INDEX, NCCL_IB_HCA and that the ports of both hosts reach each other",
    ),
    meaning(
        &["P_Key change"],
        "the partition key of a port changed while the job ran",
        "ask who changed the subnet manager's partitions; restart the job",
    ),
    meaning(
        &["Got completion", "error"],
        "the NIC reported a failed transfer; status 12 is a peer that stopped answering, 5 follows \
         another failure",
        "look for the first such line of the job and check the link, cable and host of its peer",
    ),
    meaning(
        &["async event"],
        "a port or its device changed state",
        "check the link's counters and the switch; NCCL retries for a while",
    ),
    meaning(
        &["out of memory"],
        "the GPU's memory is full",
        "leave more memory to NCCL, or lower NCCL_BUFFSIZE and NCCL_MAX_NCHANNELS",
    ),
    meaning(
        &["peer access is not supported"],
        "the GPUs cannot access each other's memory",
        "check ACS and IOMMU, or set NCCL_P2P_DISABLE=1",
    ),
    meaning(
        &["invalid device ordinal"],
        "a process asked for a GPU that it does not see",
        "check CUDA_VISIBLE_DEVICES and the number of processes per host",
    ),
    meaning(
        &["Duplicate GPU detected"],
        "two ranks use the same GPU",
        "give each process its own GPU: by local rank, or by CUDA_VISIBLE_DEVICES",
    ),
    meaning(
        &["Cuda failure"],
        "a call of CUDA failed; often another failure came first",
        "look at the first failure of the job, and at the kernel's log for Xid messages",
    ),
    meaning(
        &["CUDA failure"],
        "a call of CUDA failed; often another failure came first",
        "look at the first failure of the job, and at the kernel's log for Xid messages",
    ),
    meaning(
        &["Error while creating shared memory segment"],
        "there is too little shared memory, often in a container",
        "start the container with --shm-size=1g or more, or --ipc=host",
    ),
    meaning(
        &["/dev/shm"],
        "a segment of shared memory could not be made or opened",
        "check the size of /dev/shm (--shm-size) and that all ranks of a host share it",
    ),
    meaning(
        &["No space left on device"],
        "shared memory or a disk is full",
        "check the size of /dev/shm (--shm-size)",
    ),
    meaning(
        &["Connection refused"],
        "the peer's process does not listen: it ended, or a firewall answers",
        "look for the rank that ended first; check NCCL_SOCKET_IFNAME and firewalls",
    ),
    meaning(
        &["Connection closed by remote peer"],
        "the peer's process ended or closed the connection",
        "look for the rank that failed first; this line is a consequence",
    ),
    meaning(
        &["Connection reset by peer"],
        "the peer's process ended",
        "look for the rank that failed first; this line is a consequence",
    ),
    meaning(
        &["Connection timed out"],
        "no answer over TCP: a wrong interface, a firewall, or a host that is down",
        "check NCCL_SOCKET_IFNAME, routes and firewalls between the two hosts",
    ),
    meaning(
        &["No route to host"],
        "the hosts cannot reach each other over the chosen interface",
        "set NCCL_SOCKET_IFNAME to an interface of the common network",
    ),
    meaning(
        &["Network is unreachable"],
        "the hosts cannot reach each other over the chosen interface",
        "set NCCL_SOCKET_IFNAME to an interface of the common network",
    ),
    meaning(
        &["No socket interface found"],
        "no network interface fits",
        "check NCCL_SOCKET_IFNAME against `ip link`",
    ),
    meaning(
        &["Mismatched", "version"],
        "the ranks run different versions of NCCL",
        "install one version on all hosts, and check LD_LIBRARY_PATH",
    ),
    meaning(
        &["XML Import Channel", "not found"],
        "the graph file is for other GPUs than this communicator's",
        "unset NCCL_GRAPH_FILE (also in nccl.conf), or write one for this set of GPUs",
    ),
    meaning(
        &["could not find", "in topology"],
        "a device of the job is not in the topology file",
        "check NCCL_TOPO_FILE against this machine",
    ),
    meaning(
        &["CUDA driver version is insufficient"],
        "the driver is older than this CUDA runtime needs",
        "update the driver, or use a library for an older CUDA",
    ),
    meaning(
        &["GDRCopy"],
        "GDRCopy is not installed; only some newer functions need it",
        "harmless for collectives; install gdrcopy to use them",
    ),
    meaning(
        &["invalid", "argument"],
        "the program called NCCL with something that it does not accept",
        "see the call's place in the program",
    ),
    meaning(
        &["unhandled system error"],
        "a call of the operating system failed; the line before says which",
        "look at the first warning of this rank",
    ),
    meaning(
        &["imeout"],
        "something did not answer in time; mostly another rank failed or never started",
        "look for the rank that failed first or that is missing",
    ),
];

/// The kind of a warning, by its text.
pub fn meaning_of(text: &str) -> Option<&'static Meaning> {
    let has_all = |it: &&Meaning| it.words.iter().all(|word| text.contains(word));
    MEANINGS.iter().find(has_all)
}

/// The meaning of a number of `ncclResult_t`.
pub const fn result_name(code: u32) -> &'static str {
    match code {
        0 => "success",
        1 => "unhandled CUDA error",
        2 => "system error",
        3 => "internal error",
        4 => "invalid argument",
        5 => "invalid usage",
        6 => "remote error: another process failed or the network did",
        7 => "in progress",
        8 => "timeout",
        _ => "unknown error",
    }
}

/// The shape of a text: numbers, addresses and names in quotes replaced, so that texts that differ
/// only in them are equal.
pub fn shape(text: &str) -> String {
    let mut shape = String::with_capacity(text.len().min(MOST_SHAPE));
    let mut chars = text.chars().peekable();
    while let Some(next) = chars.next() {
        if shape.len() >= MOST_SHAPE {
            break;
        }
        if next == '0' && chars.peek() == Some(&'x') {
            chars.next();
            while chars.next_if(char::is_ascii_hexdigit).is_some() {}
            shape.push('#');
        } else if next.is_ascii_digit() {
            while chars
                .next_if(|it| it.is_ascii_digit() || *it == '.')
                .is_some()
            {}
            shape.push('#');
        } else {
            shape.push(next);
        }
    }
    shape
}

/// Longest shape, bytes.
const MOST_SHAPE: usize = 200;
