//! A stand-in for NVIDIA's management library (NVML): it presents the GPUs of a topology file.
//!
//! The file `libphantom.so`, laid out as `libnvidia-ml.so.1`, serves any program that loads
//! the library by name, if the variable `TOPO_PHANTOM_MACHINE` names a machine file. What it
//! answers is in the topology file; what a file does not say (temperatures, processes, partitions)
//! it does not know.
//!
//! In reading order: [`library`], [`device`], [`links`].

pub mod device;
pub mod library;
pub mod links;
