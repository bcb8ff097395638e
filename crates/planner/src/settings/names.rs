//! The names of NCCL's variables.

use plan::NcclVersion;

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
    /// A decision of NCCL that is not modelled; the text says what is assumed instead.
    NotModelled(&'static str),
    /// No decision.
    Nothing,
}

/// Variables that change what the search decides.
const SEARCH: [&str; 28] = [
    "NCCL_COLLNET_ENABLE",
    "NCCL_CROSS_NIC",
    "NCCL_GRAPH_FILE",
    "NCCL_IB_HCA",
    "NCCL_IB_MERGE_NICS",
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
    "NCCL_TOPO_SPLIT_MLOPART",
];

/// Variables that decide how hosts are joined, except those that the search reads too.
const JOINING: [&str; 23] = [
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
const COST: [&str; 17] = [
    "NCCL_ALGO",
    "NCCL_BUFFSIZE",
    "NCCL_CTA_POLICY",
    "NCCL_LL128_BUFFSIZE",
    "NCCL_LL128_C2C",
    "NCCL_LL128_NTHREADS",
    "NCCL_LL_BUFFSIZE",
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
];

const DOMAIN: &str =
    "which hosts form an NVLink domain is not asked of the devices: the job says it";

/// Variables that change a decision of NCCL's, but not of the planner's, with what is assumed
/// instead.
const NOT_MODELLED: [(&str, &str); 14] = [
    (
        "NCCL_CHUNK_SIZE",
        "chunks are taken to be those that NCCL computes",
    ),
    ("NCCL_CUMEM_ENABLE", "cuMem is taken to be available and on"),
    (
        "NCCL_IGNORE_CPU_AFFINITY",
        "the processors that a process may use are not known: plans list the GPU's own, as the file has them",
    ),
    (
        "NCCL_IGNORE_DISABLED_P2P",
        "the file does not say between which GPUs the driver forbids P2P: it is taken to allow all of it",
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
        "NCCL_TOPO_SCATTER_START_NET",
        "a GPU begins with the port that its device number gives",
    ),
    (
        "NCCL_UNPACK_DOUBLE_NCHANNELS",
        "the network is taken to be driven by the host, not by a device that unpacks",
    ),
];

/// Variables of NCCL that change neither the search, nor the joining of hosts, nor the cost model.
const OTHERS: [&str; 74] = [
    "NCCL_ALLOC_P2P_NET_LL_BUFFERS",
    "NCCL_CGA_CLUSTER_SIZE",
    "NCCL_CHECKS_DISABLE",
    "NCCL_CHECK_POINTERS",
    "NCCL_COMM_BLOCKING",
    "NCCL_COMM_ID",
    "NCCL_COMM_SHRINK_SHARE_RESOURCES",
    "NCCL_COMM_SPLIT_SHARE_RESOURCES",
    "NCCL_CONF_FILE",
    "NCCL_CREATE_THREAD_CONTEXT",
    "NCCL_CUMEM_HOST_ENABLE",
    "NCCL_DEBUG",
    "NCCL_DEBUG_FILE",
    "NCCL_DEBUG_SUBSYS",
    "NCCL_DEBUG_TIMESTAMP_FORMAT",
    "NCCL_DEBUG_TIMESTAMP_LEVELS",
    "NCCL_DMABUF_ENABLE",
    "NCCL_GIN_ENABLE",
    "NCCL_GIN_TYPE",
    "NCCL_GRAPH_DUMP_FILE",
    "NCCL_GRAPH_DUMP_FILE_RANK",
    "NCCL_GRAPH_MIXING_SUPPORT",
    "NCCL_GRAPH_REGISTER",
    "NCCL_HOSTID",
    "NCCL_IB_ADAPTIVE_ROUTING",
    "NCCL_IB_ADDR_FAMILY",
    "NCCL_IB_ADDR_RANGE",
    "NCCL_IB_AR_THRESHOLD",
    "NCCL_IB_CUDA_SUPPORT",
    "NCCL_IB_DATA_DIRECT",
    "NCCL_IB_DISABLE",
    "NCCL_IB_ECE_ENABLE",
    "NCCL_IB_FIFO_TC",
    "NCCL_IB_GID_INDEX",
    "NCCL_IB_MERGE_VFS",
    "NCCL_IB_MQP_RETRY_ALL",
    "NCCL_IB_MQP_RETRY_SLEEP_MSEC",
    "NCCL_IB_PCI_RELAXED_ORDERING",
    "NCCL_IB_PKEY",
    "NCCL_IB_QPS_PER_CONNECTION",
    "NCCL_IB_RETRY_CNT",
    "NCCL_IB_RETURN_ASYNC_EVENTS",
    "NCCL_IB_ROCE_VERSION_NUM",
    "NCCL_IB_SL",
    "NCCL_IB_SPLIT_DATA_ON_QPS",
    "NCCL_IB_SUBNET_AWARE_ROUTING",
    "NCCL_IB_TC",
    "NCCL_IB_TIMEOUT",
    "NCCL_LAUNCH_MODE",
    "NCCL_LAUNCH_ORDER_IMPLICIT",
    "NCCL_LOCAL_REGISTER",
    "NCCL_NET",
    "NCCL_NET_FORCE_FLUSH",
    "NCCL_NET_GDR_READ_LEVEL",
    "NCCL_NET_PLUGIN",
    "NCCL_NET_SHARED_BUFFERS",
    "NCCL_NET_SHARED_COMMS",
    "NCCL_NSOCKS_PERTHREAD",
    "NCCL_NVB_PRECONNECT",
    "NCCL_OOB_NET_ENABLE",
    "NCCL_OOB_NET_IFNAME",
    "NCCL_P2P_DIRECT_DISABLE",
    "NCCL_PROFILER_PLUGIN",
    "NCCL_RAS_ENABLE",
    "NCCL_RUNTIME_CONNECT",
    "NCCL_SET_CPU_NAME",
    "NCCL_SHM_LOCALITY",
    "NCCL_SHM_USE_CUDA_MEMCPY",
    "NCCL_SOCKET_FAMILY",
    "NCCL_SOCKET_NTHREADS",
    "NCCL_TOPO_DUMP_FILE",
    "NCCL_TOPO_DUMP_FILE_RANK",
    "NCCL_TUNER_PLUGIN",
    "NCCL_WORK_FIFO_BYTES",
];

/// The version of NCCL in which a variable appeared; `None` for those that 2.27 has. Source: NCCL's
/// public source, and the names in the binaries of 2.31.2 and 2.32.3.
pub fn since(name: &str) -> Option<NcclVersion> {
    let names: [(NcclVersion, &[&str]); 5] = [
        (
            NcclVersion::V2_28,
            &[
                "NCCL_GIN_ENABLE",
                "NCCL_GIN_TYPE",
                "NCCL_MNNVL_RAIL_PER_HOST",
                "NCCL_NETDEVS_POLICY",
                "NCCL_P2P_SCHEDULE_GROUP_SIZE",
            ],
        ),
        (
            NcclVersion::V2_29,
            &["NCCL_P2P_PER_CHANNEL_NET_BW", "NCCL_SYM_CE_THRESHOLD"],
        ),
        (
            NcclVersion::V2_30,
            &[
                "NCCL_IB_SUBNET_AWARE_ROUTING",
                "NCCL_IGNORE_COLLNET_MISMATCH",
                "NCCL_IGNORE_NET_MISMATCH",
                "NCCL_MNNVL_CROSS_CLIQUE",
                "NCCL_MULTI_RANK_GPU_ENABLE",
                "NCCL_NET_GDR_MLOPART",
                "NCCL_NET_MERGE_POLICY",
                "NCCL_P2P_MAX_PEERS",
                "NCCL_SYM_TMA_ENABLE",
                "NCCL_TOPO_SPLIT_MLOPART",
            ],
        ),
        (
            NcclVersion::V2_31,
            &[
                "NCCL_P2P_PER_CHANNEL_REG_NET_BW",
                "NCCL_PAT_NDIMS",
                "NCCL_TOPO_SCATTER_START_NET",
            ],
        ),
        (NcclVersion::V2_32, &["NCCL_IB_RAIL_POLICY"]),
    ];
    let found = names.iter().find(|(_, names)| names.contains(&name));
    found.map(|(version, _)| *version)
}

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
