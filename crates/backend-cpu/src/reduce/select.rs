//! Which function a reduction is.

use half::{bf16, f16};
use plan::{ElementType, Reduction};

use super::copy::copy_step;
use super::element::Element;
use super::kernel::{ANY, Plain, Scaled, reduce};
use super::number::{Maximum, Minimum, Operation, Product, Sum};
use super::vectors::Vectors;
use super::{Kernel, MOST_OPERANDS};

/// The functions of a reduction.
pub struct Kernels {
    pub plain: [Kernel; MOST_OPERANDS],
    pub scaled: [Kernel; MOST_OPERANDS],
}

/// Bytes of a block: one cache line.
const BLOCK_BYTES: usize = 64;

pub fn kernels(operation: Reduction, element: ElementType, vectors: Vectors) -> Kernels {
    const fn block<E>() -> usize {
        BLOCK_BYTES / size_of::<E>()
    }
    match element {
        ElementType::I8 => of_type::<i8, { block::<i8>() }>(operation, vectors),
        ElementType::U8 => of_type::<u8, { block::<u8>() }>(operation, vectors),
        ElementType::I32 => of_type::<i32, { block::<i32>() }>(operation, vectors),
        ElementType::U32 => of_type::<u32, { block::<u32>() }>(operation, vectors),
        ElementType::I64 => of_type::<i64, { block::<i64>() }>(operation, vectors),
        ElementType::U64 => of_type::<u64, { block::<u64>() }>(operation, vectors),
        ElementType::F16 => of_type::<f16, { block::<f16>() }>(operation, vectors),
        ElementType::Bf16 => of_type::<bf16, { block::<bf16>() }>(operation, vectors),
        ElementType::F32 => of_type::<f32, { block::<f32>() }>(operation, vectors),
        ElementType::F64 => of_type::<f64, { block::<f64>() }>(operation, vectors),
    }
}

fn of_type<E: Element, const N: usize>(operation: Reduction, vectors: Vectors) -> Kernels {
    let plain = match operation {
        Reduction::Sum | Reduction::Average | Reduction::PreMultipliedSum => {
            plain::<E, Sum, N>(vectors)
        }
        Reduction::Product => plain::<E, Product, N>(vectors),
        Reduction::Minimum => plain::<E, Minimum, N>(vectors),
        Reduction::Maximum => plain::<E, Maximum, N>(vectors),
    };
    let scaled = match operation {
        Reduction::Average | Reduction::PreMultipliedSum => scaled::<E, N>(vectors),
        // Has nothing to multiply or divide, whatever a step says.
        _ => plain,
    };
    Kernels { plain, scaled }
}

fn plain<E: Element, O: Operation, const N: usize>(vectors: Vectors) -> [Kernel; MOST_OPERANDS] {
    let copy = match size_of::<E>() {
        1 => copy_step::<1>,
        2 => copy_step::<2>,
        4 => copy_step::<4>,
        _ => copy_step::<8>,
    };
    let [two, more] = match vectors {
        Vectors::Basic => basic::plain::<E, O, N>(),
        #[cfg(target_arch = "x86_64")]
        Vectors::Wide => wide::plain::<E, O, N>(),
        #[cfg(target_arch = "x86_64")]
        Vectors::Widest => widest::plain::<E, O, N>(),
        #[cfg(not(target_arch = "x86_64"))]
        _ => basic::plain::<E, O, N>(),
    };
    [copy, two, more, more]
}

fn scaled<E: Element, const N: usize>(vectors: Vectors) -> [Kernel; MOST_OPERANDS] {
    let any = match vectors {
        Vectors::Basic => basic::scaled::<E, N>(),
        #[cfg(target_arch = "x86_64")]
        Vectors::Wide => wide::scaled::<E, N>(),
        #[cfg(target_arch = "x86_64")]
        Vectors::Widest => widest::scaled::<E, N>(),
        #[cfg(not(target_arch = "x86_64"))]
        _ => basic::scaled::<E, N>(),
    };
    [any; MOST_OPERANDS]
}

/// The loops, compiled for some instructions.
macro_rules! compiled {
    ($name:ident, $instructions:ident $(, $feature:literal)?) => {
        mod $name {
            use super::super::element::Element;
            use super::super::kernel::Scaling;
            use super::super::number::Operation;
            use super::super::vectors::$instructions;
            use super::super::{Kernel, Scale, Step};
            use super::{ANY, Plain, Scaled, Sum, reduce};

            /// # Safety
            /// As [`reduce`].
            $(#[target_feature(enable = $feature)])?
            unsafe fn run<E, O, S, const SOURCES: usize, const N: usize>(
                step: &Step<'_>,
                scale: &Scale,
            ) where
                E: Element,
                O: Operation,
                S: Scaling,
            {
                // SAFETY: the caller's promise.
                unsafe { reduce::<E, O, S, $instructions, SOURCES, N>(step, scale) };
            }

            /// For two sources and for any number of them.
            pub fn plain<E: Element, O: Operation, const N: usize>() -> [Kernel; 2] {
                [
                    |step, scale| {
                        // SAFETY: this is what a `Kernel` promises, and it was chosen for this processor.
                        unsafe { run::<E, O, Plain, 2, N>(step, scale) }
                    },
                    |step, scale| {
                        // SAFETY: as above.
                        unsafe { run::<E, O, Plain, ANY, N>(step, scale) }
                    },
                ]
            }

            /// For any number of sources.
            pub fn scaled<E: Element, const N: usize>() -> Kernel {
                |step, scale| {
                    // SAFETY: as above.
                    unsafe { run::<E, Sum, Scaled, ANY, N>(step, scale) }
                }
            }
        }
    };
}

compiled!(basic, Basic);
#[cfg(target_arch = "x86_64")]
compiled!(wide, F16c, "avx2,f16c");
#[cfg(target_arch = "x86_64")]
compiled!(widest, F16c, "avx2,f16c,avx512f,avx512bw,avx512dq,avx512vl");
