//! The answer to a call: success, or a refusal with the rule that was broken.

use cudarc::driver::sys::CUresult;

/// Sections of the CUDA driver API's documentation that state the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    /// Initialization.
    Initialization,
    /// Device Management.
    Device,
    /// Primary Context Management.
    PrimaryContext,
    /// Context Management.
    Context,
    /// Module Management.
    Module,
    /// Memory Management.
    Memory,
    /// Virtual Memory Management.
    VirtualMemory,
    /// Multicast Object Management.
    Multicast,
    /// Unified Addressing.
    UnifiedAddressing,
    /// Stream Management.
    Stream,
    /// Event Management.
    Event,
    /// Execution Control.
    Execution,
    /// Graph Management.
    Graph,
    /// Occupancy.
    Occupancy,
    /// Peer Context Memory Access.
    Peer,
    /// Driver Entry Point Access.
    EntryPoint,
    /// The machine file: what was planted, or what the machine lacks.
    Machine,
}

impl Section {
    /// The section's title in the documentation.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Initialization => "Initialization",
            Self::Device => "Device Management",
            Self::PrimaryContext => "Primary Context Management",
            Self::Context => "Context Management",
            Self::Module => "Module Management",
            Self::Memory => "Memory Management",
            Self::VirtualMemory => "Virtual Memory Management",
            Self::Multicast => "Multicast Object Management",
            Self::UnifiedAddressing => "Unified Addressing",
            Self::Stream => "Stream Management",
            Self::Event => "Event Management",
            Self::Execution => "Execution Control",
            Self::Graph => "Graph Management",
            Self::Occupancy => "Occupancy",
            Self::Peer => "Peer Context Memory Access",
            Self::EntryPoint => "Driver Entry Point Access",
            Self::Machine => "the machine file",
        }
    }
}

/// Why a call does not succeed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// CUDA's number of the error.
    pub error: u32,
    /// The section that has the rule.
    pub section: Section,
    /// The rule, in own words; empty: no rule was broken (`CUDA_ERROR_NOT_READY`).
    pub rule: String,
}

/// The result of a call.
pub type Answer<T = ()> = Result<T, Refusal>;

/// Returns a refusal.
pub fn refuse<T>(error: CUresult, section: Section, rule: impl Into<String>) -> Answer<T> {
    Err(refusal(error, section, rule))
}

/// A refusal.
pub fn refusal(error: CUresult, section: Section, rule: impl Into<String>) -> Refusal {
    Refusal {
        error: error as u32,
        section,
        rule: rule.into(),
    }
}

/// Refuses unless `kept`.
pub fn ensure(kept: bool, error: CUresult, section: Section, rule: &str) -> Answer {
    match kept {
        true => Ok(()),
        false => refuse(error, section, rule),
    }
}
