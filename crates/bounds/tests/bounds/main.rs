//! Bounds from outside: against brute force, known optima, jobs written out, and every machine of
//! `topologies/`.

mod brute_force;
mod certificates;
mod common;
mod known;
mod machines_table;
mod mutations;
mod rings;
mod subsets;
