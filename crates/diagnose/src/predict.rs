//! The time of collectives.

/// Says how long a collective takes.
pub trait Predict {
    /// The time of a collective of this size, ms, and where that is known from.
    fn time(&self, function: &str, bytes: u64) -> (f64, String);
}

/// A lower bound on speed, where no machine is known.
#[derive(Debug, Clone, Copy, Default)]
pub struct Floor;

/// The bandwidth that any network of a job has, bytes per ms: 1 GB/s.
const FLOOR: f64 = 1e6;

impl Predict for Floor {
    fn time(&self, _: &str, bytes: u64) -> (f64, String) {
        // An all-reduce moves each byte twice.
        (2.0 * bytes as f64 / FLOOR + 1.0, "at 1 GB/s".to_owned())
    }
}
