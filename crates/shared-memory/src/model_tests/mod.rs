//! Proofs by loom, for every order of the threads and every value that the memory model lets a load
//! return.
//!
//! `cargo xtask loom` runs these. They use the crate's own code; only `sync` is replaced.

mod fifos;
mod signals;
mod sleeping;
mod tags;

/// Runs all executions of a model with at most this number of preemptions. Loom recommends a limit:
/// the number of executions grows too fast otherwise, and errors show with few.
fn check(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}
