//! See `fuzz_targets::plan_file`.

#![no_main]

topo_fuzz::fuzz!("plan");
