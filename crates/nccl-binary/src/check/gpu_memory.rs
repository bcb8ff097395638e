//! The memory that NCCL allocated on each GPU, beside what is planned.

use plan::{Error, Plan, PlannedMachine};
use planner::Settings;
use planner::memory::{MemorySettings, MemoryUse, Stage, of_node};
use records::nccl_log::compare::{Answer, Field, FieldComparison, Tally};

/// Most GPUs that NCCL lets NVML list.
const MOST_NUMBERS: i32 = 32;

/// Compares the bytes on each GPU once there is a communicator, of which all algorithms are
/// connected, what transfers between all ranks add, and multicast objects.
///
/// # Errors
/// The plan contradicts itself.
pub(super) fn compare(
    answer: &Answer,
    plan: &Plan,
    settings: &Settings,
    memory: &MemorySettings,
    peers: bool,
) -> Result<FieldComparison, Error> {
    let expansion = plan.expansion()?;
    let usage = MemoryUse {
        peers,
        ..MemoryUse::default()
    };
    let mut tally = Tally::new(Field::Memory);
    let layout = expansion.layout();
    if layout.nodes() > 1 && plan.machines.iter().any(has_odd_numbers) {
        tally.absent("NVML cannot have numbers of the file, so the stand-in numbers its GPUs anew");
        return Ok(tally.finish());
    }
    let mut objects = 0;
    for node in (0..layout.nodes()).filter_map(|node| layout.node(node)) {
        let planned = match of_node(expansion, node, &usage, memory, settings.rules) {
            Err(Error::NoPort { .. }) => {
                tally.absent(
                    "a graph leaves through a port that was merged, which a thread may see",
                );
                return Ok(tally.finish());
            }
            planned => planned?,
        };
        let begins = layout.ranks_of(node).first().copied();
        if begins.and_then(|rank| layout.rank(rank)).map(|it| it.host) == Some(0) {
            objects += planned.multicast_objects.values().sum::<u32>();
        }
        for (rank, ledger) in planned.ranks {
            let said = answer.gpu_memory.get(&rank).copied().unwrap_or_default();
            let planned = [false, true].map(|late| {
                let total = ledger.total(|stage| (stage == Stage::Peers) == late);
                total.device
            });
            tally.compare(
                format!("rank {rank}, bytes at the start"),
                &said[0],
                &planned[0],
                u64::to_string,
            );
            if peers && answer.peers_failure.is_none() {
                let what = format!("rank {rank}, bytes of transfers");
                tally.compare(what, &said[1], &planned[1], u64::to_string);
            }
        }
    }
    let said = answer.multicast_objects;
    tally.compare("multicast objects", &said, &objects, u32::to_string);
    Ok(tally.finish())
}

/// Whether devices of a host have numbers that NCCL does not take from NVML, so that the stand-in
/// numbers them from 0 on. Ranks drive ports for peers by the numbers of their devices.
fn has_odd_numbers(machine: &PlannedMachine) -> bool {
    let mut numbers = machine.gpus.iter().map(|gpu| gpu.dev);
    numbers.any(|number| !(0..MOST_NUMBERS).contains(&number))
}
