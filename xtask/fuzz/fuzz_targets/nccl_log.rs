//! See `fuzz_targets::nccl_log`.

#![no_main]

topo_fuzz::fuzz!("nccl_log");
