//! NCCL's environment variables, as typed values.
//!
//! Values are read as NCCL reads them: numbers with C's `strtoll`, texts by its own tables. A
//! [`SettingNote`] reports a value that NCCL silently reads as something else.

mod connect;
mod merge;
mod names;
mod parse;
mod tuning;
mod versions;

pub use connect::{ConnectSettings, MAX_CHANNELS};
pub use merge::MergeSettings;
pub use names::{SettingEffect, effect, variables};
pub use parse::number;
pub use tuning::{CtaPolicy, DRIVER_VERSION, Tuning, driver_number};
pub use versions::{is_known_to, since};

use plan::NcclVersion;
use plan::nccl_graph::GraphFile;
use topology::xml::{Document, Element, c_int};
use topology::{BuildOptions, NameList, PathType, System};

use crate::rules::Rules;
use crate::subset::with_nics;

/// How many network ports a GPU uses (`NCCL_NETDEVS_POLICY`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NetDevsPolicy {
    /// Its share: the close ports divided among the GPUs that are equally close.
    #[default]
    Auto,
    /// All close ports.
    All,
    /// At most this many.
    Max(u32),
}

/// Something to tell about one setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingNote {
    /// The variable.
    pub name: String,
    /// NCCL's reading of it.
    pub message: String,
    /// NCCL dies of it, at the start or at a later call.
    pub is_fatal: bool,
}

/// Every setting that changes a decision of the planner. The defaults are NCCL's.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The rules of the version of NCCL that decides.
    pub rules: Rules,
    /// `NCCL_TOPO_SPLIT_MLOPART`: partitions of a GPU are devices.
    pub split_partitions: bool,
    /// `NCCL_NVB_DISABLE`: no NVLink paths through another GPU.
    pub nvb_disable: bool,
    /// `NCCL_P2P_LEVEL` and `NCCL_P2P_DISABLE`: the worst path on which GPUs talk directly.
    pub p2p_level: Option<PathType>,
    /// `NCCL_IGNORE_DISABLED_P2P`: 0: refused peer access across NVLink is an error; 2: peer access
    /// is not asked for.
    pub ignore_disabled_p2p: i64,
    /// `NCCL_P2P_USE_CUDA_MEMCPY`: copies by the driver, which cannot relay.
    pub p2p_use_cuda_memcpy: bool,
    /// `NCCL_NET_DISABLE_INTRA`: never use the network inside a host.
    pub net_disable_intra: bool,
    /// `NCCL_SHM_DISABLE`: no shared memory.
    pub shm_disable: bool,
    /// `NCCL_NET_GDR_LEVEL`: the worst path on which a NIC reaches GPU memory directly.
    pub gdr_level: Option<PathType>,
    /// `NCCL_NET_GDR_READ`: GPUDirect RDMA for sending; `None` decides by GPU generation.
    pub gdr_read: Option<bool>,
    /// `NCCL_NET_GDR_C2C`: GPUDirect RDMA over C2C links.
    pub gdr_c2c: bool,
    /// `NCCL_NET_GDR_MLOPART`: GPUDirect RDMA for partitions.
    pub gdr_partitions: bool,
    /// `NCCL_PXN_DISABLE`: no NICs through another GPU.
    pub pxn_disable: bool,
    /// `NCCL_PXN_C2C`: the other GPU may reach its NIC over C2C.
    pub pxn_c2c: bool,
    /// `NCCL_P2P_PXN_LEVEL`: when point-to-point transfers use the receiver's rail (0, 1 or 2).
    pub p2p_pxn_level: i64,
    /// `NCCL_NETDEVS_POLICY`.
    pub netdevs_policy: NetDevsPolicy,
    /// `NCCL_TOPO_SCATTER_START_NET`: GPUs begin with ports by the number of those that share them.
    pub scatters_ports: bool,
    /// `NCCL_CROSS_NIC`: 0 never, 1 always, 2 when it helps.
    pub cross_nic: i64,
    /// `NCCL_MNNVL_ENABLE`: 0 no NVLink domains of several hosts, 1 always, 2 where P2P is not
    /// switched off.
    pub mnnvl_enable: i64,
    /// `NCCL_MNNVL_SCATTER_NETS_ENABLE`: in an NVLink domain of several hosts, take ports GPU by
    /// GPU in turn.
    pub mnnvl_scatter_nets: bool,
    /// `NCCL_MNNVL_RAIL_PER_HOST`: ports of different hosts count as one rail when their PCI
    /// functions match.
    pub mnnvl_rail_per_host: bool,
    /// `NCCL_NVLS_ENABLE`: 0 off, 1 forced, 2 when the devices have it.
    pub nvls_enable: i64,
    /// `NCCL_COLLNET_ENABLE`; `None` leaves it to the job.
    pub collnet_enable: Option<bool>,
    /// `NCCL_GRAPH_FILE`: the file with graphs to use instead of a search.
    pub graph_file: Option<String>,
    /// The content of that file; the caller reads it.
    pub graphs: Option<GraphFile>,
    /// `NCCL_IB_HCA`: the NICs of a file that a job uses, if it uses InfiniBand or RoCE.
    pub ib_hca: Option<NameList>,
    /// `NCCL_SOCKET_IFNAME`: the NICs of a file that a job uses, if it uses sockets.
    pub socket_ifname: Option<NameList>,
    /// Which ports of a host are merged into virtual devices.
    pub merge: MergeSettings,
    /// How hosts are joined.
    pub connect: ConnectSettings,
    /// Settings of the cost model.
    pub tuning: Tuning,
    /// The variables that were given, in the order given.
    pub in_force: Vec<(String, String)>,
    /// Their oddities.
    pub notes: Vec<SettingNote>,
}

impl Settings {
    /// Returns the given variables that can change a decision, by name. Others (logging, sockets …)
    /// do not change the plan.
    pub fn deciding(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut given: Vec<_> = self
            .in_force
            .iter()
            .filter(|(name, _)| names::decides(name))
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        given.sort_unstable();
        given.into_iter()
    }

    /// Whether GPUDirect RDMA of partitions depends on a driver whose version is not known.
    pub(crate) const fn assumes_partition_driver(&self) -> bool {
        let asked = self.gdr_c2c && self.gdr_level.is_none() && self.tuning.driver.is_none();
        self.rules.limits_partitions && asked
    }

    /// Whether they decide what other settings decide, whatever the variables that were given.
    pub fn decides_as(&self, other: &Self) -> bool {
        let bare = |settings: &Self| Self {
            in_force: Vec::new(),
            notes: Vec::new(),
            ..settings.clone()
        };
        bare(self) == bare(other)
    }

    /// The graph of a machine with the NICs that a job uses.
    ///
    /// # Errors
    /// As [`System::from_document_with`].
    pub fn system(&self, document: &Document) -> Result<System, topology::Error> {
        let used = self.with_used_nics(document);
        System::from_document_with(used.as_ref().unwrap_or(document), self.build_options())
    }

    /// How topology files are read with these settings.
    pub(crate) fn build_options(&self) -> BuildOptions {
        BuildOptions {
            split_partitions: self.split_partitions,
            ports_by_host: self.rules.numbers_ports_by_host,
            plain_guids: self.rules.reads_plain_guids,
            newer_processors: self.rules.knows_newer_processors,
            knows_rubin: self.rules.knows_rubin,
            separates_cpu_nics: self.rules.separates_cpu_nics,
            ..BuildOptions::default()
        }
    }

    /// The document with the NICs that a job uses; `None` if it uses all.
    pub(crate) fn with_used_nics(&self, document: &Document) -> Option<Document> {
        if self.ib_hca.is_none() && self.socket_ifname.is_none() {
            return None;
        }
        with_nics(document, |net| self.uses(net))
    }

    /// Whether a job uses a `<net>`. Of a NIC that NCCL merged, the name of one port suffices.
    fn uses(&self, net: &Element) -> bool {
        let port = net.get("port").map_or(0, c_int);
        let list = match port {
            // NCCL numbers the ports of InfiniBand and RoCE from 1, and gives sockets 0.
            0 => &self.socket_ifname,
            _ => &self.ib_hca,
        };
        let (Some(list), Some(names)) = (list, net.get("name")) else {
            return true;
        };
        names.split('+').any(|name| list.takes(name, Some(port)))
    }

    /// Whether hosts that could form one NVLink domain do (MNNVL).
    pub fn allow_nvlink_domains(&self) -> bool {
        match self.mnnvl_enable {
            0 => false,
            1 => true,
            _ => self.p2p_level != Some(PathType::Loc),
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self::of(NcclVersion::default())
    }
}

impl Settings {
    /// The defaults of a version of NCCL.
    pub fn of(version: NcclVersion) -> Self {
        Self {
            rules: Rules::of(version),
            split_partitions: true,
            nvb_disable: false,
            p2p_level: None,
            ignore_disabled_p2p: 0,
            p2p_use_cuda_memcpy: false,
            net_disable_intra: false,
            shm_disable: false,
            gdr_level: None,
            gdr_read: None,
            gdr_c2c: true,
            gdr_partitions: false,
            pxn_disable: false,
            // Source: 2.28 turned it on.
            pxn_c2c: version >= NcclVersion::V2_28,
            p2p_pxn_level: 2,
            netdevs_policy: NetDevsPolicy::Auto,
            scatters_ports: false,
            cross_nic: 2,
            mnnvl_enable: 2,
            mnnvl_scatter_nets: true,
            mnnvl_rail_per_host: false,
            nvls_enable: 2,
            collnet_enable: None,
            graph_file: None,
            graphs: None,
            ib_hca: None,
            socket_ifname: None,
            merge: MergeSettings::default(),
            connect: ConnectSettings::default(),
            tuning: Tuning::default(),
            in_force: Vec::new(),
            notes: Vec::new(),
        }
    }
}
