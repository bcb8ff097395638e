//! The messages between a parent and its child processes: one JSON text per line.

use std::path::PathBuf;

use plan::cost::Calls;
use records::nccl_log::compare::answer::NvlinkDomains;
use serde::{Deserialize, Serialize};

/// The network that is presented.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Network {
    /// The file's ports, which a plug-in merges as NCCL's InfiniBand transport does.
    Merging,
    /// The file's ports, each by itself, as most net plug-ins have them.
    Plugin,
    /// The file's ports, which NCCL's own InfiniBand transport finds by verbs.
    Verbs,
    /// No ports: NCCL takes its sockets.
    Socket,
}

/// The driver's version unless a job says otherwise: 12.9.
pub const DRIVER_VERSION: u32 = 12_090;

/// The line of a host's log before all ranks send to each other.
pub(crate) const PEERS_BEGIN: &str = "topo: all ranks send to each other";

/// What one host is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// The process that asks.
    pub parent: u32,
    /// NCCL's library.
    pub library: PathBuf,
    /// The text of the host's topology file.
    pub topology: String,
    /// The host's number.
    pub host: u32,
    /// The rank of each of its GPUs, by CUDA's number.
    pub ranks: Vec<u32>,
    /// Ranks of the job.
    pub all_ranks: u32,
    /// The network.
    pub network: Network,
    /// A tuner plug-in to load, by an absolute path; it then decides, and NCCL's own times are not
    /// known. None: one that records NCCL's calls and changes nothing.
    pub tuner: Option<PathBuf>,
    /// The GPUs of all hosts are in one NVLink domain.
    pub nvlink_domain: bool,
    /// GPUs access each other's memory.
    pub peer_access: bool,
    /// The driver's version as CUDA's number, 1000 × major + 10 × minor.
    pub driver: u32,
    /// Message sizes of the collectives that are started, bytes.
    pub sizes: Vec<u64>,
    /// What is called.
    pub calls: Calls,
    /// All ranks then send to each other.
    pub peers: bool,
    /// NCCL writes its graphs. It fails to write a path that it has no word for.
    pub graphs: bool,
    /// NCCL's variables.
    pub variables: Vec<(String, String)>,
}

impl Request {
    /// A question to a library, of no host yet: what is called on the default network, without
    /// anything else.
    pub fn of(library: PathBuf) -> Self {
        Self {
            parent: std::process::id(),
            library,
            topology: String::new(),
            host: 0,
            ranks: Vec::new(),
            all_ranks: 0,
            network: Network::Plugin,
            tuner: None,
            nvlink_domain: false,
            peer_access: true,
            driver: DRIVER_VERSION,
            sizes: Vec::new(),
            calls: Calls::ONE,
            peers: false,
            graphs: false,
            variables: Vec::new(),
        }
    }
}

/// What a child says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Said {
    /// The job's unique id, as hexadecimal digits. The first host says it.
    Id(String),
    /// The end.
    Report(Box<Report>),
    /// The library cannot be asked, and why. The text continues a sentence that begins with the
    /// library's name.
    Unusable(String),
}

/// What NCCL did on a host.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// NCCL's version as its number, such as 23007.
    pub version: i32,
    /// What NCCL answered instead of a communicator.
    pub refusal: Option<String>,
    /// Calls of each collective and size.
    pub calls: u32,
    /// Collectives that were carried out: NCCL's number, and bytes of the whole messages of all
    /// calls.
    pub called: Vec<(i32, u64)>,
    /// Collectives that failed.
    pub failures: Vec<Failure>,
    /// NCCL's error when all ranks sent to each other.
    pub peers_failure: Option<String>,
    /// The topology that rank 0 planned on, in NCCL's words; only of the first host.
    pub topology: Option<String>,
    /// The graphs of rank 0, in NCCL's words; only of the first host.
    pub graphs: Option<String>,
    /// The NVLink domains that the tuner plug-in was told.
    pub nvlink_domains: Option<NvlinkDomains>,
    /// The constants of the cost model that the tuner plug-in was told, in the order of
    /// [`tuner_plugin::abi::Constants`]: µs, then GB/s with 4 rows, or 5 from version 7 on.
    /// NCCL 2.31 gives zeros.
    pub tuner_constants: Vec<f64>,
    /// What the tuner plug-in was told for each collective and size.
    pub tuner_calls: Vec<TunerCall>,
    /// What is allocated once there is a communicator.
    pub memory: Taken,
    /// What the first point-to-point transfers between all ranks added to it.
    pub peers_memory: Taken,
    /// Functions that NCCL looked for and that were not presented.
    pub missing: Vec<String>,
}

/// What is allocated on the GPUs of a host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taken {
    /// By GPU, bytes of its memory.
    pub devices: Vec<u64>,
    /// Multicast objects that ranks of the host made.
    pub multicast_objects: u32,
}

impl Taken {
    /// What was allocated since `before`.
    pub(crate) fn without(mut self, before: &Self) -> Self {
        for (after, before) in self.devices.iter_mut().zip(&before.devices) {
            *after = after.saturating_sub(*before);
        }
        self.multicast_objects -= before.multicast_objects.min(self.multicast_objects);
        self
    }
}

/// A collective that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// NCCL's number of the collective.
    pub collective: i32,
    /// Bytes of the whole message.
    pub bytes: u64,
    /// NCCL's error.
    pub error: String,
}

/// What the tuner plug-in was told for a collective.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TunerCall {
    /// NCCL's number of the collective.
    pub collective: i32,
    /// Bytes of the whole message.
    pub bytes: u64,
    /// Operations that are pipelined.
    pub operations: i32,
    /// Protocols of the table.
    pub protocols: usize,
    /// By algorithm and protocol the predicted time, µs; below 0 what NCCL does not consider.
    pub times: Vec<f32>,
}
