//! Pages that are arranged by the width of a terminal: trees, matrices, plans.

pub mod answer;
mod branch;
pub mod channels;
pub mod connections;
pub mod document;
mod grid;
pub mod job_plan;
pub mod matrix;
pub mod names;
pub mod paths;
pub mod plan;
pub mod planned_machines;
pub mod program;
pub mod rank;
pub mod summary;
pub mod trail;
pub mod tree;
pub mod words;

pub use pages::numbers::{
    count, gbps, group, microseconds, milliseconds, or_dash, percent, ranges,
};
pub use pages::terminal::{FIELD, Look, trim_lines, wrap};
use topology::PathType;

/// A line that explains a type of path.
pub fn legend(kind: PathType) -> String {
    format!("  {kind}  {}\n", kind.meaning())
}
