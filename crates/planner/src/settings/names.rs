//! The names of NCCL's variables.

use super::DRIVER_VERSION;

/// Least likeness of a name that is offered: a typing error, not another word.
const LIKENESS: f64 = 0.85;

/// The effect of a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SettingEffect {
    /// Paths, and what the search finds.
    Search,
    /// How hosts are joined: channel counts, chunk sizes, the point-to-point schedule.
    Joining,
    /// Bandwidths, latencies, threads and the choice for a message size.
    Cost,
    /// What a communicator allocates, and nothing else.
    Memory,
    /// A decision of NCCL that is not modelled; the text says what is assumed instead.
    NotModelled(&'static str),
    /// No decision.
    Nothing,
}

/// Variables that change what the search decides.
const SEARCH: [&str; 30] = [
    "NCCL_COLLNET_ENABLE",
    "NCCL_CROSS_NIC",
    "NCCL_GRAPH_FILE",
    "NCCL_IB_HCA",
    "NCCL_IB_MERGE_NICS",
    "NCCL_IGNORE_DISABLED_P2P",
    "NCCL_MNNVL_ENABLE",
    "NCCL_MNNVL_RAIL_PER_HOST",
    "NCCL_MNNVL_SCATTER_NETS_ENABLE",
    "NCCL_NETDEVS_POLICY",
    "NCCL_NET_DISABLE_INTRA",
    "NCCL_NET_FORCE_MERGE",
    "NCCL_NET_GDR_C2C",
    "NCCL_NET_GDR_LEVEL",
    "NCCL_NET_GDR_MLOPART",
    "NCCL_NET_GDR_READ",
    "NCCL_NET_MERGE_LEVEL",
    "NCCL_NET_MERGE_POLICY",
    "NCCL_NVB_DISABLE",
    "NCCL_NVLS_ENABLE",
    "NCCL_P2P_DISABLE",
    "NCCL_P2P_LEVEL",
    "NCCL_P2P_PXN_LEVEL",
    "NCCL_P2P_USE_CUDA_MEMCPY",
    "NCCL_PXN_C2C",
    "NCCL_PXN_DISABLE",
    "NCCL_SHM_DISABLE",
    "NCCL_SOCKET_IFNAME",
    "NCCL_TOPO_SCATTER_START_NET",
    "NCCL_TOPO_SPLIT_MLOPART",
];

/// Variables that decide how hosts are joined, except those that the search reads too.
const JOINING: [&str; 26] = [
    "NCCL_ALLOC_P2P_NET_LL_BUFFERS",
    "NCCL_CHUNK_SIZE",
    "NCCL_COLLNET_NODE_THRESHOLD",
    "NCCL_IGNORE_COLLNET_MISMATCH",
    "NCCL_IGNORE_NET_MISMATCH",
    "NCCL_MAX_CTAS",
    "NCCL_MAX_NCHANNELS",
    "NCCL_MAX_NRINGS",
    "NCCL_MAX_P2P_NCHANNELS",
    "NCCL_MIN_CTAS",
    "NCCL_MIN_NCHANNELS",
    "NCCL_MIN_NRINGS",
    "NCCL_MIN_P2P_NCHANNELS",
    "NCCL_NCHANNELS_PER_NET_PEER",
    "NCCL_NVLSTREE_MAX_CHUNKSIZE",
    "NCCL_NVLS_CHUNKSIZE",
    "NCCL_NVLS_NCHANNELS",
    "NCCL_P2P_LL_THRESHOLD",
    "NCCL_P2P_MAX_PEERS",
    "NCCL_P2P_NET_CHUNKSIZE",
    "NCCL_P2P_NVL_CHUNKSIZE",
    "NCCL_P2P_PCI_CHUNKSIZE",
    "NCCL_P2P_PER_CHANNEL_NET_BW",
    "NCCL_P2P_READ_ENABLE",
    "NCCL_P2P_SCHEDULE_GROUP_SIZE",
    "NCCL_WORK_ARGS_BYTES",
];

/// Variables that change bandwidths, latencies, threads and choices, but not the search.
const COST: [&str; 19] = [
    "NCCL_ALGO",
    "NCCL_BUFFSIZE",
    "NCCL_CTA_POLICY",
    "NCCL_LL128_BUFFSIZE",
    "NCCL_LL128_C2C",
    "NCCL_LL128_NTHREADS",
    "NCCL_LL_BUFFSIZE",
    "NCCL_LOCAL_REGISTER",
    "NCCL_NET_OVERHEAD",
    "NCCL_NTHREADS",
    "NCCL_PAT_ENABLE",
    "NCCL_PROTO",
    "NCCL_SYM_CE_THRESHOLD",
    "NCCL_SYM_CTAS",
    "NCCL_SYM_KERNEL",
    "NCCL_SYM_TMA_ENABLE",
    "NCCL_THREAD_THRESHOLDS",
    "NCCL_WIN_ENABLE",
    DRIVER_VERSION,
];

const DOMAIN: &str =
    "which hosts form an NVLink domain is not asked of the devices: the job says it";

/// Variables that change a decision of NCCL's, but not of the planner's, with what is assumed
/// instead.
const NOT_MODELLED: [(&str, &str); 14] = [
    ("NCCL_CUMEM_ENABLE", "cuMem is taken to be available and on"),
    (
        "NCCL_IGNORE_CPU_AFFINITY",
        "the processors that a process may use are not known: plans list the GPU's own, as the file has them",
    ),
    (
        "NCCL_IB_RAIL_POLICY",
        "a port has the rail of the file, or that of its card: which rails NCCL makes of a card's ports is not known",
    ),
    ("NCCL_MNNVL_CLIQUE_ID", DOMAIN),
    ("NCCL_MNNVL_CROSS_CLIQUE", DOMAIN),
    ("NCCL_MNNVL_UUID", DOMAIN),
    (
        "NCCL_MULTI_RANK_GPU_ENABLE",
        "several ranks on one GPU are planned as the file has them",
    ),
    (
        "NCCL_P2P_PER_CHANNEL_REG_NET_BW",
        "buffers are taken to be unregistered",
    ),
    ("NCCL_PAT_NDIMS", "PAT is priced as without it"),
    ("NCCL_TOPO_FILE", "the topology is the file that is planned"),
    (
        "NCCL_UNPACK_DOUBLE_NCHANNELS",
        "the network is taken to be driven by the host, not by a device that unpacks",
    ),
    (
        "NCCL_SYM_GIN_KERNELS_ENABLE",
        "kernels for windows that cross the network are not modelled",
    ),
    (
        "NCCL_LSA_TEAM_SIZE",
        "kernels for windows serve all ranks of a node",
    ),
    (
        "NCCL_IB_SORT_MERGE_NICS",
        "which ports NCCL merges is as without it",
    ),
];

/// Variables that change the memory of communicators, and nothing else. Source: `memory`.
const MEMORY: [&str; 5] = [
    "NCCL_NET_SHARED_BUFFERS",
    "NCCL_NVB_PRECONNECT",
    "NCCL_RUNTIME_CONNECT",
    "NCCL_SHM_LOCALITY",
    "NCCL_WORK_FIFO_BYTES",
];

/// Variables of NCCL that change neither the search, nor the joining of hosts, nor the cost model,
/// nor what is allocated.
const OTHERS: [&str; 197] = [
    "NCCL_ALLGATHERV_ENABLE",
    "NCCL_CE_CHUNK_SIZE",
    "NCCL_CE_COLL_AG_MULTICAST_THRESHOLD",
    "NCCL_CE_INTRA_GPU_MEMCPY_ENABLE",
    "NCCL_CFT_ENABLE",
    "NCCL_CGA_CLUSTER_SIZE",
    "NCCL_CHECKS_DISABLE",
    "NCCL_CHECK_MODE",
    "NCCL_CHECK_POINTERS",
    "NCCL_COMM_BLOCKING",
    "NCCL_COMM_ID",
    "NCCL_COMM_SHRINK_SHARE_RESOURCES",
    "NCCL_COMM_SPLIT_SHARE_RESOURCES",
    "NCCL_CONF_FILE",
    "NCCL_CONNECT_ROUND_MAX_PEERS",
    "NCCL_CREATE_THREAD_CONTEXT",
    "NCCL_CUMEM_HOST_ENABLE",
    "NCCL_DEBUG",
    "NCCL_DEBUG_FILE",
    "NCCL_DEBUG_LEVELS",
    "NCCL_DEBUG_SUBSYS",
    "NCCL_DEBUG_TIMESTAMP_FORMAT",
    "NCCL_DEBUG_TIMESTAMP_LEVELS",
    "NCCL_DEV_API_JIT",
    "NCCL_DIAGNOSTICS_ECC_THRESHOLD",
    "NCCL_DIAGNOSTICS_IB_BW_TIMEOUT",
    "NCCL_DISABLE_MEM_MANAGER",
    "NCCL_DMABUF_ENABLE",
    "NCCL_ELASTIC_BUFFER_REGISTER",
    "NCCL_ENABLE_VERSION_CHECK",
    "NCCL_ENQUEUE_REARCH_ENABLE",
    "NCCL_ENV_PLUGIN",
    "NCCL_GDAKI_FORCE_MCST",
    "NCCL_GDAKI_USE_RELIABLE_DB",
    "NCCL_GDRCOPY_ENABLE",
    "NCCL_GDRCOPY_FIFO_ENABLE",
    "NCCL_GDRCOPY_FLUSH_ENABLE",
    "NCCL_GDRCOPY_SYNC_ENABLE",
    "NCCL_GDRCOPY_USE_INTERNAL_DMABUF",
    "NCCL_GDR_FLUSH_DISABLE",
    "NCCL_GIN_COUNTER_POOL_SIZE",
    "NCCL_GIN_ENABLE",
    "NCCL_GIN_ERROR_QUERY_SEC",
    "NCCL_GIN_EXCLUSIVE_CONTEXTS",
    "NCCL_GIN_GDAKI_LAG_AWARE_DISABLE",
    "NCCL_GIN_GDAKI_MAX_DEST_RD_ATOMIC",
    "NCCL_GIN_GDAKI_MAX_QP_RD_ATOMIC",
    "NCCL_GIN_GDAKI_NIC_HANDLER",
    "NCCL_GIN_GDAKI_QP_DEPTH",
    "NCCL_GIN_IB_OOO_OPT",
    "NCCL_GIN_IB_TC",
    "NCCL_GIN_NCONNECTIONS",
    "NCCL_GIN_NCONTEXTS",
    "NCCL_GIN_PLUGIN",
    "NCCL_GIN_PROXY_NTHREADS",
    "NCCL_GIN_PROXY_POLL_BATCH",
    "NCCL_GIN_PROXY_QUEUE_SIZE",
    "NCCL_GIN_SIGNAL_POOL_SIZE",
    "NCCL_GIN_TYPE",
    "NCCL_GRAPH_DUMP_FILE",
    "NCCL_GRAPH_DUMP_FILE_RANK",
    "NCCL_GRAPH_HELPER_DISABLE",
    "NCCL_GRAPH_MIXING_SUPPORT",
    "NCCL_GRAPH_REGISTER",
    "NCCL_GRAPH_STREAM_ORDERING",
    "NCCL_GROUP_CUDA_STREAM",
    "NCCL_HIER_CE_COLL_AG_RAIL_RING_ENABLE",
    "NCCL_HIER_CE_COLL_NUM_CTX",
    "NCCL_HOSTID",
    "NCCL_IBVERBS_LIB",
    "NCCL_IB_ADAPTIVE_ROUTING",
    "NCCL_IB_ADDR_FAMILY",
    "NCCL_IB_ADDR_RANGE",
    "NCCL_IB_AR_THRESHOLD",
    "NCCL_IB_CUDA_SUPPORT",
    "NCCL_IB_DATA_DIRECT",
    "NCCL_IB_DEVICE_PCI_ORDER",
    "NCCL_IB_DISABLE",
    "NCCL_IB_ECE_ENABLE",
    "NCCL_IB_EVENT_BASED_LB",
    "NCCL_IB_EVENT_BASED_LB_REMOTE",
    "NCCL_IB_FIFO_TC",
    "NCCL_IB_GID_INDEX",
    "NCCL_IB_MERGE_VFS",
    "NCCL_IB_MQP_RETRY_ALL",
    "NCCL_IB_MQP_RETRY_CNT",
    "NCCL_IB_MQP_RETRY_SLEEP_MSEC",
    "NCCL_IB_OOO_RQ",
    "NCCL_IB_PCI_RELAXED_ORDERING",
    "NCCL_IB_PKEY",
    "NCCL_IB_PKEY_VALUE",
    "NCCL_IB_PREPOST_RECEIVE_WORK_REQUESTS",
    "NCCL_IB_QPS_PER_CONNECTION",
    "NCCL_IB_QUERY_PORT_SPEED",
    "NCCL_IB_RECEIVER_SIDE_MATCHING_SCHEME",
    "NCCL_IB_RESILIENCY_PORT_FAILOVER",
    "NCCL_IB_RESILIENCY_PORT_FAILOVER_MAX_ATTEMPTS",
    "NCCL_IB_RESILIENCY_PORT_FAILOVER_PROBE_DELAY",
    "NCCL_IB_RESILIENCY_PORT_RECOVERY",
    "NCCL_IB_RESILIENCY_PORT_RECOVERY_ACK_TIMEOUT",
    "NCCL_IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_BATCH_INTERVAL",
    "NCCL_IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_BATCH_SIZE",
    "NCCL_IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_SEQUENCE_SIZE",
    "NCCL_IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_TIMEOUT",
    "NCCL_IB_RESILIENCY_PORT_RECOVERY_ATTEMPTS_MAX",
    "NCCL_IB_RESILIENCY_PORT_RECOVERY_START_DELAY",
    "NCCL_IB_RETRY_CNT",
    "NCCL_IB_RETURN_ASYNC_EVENTS",
    "NCCL_IB_ROCE_VERSION_NUM",
    "NCCL_IB_ROUTABLE_FLID_GID_INDEX",
    "NCCL_IB_SL",
    "NCCL_IB_SPLIT_DATA_ON_QPS",
    "NCCL_IB_SUBNET_AWARE_ROUTING",
    "NCCL_IB_SUBNET_PREFIX_LEN",
    "NCCL_IB_TC",
    "NCCL_IB_TIMEOUT",
    "NCCL_IB_USE_INLINE",
    "NCCL_IB_VR_RAILS_PER_SOCKET",
    "NCCL_IB_VR_SOCKET_COUNT",
    "NCCL_IB_WARN_RAIL_LOCAL",
    "NCCL_IB_WQE_LATENCY_REPORT",
    "NCCL_IB_WQE_LATENCY_THRESHOLD_NS",
    "NCCL_IPC_USE_ABSTRACT_SOCKET",
    "NCCL_L1_SHARED_MEMORY_CARVEOUT",
    "NCCL_LAUNCH_MODE",
    "NCCL_LAUNCH_ORDER_IMPLICIT",
    "NCCL_LAUNCH_RACE_FATAL",
    "NCCL_LEGACY_CUDA_REGISTER",
    "NCCL_MEM_SYNC_DOMAIN",
    "NCCL_MLOPART_RDMA_ENABLE",
    "NCCL_MULTI_SEGMENT_REGISTER",
    "NCCL_NET",
    "NCCL_NET_FORCE_FLUSH",
    "NCCL_NET_GDR_READ_LEVEL",
    "NCCL_NET_OPTIONAL_RECV_COMPLETION",
    "NCCL_NET_PLUGIN",
    "NCCL_NET_SHARED_COMMS",
    "NCCL_NO_CACHE",
    "NCCL_NSOCKS_PERTHREAD",
    "NCCL_NUM_RMA_CTX",
    "NCCL_NUM_RMA_INT_CTX",
    "NCCL_NVLINK_UTIL_CENTRIC_SCHED_ENABLE",
    "NCCL_NVTX_DISABLE",
    "NCCL_OOB_NET_ENABLE",
    "NCCL_OOB_NET_IFNAME",
    "NCCL_P2P_DIRECT_DISABLE",
    "NCCL_P2P_EPOCH_ENABLE",
    "NCCL_PARAM_DUMP_ALL",
    "NCCL_PROFILER_PLUGIN",
    "NCCL_PROGRESS_APPENDOP_FREQ",
    "NCCL_PROGRESS_COUNTERS",
    "NCCL_PROGRESS_COUNTER_MONITOR_POLL_MS",
    "NCCL_PROGRESS_COUNTER_MONITOR_STALE_MS",
    "NCCL_PROGRESS_COUNTER_MONITOR_STALE_WARN_SEC",
    "NCCL_PROXY_APPEND_BATCH_SIZE",
    "NCCL_PROXY_CPUSET",
    "NCCL_PROXY_DUMP_SIGNAL",
    "NCCL_RAS_ADDR",
    "NCCL_RAS_ENABLE",
    "NCCL_RAS_TIMEOUT_FACTOR",
    "NCCL_REPORT_CONNECT_PROGRESS",
    "NCCL_RMA_DISABLE",
    "NCCL_RMA_EAGER_INIT",
    "NCCL_RMA_IB_WR_BATCHSIZE",
    "NCCL_RMA_MULTI_CTX_THRESHOLD",
    "NCCL_RMA_PLUGIN",
    "NCCL_RMA_PROXY_DUMP_SIGNAL",
    "NCCL_RMA_PROXY_QUEUE_SIZE",
    "NCCL_RUN_DIAGNOSTICS",
    "NCCL_RUN_RAS_DIAGNOSTICS",
    "NCCL_SET_CPU_NAME",
    "NCCL_SET_CPU_STACK_SIZE",
    "NCCL_SET_STACK_SIZE",
    "NCCL_SET_THREAD_NAME",
    "NCCL_SHADOW_MEMPOOL_MAX_SIZE",
    "NCCL_SHM_MEMCPY_MODE",
    "NCCL_SHM_USE_CUDA_MEMCPY",
    "NCCL_SINGLE_PROC_MEM_REG_ENABLE",
    "NCCL_SOCKET_FAMILY",
    "NCCL_SOCKET_INLINE",
    "NCCL_SOCKET_MIN_TASKSIZE",
    "NCCL_SOCKET_NTHREADS",
    "NCCL_SOCKET_POLL_TIMEOUT_MSEC",
    "NCCL_SOCKET_RCVBUF",
    "NCCL_SOCKET_RETRY_CNT",
    "NCCL_SOCKET_RETRY_SLEEP_MSEC",
    "NCCL_SOCKET_SNDBUF",
    "NCCL_SYM_NOWIN_ENABLE",
    "NCCL_SYM_REUSE_SYSMEM_HANDLES",
    "NCCL_SYM_RS_GIN_CHUNK_SIZE",
    "NCCL_TOPO_DUMP_FILE",
    "NCCL_TOPO_DUMP_FILE_RANK",
    "NCCL_TUNER_PLUGIN",
    "NCCL_UID_STAGGER_RATE",
    "NCCL_UID_STAGGER_THRESHOLD",
    "NCCL_WARN_ENABLE_DEBUG_INFO",
    "NCCL_WIN_STRIDE",
];

/// Every variable of NCCL that is known, and what it changes.
pub fn variables() -> impl Iterator<Item = (&'static str, SettingEffect)> {
    let with = |effect: SettingEffect| move |name: &'static str| (name, effect);
    let not_modelled = NOT_MODELLED
        .into_iter()
        .map(|(name, assumed)| (name, SettingEffect::NotModelled(assumed)));
    SEARCH
        .into_iter()
        .map(with(SettingEffect::Search))
        .chain(JOINING.into_iter().map(with(SettingEffect::Joining)))
        .chain(COST.into_iter().map(with(SettingEffect::Cost)))
        .chain(MEMORY.into_iter().map(with(SettingEffect::Memory)))
        .chain(not_modelled)
        .chain(OTHERS.into_iter().map(with(SettingEffect::Nothing)))
}

/// The effect of a variable; `None` if no version of NCCL from 2.27 on has it.
pub fn effect(name: &str) -> Option<SettingEffect> {
    variables()
        .find(|(known, _)| *known == name)
        .map(|(_, effect)| effect)
}

/// Whether a variable can change the search, the joining of hosts or the cost model.
pub(super) fn decides(name: &str) -> bool {
    matches!(
        effect(name),
        Some(SettingEffect::Search | SettingEffect::Joining | SettingEffect::Cost)
    )
}

/// The known name most like this one, if it could be a typing error.
pub(super) fn nearest(name: &str) -> Option<&'static str> {
    // All begin alike, which makes no name more likely.
    let rest = |name: &'_ str| name.strip_prefix("NCCL_").unwrap_or(name).to_owned();
    variables()
        .map(|(known, _)| (strsim::jaro_winkler(&rest(name), &rest(known)), known))
        .filter(|(likeness, _)| *likeness >= LIKENESS)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_known_once() {
        let mut names: Vec<&str> = variables().map(|(name, _)| name).collect();
        names.sort_unstable();
        for pair in names.windows(2) {
            assert!(pair[0] < pair[1], "{} is known twice", pair[0]);
        }
    }

    #[test]
    fn only_typing_errors_get_a_suggestion() {
        assert_eq!(nearest("NCCL_CROS_NIC"), Some("NCCL_CROSS_NIC"));
        assert_eq!(nearest("PATH"), None);
    }
}
