//! TCP: the byte streams of a connection, how they are made, and streams with faults for tests.

pub mod connect;
pub mod faults;
pub mod pipe;
