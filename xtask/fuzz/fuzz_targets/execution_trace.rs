//! See `fuzz_targets::execution_trace`.

#![no_main]

topo_fuzz::fuzz!("execution_trace");
