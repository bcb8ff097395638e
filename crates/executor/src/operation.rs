//! How elements are reduced, with the number that one of the operations needs.

use program::Reduction;

use crate::element::Element;

/// How elements are reduced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation<T> {
    pub(crate) reduction: Reduction,
    pub(crate) scalar: T,
}

impl<T: Element> Operation<T> {
    /// The sum after each rank's elements were multiplied by a number that the rank gives.
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
