//! See `fuzz_targets::xml`.

#![no_main]

topo_fuzz::fuzz!("xml");
