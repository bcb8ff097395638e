//! What a phantom driver presents: the GPUs of a topology file, their links, and how the machine is
//! set up.
//!
//! A phantom driver is a shared library in place of NVIDIA's, for tests on machines without a GPU.
//! [`Setup`] is the text of a machine file: the topology file, and what a topology file does not
//! say (the driver's version, fabric handles, refusals). [`Machine`] joins both. Everything here is
//! a pure function of its input.
//!
//! In reading order: [`setup`], [`gpu`], [`machine`], [`emulation`].

pub mod emulation;
pub mod gpu;
pub mod machine;
pub mod setup;

pub use gpu::Gpu;
pub use machine::Machine;
pub use setup::{Fabric, Setup};

/// The variable that names the machine file. Without it a phantom driver presents no GPU.
pub const VARIABLE: &str = "TOPO_PHANTOM_MACHINE";
