//! See `fuzz_targets::proxy`.

#![no_main]

topo_fuzz::fuzz!("proxy");
