//! A process with several of the ranks that a launcher started: each is a thread.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use backend_cpu::{Cpu, Profile};
use executor::bootstrap::Bootstrap;
use executor::{Communicator, Settings};
use net::Hosts;

use super::live::Live;
use super::load::Watch;
use super::{Spec, bind, measure, ranks};

/// Runs all ranks of this process; `live` prints what rank 0 measures. Returns whether elements
/// were wrong.
pub fn run(
    hosts: Vec<Hosts>,
    spec: &Spec,
    profile: &Arc<Profile>,
    live: Option<Live<'_>>,
) -> Result<bool> {
    // Counted before binding, because all ranks of this machine share these cores.
    let cores = bind::cores();
    let first = hosts.first().context("this process has no rank")?;
    // The ranks of a process are neighbors among those that share cores.
    let (place, sharing) = first.place_among_sharing();
    let first = first.rank();
    let settings = Settings {
        cores: Some(cores.len().max(1)),
        ..spec.settings()?
    };
    let backends = hosts.into_iter().map(|it| {
        let bootstrap: Box<dyn Bootstrap> = Box::new(it);
        (Cpu::new(Arc::clone(profile)), bootstrap)
    });
    let communicators = Communicator::join_all(backends.collect(), &settings)?;
    let live = Mutex::new(live);
    let rows = ranks::run(communicators, |communicator| {
        let rank = communicator.rank();
        let place = place + (rank - first);
        if spec.bind {
            bind::to_share(&cores, place, sharing);
        }
        let mut watch = match rank == first {
            true if place == 0 => Watch::cores(&cores, sharing, false),
            true => Watch::process(),
            false => Watch::nothing(),
        };
        let rows = measure::sweep(communicator, spec, profile, &mut watch, &mut |event| {
            let mut live = live.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(live) = live.as_mut().filter(|_| rank == 0) {
                live.observe(event);
            }
        });
        rows.with_context(|| format!("rank {rank} of {}", spec.ranks))
    })?;
    let live = live.into_inner().unwrap_or_else(PoisonError::into_inner);
    live.map_or(Ok(()), |live| live.finish(""))?;
    let first = rows.into_iter().next().unwrap_or_default();
    Ok(first.iter().any(|row| row.wrong() > 0))
}
