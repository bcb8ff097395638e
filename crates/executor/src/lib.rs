//! Communicators: groups of ranks that run collectives together.
//!
//! A [`Communicator`] is one rank's membership in such a group. A collective is launched in three
//! steps: algorithm, protocol and channels are chosen ([`Choice`]); their program is written,
//! proved and bound to the message size; a [`Backend`] runs it. Later launches of the same kind and
//! size only run.
//!
//! ```
//! use backend_cpu::Cpu;
//! use executor::{Communicator, Reduction, Settings};
//!
//! let ranks = Communicator::local(2, &Settings::default(), |_| Cpu::default())?;
//! std::thread::scope(|scope| {
//!     for mut communicator in ranks {
//!         scope.spawn(move || -> Result<(), executor::Error> {
//!             // This rank's input.
//!             let gradients = vec![1.0_f32 + communicator.rank() as f32; 1000];
//!             let mut sums = vec![0.0; 1000];
//!             communicator.all_reduce((&gradients, &mut sums), Reduction::Sum)?;
//!             assert!(sums.iter().all(|sum| *sum == 3.0));
//!
//!             // Transfers between pairs of ranks: to the next one, from the one before.
//!             let (me, mut from_other) = ([communicator.rank()], [0]);
//!             let other = 1 - communicator.rank();
//!             let mut group = communicator.group_start();
//!             group.send(&me, other)?;
//!             group.receive(&mut from_other, other)?;
//!             group.group_end()?;
//!             assert_eq!(from_other, [other]);
//!             Ok(())
//!         });
//!     }
//! });
//! # Ok::<(), executor::Error>(())
//! ```
//!
//! These ranks are threads. Ranks that are processes join through `Hosts` of the crate `net`.
//!
//! In reading order: `communicator`, `collectives`, `group`, `open_group`, `request`, `engine`,
//! [`backend`], [`memory`], [`registered`], `callers_memory`, `slot_bytes`, [`offered`],
//! [`connections`], [`transport`], [`network`], [`supervisor`], [`interrupt`], [`bootstrap`],
//! [`check`], [`suite`], [`error`].

pub mod backend;
pub mod bootstrap;
mod buffer;
mod callers_memory;
pub mod check;
mod collectives;
mod communicator;
mod comparison;
pub mod connections;
mod element;
mod engine;
pub mod error;
mod group;
pub mod interrupt;
pub mod memory;
pub mod network;
pub mod offered;
mod open_group;
mod operation;
mod programs;
pub mod registered;
mod request;
mod sample;
mod settings;
mod slot_bytes;
mod starting;
pub mod suite;
pub mod supervisor;
pub mod transport;

pub use backend::{Attempt, Backend};
pub use buffer::Buffer;
pub use callers_memory::BufferAccess;
pub use collectives::Buffers;
pub use communicator::Communicator;
pub use element::Element;
pub use engine::enqueue::DeviceTransfer;
pub use error::{Error, Failure, Waiting};
pub use group::Group;
pub use memory::Memory;
pub use network::{HandedOver, Network, Progress, Route, TakenOver};
pub use open_group::{End, Ended, OpenGroup};
pub use operation::Operation;
pub use program::{Collective, Reduction};
pub use request::{Choice, Request};
pub use settings::Settings;
pub use shared_memory::Bell;
pub use transport::Transport;
