//! The meeting of the ranks of a job: unique ids, roots, a ring, an all-gather of what each
//! rank tells about itself, and the report of failures to everyone.
//!
//! The protocol is a set of state machines ([`Root`], [`Member`]): they are told what happened and
//! return what to do. They open no socket, read no clock and start no thread, so thousands of them
//! run in one process against a virtual clock and seeded faults (`tests/simulation`). In a job they
//! drive sockets ([`socket`]).
//!
//! A unique id ([`UniqueId`]) holds the roots' addresses and a random token. On every connection
//! both sides first prove that they know the token ([`link`]); until then nothing else is read.
//!
//! In reading order: [`id`], [`secret`], [`link`], [`message`], [`info`], [`machine`], [`root`],
//! [`member`], [`failure`], [`socket`], [`interface`], [`rendezvous`] (which rank a process is, and
//! where it meets the others).

pub mod failure;
pub mod id;
pub mod info;
pub mod interface;
pub mod link;
pub mod machine;
pub mod member;
pub mod message;
pub mod rendezvous;
pub mod root;
pub mod secret;
pub mod socket;

pub use failure::Failure;
pub use id::{Key, UniqueId};
pub use info::{Infos, PeerInfo, Table};
pub use link::{Kind, Link, LinkError};
pub use machine::{Action, Ending, Timing};
pub use member::{Member, Place};
pub use message::{Conn, Message};
pub use root::Root;

/// Most ranks of a communicator whose ranks are processes.
pub const MOST_RANKS: u32 = 65_536;
