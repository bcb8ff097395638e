//! Network peers for tests: [`loopback`] compiles a net plug-in that connects ranks over the
//! loopback interface, [`strangers`] connects to the ports of a job without its token.

pub mod loopback;
pub mod strangers;
