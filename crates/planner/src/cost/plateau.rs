//! The latency of rings with Simple on one node as it grows, from NCCL 2.31 on.

use plan::NcclVersion;
use plan::cost::RingGrowth;
use topology::PathType;

use super::inputs::Inputs;
use crate::rules::Rules;

/// First compute capability (× 10) whose rings NCCL models so.
const BLACKWELL: i32 = 100;

/// The growth of a communicator's rings; `None` where they do not grow. Source: NCCL's public
/// source of 2.31.2 and 2.32.3, and the times that their binaries predict.
pub(super) fn of(inputs: &Inputs, rules: Rules) -> Option<RingGrowth> {
    let nvlink = inputs.ring.type_intra == PathType::Nvl;
    if inputs.nodes != 1 || inputs.min_cc < BLACKWELL || !nvlink {
        return None;
    }
    match rules.version() {
        NcclVersion::V2_27 | NcclVersion::V2_28 | NcclVersion::V2_29 | NcclVersion::V2_30 => None,
        NcclVersion::V2_31 => Some(RingGrowth {
            all_reduce: false,
            growth: 0.4,
            long_growth: 0.4,
            long_bytes: 0,
            falls_from: 0,
            step_share: 0.0,
        }),
        _ => Some(RingGrowth {
            all_reduce: true,
            growth: 0.4,
            long_growth: 0.3,
            long_bytes: 512 << 10,
            falls_from: 256 << 10,
            step_share: 0.25,
        }),
    }
}
