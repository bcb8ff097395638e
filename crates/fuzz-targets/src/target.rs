//! The list of targets.

use std::ops::Range;

use crate::{
    bootstrap, cost_profile, cpu_profile, graph, guest_map, input, memory, plan_file, plugin,
    proxy, recording, settings, words, xml,
};

/// How far an input came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reached {
    /// Its syntax, header, checksum or handshake was refused.
    Outside,
    /// It passed those, and its content was refused.
    Inside,
    /// It was accepted and used.
    Accepted,
}

/// One fuzz target.
pub struct Target {
    /// Its name, as `cargo xtask fuzz NAME` and the files in `xtask/fuzz/` have it.
    pub name: &'static str,
    /// Runs one input.
    pub run: fn(&[u8]) -> Reached,
    /// Inputs to start from that are made of files of the repository.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Where in an input a document stands, whose syntax mutations should keep.
    pub document: fn(&[u8]) -> Option<Range<usize>>,
}

/// The document is what stands before the first NUL.
fn before_choices(bytes: &[u8]) -> Option<Range<usize>> {
    Some(0..input::split(bytes).0.len())
}

/// There is none.
fn nowhere(_: &[u8]) -> Option<Range<usize>> {
    None
}

/// All of them.
pub const TARGETS: [Target; 13] = [
    Target {
        name: "xml",
        run: xml::run,
        seeds: xml::seeds,
        document: before_choices,
    },
    Target {
        name: "plan",
        run: plan_file::run,
        seeds: plan_file::seeds,
        document: before_choices,
    },
    Target {
        name: "graph",
        run: graph::run,
        seeds: graph::seeds,
        document: before_choices,
    },
    Target {
        name: "cost_profile",
        run: cost_profile::run,
        seeds: cost_profile::seeds,
        document: before_choices,
    },
    Target {
        name: "cpu_profile",
        run: cpu_profile::run,
        seeds: cpu_profile::seeds,
        document: before_choices,
    },
    Target {
        name: "recording",
        run: recording::run,
        seeds: recording::seeds,
        document: recording::document,
    },
    Target {
        name: "guest_map",
        run: guest_map::run,
        seeds: guest_map::seeds,
        document: before_choices,
    },
    Target {
        name: "settings",
        run: settings::run,
        seeds: settings::seeds,
        document: before_choices,
    },
    Target {
        name: "bootstrap",
        run: bootstrap::run,
        seeds: bootstrap::seeds,
        document: nowhere,
    },
    Target {
        name: "proxy",
        run: proxy::run,
        seeds: proxy::seeds,
        document: nowhere,
    },
    Target {
        name: "plugin",
        run: plugin::run,
        seeds: plugin::seeds,
        document: nowhere,
    },
    Target {
        name: "memory",
        run: memory::run,
        seeds: memory::seeds,
        document: nowhere,
    },
    Target {
        name: "words",
        run: words::run,
        seeds: words::seeds,
        document: nowhere,
    },
];

impl Target {
    /// The target of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        TARGETS.iter().find(|target| target.name == name)
    }
}
