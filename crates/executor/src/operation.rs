//! Reductions, with the factor that one of them needs.

use program::Reduction;

use crate::element::Element;

/// A reduction, with the factor of a pre-multiplied sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation<T> {
    pub(crate) reduction: Reduction,
    pub(crate) scalar: T,
}

impl<T: Element> Operation<T> {
    /// The sum of all elements, each rank's multiplied by its `scalar`.
    pub const fn pre_multiplied_sum(scalar: T) -> Self {
        Self {
            reduction: Reduction::PreMultipliedSum,
            scalar,
        }
    }
}

impl<T: Element> From<Reduction> for Operation<T> {
    /// A pre-multiplied sum multiplies by one.
    fn from(reduction: Reduction) -> Self {
        Self {
            reduction,
            scalar: T::ONE,
        }
    }
}
