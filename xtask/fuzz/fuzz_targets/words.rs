//! See `fuzz_targets::words`.

#![no_main]

topo_fuzz::fuzz!("words");
