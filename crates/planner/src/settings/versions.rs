//! In which versions NCCL's variables appeared.

use plan::NcclVersion;

/// Variables that later versions than 2.27 brought. Source: NCCL's public source, and the names in
/// the binaries of all versions.
const NAMES: [(NcclVersion, &[&str]); 5] = [
    (
        NcclVersion::V2_28,
        &[
            "NCCL_ENV_PLUGIN",
            "NCCL_GIN_COUNTER_POOL_SIZE",
            "NCCL_GIN_ENABLE",
            "NCCL_GIN_ERROR_QUERY_SEC",
            "NCCL_GIN_GDAKI_NIC_HANDLER",
            "NCCL_GIN_GDAKI_QP_DEPTH",
            "NCCL_GIN_NCONTEXTS",
            "NCCL_GIN_PROXY_QUEUE_SIZE",
            "NCCL_GIN_SIGNAL_POOL_SIZE",
            "NCCL_GIN_TYPE",
            "NCCL_MNNVL_RAIL_PER_HOST",
            "NCCL_NETDEVS_POLICY",
            "NCCL_NVTX_DISABLE",
            "NCCL_P2P_SCHEDULE_GROUP_SIZE",
            "NCCL_PROXY_CPUSET",
            "NCCL_SET_CPU_STACK_SIZE",
            "NCCL_SINGLE_PROC_MEM_REG_ENABLE",
        ],
    ),
    (
        NcclVersion::V2_29,
        &[
            "NCCL_ALLGATHERV_ENABLE",
            "NCCL_CHECK_MODE",
            "NCCL_DISABLE_MEM_MANAGER",
            "NCCL_ENABLE_VERSION_CHECK",
            "NCCL_GDAKI_USE_RELIABLE_DB",
            "NCCL_GIN_EXCLUSIVE_CONTEXTS",
            "NCCL_GIN_NCONNECTIONS",
            "NCCL_GIN_PLUGIN",
            "NCCL_IB_DEVICE_PCI_ORDER",
            "NCCL_IB_PREPOST_RECEIVE_WORK_REQUESTS",
            "NCCL_IB_RECEIVER_SIDE_MATCHING_SCHEME",
            "NCCL_IB_RESILIENCY_PORT_FAILOVER",
            "NCCL_IB_RESILIENCY_PORT_FAILOVER_MAX_ATTEMPTS",
            "NCCL_IB_RESILIENCY_PORT_FAILOVER_PROBE_DELAY",
            "NCCL_IPC_USE_ABSTRACT_SOCKET",
            "NCCL_LSA_TEAM_SIZE",
            "NCCL_MULTI_SEGMENT_REGISTER",
            "NCCL_NO_CACHE",
            "NCCL_NUM_RMA_CTX",
            "NCCL_P2P_EPOCH_ENABLE",
            "NCCL_P2P_PER_CHANNEL_NET_BW",
            "NCCL_RMA_PROXY_DUMP_SIGNAL",
            "NCCL_RMA_PROXY_QUEUE_SIZE",
            "NCCL_SOCKET_POLL_TIMEOUT_MSEC",
            "NCCL_SYM_CE_THRESHOLD",
            "NCCL_SYM_GIN_KERNELS_ENABLE",
            "NCCL_SYM_NOWIN_ENABLE",
        ],
    ),
    (
        NcclVersion::V2_30,
        &[
            "NCCL_DEV_API_JIT",
            "NCCL_ELASTIC_BUFFER_REGISTER",
            "NCCL_GIN_GDAKI_MAX_DEST_RD_ATOMIC",
            "NCCL_GIN_GDAKI_MAX_QP_RD_ATOMIC",
            "NCCL_GIN_IB_TC",
            "NCCL_GRAPH_STREAM_ORDERING",
            "NCCL_IBVERBS_LIB",
            "NCCL_IB_OOO_RQ",
            "NCCL_IB_QUERY_PORT_SPEED",
            "NCCL_IB_RESILIENCY_PORT_RECOVERY",
            "NCCL_IB_RESILIENCY_PORT_RECOVERY_ACK_TIMEOUT",
            "NCCL_IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_BATCH_INTERVAL",
            "NCCL_IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_BATCH_SIZE",
            "NCCL_IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_SEQUENCE_SIZE",
            "NCCL_IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_TIMEOUT",
            "NCCL_IB_RESILIENCY_PORT_RECOVERY_ATTEMPTS_MAX",
            "NCCL_IB_RESILIENCY_PORT_RECOVERY_START_DELAY",
            "NCCL_IB_SUBNET_AWARE_ROUTING",
            "NCCL_IB_SUBNET_PREFIX_LEN",
            "NCCL_IGNORE_COLLNET_MISMATCH",
            "NCCL_IGNORE_NET_MISMATCH",
            "NCCL_MLOPART_RDMA_ENABLE",
            "NCCL_MNNVL_CROSS_CLIQUE",
            "NCCL_MULTI_RANK_GPU_ENABLE",
            "NCCL_NET_GDR_MLOPART",
            "NCCL_NET_MERGE_POLICY",
            "NCCL_P2P_MAX_PEERS",
            "NCCL_PARAM_DUMP_ALL",
            "NCCL_RMA_DISABLE",
            "NCCL_RMA_PLUGIN",
            "NCCL_SHADOW_MEMPOOL_MAX_SIZE",
            "NCCL_SYM_REUSE_SYSMEM_HANDLES",
            "NCCL_SYM_RS_GIN_CHUNK_SIZE",
            "NCCL_SYM_TMA_ENABLE",
            "NCCL_TOPO_SPLIT_MLOPART",
        ],
    ),
    (
        NcclVersion::V2_31,
        &[
            "NCCL_CE_COLL_AG_MULTICAST_THRESHOLD",
            "NCCL_CFT_ENABLE",
            "NCCL_DIAGNOSTICS_ECC_THRESHOLD",
            "NCCL_ENQUEUE_REARCH_ENABLE",
            "NCCL_GDRCOPY_USE_INTERNAL_DMABUF",
            "NCCL_GIN_IB_OOO_OPT",
            "NCCL_GIN_PROXY_NTHREADS",
            "NCCL_GIN_PROXY_POLL_BATCH",
            "NCCL_HIER_CE_COLL_NUM_CTX",
            "NCCL_IB_EVENT_BASED_LB",
            "NCCL_IB_EVENT_BASED_LB_REMOTE",
            "NCCL_IB_PKEY_VALUE",
            "NCCL_IB_WQE_LATENCY_REPORT",
            "NCCL_IB_WQE_LATENCY_THRESHOLD_NS",
            "NCCL_NUM_RMA_INT_CTX",
            "NCCL_P2P_PER_CHANNEL_REG_NET_BW",
            "NCCL_PAT_NDIMS",
            "NCCL_RMA_EAGER_INIT",
            "NCCL_RMA_MULTI_CTX_THRESHOLD",
            "NCCL_RUN_DIAGNOSTICS",
            "NCCL_RUN_RAS_DIAGNOSTICS",
            "NCCL_TOPO_SCATTER_START_NET",
        ],
    ),
    (
        NcclVersion::V2_32,
        &[
            "NCCL_CE_CHUNK_SIZE",
            "NCCL_CE_INTRA_GPU_MEMCPY_ENABLE",
            "NCCL_DEBUG_LEVELS",
            "NCCL_DIAGNOSTICS_IB_BW_TIMEOUT",
            "NCCL_GDAKI_FORCE_MCST",
            "NCCL_GIN_GDAKI_LAG_AWARE_DISABLE",
            "NCCL_HIER_CE_COLL_AG_RAIL_RING_ENABLE",
            "NCCL_IB_RAIL_POLICY",
            "NCCL_IB_SORT_MERGE_NICS",
            "NCCL_IB_VR_RAILS_PER_SOCKET",
            "NCCL_IB_VR_SOCKET_COUNT",
            "NCCL_PROGRESS_COUNTERS",
            "NCCL_PROGRESS_COUNTER_MONITOR_POLL_MS",
            "NCCL_PROGRESS_COUNTER_MONITOR_STALE_MS",
            "NCCL_PROGRESS_COUNTER_MONITOR_STALE_WARN_SEC",
            "NCCL_RMA_IB_WR_BATCHSIZE",
        ],
    ),
];

/// Variables that are gone, by the first version without them. Source: the names in the binaries.
const GONE: [(NcclVersion, &[&str]); 2] = [
    (
        NcclVersion::V2_30,
        &[
            "NCCL_CREATE_THREAD_CONTEXT",
            "NCCL_GIN_COUNTER_POOL_SIZE",
            "NCCL_GIN_EXCLUSIVE_CONTEXTS",
            "NCCL_GIN_NCONTEXTS",
            "NCCL_GIN_SIGNAL_POOL_SIZE",
            "NCCL_SHM_MEMCPY_MODE",
            "NCCL_SHM_USE_CUDA_MEMCPY",
        ],
    ),
    (
        NcclVersion::V2_32,
        &[
            "NCCL_MLOPART_RDMA_ENABLE",
            "NCCL_NET_GDR_MLOPART",
            "NCCL_TOPO_SCATTER_START_NET",
        ],
    ),
];

/// Whether a version of NCCL has a variable, if any has it.
pub fn is_known_to(name: &str, version: NcclVersion) -> bool {
    let mut gone = GONE.iter();
    since(name).is_none_or(|first| first <= version)
        && !gone.any(|(first, names)| *first <= version && names.contains(&name))
}

/// The version of NCCL in which a variable appeared; `None` for those that 2.27 has.
pub fn since(name: &str) -> Option<NcclVersion> {
    let found = NAMES.iter().find(|(_, names)| names.contains(&name));
    found.map(|(version, _)| *version)
}
