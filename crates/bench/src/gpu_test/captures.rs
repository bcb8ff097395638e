//! Captures of CUDA graphs beside a communicator's threads, which must not disturb them.

use backend_cuda::litmus::Litmus;

use crate::gpu_test::report::Fact;

/// Captures of each mode.
const CAPTURES: u32 = 10;

/// Captures in each mode beside questions of another thread.
pub(crate) fn facts(litmus: &Litmus<'_>) -> Result<Vec<Fact>, String> {
    let mut facts = Vec::new();
    for captures in litmus.captures(CAPTURES)? {
        let of = |whose: &str| {
            format!(
                "{} captures that end well while {whose} thread asks for an event",
                captures.mode
            )
        };
        let (own, other) = (captures.beside_own, captures.beside_other);
        facts.push(Fact::at_least(
            of("a communicator's"),
            own,
            "captures",
            captures.all,
        ));
        facts.push(Fact::noted(of("any other"), f64::from(other), "captures"));
    }
    Ok(facts)
}
