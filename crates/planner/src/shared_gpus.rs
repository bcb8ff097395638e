//! Ranks that share a GPU: they run on parts of it (MLOPart), which NVML does not tell apart.

use plan::RankOrder;
use topology::System;

use crate::error::Error;
use crate::rules::SharedGpus;
use crate::settings::Settings;

/// A GPU of the job: the copy of a machine, its host, and NVML's number.
type Place = (u64, u32, i32);

/// Whether ranks share GPUs, so that NVLink SHARP is off. `systems` are the distinct machines,
/// `runs` machines in a row (which of them, and how many), `order` the order of ranks.
///
/// # Errors
/// NCCL refuses such ranks.
pub(crate) fn forbid_nvls(
    systems: &[&System],
    runs: &[(usize, u32)],
    order: Option<&RankOrder>,
    settings: &Settings,
) -> Result<bool, Error> {
    // Files of containers, which see one GPU each, have the same number for all; these are whole.
    let has_parts = |it: &&System| it.gpus().any(|(_, gpu)| gpu.mlopart.is_some());
    if !systems.iter().any(has_parts) {
        return Ok(false);
    }
    let gpus: Vec<Vec<(u32, i32)>> = systems.iter().map(|it| gpus(it)).collect();
    let repeats =
        |gpus: &Vec<(u32, i32)>| gpus.windows(2).find(|it| it[0] == it[1]).map(|it| it[0].1);
    let Some(gpu) = gpus.iter().find_map(repeats) else {
        return Ok(false);
    };
    let refusal = |why| Err(Error::SharedGpu { gpu, why });
    let shared = match settings.rules.shared_gpus {
        SharedGpus::Refused => {
            return refusal("NCCL knows no parts of GPUs before 2.30; use one rank for each GPU");
        }
        SharedGpus::LastPair => {
            let ranks: u64 = runs
                .iter()
                .map(|run| gpus[run.0].len() as u64 * u64::from(run.1))
                .sum();
            let slots = order.map(|it| it.slots(ranks as u32)).transpose()?;
            let place = |rank: u64| {
                let slot = slots
                    .as_ref()
                    .map_or(rank, |it| u64::from(it[rank as usize]));
                place(&gpus, runs, slot)
            };
            place(ranks - 1) == place(ranks - 2)
        }
        SharedGpus::AnyPair => true,
    };
    if shared && settings.nvls_enable == 1 {
        return refusal(
            "NCCL refuses NCCL_NVLS_ENABLE=1 then; leave it out, for NVLink SHARP is off",
        );
    }
    Ok(shared)
}

/// Host and NVML's number of the GPU of each rank of a machine.
fn gpus(system: &System) -> Vec<(u32, i32)> {
    let gpus = system.gpus();
    let mut gpus: Vec<_> = gpus
        .map(|(node, gpu)| (system.node(node).id.system(), gpu.dev))
        .collect();
    gpus.sort_unstable();
    gpus
}

/// Where the GPU with a number in the job is.
fn place(gpus: &[Vec<(u32, i32)>], runs: &[(usize, u32)], mut slot: u64) -> Option<Place> {
    let mut copies = 0;
    for (machine, count) in runs {
        let own = gpus[*machine].len() as u64;
        let all = own * u64::from(*count);
        if slot < all {
            let (host, number) = gpus[*machine][(slot % own) as usize];
            return Some((copies + slot / own, host, number));
        }
        slot -= all;
        copies += u64::from(*count);
    }
    None
}
