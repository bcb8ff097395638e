//! See `fuzz_targets::graph`.

#![no_main]

topo_fuzz::fuzz!("graph");
