//! Output of other programs about a machine, as a topology.
//!
//! [`machine`] reads NCCL's XML, or any mix of listings: `nvidia-smi topo -m` and `-p2p`,
//! `nvidia-smi`, `nvidia-smi -L`, `-q`, `-q -x`, `nvidia-smi nvlink -s`, `lspci -vv`, `lspci -tv`,
//! `lscpu`, `numactl -H`, `ibstat`, `ibv_devinfo -v`, `rdma link`. What a listing does not tell is
//! assumed, and [`Machine::assumed`] says so. [`Bandwidths`] are what nvbandwidth and
//! p2pBandwidthLatencyTest measured; [`Measurements`] are those, totals of transfers at once, and
//! what pages of the web show of both.
//!
//! In reading order: [`read`], `text`, [`matrix`], [`peers`], [`links`], [`condition`],
//! [`bandwidth`], [`latency`], [`totals`], `page`, [`measurements`], [`pci`], `pci_tree`, [`gpu`],
//! [`processor`], [`adapter`], [`kernel`], `tree`, `from_matrix`, `from_pci`, `doubts`.

pub mod adapter;
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
pub mod matrix;
pub mod measurements;
mod page;
pub mod pci;
mod pci_tree;
pub mod peers;
pub mod processor;
pub mod read;
pub mod results;
mod text;
pub mod totals;
mod tree;

#[cfg(not(feature = "schema"))]
use no_schema::JsonSchema;
#[cfg(feature = "schema")]
use schemars::JsonSchema;

use std::sync::Arc;

pub use bandwidth::Bandwidths;
use findings::Finding;
pub use measurements::Measurements;
pub use read::{Listings, Reader};
use topology::Error;
use topology::error::{Place, Position};
use topology::xml::{self, Document};
pub use totals::Total;
use tree::Made;

/// A machine that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Machine {
    /// Its topology.
    pub document: Document,
    /// What listings show to be wrong with it, beside [`findings::of_document`].
    shown: Vec<Finding>,
    /// What is assumed because listings do not say it.
    pub assumed: Vec<String>,
}

impl Machine {
    /// The machine that listings describe.
    ///
    /// # Errors
    /// Neither a matrix of GPUs nor PCI functions of GPUs.
    pub fn of(file: &str, facts: &Listings) -> Result<Self, Error> {
        let made = made(file, facts)?;
        let assumed = made.assumed.iter().map(|it| format!("{file}: {it}"));
        Ok(Self {
            document: Document::from_root(file, made.root),
            shown: doubts::of(facts),
            assumed: assumed.collect(),
        })
    }

    /// What is wrong with it, sorted by id.
    pub fn findings(&self) -> Vec<Finding> {
        let mut findings = self.shown.clone();
        findings.extend(findings::of_document(&self.document));
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
    let Some(facts) = Listings::read(file, bytes)? else {
        let document = xml::parse(file, bytes)?;
        return Ok(Machine {
            document,
            shown: Vec::new(),
            assumed: Vec::new(),
        });
    };
    Machine::of(file, &facts)
}

/// The tree of a machine that listings describe.
fn made(file: &str, facts: &Listings) -> Result<Made, Error> {
    match &facts.matrix {
        _ if facts.pci.iter().any(pci::Function::is_gpu) => Ok(from_pci::root(facts)),
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
