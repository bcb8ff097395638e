//! Reducing the sources of a step and storing the result in its destinations, in one pass over memory.
//!
//! A [`Reduce`] is made when a message is bound: it holds the function for its element type, its operation and the
//! widest vectors that the processor has. Running it calls that function and decides nothing but which of a few loops
//! to take.
//!
//! # What comes out
//! Sources are reduced in their order. Integers wrap around. 16-bit floats are reduced as 32-bit floats and rounded once
//! per step, to the nearest, ties to even. The minimum and the maximum of a number and a NaN is the number, as of C's
//! `fmin` and `fmax`. An average is a sum that is divided in the step that finishes it; integers are rounded towards
//! zero. A pre-multiplied sum multiplies those sources that the step says.
//!
//! In reading order: [`Reduce`] and [`Step`] here, `number` (arithmetic), `element` (what lies in memory), `kernel` (the
//! loop), `vectors` (which instructions), `copy` (one source), `select` (which function).

mod copy;
mod element;
mod kernel;
mod number;
mod select;
mod vectors;

use plan::{ElementType, Reduction};

pub use vectors::Vectors;

/// Most sources, and most destinations.
pub const MOST_OPERANDS: usize = 4;

/// A reduction, ready to run.
#[derive(Debug, Clone, Copy)]
pub struct Reduce {
    /// For one source, two, three, four, with nothing to multiply or divide.
    plain: [Kernel; MOST_OPERANDS],
    /// With something to multiply or divide.
    scaled: [Kernel; MOST_OPERANDS],
    scale: Scale,
    element_bytes: usize,
}

/// The loop over a step's elements.
///
/// # Safety
/// As [`Reduce::run`].
type Kernel = unsafe fn(&Step<'_>, &Scale);

/// What elements are multiplied with or divided by.
#[derive(Debug, Clone, Copy)]
struct Scale {
    /// The bytes of an element that sources are multiplied with, at the low end.
    factor: u64,
    /// Which sources may be multiplied: all or none.
    multiplied: u8,
    /// What the result is divided by in the end; never 0.
    divisor: u32,
}

/// The memory of one step.
#[derive(Debug, Clone, Copy)]
pub struct Step<'a> {
    /// Where the result goes: one place at least, [`MOST_OPERANDS`] at most. A destination may be a source; apart from
    /// that, no two places overlap.
    pub destinations: &'a [*mut u8],
    /// What is reduced: one at least, [`MOST_OPERANDS`] at most. No alignment is needed.
    pub sources: &'a [*const u8],
    /// Elements of each.
    pub elements: usize,
    /// Which sources are multiplied first if the operation is a pre-multiplied sum: bit i stands for source i.
    pub pre_multiply: u8,
    /// Whether the result is final, so that an average is divided.
    pub finish: bool,
    /// Which destinations nobody reads soon: bit i stands for destination i. They are stored past the caches.
    pub stream: u8,
}

impl Reduce {
    /// The reduction of elements of a type, by the widest vectors of this processor.
    ///
    /// `factor` is the scalar of a pre-multiplied sum: the bytes of an element, at the low end. `ranks` is what an
    /// average divides by.
    pub fn new(operation: Reduction, element: ElementType, factor: u64, ranks: u32) -> Self {
        Self::with_vectors(operation, element, factor, ranks, Vectors::best())
    }

    /// As [`Self::new`], by vectors of one's choice.
    ///
    /// # Panics
    /// The processor does not have them.
    pub fn with_vectors(
        operation: Reduction,
        element: ElementType,
        factor: u64,
        ranks: u32,
        vectors: Vectors,
    ) -> Self {
        assert!(
            vectors.are_here(),
            "{vectors:?} on a processor without them"
        );
        let pair = select::kernels(operation, element, vectors);
        Self {
            plain: pair.plain,
            scaled: pair.scaled,
            scale: Scale {
                factor,
                multiplied: if operation == Reduction::PreMultipliedSum {
                    u8::MAX
                } else {
                    0
                },
                divisor: if operation == Reduction::Average {
                    ranks.max(1)
                } else {
                    1
                },
            },
            element_bytes: element.bytes() as usize,
        }
    }

    /// Runs a step.
    ///
    /// # Panics
    /// There are no sources, no destinations, or too many.
    ///
    /// # Safety
    /// The elements can be read at every source and written at every destination, overlap as [`Step::destinations`]
    /// says, and are used by nobody else meanwhile.
    #[inline]
    pub unsafe fn run(&self, step: &Step<'_>) {
        assert!(!step.destinations.is_empty() && step.destinations.len() <= MOST_OPERANDS);
        let scale = &self.scale;
        let multiplies = step.pre_multiply & scale.multiplied != 0;
        let scales = multiplies || step.finish && scale.divisor != 1;
        let kernels = if scales { &self.scaled } else { &self.plain };
        // Indexing refuses no sources and too many.
        let kernel = kernels[step.sources.len().wrapping_sub(1)];
        // SAFETY: the caller's promise is the same, and the kernel is one that this processor runs.
        unsafe { kernel(step, &self.scale) };
    }

    /// Bytes of one element.
    pub fn element_bytes(&self) -> usize {
        self.element_bytes
    }
}

/// Copies bytes, past the caches if nobody reads them soon.
///
/// # Safety
/// `bytes` bytes can be read at `source` and written at `destination`; they are the same or do not overlap, and are used
/// by nobody else meanwhile.
#[inline]
pub unsafe fn copy(destination: *mut u8, source: *const u8, bytes: usize, stream: bool) {
    // SAFETY: the caller's promise is the same.
    unsafe { copy::copy(destination, source, bytes, stream) };
}
