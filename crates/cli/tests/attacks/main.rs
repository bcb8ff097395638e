//! Attacks on a running job from outside: through its sockets, its files and its memory.

mod corrupt;
mod job;
mod limits;
mod memory;
