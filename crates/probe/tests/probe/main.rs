//! Probes fake machines, whole and damaged.

mod common;
mod damage;
mod findings;
mod machines;
mod recording;
mod replayed;
