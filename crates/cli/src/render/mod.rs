//! Text for people.

pub(crate) mod access_control;
pub(crate) mod machine;

pub(crate) use answers::terminal::{
    Look, count, document, matrix, or_dash, plan, planned_machines, program, ranges, rank, summary,
    tree, wrap,
};

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
