//! The memory that NCCL allocated on each GPU, beside what is planned.

use std::collections::{BTreeMap, BTreeSet};

use nccl_compare::{Answer, Field, FieldComparison, Tally};
use plan::{Error, Plan, PlannedMachine};
use planner::Settings;
use planner::memory::{MemorySettings, MemoryUse, Stage, of_node};

/// Compares the bytes on each GPU once there is a communicator, of which all algorithms are
/// connected, what transfers between all ranks add, and multicast objects.
///
/// # Errors
/// The plan contradicts itself.
pub(super) fn compare(
    answer: &Answer,
    plan: &Plan,
    settings: &Settings,
    peers: bool,
) -> Result<FieldComparison, Error> {
    let expansion = plan.expansion()?;
    let memory = MemorySettings {
        connects_late: false,
        ..MemorySettings::of(settings)
    };
    let usage = MemoryUse {
        peers,
        ..MemoryUse::default()
    };
    let mut tally = Tally::new(Field::Memory);
    let layout = expansion.layout();
    if layout.nodes() > 1 && plan.machines.iter().any(lacks_gpus) {
        tally.absent("the file lacks GPUs, so the stand-in's NVML numbers the others anew");
        return Ok(tally.finish());
    }
    let mut objects = 0;
    for node in (0..layout.nodes()).filter_map(|node| layout.node(node)) {
        let planned = of_node(expansion, node, &usage, &memory, settings.rules)?;
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
            if peers {
                let what = format!("rank {rank}, bytes of transfers");
                tally.compare(what, &said[1], &planned[1], u64::to_string);
            }
        }
    }
    let said = answer.multicast_objects;
    tally.compare("multicast objects", &said, &objects, u32::to_string);
    Ok(tally.finish())
}

/// Whether devices of a host are not numbered from 0 on. Ranks drive ports for peers by the numbers
/// of their devices.
fn lacks_gpus(machine: &PlannedMachine) -> bool {
    let mut numbers: BTreeMap<u32, BTreeSet<i32>> = BTreeMap::new();
    for gpu in &machine.gpus {
        numbers.entry(gpu.host).or_default().insert(gpu.dev);
    }
    let mut hosts = numbers.into_values();
    hosts.any(|numbers| !(0..).zip(numbers).all(|(place, number)| place == number))
}
