//! What a hostile user, file or environment can do to the program, from the outside.

mod inputs;
mod meeting;
mod numbers;
mod outputs;
mod program;
mod recordings;
mod time_limit;
