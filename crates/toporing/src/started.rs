//! Calls on memory of their own, which run while the rank does something else.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::communicator::{Code, Collective, Fault};
use executor::{Element, End, Reduction};

use crate::calls::Call;
use crate::comm::Comm;

/// A started call with its memory `M`: wait for it, ask it, or await it as a future. Dropped, it
/// waits for the end of the call.
#[must_use = "a call that is dropped at once is waited for at once"]
pub struct StartedCall<M> {
    comm: Comm,
    /// Its number, until its end is known.
    number: Option<u64>,
    /// The memory, or why there is none.
    memory: Result<M, Fault>,
}

impl<M> StartedCall<M> {
    /// Waits for the end, and gives the memory back.
    ///
    /// # Errors
    /// A rank failed, left, waited too long, or called something else.
    pub fn wait(mut self) -> Result<M, Fault> {
        if let Some(number) = self.number {
            let ended = self.comm.await_call(number);
            self.end(ended);
        }
        self.take()
    }

    /// Whether the call has ended, also by an error, which [`Self::wait`] returns.
    ///
    /// # Errors
    /// This process is a fork of the one that joined.
    pub fn is_done(&mut self) -> Result<bool, Fault> {
        let comm = &self.comm.0.0;
        comm.check_process()?;
        if let Some(number) = self.number {
            match comm.shared.await_job(number, Some(Duration::ZERO)) {
                Ok(Code::Pending) => return Ok(false),
                ended => self.end(ended.map(drop)),
            }
        }
        Ok(true)
    }

    /// Takes the end of the call. After an error the memory has undefined contents, and is freed.
    fn end(&mut self, ended: Result<(), Fault>) {
        self.number = None;
        if let Err(fault) = ended {
            self.memory = Err(fault);
        }
    }

    fn take(&mut self) -> Result<M, Fault> {
        let taken = Fault::invalid("the call gave its memory back before");
        match std::mem::replace(&mut self.memory, Err(taken)) {
            Ok(memory) => Ok(memory),
            Err(fault) => {
                self.memory = Err(fault.clone());
                Err(fault)
            }
        }
    }
}

impl<M: Unpin> Future for StartedCall<M> {
    type Output = Result<M, Fault>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(number) = self.number {
            let comm = &self.comm.0.0;
            let ended = match comm.check_process() {
                Ok(()) => comm.shared.poll_job(number, context.waker()),
                Err(fault) => Poll::Ready(Err(fault)),
            };
            match ended {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(ended) => self.end(ended),
            }
        }
        Poll::Ready(self.take())
    }
}

impl<M> Drop for StartedCall<M> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            // Its memory is used until then. Nobody asks how it ended.
            let _ = self.comm.await_call(number);
        }
    }
}

/// An input and an output.
pub type Pair<T> = (Vec<T>, Vec<T>);

/// Calls that take their memory and give it back.
impl Comm {
    /// Starts [`Self::all_reduce`].
    ///
    /// # Errors
    /// The call cannot be started.
    pub fn start_all_reduce<T: Element>(
        &self,
        mut buffer: Vec<T>,
        op: Reduction,
    ) -> Result<StartedCall<Vec<T>>, Fault> {
        let call = Call::in_place(Collective::AllReduce, &mut buffer, (op, 0));
        self.keep(self.start(call), buffer)
    }

    /// Starts [`Self::broadcast`].
    ///
    /// # Errors
    /// As [`Self::start_all_reduce`]; or there is no such root.
    pub fn start_broadcast<T: Element>(
        &self,
        mut buffer: Vec<T>,
        root: u32,
    ) -> Result<StartedCall<Vec<T>>, Fault> {
        let call = Call::in_place(Collective::Broadcast, &mut buffer, (Reduction::Sum, root));
        self.keep(self.start(call), buffer)
    }

    /// Starts [`Self::all_gather`]; gives input and output back.
    ///
    /// # Errors
    /// As [`Self::start_all_reduce`].
    pub fn start_all_gather<T: Element>(
        &self,
        input: Vec<T>,
    ) -> Result<StartedCall<Pair<T>>, Fault> {
        let count = input.len();
        let mut output = vec![T::default(); count * self.ranks() as usize];
        let with = (Reduction::Sum, 0);
        let call = Call::collective(
            Collective::AllGather,
            Some(&input),
            Some(&mut output),
            count,
            with,
        );
        self.keep(self.start(call), (input, output))
    }

    /// Starts [`Self::reduce_scatter`]; gives input and output back.
    ///
    /// # Errors
    /// As [`Self::start_all_reduce`]; or the input is not a block for each rank.
    pub fn start_reduce_scatter<T: Element>(
        &self,
        input: Vec<T>,
        op: Reduction,
    ) -> Result<StartedCall<Pair<T>>, Fault> {
        let count = input.len() / self.ranks() as usize;
        let mut output = vec![T::default(); count];
        let call = Call::collective(
            Collective::ReduceScatter,
            Some(&input),
            Some(&mut output),
            count,
            (op, 0),
        );
        self.keep(self.start(call), (input, output))
    }

    /// Starts [`Self::all_to_all`]; gives input and output back.
    ///
    /// # Errors
    /// As [`Self::start_all_reduce`]; or the input is not a block for each rank.
    pub fn start_all_to_all<T: Element>(
        &self,
        input: Vec<T>,
    ) -> Result<StartedCall<Pair<T>>, Fault> {
        let count = input.len() / self.ranks() as usize;
        let mut output = vec![T::default(); input.len()];
        let with = (Reduction::Sum, 0);
        let call = Call::collective(
            Collective::AllToAll,
            Some(&input),
            Some(&mut output),
            count,
            with,
        );
        self.keep(self.start(call), (input, output))
    }

    /// Starts [`Self::send_tagged`].
    ///
    /// # Errors
    /// As [`Self::start_all_reduce`]; or there is no such rank.
    pub fn start_send<T: Element>(
        &self,
        buffer: Vec<T>,
        to: u32,
        tag: u32,
    ) -> Result<StartedCall<Vec<T>>, Fault> {
        let call = Call::send(&buffer, to, tag);
        self.keep(self.start(call), buffer)
    }

    /// Starts [`Self::receive_tagged`].
    ///
    /// # Errors
    /// As [`Self::start_send`].
    pub fn start_receive<T: Element>(
        &self,
        mut buffer: Vec<T>,
        from: u32,
        tag: u32,
    ) -> Result<StartedCall<Vec<T>>, Fault> {
        let call = Call::receive(&mut buffer, End::From(from), tag, None);
        self.keep(self.start(call), buffer)
    }

    /// Keeps the memory of a call, whose address does not change when it moves.
    fn keep<M>(&self, started: Result<u64, Fault>, memory: M) -> Result<StartedCall<M>, Fault> {
        Ok(StartedCall {
            comm: self.clone(),
            number: Some(started?),
            memory: Ok(memory),
        })
    }
}
