//! How the ranks of a job find each other: a root, a ring, what all tell all, and how everyone hears of a failure.
//!
//! The protocol is written as state machines ([`Root`], [`Member`]) that are told what happened and say what to do.
//! They open no socket, read no clock and start no thread, so thousands of them run in one process against a virtual
//! clock and seeded faults (`tests/simulation`); in a job they drive sockets ([`socket`]).
//!
//! A unique id ([`UniqueId`]) names the roots' addresses and a random token. Every connection begins with both sides
//! proving that they know the token ([`link`]); before that nothing that comes is looked at.
//!
//! In reading order: [`id`], [`secret`], [`link`], [`message`], [`info`], [`machine`], [`root`], [`member`], [`failure`],
//! [`socket`], [`interface`].

pub mod failure;
pub mod id;
pub mod info;
pub mod interface;
pub mod link;
pub mod machine;
pub mod member;
pub mod message;
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
