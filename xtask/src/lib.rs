//! The chores that tests call too: [`bless`] records expectations, [`compare_library`] compares
//! NCCL's libraries, [`kernels`] compiles for GPUs,
//! [`sass`] reads their machine code, [`sanitize`] runs tests under a sanitizer, [`tidy`] checks
//! the repository's rules.

#[cfg(feature = "whole")]
pub mod bless;
#[cfg(feature = "whole")]
pub mod compare_library;
#[cfg(feature = "whole")]
pub mod kernels;
pub mod sanitize;
#[cfg(feature = "whole")]
pub mod sass;
pub mod tidy;
pub mod workspace;
