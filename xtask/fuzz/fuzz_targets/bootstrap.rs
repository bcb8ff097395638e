//! See `fuzz_targets::bootstrap`.

#![no_main]

topo_fuzz::fuzz!("bootstrap");
