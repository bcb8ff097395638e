//! Output of other programs: about a machine, as a topology; NCCL's log ([`nccl_log`]), evidence
//! of a job ([`evidence`]) and measurements ([`results`]).
//!
//! [`machine`] reads NCCL's XML, or any mix of listings: `nvidia-smi topo -m` and `-p2p`,
//! `nvidia-smi`, `nvidia-smi -L`, `-q`, `-q -x`, `nvidia-smi nvlink -s`, `lspci -vv`, `lspci -tv`,
//! `lscpu`, `numactl -H`, `ibstat`, `ibstatus`, `ibv_devinfo -v`, `ibdev2netdev`,
//! `rdma link`, and what [`outputs`] reads. What a listing does not tell is
//! assumed, and [`Machine::assumed`] says so. [`Bandwidths`] are what nvbandwidth and
//! p2pBandwidthLatencyTest measured; [`Measurements`] are those, totals of transfers at once, and
//! what pages of the web show of both.
//!
//! In reading order: [`read`], `text`, [`matrix`], [`peers`], [`links`], `lstopo`, [`condition`],
//! [`bandwidth`], [`latency`], [`totals`], `page`, [`measurements`], [`pci_link`], [`pci`],
//! `pci_tree`, [`gpu`],
//! [`said_link`], [`said_processor`], `said_gpus`, [`prose`], [`processor`], [`adapter`],
//! [`outputs`], [`kernel`], [`said`], `assumed`, `tree`, `from_matrix`, `from_pci`, `doubts`.

pub mod adapter;
mod assumed;
pub mod bandwidth;
pub mod condition;
mod doubts;
pub mod evidence;
mod from_matrix;
mod from_pci;
pub mod gpu;
pub mod kernel;
pub mod latency;
pub mod links;
mod lstopo;
pub mod matrix;
pub mod measurements;
pub mod nccl_log;
pub mod outputs;
mod page;
pub mod pci;
pub mod pci_link;
mod pci_tree;
pub mod peers;
pub mod processor;
pub mod prose;
pub mod read;
pub mod results;
pub mod said;
mod said_gpus;
pub mod said_link;
pub mod said_processor;
mod text;
pub mod totals;
mod tree;

#[cfg(not(feature = "schema"))]
use no_schema::JsonSchema;
#[cfg(feature = "schema")]
use schemars::JsonSchema;

use std::sync::Arc;

use crate::text::MOST_PROLOGUE;
pub use assumed::Alternative;
pub use bandwidth::Bandwidths;
use findings::{Finding, Rule};
pub use measurements::Measurements;
pub use read::{Listings, Reader};
pub use said::Said;
use topology::Error;
use topology::error::{Place, Position};
use topology::xml::{self, Document};
pub use totals::Total;
use tree::Made;

/// How XML of hwloc says what it is.
const HWLOC: &str = "hwloc";

/// Words of what AMD's tools print, within so many bytes.
const OF_AMD: [&str; 3] = ["ROCm System Management Interface", "amd-smi ", "rocm-smi "];
const MOST_SEARCHED: usize = 1 << 16;

/// Most characters of a text that an error quotes.
const MOST_QUOTED: usize = 50;

/// A machine that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Machine {
    /// Its topology.
    pub document: Document,
    /// What listings show to be wrong with it, beside [`findings::of_document`].
    shown: Vec<Finding>,
    /// What is assumed because listings do not say it.
    pub assumed: Vec<String>,
    /// The machine with other values than those that are assumed.
    pub alternatives: Vec<Alternative>,
    /// NCCL's version and variables that the text has.
    pub said: Said,
    /// Whether it is known where it has no switches.
    shows_switches: bool,
}

impl Machine {
    /// The machine that listings describe.
    ///
    /// # Errors
    /// Neither a matrix of GPUs nor PCI functions of GPUs.
    pub fn of(file: &str, facts: &Listings) -> Result<Self, Error> {
        let made = made(file, facts)?;
        let others = (facts.others > 0).then(|| {
            format!(
                "further matrices in it that are left out: {}; give each machine as a file of its own",
                facts.others
            )
        });
        let document = Document::from_root(file, made.root);
        let alternatives = made.assumed.alternatives(&document);
        let assumed = made.assumed.texts.into_iter().chain(others);
        let assumed = assumed.map(|it| format!("{file}: {it}"));
        Ok(Self {
            document,
            alternatives,
            shown: doubts::of(facts),
            said: Said {
                peers: facts.peers.is_some(),
                ..facts.said.clone()
            },
            shows_switches: match &facts.matrix {
                Some(matrix) => facts.has_functions() || matrix.shows_guest(),
                None => true,
            },
            assumed: assumed.collect(),
        })
    }

    /// What is wrong with it, sorted by id.
    pub fn findings(&self) -> Vec<Finding> {
        let mut findings = self.shown.clone();
        let of_document = findings::of_document(&self.document).into_iter();
        findings.extend(of_document.filter(|it| self.shows_switches || it.rule != Rule::Flat));
        findings.sort_by_key(|finding| finding.rule);
        findings
    }
}

/// Reads a machine: NCCL's topology XML, or listings from which one can be made. `file` is the
/// name in messages.
///
/// # Errors
/// Text that is neither, a matrix that contradicts itself, or no GPU in it.
pub fn machine(file: &str, bytes: &[u8]) -> Result<Machine, Error> {
    let listings = Listings::read(file, bytes);
    let has_places = matches!(&listings, Ok(Some(facts)) if facts.has_places());
    if !has_places && is_of_amd(bytes) {
        return Err(error(
            file,
            1,
            "AMD's GPUs are no machine of NCCL: RCCL decides otherwise",
            "the output of rocm-smi or amd-smi",
            "a topology file of RCCL (NCCL_TOPO_DUMP_FILE), which topo show, doctor and diff read",
        ));
    }
    if let Some(facts) = listings? {
        return Machine::of(file, &facts);
    }
    if text::mentions(bytes, MOST_PROLOGUE, HWLOC) {
        return Err(error(
            file,
            1,
            "a topology of hwloc does not say how GPUs are joined",
            "the XML of lstopo",
            "NCCL's topology file, or the output of `nvidia-smi topo -m` or of `lspci -vv` (as root)",
        ));
    }
    let begin = bytes.iter().find(|it| !it.is_ascii_whitespace());
    let is_text = || begin.is_some() && begin != Some(&b'<');
    let has = |word| text::mentions(bytes, MOST_SEARCHED, word);
    if has(" NCCL INFO ") && is_text() {
        return Err(error(
            file,
            1,
            "a log of NCCL does not say how the devices of its machine are joined",
            "lines of NCCL INFO",
            "the topology file that NCCL writes (NCCL_TOPO_DUMP_FILE), or the output of `nvidia-smi topo -m`",
        ));
    }
    if text::mentions(bytes, MOST_SEARCHED, "NCCL_") && is_text() {
        return Err(error(
            file,
            1,
            "settings alone are no machine",
            "variables of NCCL, or a script",
            "the listings of a machine before it, such as `nvidia-smi topo -m`, in one command or one folder",
        ));
    }
    if text::mentions(bytes, MOST_SEARCHED, "#SBATCH ") && is_text() {
        return Err(error(
            file,
            1,
            "a script is no machine",
            "a script of Slurm",
            "a machine: NCCL's topology file, or the output of `nvidia-smi topo -m`; the output \
             of its nccl-tests is what can be compared",
        ));
    }
    if is_text() {
        return Err(unknown(file, bytes));
    }
    Ok(Machine {
        document: xml::parse(file, bytes)?,
        shown: Vec::new(),
        said: Said::default(),
        assumed: Vec::new(),
        alternatives: Vec::new(),
        shows_switches: true,
    })
}

/// Whether a text is what AMD's tools print.
fn is_of_amd(bytes: &[u8]) -> bool {
    let has = |word| text::mentions(bytes, MOST_SEARCHED, word);
    OF_AMD.into_iter().any(has)
}

/// Why a text that holds no listing is no machine.
fn unknown(file: &str, bytes: &[u8]) -> Error {
    let mut lines = text::lines(&bytes[..bytes.len().min(MOST_SEARCHED)]);
    if let Some((line, _)) = lines.find(|(_, it)| it.contains("GPU0GPU1")) {
        return error(
            file,
            line,
            "the columns of the matrix are not parted",
            "GPU0GPU1",
            "the output of `nvidia-smi topo -m` with its blanks, as a terminal shows it",
        );
    }
    let (line, begin) = text::lines(bytes)
        .find(|it| !it.1.trim().is_empty())
        .unwrap_or_default();
    let mut found: String = begin.trim().chars().take(MOST_QUOTED).collect();
    if found.len() < begin.trim().len() {
        found.push('…');
    }
    error(
        file,
        line,
        "this text does not say how the devices of a machine are joined",
        format!("`{found}`"),
        "NCCL's topology file (NCCL_TOPO_DUMP_FILE), or the output of `nvidia-smi topo -m` or of `lspci -vv` \
         (as root)",
    )
}

/// The tree of a machine that listings describe.
fn made(file: &str, facts: &Listings) -> Result<Made, Error> {
    match &facts.matrix {
        _ if facts.has_functions() => Ok(from_pci::root(facts)),
        Some(matrix) => Ok(from_matrix::root(facts, matrix)),
        None => Err(error(
            file,
            1,
            "these listings name no GPU's place",
            "processors, adapters or names of GPUs alone",
            "the output of `nvidia-smi topo -m` or of `lspci -vv` (as root) with them; `lspci -tv` \
             where there is no other",
        )),
    }
}

fn place(file: &str, line: u32) -> Place {
    Place {
        file: Arc::from(file),
        position: Position {
            line,
            column: u32::from(line > 0),
        },
        element: None,
        attribute: None,
    }
}

/// An error in a listing.
fn error(
    file: &str,
    line: u32,
    problem: &str,
    found: impl Into<Box<str>>,
    expected: impl Into<Box<str>>,
) -> Error {
    Error::new(place(file, line), problem, found, expected)
}
