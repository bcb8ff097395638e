//! Shared memory of the ranks of one host: FIFOs, signals, and waiting for each other.
//!
//! A [`Segment`] is one piece of memory, of one process or mapped by several, that contains a list
//! of [`Item`]s that both sides know: FIFOs ([`fifo`]), signals ([`Signal`], [`SignalCount`]),
//! tables of buffer addresses ([`BufferTable`]) and of tags ([`tag_table`]), and a [`Bell`] that
//! wakes a sleeping rank ([`Waiter`]). [`process_memory`] accesses another process without sharing
//! memory.
//!
//! This crate does not know collectives. Each FIFO has one sender and one receiver, which is
//! checked when an end is taken.
//!
//! In reading order: [`mapping`] with its [`limits`], [`arena`], [`segment`], [`fifo`], [`signal`],
//! [`buffer_table`], [`tag_table`], [`bell`] with its [`alarms`], [`yielder`], [`wait`],
//! [`process_memory`], [`hung`], [`error`]. Only the module `sync` differs when the model checker
//! loom looks for a wrong memory order (`cargo xtask loom`).
//!
//! ```
//! use shared_memory::fifo::{LowLatency, Receiver, Sender};
//! use shared_memory::{Item, Segment};
//!
//! let items = [Item::Fifo { protocol: program::Protocol::Ll, slot_bytes: 4096 }];
//! let segment = Segment::private("example", &items)?;
//! let mut sender = segment.sender::<LowLatency>(0)?;
//! let mut receiver = segment.receiver::<LowLatency>(0)?;
//! assert!(sender.try_send_from(b"eight by"));
//! let mut message = [0; 8];
//! assert!(receiver.try_receive_into(&mut message));
//! assert_eq!(&message, b"eight by");
//! # Ok::<(), shared_memory::Error>(())
//! ```

#[cfg(not(loom))]
pub mod alarms;
#[cfg(not(loom))]
pub mod arena;
pub mod bell;
pub mod buffer_table;
pub mod error;
pub mod fifo;
#[cfg(not(loom))]
pub mod hung;
#[cfg(not(loom))]
pub mod limits;
#[cfg(not(loom))]
pub mod mapping;
#[cfg(not(loom))]
pub mod process_memory;
#[cfg(not(loom))]
pub mod segment;
pub mod signal;
mod sync;
pub mod tag_table;
pub mod wait;
pub mod yielder;

#[cfg(not(loom))]
pub use alarms::Alarms;
#[cfg(not(loom))]
pub use arena::{Arena, ArenaBuffer};
pub use bell::Bell;
#[cfg(not(loom))]
pub use bell::Ring;
pub use buffer_table::{BufferTable, Descriptor, Place};
pub use error::Error;
#[cfg(not(loom))]
pub use hung::{NoReturn, call_within, end_if_abandoned};
#[cfg(not(loom))]
pub use limits::machine_bytes;
#[cfg(not(loom))]
pub use mapping::{Handle, Mapping};
#[cfg(not(loom))]
pub use process_memory::{ProcessMemory, ProcessMemoryError};
#[cfg(not(loom))]
pub use segment::{Item, Segment};
pub use signal::{Signal, SignalCount};
pub use tag_table::{TagReceiver, TagSender};
pub use wait::{Interrupted, Patience, Waiter};
pub use yielder::Yielder;

#[cfg(all(test, loom))]
mod model_tests;
