//! Sets of vector instructions for which the loops are compiled.

use half::f16;

/// A set of vector instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Vectors {
    /// The baseline of the architecture.
    Basic,
    /// 32-byte vectors (x86: AVX2 and F16C).
    Wide,
    /// 64-byte vectors (x86: AVX-512 F, BW, DQ and VL).
    Widest,
}

impl Vectors {
    /// All sets, from the narrowest.
    pub const ALL: [Self; 3] = [Self::Basic, Self::Wide, Self::Widest];

    /// Whether this processor supports the set.
    pub fn are_here(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        {
            let wide = || is_x86_feature_detected!("avx2") && is_x86_feature_detected!("f16c");
            let widest = || {
                is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
            };
            match self {
                Self::Basic => true,
                Self::Wide => wide(),
                Self::Widest => wide() && widest(),
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            self == Self::Basic
        }
    }

    /// The widest set that this processor supports.
    pub fn best() -> Self {
        let here = Self::ALL
            .into_iter()
            .rev()
            .find(|vectors| vectors.are_here());
        here.unwrap_or(Self::Basic)
    }
}

/// An element at an address of any alignment.
#[derive(Clone, Copy)]
#[repr(C, packed)]
pub struct Loose<E>(pub E);

impl<E: Copy> Loose<E> {
    #[inline(always)]
    pub fn get(self) -> E {
        self.0
    }
}

/// 16-bit floats that are converted at once.
pub const LANES: usize = 8;

/// Conversions that the compiler does not vectorize by itself.
pub trait Vector {
    /// Converts 16-bit floats to 32 bits.
    fn widen(narrow: &[Loose<f16>; LANES]) -> [f32; LANES];

    /// Rounds 32-bit floats to the nearest 16-bit floats.
    fn narrow(wide: [f32; LANES]) -> [Loose<f16>; LANES];
}

/// Portable code.
pub struct Plain;

impl Vector for Plain {
    #[inline(always)]
    fn widen(narrow: &[Loose<f16>; LANES]) -> [f32; LANES] {
        narrow.map(|narrow| narrow.get().to_f32_const())
    }

    #[inline(always)]
    fn narrow(wide: [f32; LANES]) -> [Loose<f16>; LANES] {
        wide.map(|wide| Loose(f16::from_f32_const(wide)))
    }
}

/// F16C instructions. Used only in loops that were chosen because the processor has them.
#[cfg(target_arch = "x86_64")]
pub struct F16c;

#[cfg(target_arch = "x86_64")]
impl Vector for F16c {
    #[inline(always)]
    fn widen(narrow: &[Loose<f16>; LANES]) -> [f32; LANES] {
        use std::arch::x86_64::{_mm_loadu_si128, _mm256_cvtph_ps, _mm256_storeu_ps};
        let mut wide = [0.0; LANES];
        // SAFETY: eight elements are 16 bytes narrow and 32 bytes wide; `Vectors::are_here` found
        // F16C.
        unsafe {
            let narrow = _mm_loadu_si128(narrow.as_ptr().cast());
            _mm256_storeu_ps(wide.as_mut_ptr(), _mm256_cvtph_ps(narrow));
        }
        wide
    }

    #[inline(always)]
    fn narrow(wide: [f32; LANES]) -> [Loose<f16>; LANES] {
        use std::arch::x86_64::{
            _MM_FROUND_TO_NEAREST_INT, _mm_storeu_si128, _mm256_cvtps_ph, _mm256_loadu_ps,
        };
        let mut narrow = [Loose(f16::ZERO); LANES];
        // SAFETY: as in `widen`.
        unsafe {
            let wide = _mm256_loadu_ps(wide.as_ptr());
            let rounded = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(wide);
            _mm_storeu_si128(narrow.as_mut_ptr().cast(), rounded);
        }
        narrow
    }
}
