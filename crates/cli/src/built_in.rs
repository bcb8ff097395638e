//! Machines that the program holds.

use std::path::Path;

/// A machine of `topologies/`.
#[derive(Debug, Clone, Copy)]
pub struct BuiltIn {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its name for people.
    pub title: &'static str,
    /// What is special about it.
    pub summary: &'static str,
    /// Its topology file.
    pub text: &'static str,
}

/// All of them, by name.
pub const MACHINES: &[BuiltIn] = &include!(concat!(env!("OUT_DIR"), "/machines.rs"));

/// The machine of this name, if there is no such file.
pub fn find(file: &Path) -> Option<&'static BuiltIn> {
    let name = file.to_str()?;
    let found = MACHINES.iter().find(|it| it.name == name)?;
    (!file.exists()).then_some(found)
}
