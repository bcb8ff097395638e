//! The chores that tests call too: [`bless`] records expectations, [`kernels`] compiles them for GPUs, [`sanitize`] runs them
//! under a sanitizer, [`tidy`] holds the house rules.

pub mod bless;
pub mod kernels;
pub mod sanitize;
pub mod thread_sanitizer;
pub mod tidy;
