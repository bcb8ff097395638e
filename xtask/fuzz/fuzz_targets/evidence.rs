//! See `fuzz_targets::evidence`.

#![no_main]

topo_fuzz::fuzz!("evidence");
