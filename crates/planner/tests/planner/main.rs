//! The integration tests of this crate, in one program.

mod common;
mod cost;
mod hopper;
mod joined;
mod laws;
mod memory;
mod notes;
mod parts;
mod pipeline;
mod refused_plans;
mod registered;
mod settings;
mod versions;
mod windows;
