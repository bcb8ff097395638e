//! See `fuzz_targets::cost_profile`.

#![no_main]

topo_fuzz::fuzz!("cost_profile");
