//! What each fuzz target does with its bytes. `xtask/fuzz/` calls these functions under libFuzzer; the
//! test `seeds` calls them with the inputs in `xtask/fuzz/seeds`, without cargo-fuzz.
//!
//! A target panics only where the code under test does, or where one of its invariants does not hold. Most targets take a
//! document as users write it. The bytes behind its first NUL, if there are any, choose what is done with the document.
//!
//! In reading order: [`target`] (the list), [`input`], [`mutate`], then one module per target.

pub mod input;
pub mod mutate;
pub mod target;

pub mod bootstrap;
pub mod cost_profile;
pub mod cpu_profile;
pub mod graph;
pub mod guest_map;
pub mod jobs;
pub mod memory;
pub mod plan_file;
pub mod plugin;
pub mod proxy;
pub mod recording;
pub mod settings;
pub mod shared_words;
pub mod words;
pub mod xml;

pub use target::{Reached, TARGETS, Target};
