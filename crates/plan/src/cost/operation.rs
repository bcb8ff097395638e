//! The subject of a choice: a collective with a size, a type and an operation, alone or in
//! a group of equal ones.

use crate::JsonSchema;
use program::{Collective, Reduction, named};
use serde::{Deserialize, Serialize};

/// The type of a message's elements, as NCCL knows it (`ncclDataType_t`, with its numbers).
/// [`program::ElementType`] holds those that the runtime can reduce: it has no 8-bit floating-point
/// numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum DataType {
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
    /// 32-bit floating-point number.
    #[default]
    F32 = 7,
    /// 64-bit floating-point number.
    F64 = 8,
    /// 16-bit floating-point number with an 8-bit exponent (bfloat16).
    Bf16 = 9,
    /// 8-bit floating-point number with a 4-bit exponent.
    F8E4M3 = 10,
    /// 8-bit floating-point number with a 5-bit exponent.
    F8E5M2 = 11,
}

impl DataType {
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
            Self::F32 => "float",
            Self::F64 => "double",
            Self::Bf16 => "bfloat16",
            Self::F8E4M3 => "f8e4m3",
            Self::F8E5M2 => "f8e5m2",
        }
    }

    /// Bytes of one element.
    pub const fn bytes(self) -> u32 {
        match self {
            Self::I8 | Self::U8 | Self::F8E4M3 | Self::F8E5M2 => 1,
            Self::F16 | Self::Bf16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }

    /// Whether it is an 8-bit floating-point number.
    pub const fn is_fp8(self) -> bool {
        matches!(self, Self::F8E4M3 | Self::F8E5M2)
    }

    /// Whether its elements are integers.
    pub const fn is_integer(self) -> bool {
        matches!(
            self,
            Self::I8 | Self::U8 | Self::I32 | Self::U32 | Self::I64 | Self::U64
        )
    }
}

named!(DataType, "type", |known, text| known.name().eq_ignore_ascii_case(text) || known.nccl_name().eq_ignore_ascii_case(text), {
    I8 = "i8",
    U8 = "u8",
    I32 = "i32",
    U32 = "u32",
    I64 = "i64",
    U64 = "u64",
    F16 = "f16",
    F32 = "f32",
    F64 = "f64",
    Bf16 = "bf16",
    F8E4M3 = "fp8_e4m3",
    F8E5M2 = "fp8_e5m2",
});

/// How a program registers the buffers of its calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Registration {
    /// Not at all.
    #[default]
    None,
    /// Each rank its own (`ncclCommRegister`).
    Local,
    /// As symmetric windows of all ranks (`ncclCommWindowRegister`), which are registered locally,
    /// too.
    Symmetric,
}

named!(Registration, "registration", |known, text| known.name().eq_ignore_ascii_case(text), {
    None = "none",
    Local = "local",
    Symmetric = "symmetric",
});

/// Equal calls of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Calls {
    /// Their number; at least 1.
    pub number: u32,
    /// The type of the elements.
    #[serde(with = "program::by_name")]
    #[schemars(with = "String")]
    pub data_type: DataType,
    /// How they are reduced; one of [`Reduction::OF_NCCL`].
    #[serde(with = "program::by_name")]
    #[schemars(with = "String")]
    pub reduction: Reduction,
    /// How the buffers are registered.
    #[serde(with = "program::by_name")]
    #[schemars(with = "String")]
    pub registration: Registration,
    /// They are in place: the input of a rank is its part of the output, or holds it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_place: bool,
}

impl Default for Calls {
    /// A single sum of 32-bit numbers.
    fn default() -> Self {
        Self::ONE
    }
}

impl Calls {
    /// A single sum of 32-bit numbers.
    pub const ONE: Self = Self {
        number: 1,
        data_type: DataType::F32,
        reduction: Reduction::Sum,
        registration: Registration::None,
        in_place: false,
    };

    /// Whether NVSwitches can reduce the type with the operation (`ncclNvlsSupported`). They
    /// neither multiply nor scale.
    pub const fn switch_reduces(&self) -> bool {
        use DataType::{Bf16, F16, F32, F64, I32, I64, U32, U64};
        use Reduction::{Maximum, Minimum, Sum};
        match self.data_type {
            I32 | U32 | I64 | U64 | F16 | Bf16 => matches!(self.reduction, Sum | Minimum | Maximum),
            F32 | F64 => matches!(self.reduction, Sum),
            _ => false,
        }
    }

    /// Whether the network can reduce the type with the operation, as SHARP's plug-in does. NCCL
    /// scales itself.
    pub(super) const fn network_reduces(&self) -> bool {
        !self.data_type.is_fp8() && !matches!(self.reduction, Reduction::Product)
    }

    /// Whether the operation scales before it sums, or after.
    pub(super) const fn scales(&self) -> bool {
        matches!(
            self.reduction,
            Reduction::Average | Reduction::PreMultipliedSum
        )
    }
}

/// An operation that an algorithm is chosen for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TunedOperation {
    /// The collective.
    pub collective: Collective,
    /// Bytes of the whole message of one call; all ranks' pieces together for collectives that
    /// gather or scatter.
    pub bytes: u64,
    /// The calls. NCCL chooses for their sum.
    pub calls: Calls,
}

impl TunedOperation {
    /// A single sum of 32-bit numbers.
    pub const fn new(collective: Collective, bytes: u64) -> Self {
        Self {
            collective,
            bytes,
            calls: Calls::ONE,
        }
    }

    /// Bytes of all calls together.
    pub fn all_bytes(&self) -> u64 {
        self.bytes.saturating_mul(u64::from(self.calls.number))
    }
}
