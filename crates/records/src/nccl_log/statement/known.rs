//! Beginnings of messages that are known and of no interest here.

/// Beginnings, by their first letter.
const BEGINNINGS: [(u8, &[&str]); 27] = [
    (b'-', &["--", "->", "-> Dest Type"]),
    (b'(', &["("]),
    (b'0', &["0x"]),
    (b'[', &["[Proxy", "[Service", "[GIN", "[RMA", "[Rank"]),
    (
        b'A',
        &[
            "Allocated ",
            "Assigned ",
            "AllReduce",
            "AllGather",
            "AlltoAll",
            "Adding ",
            "Async ",
        ],
    ),
    (
        b'B',
        &["Bootstrap", "Best tuning", "Broadcast: opCount", "Buffer "],
    ),
    (
        b'C',
        &[
            "Check P2P",
            "Connected ",
            "Communicator has ",
            "CC Off",
            "CC On",
            "Comm config",
            "Comm 0x",
            "CUDA Dev ",
            "Count not open",
            "Could not ",
            "CollNet",
            "Creating ",
            "Cuda ",
            "CUDA ",
            "CUMEM",
            "Channel ",
        ],
    ),
    (
        b'D',
        &[
            "DMA-BUF",
            "Destroy",
            "DL telemetry",
            "Device ",
            "DMABUF",
            "Data Direct",
        ],
    ),
    (b'E', &["ENV/", "Enabled NCCL Func", "Enabling ", "Error: "]),
    (b'F', &["Failed to ", "Found ", "Filled "]),
    (b'G', &["GIN", "Got ", "GPU ", "GDRCOPY", "GDR ", "Graph "]),
    (b'H', &["Hop ", "Host "]),
    (
        b'I',
        &[
            "Initialized ",
            "Intra-node paths",
            "IB ",
            "Ignoring ",
            "Increasing ",
            "ibv",
            "Init ",
        ],
    ),
    (
        b'L',
        &[
            "Loading ",
            "Launch mode",
            "Limiting to",
            "Link ",
            "Local ",
            "Loaded ",
        ],
    ),
    (
        b'M',
        &[
            "MMAP ",
            "MSCCL",
            "MemManager",
            "Mem Realloc",
            "Max ",
            "MNNVL",
            "Minimum ",
            "Memory ",
        ],
    ),
    (
        b'N',
        &[
            "NET/",
            "NVLS",
            "NCCL",
            "NVL",
            "New proxy",
            "Node Type",
            "Network ",
            "Nvls",
            "No ",
        ],
    ),
    (
        b'P',
        &[
            "P2P",
            "PXN",
            "PROFILER/",
            "PROFILER",
            "Plugin",
            "Paths",
            "Pattern",
            "Profiler",
            "Proxy",
            "Protocol",
            "PAT ",
            "Peer ",
        ],
    ),
    (
        b'R',
        &[
            "RAS ",
            "RMA",
            "Received and initiated",
            "Retrieving state",
            "Rank ",
            "RDMA",
            "ReduceScatter",
            "Reduce",
            "Registered ",
            "Reusing ",
            "ROCr",
            "RCCL",
            "Recv",
            "Rail",
        ],
    ),
    (
        b'S',
        &[
            "Setting affinity",
            "Symmetric ",
            "Sharp ",
            "SHM ",
            "Successfully ",
            "Send",
            "Split",
            "Swap",
            "Skipping ",
            "Socket handshake ",
            "SHARP",
            "Spawned",
            "symmetric",
        ],
    ),
    (
        b'T',
        &[
            "TOPO/",
            "TUNER/",
            "Total Paths",
            "Tuning ",
            "Tuner",
            "Trees",
            "Topology",
        ],
    ),
    (b'U', &["UDS: ", "Using ", "UCX", "Unloading ", "UBR"]),
    (
        b'c',
        &[
            "cuda",
            "comm ",
            "channel.cc",
            "collNet",
            "cuMem",
            "cgaClusterSize",
        ],
    ),
    (b'd', &["dlvsym ", "dlopen ", "dmabuf", "dev "]),
    (b'i', &["initialized ", "include/", "ignoring "]),
    (b'n', &["nccl", "nvml", "node ", "net ", "nChannels"]),
    (
        b'r',
        &[
            "register ",
            "resp.opId",
            "ras",
            "rank ",
            "retained ",
            "recv",
        ],
    ),
    (b's', &["symmetricSupport", "send", "symk", "shm"]),
];

/// Words anywhere in a message that make it known.
const WORDS: [&str; 14] = [
    " Alloc Size ",
    " CallocAsync Size ",
    " Calloc Size ",
    "memory stack hunk",
    "proxyProgressAsync",
    " listening socket ",
    "Allocated shareable buffer",
    "shareable host buffer",
    " -> ",
    " Free Size ",
    "plugin",
    "Plugin",
    "deregister",
    " isSendNotRecv",
];

/// Whether a message is known.
pub(super) fn is_known(text: &str) -> bool {
    let Some(first) = text.bytes().next() else {
        return true;
    };
    let found = BEGINNINGS.iter().find(|(letter, _)| *letter == first);
    let begins = found.is_some_and(|(_, all)| all.iter().any(|it| text.starts_with(it)));
    begins || WORDS.iter().any(|word| text.contains(word))
}
