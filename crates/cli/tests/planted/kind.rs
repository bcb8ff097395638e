//! A kind of fault: a row of `kinds.toml`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use libtest_mimic::Failed;
use nccl_binary::message::Network;
use serde::Deserialize;

/// The file, from this crate's folder.
const FILE: &str = "tests/planted/kinds.toml";

/// The version that crashes at the start with the stand-in for verbs.
const WITHOUT_VERBS: &str = "2.28.9";

/// A fault, and what `topo diagnose` must say of it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Kind {
    /// The fault, in a sentence.
    pub what: String,
    /// The machine of each host.
    pub machine: String,
    /// GPUs of each host; each has a process.
    pub hosts: Vec<u32>,
    /// The versions that have it; all if empty.
    pub versions: Vec<String>,
    pub network: Net,
    /// The hosts are in one NVLink domain.
    pub domain: bool,
    /// GPUs of a host access each other's memory.
    pub peers: bool,
    /// Unique ids.
    pub ids: u32,
    /// NCCL's variables of all processes.
    pub set: BTreeMap<String, String>,
    /// Calls of all processes that fail, as `nccl_binary::plant` reads them.
    pub plant: Vec<String>,
    /// Programs that NCCL's diagnostics find, and their scripts.
    pub tools: BTreeMap<String, String>,
    /// What all do: `make [ID [RANKS]]`, `COLLECTIVE [ID [ELEMENTS [TYPE [REDUCTION]]]]`, `exit`,
    /// `pause MILLISECONDS`, `repeat TIMES MILLISECONDS STEP` (with that pause behind each),
    /// `late MILLISECONDS STEP` (before it), `stop SECONDS`, `destroy [ID]`.
    pub steps: Vec<String>,
    /// What is different in single ranks.
    pub rank: BTreeMap<String, Rank>,
    /// A text without which NCCL's log is not complete.
    pub text: Option<String>,
    /// RAS is asked.
    pub ras: bool,
    /// It runs with the newest version among the quick tests.
    pub quick: bool,
    /// Seconds after which the evidence is taken at the latest.
    pub deadline: u64,
    /// The causes that are right; none: no cause may be named.
    pub cause: Vec<String>,
    /// Causes that are near it: a consequence that leads to it, or a wider one.
    pub near: Vec<String>,
    /// The hosts and ranks that may be named as faulty; not looked at if left out.
    pub at_hosts: Option<Vec<String>>,
    pub at_ranks: Option<Vec<u32>>,
    /// NCCL's log does not show it: no verdict is right, too.
    pub unseen: bool,
    /// What `topo watch` says, in this order; by text of RAS, if that tells less; and what never.
    pub states: Vec<String>,
    #[serde(rename = "text-states")]
    pub text_states: Option<Vec<String>>,
    pub never: Vec<String>,
    /// For how long it is watched.
    pub seconds: u64,
}

/// What is different in a rank.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Rank {
    pub version: Option<String>,
    /// The GPU of its host.
    pub gpu: Option<u32>,
    pub set: BTreeMap<String, String>,
    pub plant: Vec<String>,
    pub tools: BTreeMap<String, String>,
    pub steps: Option<Vec<String>>,
    /// It is killed once the others have done their steps.
    pub killed: bool,
    /// A text of its topology file, and what is there instead.
    pub edit: Option<(String, String)>,
}

/// The network.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Net {
    Sockets,
    Verbs,
    Plugin,
}

impl From<Net> for Network {
    fn from(net: Net) -> Self {
        match net {
            Net::Sockets => Self::Socket,
            Net::Verbs => Self::Verbs,
            Net::Plugin => Self::Plugin,
        }
    }
}

impl Default for Kind {
    fn default() -> Self {
        let steps = ["make", "all-reduce", "all-reduce"];
        Self {
            what: String::new(),
            machine: "dgx-h100".to_owned(),
            hosts: vec![2],
            versions: Vec::new(),
            network: Net::Sockets,
            domain: false,
            peers: true,
            ids: 1,
            set: BTreeMap::new(),
            plant: Vec::new(),
            tools: BTreeMap::new(),
            steps: steps.map(str::to_owned).to_vec(),
            rank: BTreeMap::new(),
            text: None,
            ras: false,
            quick: false,
            deadline: 60,
            cause: Vec::new(),
            near: Vec::new(),
            at_hosts: None,
            at_ranks: None,
            unseen: false,
            states: Vec::new(),
            text_states: None,
            never: Vec::new(),
            seconds: 120,
        }
    }
}

impl Kind {
    /// Whether a version has it.
    pub(crate) fn is_of(&self, version: &str) -> bool {
        if matches!(self.network, Net::Verbs) && version == WITHOUT_VERBS {
            return false;
        }
        self.versions.is_empty() || self.versions.iter().any(|it| it == version)
    }
}

/// All kinds by name.
pub(crate) fn all() -> Result<BTreeMap<String, Kind>, Failed> {
    read(FILE)
}

/// The kinds of a file.
pub(crate) fn read(file: &str) -> Result<BTreeMap<String, Kind>, Failed> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    Ok(toml::from_str(&fs::read_to_string(file)?)?)
}
