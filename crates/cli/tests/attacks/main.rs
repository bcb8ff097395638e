//! Attacks on a running job from outside: through its sockets, its files and its memory.

mod ranks;
mod strangers;
mod verdict;
