//! Published bus bandwidths of healthy machines, and what they let one expect of a job. An
//! expectation comes only from runs that are alike; otherwise it is unknown, with the reason.

use std::fmt;
use std::sync::OnceLock;

use program::{Collective, size};
use serde::Deserialize;

/// The runs, as a file.
const FILE: &str = include_str!("published.toml");

/// The share of the least published bandwidth below which a healthy machine does not fall, where
/// the bandwidth has settled. Two runs of one machine in CoreWeave's tables are up to 6 % apart
/// (681 and 724 GB/s at 1 GiB).
pub const FLOOR: f64 = 0.9;

/// The same for messages so short that bandwidth still grows with their size, and if no run has the
/// job's number of ranks. Healthy machines of one kind differ more there: 156, 172 and 182 GB/s of
/// 8 × H100 and H200 at 8 MiB.
pub const FLOOR_OF_SHORT: f64 = 0.7;

/// Runs that are alike agree if the greatest bandwidth is at most so many times the least.
const AGREE: f64 = 1.25;

/// A bandwidth has settled from this share of the run's best on. Only there do runs with other
/// numbers of ranks say something: the time of a step counts less.
const SETTLED: f64 = 0.85;

/// The same of a single run between nodes, whose floor is [`FLOOR_OF_SHORT`] before.
const SETTLED_BETWEEN_NODES: f64 = 0.95;

/// How far the last size of a run reaches, if its bandwidth has settled.
const BEYOND: f64 = 4.0;

/// A single run says something from this share of its best on, if it stays in one node. Between
/// nodes its bandwidth must have settled: two tables of two AWS P5 instances differ 2.2 times
/// before, and 1 % after that.
const SINGLE: f64 = 0.25;

/// Most binary orders of magnitude between two sizes of a run for sizes between them.
const MOST_OCTAVES: f64 = 4.0;

/// How GPUs of a node reach each other: the worst hop of NCCL's rings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InnerPath {
    /// One GPU per node.
    Alone,
    /// NVLinks.
    Nvlink,
    /// PCI Express with peer access.
    PeerAccess,
    /// The same between sockets.
    PeerAccessSockets,
    /// The host's memory, which GPUs read and write.
    HostMemory,
    /// The host's memory, with copy engines (`NCCL_SHM_USE_CUDA_MEMCPY`).
    HostMemoryCopied,
    /// A network port.
    Network,
}

impl InnerPath {
    /// The words for it.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Alone => "one GPU per node",
            Self::Nvlink => "NVLink",
            Self::PeerAccess => "peer access over PCIe",
            Self::PeerAccessSockets => "peer access over PCIe between sockets",
            Self::HostMemory => "the host's memory",
            Self::HostMemoryCopied => "the host's memory with copy engines",
            Self::Network => "network ports inside a host",
        }
    }
}

/// How a network moves data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NetworkKind {
    /// InfiniBand or RoCE, from and to GPU memory.
    Rdma,
    /// The same from and to the host's memory.
    RdmaHost,
    /// EFA or Slingshot.
    Libfabric,
    /// Google's TCPX and TCPXO.
    Tcpx,
    /// TCP sockets.
    Sockets,
}

/// What reduces.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReducedBy {
    /// GPUs.
    #[default]
    Gpus,
    /// NVSwitches (NVLS, NVLSTree).
    Nvswitches,
    /// Switches of the network (CollNet), with NVSwitches or without.
    Network,
}

/// The network of a node.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkOfNode {
    /// How it moves data.
    pub kind: NetworkKind,
    /// The rate of all ports of a node that rings use, GB/s.
    pub gbps: f32,
}

/// What of a job decides which bandwidth it reaches.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Situation {
    /// Smallest compute capability × 10.
    pub sm: i32,
    /// Ranks.
    pub ranks: u32,
    /// Nodes: GPUs that reach each other without the network.
    pub nodes: u32,
    /// How GPUs of a node reach each other.
    pub joined: InnerPath,
    /// The most that a GPU sends to others of its node, GB/s as NCCL counts; 0 without others.
    #[serde(default)]
    pub link: f32,
    /// The network, if there are several nodes.
    #[serde(default)]
    pub network: Option<NetworkOfNode>,
    /// The collective.
    pub collective: Collective,
    /// What reduces long messages.
    #[serde(default)]
    pub reduced_by: ReducedBy,
}

/// A published run.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedRun {
    /// The machine and its operator.
    pub name: String,
    /// Where it is published.
    pub source: String,
    /// What was wrong with the machine; `None` of a healthy one.
    #[serde(default)]
    pub degraded: Option<String>,
    /// Arguments of `topo expect` that give this job.
    #[serde(default)]
    pub machine: Option<String>,
    /// NCCL's version, if it is published.
    #[serde(default)]
    pub nccl: Option<String>,
    /// Sizes of the whole message, MiB, ascending, with the bus bandwidth, GB/s.
    pub mib: Vec<(f64, f64)>,
    /// The job.
    pub job: Situation,
}

/// All runs, those of degraded machines, too.
pub fn runs() -> &'static [PublishedRun] {
    #[derive(Default, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        run: Vec<PublishedRun>,
    }
    static RUNS: OnceLock<File> = OnceLock::new();
    // A test reads the file.
    &RUNS
        .get_or_init(|| toml::from_str(FILE).unwrap_or_default())
        .run
}

/// The bus bandwidth that a healthy job is expected to reach.
#[derive(Debug, Clone, PartialEq)]
pub struct Expected {
    /// It, GB/s: the median of the runs.
    pub bus_gbps: f64,
    /// The least and the greatest that a run reached, GB/s.
    pub spread: [f64; 2],
    /// The least that a healthy machine reaches, GB/s.
    pub floor_gbps: f64,
    /// The runs.
    pub runs: Vec<&'static PublishedRun>,
}

/// Bytes of a MiB.
const MIB: f64 = (1 << 20) as f64;

/// Why nothing is expected.
#[derive(Debug, Clone, PartialEq)]
pub enum Unknown {
    /// No run is alike.
    NoRun {
        /// The most similar run, with what is different there.
        nearest: Option<(&'static PublishedRun, Vec<&'static str>)>,
    },
    /// No run that is alike measured about this size.
    Size {
        /// The sizes that they measured, MiB.
        mib: [f64; 2],
    },
    /// Runs that are alike differ.
    Apart {
        /// The least and the greatest bandwidth, GB/s.
        spread: [f64; 2],
        /// How many they are.
        runs: usize,
    },
    /// There is one run alike, and another one of such a kind may differ much.
    Single(&'static PublishedRun),
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRun { nearest: None } => f.write_str("no healthy run is published"),
            Self::NoRun {
                nearest: Some((run, differences)),
            } => write!(
                f,
                "no published run is alike; the nearest, {}, differs in {}",
                run.name,
                differences.join(", ")
            ),
            Self::Size { mib } => {
                let [from, to] = mib.map(|it| size::short((it * MIB) as u64));
                write!(f, "the published runs alike are of {from} to {to}")
            }
            Self::Apart {
                spread: [low, high],
                runs,
            } => write!(
                f,
                "{runs} published runs alike differ: {low:.1} to {high:.1} GB/s"
            ),
            Self::Single(run) => write!(
                f,
                "only one published run is alike, {}, and one is not enough {}",
                run.name,
                match run.job.joined {
                    InnerPath::HostMemory | InnerPath::HostMemoryCopied =>
                        "where data go through the host's memory",
                    _ => "where bandwidth still grows with the size",
                }
            ),
        }
    }
}

impl Expected {
    /// What is expected of a job for a message of a size, bytes.
    ///
    /// # Errors
    /// No run, or too few, say it.
    pub fn of(job: &Situation, bytes: u64) -> Result<Self, Unknown> {
        Self::by(runs().iter(), job, bytes)
    }

    /// The same by some of the runs.
    ///
    /// # Errors
    /// No run, or too few, say it.
    pub fn by(
        runs: impl Iterator<Item = &'static PublishedRun>,
        job: &Situation,
        bytes: u64,
    ) -> Result<Self, Unknown> {
        let healthy = runs.filter(|run| run.degraded.is_none() && run.is_recent());
        let mut compared: Vec<_> = healthy
            .map(|run| (job.differences(&run.job), run))
            .collect();
        compared.sort_by_key(|(differences, _)| differences.len());
        let alike = || {
            let alike = compared.iter().take_while(|it| it.0.is_empty());
            alike.map(|(_, run)| *run)
        };
        if alike().next().is_none() {
            let nearest = compared.into_iter().next().map(|(it, run)| (run, it));
            return Err(Unknown::NoRun { nearest });
        }
        let mib = bytes as f64 / f64::from(1 << 20);
        let says = |run: &&'static PublishedRun| {
            let gbps = run.at(mib)?;
            let is_same = run.job.ranks == job.ranks;
            (is_same || gbps >= SETTLED * run.best()).then_some(gbps)
        };
        let mut found: Vec<(f64, &PublishedRun)> =
            alike().filter_map(|run| Some((says(&run)?, run))).collect();
        found.sort_by(|a, b| a.0.total_cmp(&b.0));
        let ([(low, first), ..], [.., (high, _)]) = (&found[..], &found[..]) else {
            let sizes = || alike().flat_map(|run| &run.mib).map(|it| it.0);
            let (from, to) = (sizes().reduce(f64::min), sizes().reduce(f64::max));
            let mib = [from.unwrap_or_default(), to.unwrap_or_default()];
            return Err(Unknown::Size { mib });
        };
        let spread = [*low, *high];
        if *high > AGREE * low {
            let runs = found.len();
            return Err(Unknown::Apart { spread, runs });
        }
        let reached = |share: f64| found.iter().all(|(gbps, run)| *gbps >= share * run.best());
        let settled = match (found.len(), job.nodes) {
            (1, 2..) => reached(SETTLED_BETWEEN_NODES),
            _ => reached(SETTLED) && found.iter().any(|(_, run)| run.job.ranks == job.ranks),
        };
        // Processors and their settings decide what goes through the host's memory: 11 and 19 GB/s
        // of two pairs of RTX 4090 in one host.
        let is_enough = match job.joined {
            InnerPath::HostMemory | InnerPath::HostMemoryCopied => found.len() > 1,
            _ if job.nodes > 1 => found.len() > 1 || reached(SETTLED),
            _ => found.len() > 1 || reached(SINGLE),
        };
        if !is_enough {
            return Err(Unknown::Single(first));
        }
        let middle = [found[(found.len() - 1) / 2].0, found[found.len() / 2].0];
        Ok(Self {
            bus_gbps: (middle[0] * middle[1]).sqrt(),
            spread,
            floor_gbps: low * if settled { FLOOR } else { FLOOR_OF_SHORT },
            runs: found.into_iter().map(|it| it.1).collect(),
        })
    }
}

impl Situation {
    /// What of a run's job is different, so that the run says nothing of this job.
    pub fn differences(&self, run: &Self) -> Vec<&'static str> {
        let within = |one: f32, other: f32, share: f32| one.max(other) <= one.min(other) * share;
        let mut found = Vec::new();
        let mut differs = |is: bool, what: &'static str| {
            if is {
                found.push(what);
            }
        };
        differs(self.collective != run.collective, "the collective");
        if !(self.is_network_bound() && run.is_network_bound()) {
            // NVLinks of one generation have one bandwidth: B200 and B300.
            let generation = |sm: i32| match self.joined {
                InnerPath::Nvlink => sm / 10,
                _ => sm,
            };
            let same = generation(self.sm) == generation(run.sm);
            differs(!same, "the GPUs' generation");
            differs(self.joined != run.joined, "how GPUs of a node are joined");
            let alone = self.joined == InnerPath::Alone || run.joined == InnerPath::Alone;
            let link = alone || within(self.link, run.link, 1.1);
            differs(!link, "the bandwidth of a GPU's links");
        }
        let scale = |nodes: u32| nodes.clamp(1, 3);
        let nodes = scale(self.nodes) == scale(run.nodes)
            && within(self.nodes as f32, run.nodes as f32, 4.0);
        differs(!nodes, "the number of nodes");
        // What NVSwitches reduce grows with the number of GPUs: 778, 811 and 838 GB/s of 6 to 8.
        let most = match (self.reduced_by, self.joined) {
            (ReducedBy::Gpus, InnerPath::Nvlink) => 2.0,
            (ReducedBy::Gpus, _) => 4.0,
            _ => 1.5,
        };
        let ranks = within(self.ranks_per_node(), run.ranks_per_node(), most);
        differs(!ranks, "the number of GPUs per node");
        let network = match (self.network, run.network) {
            (Some(own), Some(other)) => {
                differs(own.kind != other.kind, "how the network moves data");
                within(own.gbps, other.gbps, 1.15)
            }
            (None, None) => true,
            _ => false,
        };
        differs(!network, "the network's bandwidth");
        differs(self.reduced_by != run.reduced_by, "what reduces");
        found
    }

    fn ranks_per_node(&self) -> f32 {
        self.ranks as f32 / self.nodes.max(1) as f32
    }

    /// Whether the network limits the job whichever its GPUs are: each has less than half of what
    /// NVLinks carry, or there is one per node.
    fn is_network_bound(&self) -> bool {
        let own = self.network.map(|it| it.gbps / self.ranks_per_node());
        match self.joined {
            InnerPath::Alone => own.is_some(),
            InnerPath::Nvlink => own.is_some_and(|own| own < self.link / 2.0),
            _ => false,
        }
    }
}

impl PublishedRun {
    /// The greatest bandwidth, GB/s.
    fn best(&self) -> f64 {
        self.mib.iter().map(|it| it.1).fold(0.0, f64::max)
    }

    /// Whether NCCL was new enough to say something of today's versions: NVLink SHARP came with
    /// 2.17. Nothing published shows another version after which bandwidths differ.
    fn is_recent(&self) -> bool {
        let Some(version) = &self.nccl else {
            return true;
        };
        let mut parts = version.split('.').map(|it| it.parse::<u32>().ok());
        let (major, minor) = (parts.next().flatten(), parts.next().flatten());
        (major, minor) >= (Some(2), Some(17))
    }

    /// The bandwidth at a size, MiB, GB/s: between two sizes by logarithms. Beyond the last one and
    /// before a first one whose bandwidth has settled, the nearest is taken, up to [`BEYOND`].
    fn at(&self, mib: f64) -> Option<f64> {
        let (first, last) = (self.mib.first()?, self.mib.last()?);
        if mib < first.0 {
            let is_near = first.0 <= 2.0 * mib && first.1 >= SETTLED * self.best();
            // One row alone does not show that its bandwidth has settled; 5 ms do.
            let is_long = first.0 / 1000.0 / first.1 >= 0.005;
            return (is_near && (self.mib.len() > 1 || is_long)).then_some(first.1);
        }
        if mib > last.0 {
            let has_settled = last.1 >= SETTLED * self.best();
            return (mib <= BEYOND * last.0 && has_settled).then_some(last.1);
        }
        let pairs = self.mib.windows(2).map(|pair| (pair[0], pair[1]));
        let around = pairs.into_iter().find(|(_, above)| mib <= above.0);
        let Some((low, high)) = around else {
            return Some(last.1);
        };
        let octaves = (high.0 / low.0).log2();
        let part = (mib / low.0).log2() / octaves;
        let is_between = part > 0.0 && part < 1.0;
        (!is_between || octaves <= MOST_OCTAVES).then(|| low.1 * (high.1 / low.1).powf(part))
    }
}
