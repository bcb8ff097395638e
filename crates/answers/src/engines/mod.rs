//! All-reduces of inference engines on one host: the method for each size, with reasons.
//!
//! The facts are those of `facts.json`; nothing is measured here. In reading order: [`facts`],
//! [`text`], [`mod@engine`], [`host`], [`evaluate`], this file, `answer`, `outcome`, `pairs`,
//! `page`.

mod answer;
pub mod engine;
pub mod evaluate;
pub mod facts;
pub mod host;
mod outcome;
mod page;
mod pairs;
pub mod text;

use std::collections::BTreeMap;

use pages::Page;
use plan::Setting;
use plan::cost::DataType;
use planner::{Job, Planned};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use crate::report::Report;
use crate::sizes::{Sizes, expand};
use crate::values;
use crate::{Args, JsonSchema};
use answer::Asks;
pub use engine::Engine;
use facts::{EngineFacts, Mode};
use host::{Host, Peer};
pub use outcome::{Change, Message, Outcome, Part, Range, Refused, Share};
pub use pairs::{PairEngine, Pairs};

/// Elements of a row if none are named: the hidden size of models of 70 billion parameters.
const WIDTH: u32 = 8192;

/// Most elements of a row.
const MOST_WIDTH: u64 = 1 << 20;

/// A question about inference engines.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema, Args)]
#[serde(deny_unknown_fields)]
pub struct EnginesQuestion {
    /// The version of the engine, such as 0.33.0 [default: the newest that was read]
    #[serde(default)]
    #[arg(long, value_name = "VERSION")]
    pub engine_version: Option<String>,
    /// A setting of the engine: a variable or an option as it has it, such as
    /// VLLM_USE_NCCL_SYMM_MEM=1 or -sm=tensor (repeatable)
    #[serde(default)]
    #[arg(long, value_name = "NAME=VALUE", allow_hyphen_values = true, value_parser = setting)]
    pub engine_set: Vec<(String, String)>,
    /// Also say what takes messages of these sizes: 64K, a list 1M,8M or a range 16K..64M
    #[serde(default)]
    #[arg(long, value_name = "SIZES", value_delimiter = ',')]
    pub size: Vec<Sizes>,
    /// Type of the elements [default: bf16, or what the engine sends]
    #[serde(default, rename = "type", deserialize_with = "values::some_by_name")]
    #[arg(long = "type", value_name = "TYPE", value_parser = values::one::<DataType>)]
    #[schemars(with = "Option<String>")]
    pub data_type: Option<DataType>,
    /// Elements of a row: the hidden size of the model [default: 8192]
    #[serde(default, deserialize_with = "width")]
    #[arg(long, value_name = "N", value_parser = values::within::<u32>(1..=MOST_WIDTH))]
    pub width: Option<u32>,
    /// Only calls that a CUDA graph captured, or only others
    #[serde(default)]
    #[arg(long, value_name = "MODE")]
    pub mode: Option<Mode>,
    /// What peer access does, where you know it; --without P2P says that there is none
    #[serde(default)]
    #[arg(long, value_name = "HOW")]
    pub peer_access: Option<Peer>,
    /// NVSwitch gives no multicast here: a guest with a part of the fabric, or switched off
    #[serde(default)]
    #[arg(long)]
    pub no_multicast: bool,
    /// The engine runs on another system than Linux
    #[serde(default)]
    #[arg(long)]
    pub not_linux: bool,
}

fn width<'de, D: Deserializer<'de>>(given: D) -> Result<Option<u32>, D::Error> {
    let width = Option::<u32>::deserialize(given)?;
    match width.map(u64::from) {
        Some(it) if !(1..=MOST_WIDTH).contains(&it) => Err(Error::custom(format!(
            "width {it}; expected 1 to {MOST_WIDTH}"
        ))),
        _ => Ok(width),
    }
}

/// Reads a setting; an option without a value is 1.
///
/// # Errors
/// It has no name; a sentence.
pub fn setting(text: &str) -> Result<(String, String), String> {
    match text.split_once('=').unwrap_or((text, "1")) {
        ("", _) => Err("expected NAME=VALUE, such as VLLM_SKIP_P2P_CHECK=0".to_owned()),
        (name, value) => Ok((name.to_owned(), value.to_owned())),
    }
}

/// Which all-reduce engines take on one host.
#[derive(Debug, Serialize, JsonSchema)]
pub struct EnginesReport {
    /// Names of the machines.
    pub name: String,
    /// Ranks of the job.
    pub ranks: u32,
    /// The version as which NCCL is planned, as the name of its cost profile.
    pub profile: String,
    /// NCCL's settings that were given and can change a decision.
    pub settings: Vec<Setting>,
    /// Compute capability, the least of the GPUs.
    pub compute_capability: String,
    /// NVLink joins every pair.
    pub nvlink: bool,
    /// NVSwitches multicast.
    pub multicast: bool,
    /// What peer access does; null if it is not known.
    pub peer_access: Option<Peer>,
    /// Elements of a row.
    pub width: u32,
    /// What is assumed, and could change the answer.
    pub assumptions: Vec<String>,
    /// The pairs of GPUs, alike ones together.
    pub pairs: Vec<Pairs>,
    /// The engines.
    pub engines: Vec<EngineAnswer>,
    /// How to prove what is used, whatever the engine.
    pub proofs: Vec<Proof>,
    /// One engine was asked for: the page says all of it.
    #[serde(skip)]
    pub is_about_one: bool,
}

/// A way to prove what is used.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Proof {
    /// What it shows.
    pub shows: &'static str,
    /// The command.
    pub command: &'static str,
}

/// Whatever the engine, these show what is used. Source: names of NCCL's kernels and its log since
/// 2.19; the samples of CUDA.
const PROOFS: [Proof; 4] = [
    Proof {
        shows: "what the driver grants",
        command: "nvidia-smi topo -p2p r; nvidia-smi topo -p2p w",
    },
    Proof {
        shows: "whether writes to peers arrive (cuda-samples)",
        command: "simpleP2P; p2pBandwidthLatencyTest",
    },
    Proof {
        shows: "which transport NCCL takes for each pair",
        command: "NCCL_DEBUG=INFO … 2>&1 | grep -o 'via P2P.*\\|via SHM.*\\|via NET.*' | sort | uniq -c",
    },
    Proof {
        shows: "whether NCCL reduces at all: no such row, and the engine's own kernels did",
        command: "nsys profile -o run …; nsys stats run.nsys-rep | grep ncclDevKernel_AllReduce",
    },
];

/// What an engine does.
#[derive(Debug, Serialize, JsonSchema)]
pub struct EngineAnswer {
    /// Its name for commands.
    pub engine: &'static str,
    /// Its name.
    pub name: &'static str,
    /// The version of the facts.
    pub version: &'static str,
    /// What was read.
    pub read: &'static str,
    /// Type of the elements.
    #[serde(rename = "type")]
    pub data_type: &'static str,
    /// What is assumed of the version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version_note: Option<String>,
    /// What it does, by what peer access does if that is not known.
    pub outcomes: Vec<Outcome>,
    /// What it sets before NCCL starts.
    pub sets: Vec<&'static str>,
    /// What that changes in NCCL's plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sets_change: Option<String>,
    /// Settings that are safe.
    pub safe: Vec<Safe>,
    /// A command that shows its choice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proof: Option<&'static str>,
    /// Sizes at which a method and NCCL are as fast.
    pub crossovers: Vec<CrossoverAnswer>,
    /// What else to know.
    pub notes: Vec<&'static str>,
}

/// Settings that are safe.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Safe {
    /// Variables and options.
    pub set: Vec<&'static str>,
    /// Why.
    pub why: &'static str,
}

/// Where a crossover comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// Published times of such GPUs.
    Measured,
    /// A model of the links, beside NCCL's.
    Modelled,
    /// Neither.
    Unknown,
}

/// The size at which a method and NCCL are as fast.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CrossoverAnswer {
    /// The method.
    pub method: String,
    /// Where it comes from.
    pub basis: Basis,
    /// The sizes, bytes; empty if there is none, or none is known.
    pub bytes: Vec<u64>,
    /// What was found.
    pub text: String,
}

impl Report for EnginesReport {
    const FORMAT: &'static str = "topo-engines";
    const VERSION: u32 = 1;

    fn as_page(&self) -> Option<Page> {
        Some(self.page())
    }
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum EnginesError {
    /// The job has several hosts.
    #[error("{0} hosts; expected one: engines take all-reduces of their own on one host only")]
    Hosts(u32),
    /// The job has one GPU.
    #[error("the job has one rank; expected at least two GPUs")]
    OneRank,
    /// A version without an engine.
    #[error("a version or settings of an engine without its name; expected the engine, too")]
    NoEngine,
    /// What is said of peer access is a property of the machine, or contradicts it.
    #[error(
        "peer access {}: the machine says which pairs have none; expected what it does where the driver grants it",
        .0.name()
    )]
    Peers(Peer),
    /// The sizes are too many, or the facts are damaged.
    #[error("{0}")]
    Other(String),
}

/// What engines do on a planned job; `asked` names one, none: all. `told`: the text of the machine
/// says which peer access the driver grants.
///
/// # Errors
/// The job is not one of several GPUs on one host, or the question does not fit.
pub fn engines(
    job: &Job,
    planned: &Planned,
    asked: Option<&Engine>,
    told: bool,
    question: &EnginesQuestion,
) -> Result<EnginesReport, EnginesError> {
    let plan = planned.plan();
    if plan.request.hosts != 1 {
        return Err(EnginesError::Hosts(plan.request.hosts));
    }
    if asked.is_none() && (question.engine_version.is_some() || !question.engine_set.is_empty()) {
        return Err(EnginesError::NoEngine);
    }
    let facts = facts::facts().map_err(EnginesError::Other)?;
    let known = Host::of(planned).filter(|it| it.ranks > 1);
    let mut host = known.ok_or(EnginesError::OneRank)?;
    let mut assumptions = Vec::new();
    let doubtful = !told && host.is_doubtful(planned);
    let mut peers = vec![host.peer];
    match question.peer_access {
        Some(peer) if peer == Peer::None || host.peer == Peer::None => {
            return Err(EnginesError::Peers(peer));
        }
        Some(peer) => {
            host.peer = peer;
            peers = vec![peer];
        }
        None if doubtful => {
            peers.push(Peer::None);
            assumptions.push(
                "peer access is not known: the driver of GeForce GPUs grants none over PCIe unless it is patched. Both \
                 outcomes are given; `nvidia-smi topo -p2p r` settles it"
                    .to_owned(),
            );
        }
        None if host.peer == Peer::Granted && !host.nvlink && !told => assumptions.push(
            "peer access is taken to work: a guest or an IOMMU may refuse it, or lose writes"
                .to_owned(),
        ),
        None => {}
    }
    match question.no_multicast {
        true => host.multicast = false,
        false if host.multicast => assumptions.push(
            "multicast is taken to work, as NVSwitch gives it: a guest with a part of the fabric may lack it".to_owned(),
        ),
        false => {}
    }
    let settings: BTreeMap<String, String> = question.engine_set.iter().cloned().collect();
    let asks = Asks {
        facts,
        planned,
        job,
        question,
        settings: &settings,
        host: &host,
        peers: &peers,
        sizes: match &question.size[..] {
            [] => Vec::new(),
            some => expand(some, 2, Sizes::USUAL).map_err(EnginesError::Other)?,
        },
    };
    let is_asked = |it: &&EngineFacts| asked.is_none_or(|asked| asked.0 == it.id);
    let engines: Vec<&'static EngineFacts> = facts.engines.iter().filter(is_asked).collect();
    Ok(EnginesReport {
        name: crate::names::job(plan),
        ranks: host.ranks,
        profile: plan.profile.clone(),
        settings: plan.settings.clone(),
        compute_capability: host.architecture(),
        nvlink: host.nvlink,
        multicast: host.multicast,
        peer_access: (peers.len() == 1).then_some(host.peer),
        width: question.width.unwrap_or(WIDTH),
        pairs: pairs::all(&asks, &engines),
        engines: engines.iter().map(|it| asks.engine(it)).collect(),
        assumptions,
        proofs: PROOFS.into(),
        is_about_one: asked.is_some(),
    })
}
