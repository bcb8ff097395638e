//! The loop over a step's elements.

use super::element::Element;
use super::number::{Number, Operation};
use super::vectors::{Basic, Instructions};
use super::{MOST_OPERANDS, Scale, Step, copy};

/// Whether elements are multiplied and divided.
pub trait Scaling {
    /// Whether they are.
    const SCALES: bool;
}

/// They are not.
pub struct Plain;

impl Scaling for Plain {
    const SCALES: bool = false;
}

/// They are, as the step says.
pub struct Scaled;

impl Scaling for Scaled {
    const SCALES: bool = true;
}

/// Reduces the sources of a step, `N` elements at a time. A block is loaded from all sources before it is stored, so a
/// source may be a destination. `SOURCES` is their number, or [`ANY`].
///
/// # Safety
/// As [`super::Reduce::run`]; the processor has the instructions; the step has so many sources.
#[inline(always)]
pub unsafe fn reduce<E, O, S, I, const SOURCES: usize, const N: usize>(
    step: &Step<'_>,
    scale: &Scale,
) where
    E: Element,
    O: Operation,
    S: Scaling,
    I: Instructions,
{
    let mut places = Places::<E>::new(step);
    let arithmetic = Arithmetic::<E>::new(step, scale);
    let mut left = step.elements;
    if left >= N {
        let mut streamed = 0;
        if step.stream != 0 {
            // Stores past the caches need alignment.
            let aside = places.elements_to_alignment().min(left);
            // SAFETY: so many elements are left.
            unsafe { places.one_by_one::<O, S>(&arithmetic, aside) };
            left -= aside;
            streamed = places.streamed(step.stream);
        }
        while left >= N {
            // SAFETY: so many elements are left; only aligned places are streamed.
            unsafe {
                let block = places.block::<O, S, I, SOURCES, N>(&arithmetic);
                for (index, to) in places.destinations[..places.count].iter().enumerate() {
                    if streamed >> index & 1 == 0 {
                        to.cast::<[E; N]>().write_unaligned(block);
                    } else {
                        copy::store_streaming(to.cast(), &block);
                    }
                }
            }
            places.advance(N);
            left -= N;
        }
        if streamed != 0 {
            copy::end_streaming();
        }
    }
    if left > 0 {
        // SAFETY: so many elements are left.
        unsafe { places.one_by_one::<O, S>(&arithmetic, left) };
    }
}

/// Stands for any number of sources.
pub const ANY: usize = 0;

/// Where the next elements are.
struct Places<E> {
    sources: [*const E; MOST_OPERANDS],
    source_count: usize,
    destinations: [*mut E; MOST_OPERANDS],
    count: usize,
}

impl<E: Element> Places<E> {
    #[inline(always)]
    fn new(step: &Step<'_>) -> Self {
        let mut sources = [std::ptr::null(); MOST_OPERANDS];
        for (to, from) in sources.iter_mut().zip(step.sources) {
            *to = from.cast();
        }
        let mut destinations = [std::ptr::null_mut(); MOST_OPERANDS];
        for (to, from) in destinations.iter_mut().zip(step.destinations) {
            *to = from.cast();
        }
        Self {
            sources,
            source_count: step.sources.len().min(MOST_OPERANDS),
            destinations,
            count: step.destinations.len().min(MOST_OPERANDS),
        }
    }

    #[inline(always)]
    fn advance(&mut self, elements: usize) {
        for source in &mut self.sources {
            *source = source.wrapping_add(elements);
        }
        for destination in &mut self.destinations {
            *destination = destination.wrapping_add(elements);
        }
    }

    /// Reduces the next `N` elements.
    ///
    /// # Safety
    /// So many can be read.
    #[inline(always)]
    unsafe fn block<
        O: Operation,
        S: Scaling,
        I: Instructions,
        const SOURCES: usize,
        const N: usize,
    >(
        &self,
        arithmetic: &Arithmetic<E>,
    ) -> [E; N] {
        let load = |index: usize| {
            // SAFETY: the caller's promise.
            let block = unsafe { self.sources[index].cast::<[E; N]>().read_unaligned() };
            let wide = E::widen::<I, N>(block);
            if S::SCALES {
                arithmetic.multiplied(wide, index)
            } else {
                wide
            }
        };
        let count = if SOURCES == ANY {
            self.source_count
        } else {
            SOURCES
        };
        let mut result = load(0);
        for index in 1..count {
            let other = load(index);
            for (result, other) in result.iter_mut().zip(other) {
                *result = O::apply(*result, other);
            }
        }
        if S::SCALES {
            result = arithmetic.finished(result);
        }
        E::narrow::<I, N>(result)
    }

    /// Reduces and stores so many elements, each by itself, and goes on behind them.
    ///
    /// # Safety
    /// So many can be read and written.
    #[inline(never)]
    unsafe fn one_by_one<O: Operation, S: Scaling>(
        &mut self,
        arithmetic: &Arithmetic<E>,
        elements: usize,
    ) {
        for _ in 0..elements {
            // SAFETY: the caller's promise.
            unsafe {
                let [element] = self.block::<O, S, Basic, ANY, 1>(arithmetic);
                for to in &self.destinations[..self.count] {
                    to.write_unaligned(element);
                }
            }
            self.advance(1);
        }
    }

    /// How many elements come before one that can be streamed to the first destination; 0, if none can.
    #[inline(always)]
    fn elements_to_alignment(&self) -> usize {
        let past = self.destinations[0].addr() % copy::STREAM_ALIGNMENT;
        let bytes = (copy::STREAM_ALIGNMENT - past) % copy::STREAM_ALIGNMENT;
        if bytes.is_multiple_of(size_of::<E>()) {
            bytes / size_of::<E>()
        } else {
            0
        }
    }

    /// Which destinations shall be streamed and can be.
    #[inline(always)]
    fn streamed(&self, wanted: u8) -> u8 {
        let can = |to: &*mut E| to.addr().is_multiple_of(copy::STREAM_ALIGNMENT);
        let bits = self.destinations[..self.count].iter().enumerate();
        bits.fold(0, |bits, (index, to)| bits | u8::from(can(to)) << index) & wanted
    }
}

/// What sources are multiplied with, and the result is divided by.
struct Arithmetic<E: Element> {
    factor: E::Wide,
    pre_multiply: u8,
    /// The number of ranks, or 1.
    divisor: u32,
}

impl<E: Element> Arithmetic<E> {
    #[inline(always)]
    fn new(step: &Step<'_>, scale: &Scale) -> Self {
        let [factor] = E::widen::<Basic, 1>([E::from_low_bytes(scale.factor)]);
        Self {
            factor,
            pre_multiply: step.pre_multiply & scale.multiplied,
            divisor: if step.finish { scale.divisor } else { 1 },
        }
    }

    #[inline(always)]
    fn multiplied<const N: usize>(&self, block: [E::Wide; N], source: usize) -> [E::Wide; N] {
        if self.pre_multiply >> source & 1 == 0 {
            return block;
        }
        block.map(|element| element.multiply(self.factor))
    }

    #[inline(always)]
    fn finished<const N: usize>(&self, block: [E::Wide; N]) -> [E::Wide; N] {
        if self.divisor == 1 {
            return block;
        }
        block.map(|element| element.divide(self.divisor))
    }
}
