//! See `fuzz_targets::tuner`.

#![no_main]

topo_fuzz::fuzz!("tuner");
