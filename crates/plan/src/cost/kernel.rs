//! The kernels for symmetric windows.

use crate::JsonSchema;
use program::{Collective, named};
use serde::{Deserialize, Serialize};

/// A kernel, under NCCL's name.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[expect(missing_docs, reason = "the names are NCCL's")]
pub enum WindowKernel {
    #[serde(rename = "AllReduce_AGxLL_R")]
    AllReduceLl = 0,
    #[serde(rename = "AllReduce_AGxLLMC_R")]
    AllReduceLlMulticast = 1,
    #[serde(rename = "AllReduce_RSxTmaLD_AGxTmaST")]
    AllReduceTma = 2,
    #[serde(rename = "AllReduce_RSxLD_AGxST")]
    AllReduceDirect = 3,
    #[serde(rename = "AllReduce_RSxLDMC_AGxSTMC")]
    AllReduceMulticast = 4,
    #[serde(rename = "AllGather_LL")]
    AllGatherLl = 5,
    #[serde(rename = "AllGather_LLMC")]
    AllGatherLlMulticast = 6,
    #[serde(rename = "AllGather_TmaST")]
    AllGatherTma = 7,
    #[serde(rename = "AllGather_ST")]
    AllGatherDirect = 8,
    #[serde(rename = "AllGather_TmaSTMC")]
    AllGatherTmaMulticast = 9,
    #[serde(rename = "AllGather_STMC")]
    AllGatherMulticast = 10,
    #[serde(rename = "ReduceScatter_LL")]
    ReduceScatterLl = 11,
    #[serde(rename = "ReduceScatter_TmaLD")]
    ReduceScatterTma = 12,
    #[serde(rename = "ReduceScatter_LD")]
    ReduceScatterDirect = 13,
    #[serde(rename = "ReduceScatter_LDMC")]
    ReduceScatterMulticast = 14,
}

named!(WindowKernel, "kernel", |known, text| known.name().eq_ignore_ascii_case(text), {
    AllReduceLl = "AllReduce_AGxLL_R",
    AllReduceLlMulticast = "AllReduce_AGxLLMC_R",
    AllReduceTma = "AllReduce_RSxTmaLD_AGxTmaST",
    AllReduceDirect = "AllReduce_RSxLD_AGxST",
    AllReduceMulticast = "AllReduce_RSxLDMC_AGxSTMC",
    AllGatherLl = "AllGather_LL",
    AllGatherLlMulticast = "AllGather_LLMC",
    AllGatherTma = "AllGather_TmaST",
    AllGatherDirect = "AllGather_ST",
    AllGatherTmaMulticast = "AllGather_TmaSTMC",
    AllGatherMulticast = "AllGather_STMC",
    ReduceScatterLl = "ReduceScatter_LL",
    ReduceScatterTma = "ReduceScatter_TmaLD",
    ReduceScatterDirect = "ReduceScatter_LD",
    ReduceScatterMulticast = "ReduceScatter_LDMC",
});

impl WindowKernel {
    /// The collective that it carries out.
    pub const fn collective(self) -> Collective {
        match self as u8 {
            0..=4 => Collective::AllReduce,
            5..=10 => Collective::AllGather,
            _ => Collective::ReduceScatter,
        }
    }

    /// It sends each word with a flag.
    pub const fn is_ll(self) -> bool {
        matches!(
            self,
            Self::AllReduceLl
                | Self::AllReduceLlMulticast
                | Self::AllGatherLl
                | Self::AllGatherLlMulticast
                | Self::ReduceScatterLl
        )
    }

    /// It moves data with the tensor memory accelerator.
    pub const fn is_tma(self) -> bool {
        matches!(
            self,
            Self::AllReduceTma
                | Self::AllGatherTma
                | Self::AllGatherTmaMulticast
                | Self::ReduceScatterTma
        )
    }

    /// NVSwitches copy what it writes.
    pub const fn writes_to_all(self) -> bool {
        matches!(
            self,
            Self::AllReduceLlMulticast
                | Self::AllReduceMulticast
                | Self::AllGatherLlMulticast
                | Self::AllGatherTmaMulticast
                | Self::AllGatherMulticast
        )
    }

    /// NVSwitches reduce what it reads.
    pub const fn reads_reduced(self) -> bool {
        matches!(
            self,
            Self::AllReduceMulticast | Self::ReduceScatterMulticast
        )
    }
}
