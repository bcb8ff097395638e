//! Calls that overlap.

use std::marker::PhantomData;
use std::sync::{Mutex, PoisonError};

use crate::communicator::{Collective, Fault};
use executor::{Element, End, Reduction};

use crate::calls::{Call, CheckedCall, calls};
use crate::comm::Comm;

/// A place for calls that overlap, of [`Comm::scope`]. A call returns at once; what it borrows is
/// done when the scope ends.
///
/// Memory of a call lives longer than the scope, and nobody else uses it meanwhile:
///
/// ```compile_fail,E0597
/// # toporing::Comm::on_threads(2, |comm| {
/// comm.scope(|scope| {
///     let mut sum = [1.0_f32];
///     scope.all_reduce(&mut sum, toporing::Reduction::Sum)
/// })
/// # });
/// ```
///
/// ```compile_fail,E0502
/// # toporing::Comm::on_threads(2, |comm| {
/// let mut sum = [1.0_f32];
/// comm.scope(|scope| {
///     scope.all_reduce(&mut sum, toporing::Reduction::Sum)?;
///     println!("{sum:?}");
///     Ok(())
/// })
/// # });
/// ```
pub struct Scope<'scope, 'env: 'scope> {
    comm: &'env Comm,
    /// Numbers of the calls.
    started: Mutex<Vec<u64>>,
    /// Neither lifetime may shrink or grow.
    lifetimes: PhantomData<(&'scope mut &'scope (), &'env mut &'env ())>,
}

impl<'scope, 'env> Scope<'scope, 'env> {
    pub(crate) fn run<R>(
        comm: &'env Comm,
        body: impl for<'any> FnOnce(&'any Scope<'any, 'env>) -> Result<R, Fault>,
    ) -> Result<R, Fault> {
        /// Waits for all calls, whatever happens: they use memory that is borrowed until then.
        struct Wait<'a, 'scope, 'env>(&'a Scope<'scope, 'env>);

        impl Wait<'_, '_, '_> {
            fn wait(&self) -> Result<(), Fault> {
                let scope = self.0;
                let started = &mut *scope.started.lock().unwrap_or_else(PoisonError::into_inner);
                let ended = started
                    .drain(..)
                    .map(|number| scope.comm.await_call(number));
                ended.fold(Ok(()), Result::and)
            }
        }

        impl Drop for Wait<'_, '_, '_> {
            fn drop(&mut self) {
                let _ = self.wait();
            }
        }

        let scope = Scope {
            comm,
            started: Mutex::default(),
            lifetimes: PhantomData,
        };
        let wait = Wait(&scope);
        let result = body(&scope);
        let ended = wait.wait();
        let result = result?;
        ended.map(|()| result)
    }

    fn ranks(&self) -> u32 {
        self.comm.ranks()
    }

    fn call(&'scope self, call: Call<'scope>) -> Result<(), Fault> {
        let number = self.comm.start(call)?;
        let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        started.push(number);
        Ok(())
    }

    calls!(self, [&'scope], [&'scope mut]);

    /// Receives from any rank; which one goes to `source`.
    ///
    /// # Errors
    /// As [`Self::receive`].
    pub fn receive_any<T: Element>(
        &'scope self,
        buffer: &'scope mut [T],
        tag: u32,
        source: &'scope mut u32,
    ) -> Result<(), Fault> {
        self.call(Call::receive(buffer, End::FromAny, tag, Some(source)))
    }
}

impl Comm {
    /// Runs calls that overlap, and waits for all of them.
    ///
    /// # Errors
    /// That of `body`, or the first of a call.
    pub fn scope<'env, R>(
        &'env self,
        body: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> Result<R, Fault>,
    ) -> Result<R, Fault> {
        Scope::run(self, body)
    }

    /// Starts a call; its memory is used until it has ended ([`Self::await_call`]).
    pub(crate) fn start(&self, call: Call<'_>) -> Result<u64, Fault> {
        let comm = &self.0.0;
        match call.check(self.rank(), self.ranks())? {
            CheckedCall::Collective(launch) => comm.start(launch),
            CheckedCall::Transfers(transfers) => comm.start_group(transfers),
        }
    }

    /// Waits for a started call.
    pub(crate) fn await_call(&self, number: u64) -> Result<(), Fault> {
        self.0.0.check_process()?;
        self.0.0.shared.await_job(number, None).map(drop)
    }
}
