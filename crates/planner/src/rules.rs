//! The decisions of NCCL that depend on the version: switches, each with its source. Numbers that
//! changed stand in [`crate::search`]'s speeds and in the cost profiles.
//!
//! "Source" means NCCL's public source (all of it to 2.30.7; of 2.31.2 and 2.32.3 what was found),
//! "binary" that answers of the published binaries show it.

use plan::NcclVersion;
use topology::Preference;

/// How many channels a point-to-point transfer over the network is spread over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetPeerChannels {
    /// Two, fewer in large jobs, and at least one for each port that fills the GPU's own link.
    Halved,
    /// As many as the bandwidth of the GPU's ports needs.
    ByBandwidth,
}

/// Which of its closest ports a GPU takes first. Where their number is a power of two, the bits of
/// the device's number are mirrored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstPort {
    /// The one with the device's number (to 2.29, source).
    Device,
    /// The one with the device's number among the GPUs that share the ports (2.30, source).
    Wrapped,
    /// So with Blackwell and ConnectX-8, or `NCCL_TOPO_SCATTER_START_NET`; otherwise the one with
    /// the device's number (2.31, source, binary).
    WrappedByCard,
    /// Whole rails are shared out: as far apart as each GPU has rails, unless the number of rails
    /// is a power of two. Of the ports of a rail, those of lower planes come first (2.32, source,
    /// binary).
    Spread,
}

/// What becomes of NVLink SHARP where ranks share a GPU, on parts of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SharedGpus {
    /// NCCL refuses such ranks (to 2.29, binary).
    Refused,
    /// It is off if the last two ranks of the job share one (2.30, source; a slip).
    LastPair,
    /// It is off if any two do (2.32, source, binary).
    AnyPair,
}

/// How the GPUs of a node must reach each other for kernels for symmetric windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowReach {
    /// Each other's memory, without another GPU between (2.27, binary).
    DirectPeers,
    /// In one node, whatever joins them: the driver is taken to allow P2P (2.28, source).
    OneNode,
    /// Over NVLink, without another GPU between (2.29, source).
    DirectNvlink,
}

/// Kernels and copy engines for symmetric windows. `true` is how the newer versions decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowRules {
    /// How the GPUs must reach each other.
    pub reach: WindowReach,
    /// Most calls of a group that one kernel carries out; `None` if groups take ordinary kernels
    /// (all: logs of the binaries).
    pub most_calls: Option<u32>,
    /// Messages are cut into cells (2.28, binary).
    pub cuts: bool,
    /// A call that registers a window registers nothing where ranks of several nodes have none
    /// (2.29, source, binary). Before, it registered the buffer locally.
    pub needs_one_node: bool,
    /// Windows are registered whether buffers can be or not (2.28, source): `NCCL_LOCAL_REGISTER`.
    pub registers_apart: bool,
    /// Copy engines gather long messages on Blackwell (2.29, source).
    pub engines: bool,
    /// Kernels reduce averages (2.30, source).
    pub averages: bool,
    /// There are kernels with the tensor memory accelerator (2.30, source), which are on from 2.31.
    pub has_tma: bool,
    /// They are on unless `NCCL_SYM_TMA_ENABLE` says otherwise (2.31, source).
    pub uses_tma: bool,
    /// The model of costs of 2.31 (source): other constants, even numbers of thread blocks.
    pub prices_anew: bool,
    /// Kernels with which NVSwitches copy or reduce share few thread blocks (until 2.32.3; not in
    /// 2.32.6, source).
    pub limits_switched: bool,
    /// Copy engines have a model of their time (2.31, source; that of 2.32 is not public).
    pub times_engines: bool,
    /// `NCCL_CTA_POLICY` knows the policy that leaves all-gathers to copy engines (2.28, source).
    pub zero_policy: bool,
}

impl WindowRules {
    fn of(version: NcclVersion) -> Self {
        let since = |first: NcclVersion| version >= first;
        Self {
            reach: match version {
                NcclVersion::V2_27 => WindowReach::DirectPeers,
                NcclVersion::V2_28 => WindowReach::OneNode,
                _ => WindowReach::DirectNvlink,
            },
            most_calls: match version {
                NcclVersion::V2_27 => None,
                NcclVersion::V2_28 => Some(56),
                NcclVersion::V2_29 | NcclVersion::V2_30 => Some(55),
                _ => Some(54),
            },
            cuts: since(NcclVersion::V2_28),
            needs_one_node: since(NcclVersion::V2_29),
            registers_apart: since(NcclVersion::V2_28),
            engines: since(NcclVersion::V2_29),
            averages: since(NcclVersion::V2_30),
            has_tma: since(NcclVersion::V2_30),
            uses_tma: since(NcclVersion::V2_31),
            prices_anew: since(NcclVersion::V2_31),
            limits_switched: !since(NcclVersion::V2_32_6),
            times_engines: version == NcclVersion::V2_31,
            zero_policy: since(NcclVersion::V2_28),
        }
    }
}

/// The decisions of one version. `true` is how the newer versions decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    version: NcclVersion,
    /// Ports stay in a system that holds the whole job (2.28, source). Before, they were removed,
    /// and paths and searches ran without them.
    pub keeps_unused_ports: bool,
    /// Each rank swaps paired rings by its own graph (2.28, source). Before, it did so by the
    /// merged one.
    pub swaps_rings_by_node: bool,
    /// Peers meet in groups of a size that can be set, at distances that count up (2.28, source).
    /// Before, in groups of a node at triangular distances, or in one where nodes are unequal.
    pub groups_peers: bool,
    /// NVLS does not add channels to the rings (2.28, source). Before, rings were repeated until
    /// there were as many as NVLS channels.
    pub separates_nvls_channels: bool,
    /// The time of NVLS follows from heads, efficiency and limits (2.28, source). Before, it was a
    /// fixed share of the links.
    pub models_nvls_heads: bool,
    /// Two GPUs suffice for NVLS (2.28, source). Before, it needed three.
    pub pairs_nvls: bool,
    /// CollNet-direct is set up, and CollNet chains are chosen, on at most eight ranks of a node
    /// (2.28, source).
    pub bounds_collnet_ranks: bool,
    /// A port without guid has an id of its own across hosts (2.28, source).
    pub numbers_ports_by_host: bool,
    /// A guid is a hexadecimal number with or without `0x` (2.28, source). Before, one without `0x`
    /// was read as 0 (source, binary).
    pub reads_plain_guids: bool,
    /// Below compute capability 9.0 the search admits any path to the network (2.29, source).
    pub widens_inter_types: bool,
    /// The fallback channel leaves through ports of its GPUs (2.29, source). Before, through
    /// port 0.
    pub falls_back_to_near_ports: bool,
    /// Only the closest ports of a GPU count as reached over C2C and PCI (2.29, source).
    pub marks_near_p2c: bool,
    /// The limit of GPUDirect RDMA is compared with paths over C2C and PCI as such (2.29, source).
    /// Before, they counted as C2C.
    pub limits_p2c: bool,
    /// The time of NVLSTree on Blackwell with x86 processors follows the trees' correction (2.29,
    /// source).
    pub corrects_nvls_tree: bool,
    /// It follows it, too, in hosts of 4 Blackwell GPUs on Arm whose paths to ports have 96 GB/s
    /// (2.31, source).
    pub corrects_nvls_tree_on_arm: bool,
    /// A driver before CUDA 13.4 keeps GPUDirect RDMA of a partition of a GPU (MLOPart) from C2C
    /// (2.32, source, binary). Before, `NCCL_NET_GDR_MLOPART` allowed it at all.
    pub limits_partitions: bool,
    /// Ranks on parts of one GPU.
    pub shared_gpus: SharedGpus,
    /// Point-to-point channels to other nodes (2.29, source).
    pub net_peer_channels: NetPeerChannels,
    /// Point-to-point chunks over the network are doubled on Grace with Blackwell (2.29, source).
    pub doubles_grace_chunks: bool,
    /// Each channel moves at least 32 KiB, and pieces are multiples of 16 bytes (2.29, source).
    pub wider_channels: bool,
    /// GPUs and ranks are different nodes (2.30, source). Before, a rank that was trimmed away took
    /// its GPU with it, and bounds of the search came from the paths after all rules.
    pub separates_devices: bool,
    /// Of two paths the one with the better type is taken, then the wider one (2.30, source).
    /// Before, the wider one, unless it had more links.
    pub prefers_path_type: bool,
    /// The CPU of a GPU is the one with the widest path (2.30, source). Before, the one with the
    /// fewest links.
    pub takes_widest_cpu: bool,
    /// A NIC is driven by another GPU only where that uses GPUDirect RDMA (2.30, source).
    pub pxn_needs_gdr: bool,
    /// Where a GPU begins to count its ports.
    pub first_port: FirstPort,
    /// NVLink through another GPU counts as NVLink for point-to-point channels (2.30, source).
    pub counts_relayed_nvlink: bool,
    /// LL128 is on among different GPUs from compute capability 9.0 (2.30, source).
    pub mixes_ll128: bool,
    /// NVLS channels and chunks of Blackwell on several nodes depend on the network (2.30, source).
    pub tunes_nvls_tree: bool,
    /// CollNet chains need heads that are heads of the network (2.30, source).
    pub checks_chain_heads: bool,
    /// Ports of different planes never meet, and rails decide which ports match (2.30, source).
    pub reads_rails: bool,
    /// Processors of AMD, and Intel's of 2024, have bandwidths of their own between sockets (2.31,
    /// source, binary).
    pub knows_newer_processors: bool,
    /// Rubin has bandwidths, NVLS channels, a rule for LL128 and merged ports of its own (2.32,
    /// source, binary). Before, it has Blackwell's.
    pub knows_rubin: bool,
    /// NICs directly under CPUs are apart from each other (2.32.6, source). Before, all of a host
    /// were one, below the first of those CPUs (source, binary).
    pub separates_cpu_nics: bool,
    /// Rings, trees and NVLS of Rubin have a model of their time as pipelines (2.32.6, source).
    pub prices_pipelines: bool,
    /// Trees on POWER are as slow as rings inside a host (until 2.30; not in 2.31, source).
    pub slows_power_trees: bool,
    /// PAT, and trees on Blackwell, are as fast as the slower of their links inside and outside,
    /// and Blackwell's rings between two nodes as those outside (2.31, source, binary). Before, up
    /// to two nodes as the links inside.
    pub counts_links_outside: bool,
    /// CollNet needs a head for each rank of a node, but CollNet-direct no NVSwitch (2.31, source).
    /// Before, CollNet-direct needed an NVSwitch, and all-reduces no such heads.
    pub needs_collnet_heads: bool,
    /// Between nodes of one GPU only rings have the trees' latency (2.31, source). Before, all
    /// algorithms had it.
    pub lends_rings_latency: bool,
    /// NVLS gathers and scatters as in the smallest node (2.31, source). Before, as in the average.
    pub gathers_as_smallest_node: bool,
    /// Ranks of one host that are in different nodes talk through its memory (2.30, source). In
    /// other versions over the network (to 2.29 and 2.32, source; 2.31, binary), unless
    /// `NCCL_NET_DISABLE_INTRA` forbids it.
    pub shares_between_nodes: bool,
    /// PAT is there for several ranks of a node, if each is a head of NVLS, but takes forever
    /// (2.31, source).
    pub gathers_by_heads: bool,
    /// PAT takes fewer channels for short messages, by its threads (2.32, binary). Before, it had
    /// all.
    pub counts_pat_threads: bool,
    /// PAT reduces and scatters averages, too (2.31, source).
    pub pat_averages: bool,
    /// `NCCL_ALGO` and `NCCL_PROTO` restrict the collectives for which one of them lists a name;
    /// there `NCCL_ALGO` excludes whatever it does not mention (2.31, source). Before, what a
    /// variable does not mention stayed allowed.
    pub forces_collectives: bool,
    /// NVLS on several nodes of Blackwell uses more channels for registered buffers where ports are
    /// fast (2.30, source).
    pub widens_registered_nvls: bool,
    /// `NCCL_CTA_POLICY` is a list of names (2.29, source). Before, a number.
    pub names_policies: bool,
    /// A single rank has thresholds of threads, which it never uses (2.31, source).
    pub single_rank_thresholds: bool,
    /// A port without rail and plane has those of its card and its number (2.32, source, binary).
    pub derives_rails: bool,
    /// Graph files name ranks (2.30, source).
    pub writes_ranks: bool,
    /// A number without digits is the variable's default (2.32, source). Before, it was 0.
    pub needs_digits: bool,
    /// GPUs before compute capability 9.0 move 8-bit floating-point numbers, which they do not
    /// reduce (2.28, source). Before, collectives refused them.
    pub moves_fp8: bool,
    /// Where the driver copies between GPUs (`NCCL_P2P_USE_CUDA_MEMCPY`), no buffers are registered
    /// (2.28, source).
    pub registers_without_copies: bool,
    /// Rings of nodes of one GPU keep a channel for each port that the GPU fills, where buffers are
    /// registered (2.30, source). Before, one.
    pub counts_registered_ports: bool,
    /// Kernels for symmetric windows.
    pub windows: WindowRules,
}

impl Rules {
    /// The rules of a version.
    pub fn of(version: NcclVersion) -> Self {
        let since = |first: NcclVersion| version >= first;
        let v28 = since(NcclVersion::V2_28);
        let v29 = since(NcclVersion::V2_29);
        let v30 = since(NcclVersion::V2_30);
        let v31 = since(NcclVersion::V2_31);
        let v32 = since(NcclVersion::V2_32);
        Self {
            version,
            keeps_unused_ports: v28,
            swaps_rings_by_node: v28,
            groups_peers: v28,
            separates_nvls_channels: v28,
            models_nvls_heads: v28,
            pairs_nvls: v28,
            bounds_collnet_ranks: v28,
            numbers_ports_by_host: v28,
            reads_plain_guids: v28,
            widens_inter_types: v29,
            falls_back_to_near_ports: v29,
            marks_near_p2c: v29,
            limits_p2c: v29,
            limits_partitions: v32,
            shared_gpus: match version {
                NcclVersion::V2_27 | NcclVersion::V2_28 | NcclVersion::V2_29 => SharedGpus::Refused,
                NcclVersion::V2_30 | NcclVersion::V2_31 => SharedGpus::LastPair,
                _ => SharedGpus::AnyPair,
            },
            corrects_nvls_tree: v29,
            net_peer_channels: if v29 {
                NetPeerChannels::ByBandwidth
            } else {
                NetPeerChannels::Halved
            },
            doubles_grace_chunks: v29,
            wider_channels: v29,
            separates_devices: v30,
            prefers_path_type: v30,
            takes_widest_cpu: v30,
            pxn_needs_gdr: v30,
            first_port: match version {
                NcclVersion::V2_30 => FirstPort::Wrapped,
                NcclVersion::V2_31 => FirstPort::WrappedByCard,
                NcclVersion::V2_32 | NcclVersion::V2_32_6 => FirstPort::Spread,
                _ => FirstPort::Device,
            },
            counts_relayed_nvlink: v30,
            mixes_ll128: v30,
            tunes_nvls_tree: v30,
            checks_chain_heads: v30,
            reads_rails: v30,
            writes_ranks: v30,
            knows_newer_processors: v31,
            derives_rails: v32,
            knows_rubin: v32,
            separates_cpu_nics: since(NcclVersion::V2_32_6),
            prices_pipelines: since(NcclVersion::V2_32_6),
            slows_power_trees: !v31,
            counts_links_outside: v31,
            needs_collnet_heads: v31,
            lends_rings_latency: v31,
            gathers_as_smallest_node: v31,
            corrects_nvls_tree_on_arm: v31,
            shares_between_nodes: v30 && !v31,
            gathers_by_heads: v31,
            counts_pat_threads: v32,
            pat_averages: v31,
            forces_collectives: v31,
            widens_registered_nvls: v30,
            names_policies: v29,
            single_rank_thresholds: v31,
            needs_digits: v32,
            moves_fp8: v28,
            registers_without_copies: v28,
            counts_registered_ports: v30,
            windows: WindowRules::of(version),
        }
    }

    /// Which of two paths is taken.
    pub const fn path_preference(&self) -> Preference {
        if self.prefers_path_type {
            Preference::Type
        } else {
            Preference::Bandwidth
        }
    }

    /// Whether a compute capability × 10 is of Rubin or later, for this version.
    pub const fn is_rubin(&self, sm: i32) -> bool {
        self.knows_rubin && topology::bandwidth::is_rubin(sm)
    }

    /// Fewest channels of an NVLS graph that can be used.
    pub const fn least_nvls_channels(&self) -> u32 {
        if self.models_nvls_heads { 2 } else { 1 }
    }

    /// Whose rules these are.
    pub const fn version(&self) -> NcclVersion {
        self.version
    }
}

impl Default for Rules {
    fn default() -> Self {
        Self::of(NcclVersion::default())
    }
}
