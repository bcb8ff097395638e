//! Element types and reductions.

use crate::named;

/// The type of a message's elements.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub enum ElementType {
    /// 8-bit integer.
    I8 = 0,
    /// 8-bit unsigned integer.
    U8 = 1,
    /// 32-bit integer.
    I32 = 2,
    /// 32-bit unsigned integer.
    U32 = 3,
    /// 64-bit integer.
    I64 = 4,
    /// 64-bit unsigned integer.
    U64 = 5,
    /// 16-bit floating-point number (IEEE 754 binary16).
    F16 = 6,
    /// 16-bit floating-point number with an 8-bit exponent (bfloat16).
    Bf16 = 7,
    /// 32-bit floating-point number.
    F32 = 8,
    /// 64-bit floating-point number.
    F64 = 9,
    /// 16-bit integer, which NCCL does not have.
    I16 = 10,
}

impl ElementType {
    /// The types of NCCL, which GPUs reduce.
    pub const OF_NCCL: [Self; 10] = [
        Self::I8,
        Self::U8,
        Self::I32,
        Self::U32,
        Self::I64,
        Self::U64,
        Self::F16,
        Self::Bf16,
        Self::F32,
        Self::F64,
    ];

    /// Whether its elements are integers.
    pub const fn is_integer(self) -> bool {
        !matches!(self, Self::F16 | Self::Bf16 | Self::F32 | Self::F64)
    }

    /// The name that nccl-tests uses.
    pub const fn nccl_name(self) -> &'static str {
        match self {
            Self::I8 => "int8",
            Self::U8 => "uint8",
            Self::I32 => "int32",
            Self::U32 => "uint32",
            Self::I64 => "int64",
            Self::U64 => "uint64",
            Self::F16 => "half",
            Self::Bf16 => "bfloat16",
            Self::F32 => "float",
            Self::F64 => "double",
            Self::I16 => "int16",
        }
    }

    /// Bytes of one element.
    pub const fn bytes(self) -> u32 {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::I16 | Self::F16 | Self::Bf16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }
}

/// How the ranks' elements are reduced to one.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Default,
    serde::Serialize,
    serde::Deserialize,
)]
pub enum Reduction {
    /// Their sum; integers wrap around.
    #[default]
    Sum = 0,
    /// Their product; integers wrap around.
    Product = 1,
    /// The smallest.
    Minimum = 2,
    /// The largest.
    Maximum = 3,
    /// The sum divided by the number of ranks; integers are rounded towards zero.
    Average = 4,
    /// The sum of elements that each rank first multiplies by a factor of its own.
    PreMultipliedSum = 5,
    /// The bits that are set in all; for integers.
    BitAnd = 6,
    /// The bits that are set in any; for integers.
    BitOr = 7,
    /// The bits that are set in an odd number; for integers.
    BitXor = 8,
}

impl Reduction {
    /// The reductions of NCCL, which GPUs carry out.
    pub const OF_NCCL: [Self; 6] = [
        Self::Sum,
        Self::Product,
        Self::Minimum,
        Self::Maximum,
        Self::Average,
        Self::PreMultipliedSum,
    ];

    /// Whether elements of a type can be reduced so: bits of floating-point numbers are no numbers.
    pub const fn suits(self, element: ElementType) -> bool {
        element.is_integer() || !matches!(self, Self::BitAnd | Self::BitOr | Self::BitXor)
    }
}

named!(ElementType, "element type", |known, text| known.name().eq_ignore_ascii_case(text) || known.nccl_name().eq_ignore_ascii_case(text), {
    I8 = "i8",
    U8 = "u8",
    I32 = "i32",
    U32 = "u32",
    I64 = "i64",
    U64 = "u64",
    F16 = "f16",
    Bf16 = "bf16",
    F32 = "f32",
    F64 = "f64",
    I16 = "i16",
});

named!(Reduction, "operation", |known, text| known.name().eq_ignore_ascii_case(text), {
    Sum = "sum",
    Product = "prod",
    Minimum = "min",
    Maximum = "max",
    Average = "avg",
    PreMultipliedSum = "mulsum",
    BitAnd = "band",
    BitOr = "bor",
    BitXor = "bxor",
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_nccl_tests_are_known() {
        assert_eq!("bfloat16".parse(), Ok(ElementType::Bf16));
        assert_eq!("F32".parse(), Ok(ElementType::F32));
        assert_eq!("mulsum".parse(), Ok(Reduction::PreMultipliedSum));
        assert!("float128".parse::<ElementType>().is_err());
    }
}
