//! Attacks on the program and on running jobs from outside: files, environment, sockets and memory.

mod certificates;
mod corrupt;
mod deadlines;
mod inputs;
mod job;
mod limits;
mod meeting;
mod memory;
mod options;
mod outputs;
mod plans;
mod program;
mod ranks;
mod recordings;
mod secrets;
mod strangers;
mod time_limit;
mod verdict;
