//! See `fuzz_targets::workload_file`.

#![no_main]

topo_fuzz::fuzz!("workload");
