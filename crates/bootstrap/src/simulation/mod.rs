//! Roots and members in one process, on a virtual network and a virtual clock.
//!
//! [`scale`] runs thousands of ranks and counts their messages. [`scenario`] runs few of them over connections that carry
//! real bytes, and does to them what a seed says: processes are killed and stopped, connections cut, stalled, delayed,
//! altered; strangers, doubles and missing ranks come in.

mod faulty;
pub mod random;
pub mod scale;
pub mod scenario;
