//! All ranks as threads of this process, on processors.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use backend_cpu::{Cpu, Profile};
use executor::Communicator;

use crate::event::Observer;
use crate::load::Watch;
use crate::row::RunRow;
use crate::spec::Spec;
use crate::{bind, measure, ranks};

/// Runs all ranks; the observer learns of rank 0's events.
///
/// # Errors
/// A rank failed, or there is not enough memory.
pub fn run(
    spec: &Spec,
    profile: &Arc<Profile>,
    observer: &mut Observer<'_>,
) -> Result<Vec<RunRow>> {
    let settings = spec.settings()?;
    let backend = |_| Cpu::new(Arc::clone(profile));
    let communicators = Communicator::local(spec.ranks, &settings, backend)?;
    let cores = bind::cores();
    let observer = Mutex::new(observer);
    let rows = ranks::run(communicators, |communicator| {
        if spec.bind {
            bind::to_own_core(&cores, communicator.rank(), spec.ranks);
        }
        let mut watch = match communicator.rank() {
            0 => Watch::cores(&cores, spec.ranks, spec.bind),
            _ => Watch::nothing(),
        };
        let rank = communicator.rank();
        measure::sweep(communicator, spec, &mut watch, &mut |event| {
            if rank == 0 {
                let mut observer = observer.lock().unwrap_or_else(PoisonError::into_inner);
                observer(event);
            }
        })
    })?;
    rows.into_iter().next().context("there is no rank 0")
}
