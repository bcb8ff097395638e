//! Machines that programs hold.

use crate::JsonSchema;
use serde::Serialize;

use crate::report::Report;

/// A machine of `topologies/`: a model that was constructed from public facts.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
pub struct BuiltIn {
    /// Its name, which is taken instead of a file.
    pub name: &'static str,
    /// Its name for people.
    pub title: &'static str,
    /// Its special features.
    pub summary: &'static str,
    /// What is known of it, each fact with its public source in brackets, or marked as assumed.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub facts: &'static [&'static str],
    /// Its topology file.
    #[serde(skip)]
    pub text: &'static str,
}

/// All of them, by name.
pub const MACHINES: &[BuiltIn] = &include!(concat!(env!("OUT_DIR"), "/machines.rs"));

/// The machine of this name.
pub fn find(name: &str) -> Option<&'static BuiltIn> {
    MACHINES.iter().find(|it| it.name == name)
}

/// The machines that programs hold.
#[derive(Debug, Serialize, JsonSchema)]
pub struct MachinesReport {
    machines: &'static [BuiltIn],
}

impl MachinesReport {
    /// All of them.
    pub const ALL: Self = Self { machines: MACHINES };
}

impl Report for MachinesReport {
    const FORMAT: &'static str = "topo-machines";
    const VERSION: u32 = 1;
}
