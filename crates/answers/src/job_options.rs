//! The options of a job: arguments of the command line and fields of JSON.

use findings::complete::{AssumedGpu, AssumedLink, AssumedNic, Assumptions};
use planner::{NcclVersion, Settings};
use records::Said;
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use topology::edit::Edit;

use crate::engines::Engine;
use crate::gpus::{AskedGpus, Gpus};
#[cfg(feature = "arguments")]
use crate::job::MOST_HOSTS;
use crate::job::{JobSpec, Machine};
use crate::nearest_version::nearest;
use crate::order::AskedOrder;
#[cfg(feature = "arguments")]
use crate::values::within;
use crate::{Args, JsonSchema, ValueEnum, assume};

/// The hosts of a job.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema, Args)]
pub struct HostOptions {
    /// Hosts in the job, each like FILE
    #[serde(default = "one")]
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true, value_parser = within::<u32>(1..=u64::from(MOST_HOSTS)))]
    pub hosts: u32,
    /// All hosts form one NVLink domain (MNNVL, such as GB200 NVL72)
    #[serde(default)]
    #[arg(long)]
    pub nvlink_domain: bool,
}

impl Default for HostOptions {
    fn default() -> Self {
        Self {
            hosts: 1,
            nvlink_domain: false,
        }
    }
}

const fn one() -> u32 {
    1
}

/// The ranks of a job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema, Args)]
pub struct RankOptions {
    /// Use only these GPUs of every host, by device number, with ranks in this order, such as 0-3,6
    /// or 3,2,1,0; visible takes the list from CUDA_VISIBLE_DEVICES
    #[serde(default)]
    #[arg(long, value_name = "LIST", value_parser = AskedGpus::parse)]
    pub gpus: Option<AskedGpus>,
    /// Which GPU each rank runs on: host (host after host), round-robin (one rank per host in
    /// turn), a list of GPUs in rank order, or @FILE with such a list. GPUs have their device
    /// numbers, counted on from host to host: 8 is GPU0 of the second host of 8 GPUs
    #[serde(default)]
    #[arg(long, value_name = "ORDER", default_value = "host", value_parser = AskedOrder::parse)]
    pub rank_order: AskedOrder,
}

impl RankOptions {
    /// The job of these machines, without assumptions and edits. `visible` is the value of
    /// `CUDA_VISIBLE_DEVICES`.
    ///
    /// # Errors
    /// A list is none, or `visible` is asked for and missing; a sentence.
    pub fn spec(
        &self,
        hosts: &HostOptions,
        machines: Vec<Machine>,
        visible: Option<&str>,
    ) -> Result<JobSpec, String> {
        Ok(JobSpec {
            machines,
            hosts: hosts.hosts,
            gpus: match &self.gpus {
                Some(asked) => asked.gpus(visible)?,
                None => Gpus::All,
            },
            order: self.rank_order.order()?,
            assume: Assumptions::default(),
            edits: Vec::new(),
            nvlink_domain: hosts.nvlink_domain,
            collnet: false,
            as_is: false,
            physical_ports: false,
        })
    }
}

/// Which network ports NCCL merges.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum NetMerge {
    /// The ports of one card, as NCCL's InfiniBand transport does, or as NCCL_NET_MERGE_LEVEL
    /// says
    #[default]
    Ib,
    /// None: every port is a device of its own
    Off,
}

/// Changes to a topology before it is planned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema, Args)]
pub struct PreparationOptions {
    /// Plan FILE as it is, such as a dump that all ranks of a host joined; otherwise each rank
    /// keeps its GPU and the NICs, and a host's ranks join their parts in rank order
    #[serde(default)]
    #[arg(long)]
    pub as_is: bool,
    /// Which network ports NCCL merges into virtual devices
    #[serde(default)]
    #[arg(long, value_enum, value_name = "HOW", default_value_t = NetMerge::Ib)]
    pub net_merge: NetMerge,
}

impl PreparationOptions {
    /// Every port is a device of its own.
    pub fn physical_ports(self) -> bool {
        self.net_merge == NetMerge::Off
    }
}

/// Devices to assume where a file has none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema, Args)]
pub struct AssumeOptions {
    /// GPUs, NVLinks and NICs of a known machine, where the file has none: h100-sxm, a100-sxm,
    /// v100-cube-mesh … (a wrong name lists all)
    #[serde(default, deserialize_with = "preset")]
    #[arg(long, value_name = "NAME", value_parser = assume::preset)]
    #[schemars(with = "Option<String>")]
    pub assume: Option<Assumptions>,
    /// GPUs where the file has none: sm=90,nvswitch-links=18,gdr=1
    #[serde(default, deserialize_with = "gpu")]
    #[arg(long, value_name = "KEY=VALUE,…", value_parser = assume::gpu)]
    #[schemars(with = "Option<String>")]
    pub assume_gpu: Option<AssumedGpu>,
    /// NICs where the file has none: speed=400000,gdr=1 (Mb/s)
    #[serde(default, deserialize_with = "nic")]
    #[arg(long, value_name = "KEY=VALUE,…", value_parser = assume::nic)]
    #[schemars(with = "Option<String>")]
    pub assume_nic: Option<AssumedNic>,
    /// NVLinks between two GPUs, for GPUs that have none in the file: bridges, meshes
    #[serde(default, deserialize_with = "links")]
    #[arg(long, value_name = "GPU0:GPU1=COUNT,…", value_delimiter = ',', value_parser = assume::link)]
    #[schemars(with = "Vec<String>")]
    pub assume_nvlinks: Vec<AssumedLink>,
}

impl AssumeOptions {
    /// All assumptions: a GPU, a NIC and NVLinks override those of a known machine.
    pub fn all(&self) -> Assumptions {
        let named = self.assume.clone().unwrap_or_default();
        let nvlinks = match (&self.assume_nvlinks[..], self.assume_gpu) {
            ([], Some(_)) => Vec::new(),
            ([], None) => named.nvlinks,
            (given, _) => given.to_vec(),
        };
        Assumptions {
            gpu: self.assume_gpu.or(named.gpu),
            nic: self.assume_nic.or(named.nic),
            nvlinks,
        }
    }
}

/// Losses of a machine before it is planned.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema, Args)]
pub struct EditOptions {
    /// Plan without a device or a link: GPU5, mlx5_3, a PCI bus id, NVSwitch, GPU2:GPU5,
    /// GPU5:NVLinks for all of its NVLinks, P2P or GPU5:P2P for peer access (repeatable;
    /// host3/GPU5: on that host only)
    #[serde(default, deserialize_with = "losses")]
    #[arg(long, value_name = "DEVICE", value_parser = without)]
    #[schemars(with = "Vec<String>")]
    pub without: Vec<Edit>,
    /// Plan with a slower link, given as the share that remains: GPU2:GPU5=50%, GPU0:NVSwitch=17,
    /// mlx5_3=50% (repeatable)
    #[serde(default, deserialize_with = "slower")]
    #[arg(long, value_name = "LINK=SHARE", value_parser = degrade)]
    #[schemars(with = "Vec<String>")]
    pub degrade: Vec<Edit>,
}

impl EditOptions {
    /// All of them.
    pub fn all(&self) -> Vec<Edit> {
        [&self.without[..], &self.degrade[..]].concat()
    }
}

/// NCCL's version and variables.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema, Args)]
pub struct Variables {
    /// Set one of NCCL's variables, over the environment (repeatable)
    #[serde(default)]
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = variable)]
    pub set: Vec<(String, String)>,
    /// Decide as this version of NCCL, such as 2.27 or 2.30.7 [default: 2.32]
    #[serde(default, deserialize_with = "version")]
    #[arg(long, value_name = "VERSION")]
    #[schemars(with = "Option<String>")]
    pub nccl: Option<NcclVersion>,
    /// Set what this inference engine sets, such as sglang, where nothing else does
    #[serde(default)]
    #[arg(long, value_name = "NAME", value_parser = Engine::read)]
    #[schemars(with = "Option<String>")]
    pub engine: Option<Engine>,
    /// The job's oldest driver by its CUDA, such as 13.2: LL128 on Rubin [default: new enough]
    #[serde(default, deserialize_with = "driver")]
    #[arg(long, value_name = "VERSION", value_parser = driver_version)]
    pub driver_version: Option<String>,
}

/// NCCL's variables by who says them.
#[derive(Debug)]
pub struct Layers {
    /// The version.
    pub nccl: NcclVersion,
    /// Variables that all others outrank: what an engine sets, then what the text of a machine has.
    pub beneath: Vec<(String, String)>,
    /// Variables that outrank all others.
    pub given: Vec<(String, String)>,
    /// Sentences about those beneath.
    pub notes: Vec<String>,
}

impl Layers {
    /// NCCL's settings, with further variables between the layers.
    pub fn settings(&self, between: impl IntoIterator<Item = (String, String)>) -> Settings {
        let beneath = self.beneath.iter().cloned();
        let all = beneath.chain(between).chain(self.given.iter().cloned());
        Settings::with_variables(self.nccl, all)
    }
}

impl Variables {
    /// NCCL's settings by these variables alone.
    pub fn settings(&self) -> Settings {
        self.over(&[]).settings([])
    }

    /// These variables over those of the text that describes a machine, and those over what the
    /// engine sets.
    pub fn over(&self, machines: &[Machine]) -> Layers {
        let driver = self.driver_version.iter();
        let driver = driver.map(|it| (planner::settings::DRIVER_VERSION.to_owned(), it.clone()));
        let engine = self.engine.as_ref();
        let mut layers = Layers {
            nccl: self.nccl.unwrap_or_default(),
            beneath: engine.map(Engine::sets).unwrap_or_default(),
            given: self.set.iter().cloned().chain(driver).collect(),
            notes: engine.and_then(Engine::in_words).into_iter().collect(),
        };
        let told = machines.iter().find(|it| it.said != Said::default());
        if let Some(Machine { name, said, .. }) = told {
            let mut parts: Vec<String> = Vec::new();
            if let (None, Some(version)) = (self.nccl, &said.nccl) {
                let nearest = nearest(Some(version)).0;
                layers.nccl = nearest;
                parts.push(match nearest.name() == version {
                    true => format!("NCCL {version}"),
                    false => format!("NCCL {version}, planned as {nearest}"),
                });
            }
            let set = said.set.iter();
            parts.extend(set.map(|(name, value)| format!("{name}={value}")));
            layers.beneath.extend(said.set.iter().cloned());
            if !parts.is_empty() {
                layers.notes.push(format!(
                    "{name} has {}; what is said elsewhere outranks it",
                    parts.join(", ")
                ));
            }
        }
        layers
    }
}

/// Reads a loss of a machine.
///
/// # Errors
/// It is none; a sentence.
pub fn without(text: &str) -> Result<Edit, String> {
    Edit::without(text).map_err(|error| error.to_string())
}

/// Reads a slower link.
///
/// # Errors
/// It is none; a sentence.
pub fn degrade(text: &str) -> Result<Edit, String> {
    Edit::degrade(text).map_err(|error| error.to_string())
}

/// Reads the version of a driver, such as 13.2.
///
/// # Errors
/// It is none; a sentence.
pub fn driver_version(text: &str) -> Result<String, String> {
    match planner::settings::driver_number(text) {
        Some(_) => Ok(text.to_owned()),
        None => Err("expected the CUDA version that nvidia-smi shows, such as 13.2".to_owned()),
    }
}

/// Reads NAME=VALUE.
///
/// # Errors
/// It is none; a sentence.
pub fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE, such as NCCL_CROSS_NIC=0".to_owned()),
    }
}

fn preset<'de, D: Deserializer<'de>>(given: D) -> Result<Option<Assumptions>, D::Error> {
    some(given, "assume", assume::preset)
}

fn gpu<'de, D: Deserializer<'de>>(given: D) -> Result<Option<AssumedGpu>, D::Error> {
    some(given, "assume_gpu", assume::gpu)
}

fn nic<'de, D: Deserializer<'de>>(given: D) -> Result<Option<AssumedNic>, D::Error> {
    some(given, "assume_nic", assume::nic)
}

fn links<'de, D: Deserializer<'de>>(given: D) -> Result<Vec<AssumedLink>, D::Error> {
    list(given, assume::link)
}

fn losses<'de, D: Deserializer<'de>>(given: D) -> Result<Vec<Edit>, D::Error> {
    list(given, without)
}

fn slower<'de, D: Deserializer<'de>>(given: D) -> Result<Vec<Edit>, D::Error> {
    list(given, degrade)
}

/// A version of NCCL; none and an empty text are the newest.
fn version<'de, D: Deserializer<'de>>(given: D) -> Result<Option<NcclVersion>, D::Error> {
    let text = Option::<String>::deserialize(given)?;
    let version = text.filter(|it| !it.is_empty()).map(|text| {
        let read = text.parse::<NcclVersion>();
        read.map_err(|why| Error::custom(format!("NCCL {text}: {why}")))
    });
    version.transpose()
}

fn driver<'de, D: Deserializer<'de>>(given: D) -> Result<Option<String>, D::Error> {
    some(given, "driver_version", driver_version)
}

/// A text that is read, or none.
fn some<'de, D: Deserializer<'de>, T>(
    given: D,
    name: &str,
    read: fn(&str) -> Result<T, String>,
) -> Result<Option<T>, D::Error> {
    let text = Option::<String>::deserialize(given)?;
    let read = text.map(|text| {
        let read = read(&text);
        read.map_err(|why| Error::custom(format!("{name} {text}: {why}")))
    });
    read.transpose()
}

/// Texts that are read.
fn list<'de, D: Deserializer<'de>, T>(
    given: D,
    read: fn(&str) -> Result<T, String>,
) -> Result<Vec<T>, D::Error> {
    let texts = Vec::<String>::deserialize(given)?;
    let read = texts.iter().map(|text| read(text).map_err(Error::custom));
    read.collect()
}
