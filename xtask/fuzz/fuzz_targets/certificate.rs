//! See `fuzz_targets::certificate`.

#![no_main]

topo_fuzz::fuzz!("certificate");
