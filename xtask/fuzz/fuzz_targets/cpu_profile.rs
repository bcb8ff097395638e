//! See `fuzz_targets::cpu_profile`.

#![no_main]

topo_fuzz::fuzz!("cpu_profile");
