//! The integration tests of this crate, in one program.

mod link;
mod members;
mod sockets;
