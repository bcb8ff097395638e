//! See `fuzz_targets::fabric`.

#![no_main]

topo_fuzz::fuzz!("fabric");
