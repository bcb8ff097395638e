//! Ranks of several processes and hosts, each with its own emulator: P2P with exported memory, SHM,
//! NET over the loopback interface and with a net plug-in, and mixtures of them.

mod hosts;
mod multicast;
mod nics;
mod processes;
#[path = "../support/mod.rs"]
mod support;

use std::sync::Arc;
use std::time::Duration;

use device_runtime::{Kernels, LaunchOptions, ProcessRanks};
use executor::bootstrap::Bootstrap;
use executor::connections::SlotBytes;
use executor::suite::{self, Case};
use executor::{Communicator, Error, Settings, Transport};
use kernel_emulator::{Bug, Emulator};

/// The communicator of a rank.
type Rank = Communicator<Kernels<Emulator>>;

/// Blocks with one warp that moves data, and slots so small that short messages fill all eight
/// repeatedly.
fn small() -> LaunchOptions {
    LaunchOptions {
        threads: 96,
        slot_bytes: SlotBytes {
            ll: 512,
            ll128: 960,
            simple: 1024,
        },
        most_blocks: 0,
        ..LaunchOptions::nccl()
    }
}

/// Joins the other ranks with an emulator of its own.
fn join(
    bootstrap: Box<dyn Bootstrap>,
    options: LaunchOptions,
    seed: u64,
) -> Result<(Arc<ProcessRanks<Emulator>>, Rank), Error> {
    let seed = match seed {
        0 => 0,
        _ => seed + u64::from(bootstrap.rank()) * 1000,
    };
    join_on(Emulator::new(seed, Bug::None), bootstrap, options)
}

fn join_on(
    emulator: Emulator,
    bootstrap: Box<dyn Bootstrap>,
    options: LaunchOptions,
) -> Result<(Arc<ProcessRanks<Emulator>>, Rank), Error> {
    let (rank, ranks) = (bootstrap.rank(), bootstrap.ranks());
    let settings = Settings {
        longest_wait: Duration::from_secs(120),
        buffer_bytes: Some(1 << 20),
        ..Settings::default()
    };
    let process_ranks = ProcessRanks::new(emulator, options, vec![0; ranks as usize]);
    let backend = Kernels::new(Arc::clone(&process_ranks), rank);
    Ok((
        process_ranks,
        Communicator::join(backend, bootstrap, &settings)?,
    ))
}

/// Every choice on this number of ranks.
fn every_choice(ranks: u32, direct: bool) -> Vec<Case> {
    support::every_choice(ranks as usize, |_| ranks, direct)
}

/// Runs cases on one rank. An error names the case.
fn run(communicator: &mut Rank, cases: &[Case]) -> Result<(), String> {
    for case in cases {
        suite::run_rank(communicator, case)
            .map_err(|problem| format!("rank {}: {case:?}: {problem}", communicator.rank()))?;
    }
    Ok(())
}

/// A rank's transports to the others, in the order of ranks, and why they do not use P2P.
fn transports(process_ranks: &ProcessRanks<Emulator>) -> (Vec<Transport>, Vec<String>) {
    let reached = process_ranks.reached();
    (
        reached.iter().map(|it| it.transport).collect(),
        reached
            .into_iter()
            .filter_map(|it| it.fallen_back)
            .collect(),
    )
}
