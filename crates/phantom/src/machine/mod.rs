//! The machine of a phantom driver: the GPUs of a topology file, their links, and the set-up.
//!
//! A phantom driver is a shared library in place of NVIDIA's, for tests on machines without a GPU.
//! [`Setup`] is the text of a machine file: the topology file, and what a topology file does not
//! say (the driver's version, fabric handles, refusals). [`Machine`] joins both. Everything but
//! [`open`](fn@open) is a pure function of its input.
//!
//! In reading order: [`setup`], [`attachment`], [`gpu`], [`presented`], [`open`](mod@open),
//! [`emulation`].

pub mod attachment;
pub mod emulation;
pub mod gpu;
pub mod open;
pub mod presented;
pub mod setup;

pub use attachment::Attachment;
pub use gpu::Gpu;
pub use open::{VARIABLE, open};
pub use presented::Machine;
pub use setup::{Fabric, FaultKind, Setup, Stray};
