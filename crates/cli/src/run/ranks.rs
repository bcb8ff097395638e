//! Ranks that are threads of this process.

use anyhow::{Result, anyhow};
use executor::backend::Backend;
use executor::{Communicator, Error};

/// Runs each rank on its own thread and returns their rows; rank 0 reports progress.
///
/// # Errors
/// The first failure of a rank, rather than one of a rank that only learned of it.
pub fn run<B: Backend, T: Send>(
    communicators: Vec<Communicator<B>>,
    progress: &mut (dyn FnMut(u64) + Send),
    each: impl Fn(&mut Communicator<B>, &mut dyn FnMut(u64)) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let each = &each;
    let mut progress = Some(progress);
    let results: Vec<Result<T>> = std::thread::scope(|scope| {
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
            let panicked = || anyhow!("a rank's thread panicked, which is a bug in topo");
            thread.join().map_err(|_| panicked())?
        });
        joined.collect()
    });
    let (done, failed): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
    let errors = failed.into_iter().filter_map(Result::err);
    let first = errors.min_by_key(|error| {
        matches!(
            error.downcast_ref::<Error>(),
            Some(Error::Aborted { .. } | Error::Broken { .. })
        )
    });
    match first {
        Some(error) => Err(error),
        None => Ok(done.into_iter().flatten().collect()),
    }
}
