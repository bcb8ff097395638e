//! See `fuzz_targets::guest_map`.

#![no_main]

topo_fuzz::fuzz!("guest_map");
