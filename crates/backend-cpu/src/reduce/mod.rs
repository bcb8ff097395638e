//! Reduces the sources of a step and stores the result in its destinations.
//!
//! A [`Reduce`] has the loops for an element type, an operation and the widest vectors of the
//! processor.
//!
//! # Results
//! Sources are reduced in order. Integers wrap around. 16-bit floats are reduced as 32-bit floats
//! and rounded once per step to nearest, ties to even. The minimum or maximum of a number and a NaN
//! is the number, as in C's `fmin` and `fmax`; the choice between two zeros or two NaNs is
//! unspecified. The step that finishes an average divides the sum; integer quotients are truncated.
//! A pre-multiplied sum multiplies the sources that the step selects.
//!
//! # Memory access
//! Two sources and one destination take one loop. Other steps run in blocks that fit the L1 cache,
//! so that every operand is loaded or stored once.
//!
//! In reading order: [`Reduce`] and [`ReduceStep`] here, `number`, `element`, `vectors`, `select`,
//! `copy`.

mod copy;
mod element;
mod number;
mod select;
mod vectors;

use std::mem::MaybeUninit;

use program::{ElementType, Reduction};

use select::Loops;
pub use vectors::Vectors;

/// Most sources, and most destinations.
pub const MOST_OPERANDS: usize = 4;

/// Bytes of a block during reduction.
const BLOCK_BYTES: usize = 4096;

/// Bytes of a block with non-temporal stores: so few that loads and stores overlap.
const STREAM_BLOCK_BYTES: usize = 512;

/// A reduction, ready to run.
#[derive(Debug, Clone, Copy)]
pub struct Reduce {
    loops: Loops,
    element_bytes: usize,
    /// Bytes of an element during reduction.
    wide_bytes: usize,
    /// The factor of a pre-multiplied sum, one element in the low bytes.
    factor: u64,
    /// Mask of the sources that may be multiplied: all or none.
    multiplied: u8,
    /// The divisor of an average, else 1; never 0.
    divisor: u32,
}

/// The memory of one step.
#[derive(Debug, Clone, Copy)]
pub struct ReduceStep<'a> {
    /// 1 to [`MOST_OPERANDS`] destinations. A destination may also be a source; other operands must
    /// not overlap.
    pub destinations: &'a [*mut u8],
    /// 1 to [`MOST_OPERANDS`] sources of any alignment.
    pub sources: &'a [*const u8],
    /// Elements per operand.
    pub elements: usize,
    /// Bit i: a pre-multiplied sum multiplies source i first.
    pub pre_multiply: u8,
    /// Whether this step finishes the result, so that an average is divided.
    pub finish: bool,
    /// Bit i: use non-temporal stores for destination i.
    pub stream: u8,
}

impl Reduce {
    /// Creates a reduction with the widest vectors of this processor.
    ///
    /// `factor` is the scalar of a pre-multiplied sum, one element in the low bytes. An average is
    /// divided by `ranks`.
    ///
    /// # Panics
    /// The operation does not suit the type ([`Reduction::suits`]).
    pub fn new(operation: Reduction, element: ElementType, factor: u64, ranks: u32) -> Self {
        Self::with_vectors(operation, element, factor, ranks, Vectors::best())
    }

    /// As [`Self::new`], with chosen vectors.
    ///
    /// # Panics
    /// The processor does not support them, or the operation does not suit the type
    /// ([`Reduction::suits`]).
    pub fn with_vectors(
        operation: Reduction,
        element: ElementType,
        factor: u64,
        ranks: u32,
        vectors: Vectors,
    ) -> Self {
        assert!(
            vectors.are_here(),
            "{vectors:?} vectors on a processor without them"
        );
        let multiplies = operation == Reduction::PreMultipliedSum;
        let divides = operation == Reduction::Average;
        let is_narrow = matches!(element, ElementType::F16 | ElementType::Bf16);
        let element_bytes = element.bytes() as usize;
        Self {
            loops: select::loops(operation, element, vectors),
            element_bytes,
            wide_bytes: if is_narrow {
                size_of::<f32>()
            } else {
                element_bytes
            },
            factor,
            multiplied: if multiplies { u8::MAX } else { 0 },
            divisor: if divides { ranks.max(1) } else { 1 },
        }
    }

    /// Bytes of one element.
    pub fn element_bytes(&self) -> usize {
        self.element_bytes
    }

    /// Runs a step.
    ///
    /// # Panics
    /// There are no sources or destinations, or more than [`MOST_OPERANDS`].
    ///
    /// # Safety
    /// All elements are readable at every source and writable at every destination, overlap only as
    /// [`ReduceStep::destinations`] permits, and are not accessed by anybody else.
    #[inline]
    pub unsafe fn run(&self, step: &ReduceStep<'_>) {
        assert!(
            (1..=MOST_OPERANDS).contains(&step.destinations.len()),
            "number of destinations"
        );
        assert!(
            (1..=MOST_OPERANDS).contains(&step.sources.len()),
            "number of sources"
        );
        if self.is_plain(step) {
            // SAFETY: the caller's promise holds for each of these calls.
            unsafe {
                match (step.sources, step.destinations) {
                    (&[source], destinations) => {
                        return self.copy(destinations, source, step);
                    }
                    (&[one, other], &[to]) if step.stream & 1 == 0 => {
                        let loops = &self.loops;
                        if to.cast_const() != one && to.cast_const() != other {
                            return (loops.pair)(to, one, other, step.elements);
                        }
                        if self.is_wide() {
                            let other = if to.cast_const() == one { other } else { one };
                            return (loops.accumulate)(to, other, step.elements);
                        }
                    }
                    _ => {}
                }
            }
        }
        // SAFETY: the caller's promise.
        unsafe { self.in_blocks(step) };
    }

    /// Whether a step stores its only source as it is.
    pub fn moves(&self, step: &ReduceStep<'_>) -> bool {
        step.sources.len() == 1 && self.is_plain(step)
    }

    /// Whether a step neither multiplies sources nor divides the result.
    fn is_plain(&self, step: &ReduceStep<'_>) -> bool {
        step.pre_multiply & self.multiplied == 0 && !(step.finish && self.divisor != 1)
    }

    /// Whether elements are reduced in their own type.
    fn is_wide(&self) -> bool {
        self.wide_bytes == self.element_bytes
    }

    /// # Safety
    /// As [`Self::run`].
    unsafe fn copy(&self, destinations: &[*mut u8], source: *const u8, step: &ReduceStep<'_>) {
        let bytes = step.elements * self.element_bytes;
        // One destination is copied in one piece, as `memcpy` does best.
        let block = if destinations.len() == 1 {
            bytes
        } else {
            BLOCK_BYTES
        };
        let mut done = 0;
        while done < bytes {
            let now = block.min(bytes - done);
            // SAFETY: the range is within the step's.
            unsafe { store(destinations, step.stream, done, source.add(done), now) };
            done += now;
        }
        if step.stream != 0 {
            copy::end_streaming();
        }
    }

    /// The only destination, if the result can be computed in place there.
    fn direct_destination(&self, step: &ReduceStep<'_>) -> Option<*mut u8> {
        match *step.destinations {
            [to] if self.is_wide() && step.stream & 1 == 0 => {
                (!step.sources.contains(&to.cast_const())).then_some(to)
            }
            _ => None,
        }
    }

    /// Runs any step block by block. Every block reads all sources before it writes, so a source
    /// may be a destination.
    ///
    /// # Safety
    /// As [`Self::run`].
    unsafe fn in_blocks(&self, step: &ReduceStep<'_>) {
        let mut wide = MaybeUninit::<Block>::uninit();
        let mut narrow = MaybeUninit::<Block>::uninit();
        let (wide, narrow) = (
            wide.as_mut_ptr().cast::<u8>(),
            narrow.as_mut_ptr().cast::<u8>(),
        );
        let loops = &self.loops;
        let block = if step.stream == 0 {
            BLOCK_BYTES
        } else {
            STREAM_BLOCK_BYTES
        };
        // Two narrow sources are widened, reduced and rounded in one loop.
        let pairs_narrow = !self.is_wide() && step.sources.len() == 2 && self.is_plain(step);
        let block = match pairs_narrow {
            true => block / self.element_bytes,
            false => block / self.wide_bytes,
        };
        let direct = self.direct_destination(step);
        let mut done = 0;
        while done < step.elements {
            let now = block.min(step.elements - done);
            let start = done * self.element_bytes;
            let wide = direct.map_or(wide, |direct| direct.wrapping_add(start));
            // SAFETY: the range is within the step's; a block has room for `now` elements.
            unsafe {
                let result = if pairs_narrow {
                    let (one, other) = (step.sources[0].add(start), step.sources[1].add(start));
                    (loops.pair)(narrow, one, other, now);
                    narrow
                } else {
                    self.block(step, start, wide, now);
                    match self.is_wide() {
                        true => wide,
                        false => {
                            (loops.narrow)(narrow, wide, now);
                            narrow
                        }
                    }
                };
                if direct.is_none() {
                    let bytes = now * self.element_bytes;
                    store(step.destinations, step.stream, start, result, bytes);
                }
            }
            done += now;
        }
        if step.stream != 0 {
            copy::end_streaming();
        }
    }

    /// Reduces `count` elements that begin at byte `start` of the sources into `wide`.
    ///
    /// # Safety
    /// As [`Self::run`]; `wide` has room for the elements.
    unsafe fn block(&self, step: &ReduceStep<'_>, start: usize, wide: *mut u8, count: usize) {
        let loops = &self.loops;
        let pre_multiply = step.pre_multiply & self.multiplied;
        // SAFETY: the caller's promise.
        unsafe {
            let mut begun = 1;
            if self.is_wide() && pre_multiply & 3 == 0 && step.sources.len() > 1 {
                let (one, other) = (step.sources[0].add(start), step.sources[1].add(start));
                (loops.pair)(wide, one, other, count);
                begun = 2;
            } else {
                (loops.widen)(wide, step.sources[0].add(start), count);
                if pre_multiply & 1 != 0 {
                    (loops.multiply)(wide, self.factor, count);
                }
            }
            for (index, source) in step.sources.iter().enumerate().skip(begun) {
                if pre_multiply >> index & 1 == 0 {
                    (loops.accumulate)(wide, source.add(start), count);
                } else {
                    (loops.accumulate_multiplied)(wide, source.add(start), self.factor, count);
                }
            }
            if step.finish && self.divisor != 1 {
                (loops.divide)(wide, self.divisor, count);
            }
        }
    }
}

/// Memory for a block.
#[repr(C, align(64))]
struct Block([u8; BLOCK_BYTES]);

/// Stores bytes in all destinations. If any is streamed, call [`copy::end_streaming`] after.
///
/// # Safety
/// The bytes are readable, and writable at every destination.
unsafe fn store(
    destinations: &[*mut u8],
    stream: u8,
    start: usize,
    source: *const u8,
    bytes: usize,
) {
    for (index, destination) in destinations.iter().enumerate() {
        // SAFETY: the caller's promise.
        unsafe {
            copy::copy(
                destination.add(start),
                source,
                bytes,
                stream >> index & 1 != 0,
            )
        };
    }
}

/// Copies bytes, with non-temporal stores if `stream`.
///
/// # Safety
/// `bytes` bytes are readable at `source` and writable at `destination`; the two are equal or do
/// not overlap, and nobody else accesses them.
#[inline]
pub unsafe fn copy(destination: *mut u8, source: *const u8, bytes: usize, stream: bool) {
    // SAFETY: the caller's promise is the same.
    unsafe { copy::copy(destination, source, bytes, stream) };
    if stream {
        copy::end_streaming();
    }
}
