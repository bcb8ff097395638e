//! See `fuzz_targets::nccl_results`.

#![no_main]

topo_fuzz::fuzz!("nccl_results");
