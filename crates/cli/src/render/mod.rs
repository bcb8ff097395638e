//! Text for people: numbers, lists, colors, and the parts of a page.

pub(crate) mod branch;
pub(crate) mod channels;
pub(crate) mod connections;
pub(crate) mod differences;
pub(crate) mod document;
pub(crate) mod grid;
pub(crate) mod groups;
pub(crate) mod job_plan;
pub(crate) mod machine;
pub(crate) mod matrix;
pub(crate) mod measured;
pub(crate) mod names;
pub(crate) mod path;
pub(crate) mod paths;
pub(crate) mod plan;
pub(crate) mod planned_machines;
pub(crate) mod program;
pub(crate) mod rank;
pub(crate) mod settings;
pub(crate) mod slow_hosts;
pub(crate) mod summary;
pub(crate) mod table;
pub(crate) mod trail;
pub(crate) mod tree;
pub(crate) mod version;
pub(crate) mod what_if;
pub(crate) mod words;

pub(crate) use pages::numbers::{
    count, gbps, group, microseconds, milliseconds, or_dash, percent, ranges,
};
pub(crate) use pages::terminal::{FIELD, Look, trim_lines, wrap};
use topology::PathType;

use crate::environment::Environment;

impl Environment {
    /// The look of pages on standard output.
    pub(crate) const fn look(&self) -> Look {
        Look {
            width: self.width,
            color: self.color,
        }
    }
}

pub(crate) fn legend(kind: PathType) -> String {
    format!("  {kind}  {}\n", kind.meaning())
}
