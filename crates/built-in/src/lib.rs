//! Machines that the program holds.

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

/// The machine of this name.
pub fn find(name: &str) -> Option<&'static BuiltIn> {
    MACHINES.iter().find(|it| it.name == name)
}
