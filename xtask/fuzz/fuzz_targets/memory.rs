//! See `fuzz_targets::memory`.

#![no_main]

topo_fuzz::fuzz!("memory");
