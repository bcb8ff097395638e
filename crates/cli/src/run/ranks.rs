//! Ranks that are threads of this process.

use anyhow::{Result, anyhow};
use executor::backend::Backend;
use executor::{Communicator, Error};

use super::Row;

/// Runs all ranks, each on a thread of its own; rank 0 tells how far it is. Answers each rank's rows.
///
/// # Errors
/// A rank failed. Of several errors it is the one that tells most: not that of a rank that only heard of it.
pub fn run<B: Backend>(
    communicators: Vec<Communicator<B>>,
    progress: &mut (dyn FnMut(u64) + Send),
    each: impl Fn(&mut Communicator<B>, &mut dyn FnMut(u64)) -> Result<Vec<Row>> + Sync,
) -> Result<Vec<Vec<Row>>> {
    let each = &each;
    let mut progress = Some(progress);
    let results: Vec<Result<Vec<Row>>> = std::thread::scope(|scope| {
        let threads: Vec<_> = communicators
            .into_iter()
            .map(|mut communicator| {
                let mut progress = progress.take();
                scope.spawn(move || {
                    each(&mut communicator, &mut |size| {
                        if let Some(progress) = &mut progress {
                            progress(size);
                        }
                    })
                })
            })
            .collect();
        let joined = threads.into_iter().map(|thread| {
            let panicked = || anyhow!("a rank's thread panicked, which is a fault of topo");
            thread.join().map_err(|_| panicked())?
        });
        joined.collect()
    });
    let (rows, errors): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
    let mut errors: Vec<anyhow::Error> = errors.into_iter().filter_map(Result::err).collect();
    errors.sort_by_key(|error| {
        matches!(
            error.downcast_ref::<Error>(),
            Some(Error::Aborted { .. } | Error::Broken { .. })
        )
    });
    match errors.into_iter().next() {
        Some(error) => Err(error),
        None => Ok(rows.into_iter().flatten().collect()),
    }
}
