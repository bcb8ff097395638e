//! See `fuzz_targets::recording`.

#![no_main]

topo_fuzz::fuzz!("recording");
