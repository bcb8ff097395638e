//! Collective operations between the ranks of a job: threads, processes, hosts.
//!
//! A rank joins a [`Comm`] and calls collectives on slices. All ranks call the same collectives in
//! the same order, with equal lengths and types. Nothing waits for ever: a rank that fails, leaves
//! or comes too late ends the calls of the others with an [`Error`] that names it.
//!
//! ```
//! use toporing::{Comm, Reduction};
//!
//! // Here the ranks are threads; ranks that a launcher starts call `Comm::of_launcher`.
//! let sums = Comm::on_threads(3, |comm| {
//!     let mut mine = [comm.rank() as f32, 1.0];
//!     comm.all_reduce(&mut mine, Reduction::Sum)?;
//!     Ok(mine)
//! })?;
//! assert_eq!(sums, [[3.0, 3.0]; 3]);
//! # Ok::<(), toporing::Error>(())
//! ```
//!
//! Calls that overlap run in a [`Comm::scope`], which waits for them:
//!
//! ```
//! # use toporing::Comm;
//! # Comm::on_threads(2, |comm| {
//! let (mine, mut theirs) = ([comm.rank()], [u32::MAX]);
//! let peer = 1 - comm.rank();
//! comm.scope(|scope| {
//!     scope.send(&mine, peer)?;
//!     scope.receive(&mut theirs, peer)
//! })?;
//! assert_eq!(theirs, [peer]);
//! # Ok(())
//! # })?;
//! # Ok::<(), toporing::Error>(())
//! ```
//!
//! Calls on memory of their own are [`StartedCall`]: they can be waited for, asked, and awaited.
//!
//! In reading order: [`comm`], [`calls`] (what all ranks call), [`scope`], [`started`].

pub mod calls;
pub mod comm;
pub mod communicator;
pub mod scope;
pub mod started;

pub use crate::communicator::{
    Arguments, Code, Collective, ElementType, End, Exchange, Fault as Error, Options, RunChannels,
    Transfer, Transport, UniqueId,
};
pub use comm::Comm;
pub use executor::{Element, Reduction};
pub use scope::Scope;
pub use started::StartedCall;
