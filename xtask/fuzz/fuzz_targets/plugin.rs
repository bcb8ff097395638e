//! See `fuzz_targets::plugin`.

#![no_main]

topo_fuzz::fuzz!("plugin");
