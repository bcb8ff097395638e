//! See `fuzz_targets::settings`.

#![no_main]

topo_fuzz::fuzz!("settings");
