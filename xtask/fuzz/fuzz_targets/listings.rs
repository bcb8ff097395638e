//! See `fuzz_targets::listings`.

#![no_main]

topo_fuzz::fuzz!("listings");
