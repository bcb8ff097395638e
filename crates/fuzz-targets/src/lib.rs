//! The fuzz targets by their names. `xtask/fuzz/` calls these functions under libFuzzer; the test
//! `seeds` calls them with the inputs in `xtask/fuzz/seeds`, without cargo-fuzz.
//!
//! A target panics only if the code under test does, or if one of its invariants does not hold.
//! Most targets take a document in the form that users write. The bytes after its first NUL choose
//! what is done with the document.
//!
//! In reading order: [`TARGETS`], [`input`], [`mutate`], then one module per target.

pub mod input;
pub mod mutate;

pub mod bootstrap;
pub mod certificate;
pub mod cost_profile;
pub mod cpu_profile;
pub mod evidence;
pub mod execution_trace;
pub mod fabric;
pub mod graph;
pub mod guest_map;
pub mod jobs;
pub mod listings;
pub mod memory;
pub mod nccl_log;
pub mod nccl_results;
pub mod plan_file;
pub mod plugin;
pub mod proxy;
pub mod recording;
pub mod settings;
pub mod tuner;
pub mod words;
pub mod workload_file;
pub mod xml;

use std::ops::Range;

pub use input::Depth;

/// One fuzz target.
pub struct Target {
    /// Its name in `cargo xtask fuzz NAME` and in `xtask/fuzz/`.
    pub name: &'static str,
    /// Runs one input.
    pub run: fn(&[u8]) -> Depth,
    /// Initial inputs, made of files of the repository.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// The range of a document in an input. Mutations should keep its syntax.
    pub document: fn(&[u8]) -> Option<Range<usize>>,
}

/// A document before the first NUL.
fn before_choices(bytes: &[u8]) -> Option<Range<usize>> {
    Some(0..input::split(bytes).0.len())
}

/// No document.
fn nowhere(_: &[u8]) -> Option<Range<usize>> {
    None
}

const fn target(
    name: &'static str,
    run: fn(&[u8]) -> Depth,
    seeds: fn() -> Vec<Vec<u8>>,
    document: fn(&[u8]) -> Option<Range<usize>>,
) -> Target {
    Target {
        name,
        run,
        seeds,
        document,
    }
}

/// All targets.
pub const TARGETS: [Target; 22] = [
    target("xml", xml::run, xml::seeds, before_choices),
    target("plan", plan_file::run, plan_file::seeds, before_choices),
    target("graph", graph::run, graph::seeds, before_choices),
    target(
        "certificate",
        certificate::run,
        certificate::seeds,
        before_choices,
    ),
    target(
        "cost_profile",
        cost_profile::run,
        cost_profile::seeds,
        before_choices,
    ),
    target(
        "cpu_profile",
        cpu_profile::run,
        cpu_profile::seeds,
        before_choices,
    ),
    target("evidence", evidence::run, evidence::seeds, nowhere),
    target("fabric", fabric::run, fabric::seeds, before_choices),
    target(
        "recording",
        recording::run,
        recording::seeds,
        recording::document,
    ),
    target(
        "guest_map",
        guest_map::run,
        guest_map::seeds,
        before_choices,
    ),
    target("settings", settings::run, settings::seeds, before_choices),
    target("tuner", tuner::run, tuner::seeds, before_choices),
    target("listings", listings::run, listings::seeds, nowhere),
    target("nccl_log", nccl_log::run, nccl_log::seeds, nowhere),
    target(
        "nccl_results",
        nccl_results::run,
        nccl_results::seeds,
        before_choices,
    ),
    target("bootstrap", bootstrap::run, bootstrap::seeds, nowhere),
    target("proxy", proxy::run, proxy::seeds, nowhere),
    target("plugin", plugin::run, plugin::seeds, nowhere),
    target("memory", memory::run, memory::seeds, nowhere),
    target("words", words::run, words::seeds, nowhere),
    target(
        "workload",
        workload_file::run,
        workload_file::seeds,
        before_choices,
    ),
    target(
        "execution_trace",
        execution_trace::run,
        execution_trace::seeds,
        nowhere,
    ),
];

impl Target {
    /// The target of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        TARGETS.iter().find(|target| target.name == name)
    }
}
