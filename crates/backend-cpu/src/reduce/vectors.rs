//! Which vector instructions a loop is compiled for.

use half::f16;

use super::element::Loose;

/// Sets of vector instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Vectors {
    /// What every processor of the architecture has.
    Basic,
    /// 32-byte vectors (x86: AVX2 and F16C).
    Wide,
    /// 64-byte vectors (x86: AVX-512 F, BW, DQ and VL).
    Widest,
}

impl Vectors {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Basic, Self::Wide, Self::Widest];

    /// Whether this processor has them.
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

    /// The widest that this processor has.
    pub fn best() -> Self {
        let here = Self::ALL
            .into_iter()
            .rev()
            .find(|vectors| vectors.are_here());
        here.unwrap_or(Self::Basic)
    }
}

/// 16-bit floats that are converted at once.
pub const LANES: usize = 8;

/// Vector instructions as a type, for what the compiler does not find by itself.
pub trait Vector {
    /// 16-bit floats as 32-bit ones.
    fn widen(narrow: &[Loose<f16>; LANES]) -> [f32; LANES];

    /// 32-bit floats rounded to the nearest 16-bit ones.
    fn narrow(wide: [f32; LANES]) -> [Loose<f16>; LANES];
}

/// No special instructions.
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

/// F16C. Its methods run only in loops that were chosen because the processor has it.
#[cfg(target_arch = "x86_64")]
pub struct F16c;

#[cfg(target_arch = "x86_64")]
impl Vector for F16c {
    #[inline(always)]
    fn widen(narrow: &[Loose<f16>; LANES]) -> [f32; LANES] {
        use std::arch::x86_64::{_mm_loadu_si128, _mm256_cvtph_ps, _mm256_storeu_ps};
        let mut wide = [0.0; LANES];
        // SAFETY: eight elements are 16 bytes narrow and 32 bytes wide; `Vectors::are_here` found F16C.
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
