//! Reducing the sources of a step and storing the result in its destinations.
//!
//! A [`Reduce`] is made when a message is bound: it holds the loops for its element type, its operation and the widest
//! vectors that the processor has. Running it chooses among a few of them and calls them.
//!
//! # What comes out
//! Sources are reduced in their order. Integers wrap around. 16-bit floats are reduced as 32-bit floats and rounded once
//! per step, to the nearest, ties to even. The minimum and the maximum of a number and a NaN is the number, as of C's
//! `fmin` and `fmax`; which of two zeros or of two NaNs comes out is not said. An average is a sum that is divided in the
//! step that finishes it; integers are rounded towards zero. A pre-multiplied sum multiplies those sources that the step
//! says.
//!
//! # How memory is passed over
//! Two sources and one destination are one loop. Anything else goes in blocks that stay in the first cache, so that every
//! source is read once from further away and every destination is written once.
//!
//! In reading order: [`Reduce`] and [`Step`] here, `number` (arithmetic), `element` (what lies in memory), `vectors`
//! (which instructions), `select` (which loops), `copy`.

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

/// Bytes of a block, as wide as it is reduced.
const BLOCK_BYTES: usize = 4096;

/// The same of what is stored past the caches: so few that the processor reads the next ones while it stores.
const STREAM_BLOCK_BYTES: usize = 512;

/// A reduction, ready to run.
#[derive(Debug, Clone, Copy)]
pub struct Reduce {
    loops: Loops,
    element_bytes: usize,
    /// Bytes of an element as it is reduced.
    wide_bytes: usize,
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
    /// There are no sources, no destinations, or too many.
    ///
    /// # Safety
    /// The elements can be read at every source and written at every destination, overlap as [`Step::destinations`]
    /// says, and are used by nobody else meanwhile.
    #[inline]
    pub unsafe fn run(&self, step: &Step<'_>) {
        assert!(
            (1..=MOST_OPERANDS).contains(&step.destinations.len()),
            "number of destinations"
        );
        assert!(
            (1..=MOST_OPERANDS).contains(&step.sources.len()),
            "number of sources"
        );
        let multiplies = step.pre_multiply & self.multiplied != 0;
        let divides = step.finish && self.divisor != 1;
        if !multiplies && !divides {
            // SAFETY: the caller's promise, which holds in each of the calls.
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

    /// Whether elements are reduced as they lie in memory.
    fn is_wide(&self) -> bool {
        self.wide_bytes == self.element_bytes
    }

    /// # Safety
    /// As [`Self::run`].
    unsafe fn copy(&self, destinations: &[*mut u8], source: *const u8, step: &Step<'_>) {
        let bytes = step.elements * self.element_bytes;
        // With one destination all at once, which is what `memcpy` is good at.
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

    /// The only destination, if it can be reduced in: it is no source, and is as wide as what is reduced.
    fn direct_destination(&self, step: &Step<'_>) -> Option<*mut u8> {
        match *step.destinations {
            [to] if self.is_wide() && step.stream & 1 == 0 => {
                (!step.sources.contains(&to.cast_const())).then_some(to)
            }
            _ => None,
        }
    }

    /// Any step, block by block: all sources into a block of our own, then that to all destinations. All sources of a
    /// block are read before it is stored, so a source may be a destination.
    ///
    /// # Safety
    /// As [`Self::run`].
    unsafe fn in_blocks(&self, step: &Step<'_>) {
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
        let block = block / self.wide_bytes;
        let pre_multiply = step.pre_multiply & self.multiplied;
        let direct = self.direct_destination(step);
        let mut done = 0;
        while done < step.elements {
            let now = block.min(step.elements - done);
            let start = done * self.element_bytes;
            let wide = direct.map_or(wide, |direct| direct.wrapping_add(start));
            // SAFETY: the range is within the step's; a block has room for so many elements.
            unsafe {
                let mut begun = 1;
                if self.is_wide() && pre_multiply & 3 == 0 && step.sources.len() > 1 {
                    let (one, other) = (step.sources[0].add(start), step.sources[1].add(start));
                    (loops.pair)(wide, one, other, now);
                    begun = 2;
                } else {
                    (loops.widen)(wide, step.sources[0].add(start), now);
                    if pre_multiply & 1 != 0 {
                        (loops.multiply)(wide, self.factor, now);
                    }
                }
                for (index, source) in step.sources.iter().enumerate().skip(begun) {
                    if pre_multiply >> index & 1 == 0 {
                        (loops.accumulate)(wide, source.add(start), now);
                    } else {
                        (loops.accumulate_multiplied)(wide, source.add(start), self.factor, now);
                    }
                }
                if step.finish && self.divisor != 1 {
                    (loops.divide)(wide, self.divisor, now);
                }
                let mut result = wide;
                if !self.is_wide() {
                    (loops.narrow)(narrow, wide, now);
                    result = narrow;
                }
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
}

/// Memory for a block.
#[repr(C, align(64))]
struct Block([u8; BLOCK_BYTES]);

/// Stores bytes in all destinations from `start` on. [`copy::end_streaming`] must follow if any is streamed.
///
/// # Safety
/// The bytes can be read, and written there.
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

/// Copies bytes, past the caches if nobody reads them soon.
///
/// # Safety
/// `bytes` bytes can be read at `source` and written at `destination`; they are the same or do not overlap, and are used
/// by nobody else meanwhile.
#[inline]
pub unsafe fn copy(destination: *mut u8, source: *const u8, bytes: usize, stream: bool) {
    // SAFETY: the caller's promise is the same.
    unsafe { copy::copy(destination, source, bytes, stream) };
    if stream {
        copy::end_streaming();
    }
}
