//! The numbers of `topo.h`.

use std::ffi::c_int;

use toporing::communicator::{Collective, ElementType, Fault, Reduction};

/// The collectives by their numbers in `topo.h`.
const COLLECTIVES: [Collective; 8] = [
    Collective::Broadcast,
    Collective::Reduce,
    Collective::AllGather,
    Collective::ReduceScatter,
    Collective::AllReduce,
    Collective::AllToAll,
    Collective::Gather,
    Collective::Scatter,
];

/// The operations by their numbers in `topo.h`. A pre-multiplied sum needs a factor, for which C
/// has no parameter.
const OPERATIONS: [Reduction; 8] = [
    Reduction::Sum,
    Reduction::Product,
    Reduction::Minimum,
    Reduction::Maximum,
    Reduction::Average,
    Reduction::BitAnd,
    Reduction::BitOr,
    Reduction::BitXor,
];

/// The collective with this number.
pub fn collective(given: c_int) -> Result<Collective, Fault> {
    number(&COLLECTIVES, given, "collective")
}

/// The operation with this number.
pub fn operation(given: c_int) -> Result<Reduction, Fault> {
    number(&OPERATIONS, given, "operation")
}

/// The element type with this number.
pub fn element(given: c_int) -> Result<ElementType, Fault> {
    number(&ElementType::ALL, given, "element type")
}

/// The number of an operation; `None` if C has none for it.
pub fn number_of(operation: Reduction) -> Option<usize> {
    OPERATIONS.iter().position(|it| *it == operation)
}

fn number<T: Copy>(of: &[T], given: c_int, what: &str) -> Result<T, Fault> {
    let found = usize::try_from(given).ok().and_then(|at| of.get(at));
    found.copied().ok_or_else(|| {
        let last = of.len() - 1;
        Fault::invalid(format!(
            "{given} is no {what}; expected 0 to {last}, see topo.h"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_numbers_are_refused() {
        assert!(collective(8).is_err() && collective(-1).is_err());
        assert!(element(ElementType::ALL.len() as c_int).is_err());
        assert!(operation(OPERATIONS.len() as c_int).is_err());
    }
}
