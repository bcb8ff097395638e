//! What loom proves: for every order in which threads may run, and every value that the memory model lets a load see.
//!
//! `cargo xtask loom` runs these. They use the crate's own code; only `sync` is replaced.

mod fifos;
mod signals;
mod sleeping;

/// Runs a model with all its executions, but with so many preemptions at most: loom's own advice, for the number of
/// executions grows too fast otherwise, and errors show with few.
fn check(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}
