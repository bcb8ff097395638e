//! A process with several of the ranks that a launcher started: each is a thread.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use backend_cpu::{Cpu, Profile};
use executor::bootstrap::Bootstrap;
use executor::{Communicator, Settings};
use net::Hosts;

use crate::event::Observer;
use crate::load::Watch;
use crate::row::RunRow;
use crate::spec::Spec;
use crate::{bind, measure, ranks};

/// Runs all ranks of this process; the observer learns of rank 0's events.
///
/// # Errors
/// A rank failed, or there is not enough memory.
pub fn run(
    hosts: Vec<Hosts>,
    spec: &Spec,
    profile: &Arc<Profile>,
    observer: &mut Observer<'_>,
) -> Result<Vec<RunRow>> {
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
    let observer = Mutex::new(observer);
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
        let rows = measure::sweep(communicator, spec, &mut watch, &mut |event| {
            if rank == 0 {
                let mut observer = observer.lock().unwrap_or_else(PoisonError::into_inner);
                observer(event);
            }
        });
        rows.with_context(|| format!("rank {rank} of {}", spec.ranks))
    })?;
    rows.into_iter().next().context("this process has no rank")
}
