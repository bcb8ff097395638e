//! Ranks that are threads of this process.

use anyhow::{Result, anyhow};
use executor::backend::Backend;
use executor::{Communicator, Error};

/// Runs each rank on its own thread and returns their results.
///
/// # Errors
/// The first failure of a rank, rather than one of a rank that only learned of it.
pub fn run<B: Backend, T: Send>(
    communicators: Vec<Communicator<B>>,
    each: impl Fn(&mut Communicator<B>) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let each = &each;
    let results: Vec<Result<T>> = std::thread::scope(|scope| {
        let threads: Vec<_> = communicators
            .into_iter()
            .map(|mut communicator| scope.spawn(move || each(&mut communicator)))
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
