//! Groups: transfers between pairs of ranks that run together.

use program::{Collective, Reduction};

use crate::backend::Backend;
use crate::communicator::Communicator;
use crate::element::Element;
use crate::error::Error;
use crate::memory::Memory;
use crate::request::Request;

/// Transfers since [`Communicator::group_start`], which [`Group::group_end`] runs together.
///
/// Sends and receives between the same two ranks match in the order in which they were added.
#[must_use = "nothing is sent before `group_end`"]
pub struct Group<'a, B: Backend> {
    communicator: &'a mut Communicator<B>,
    transfers: Vec<(Request, Memory<'a>)>,
    /// Sends to the own rank, and receives from it.
    own_sends: Vec<(Request, &'a [u8])>,
    own_receives: Vec<(Request, &'a mut [u8])>,
}

impl<B: Backend> Communicator<B> {
    /// Begins a group of transfers, which run at the same time. One by one, two ranks that both
    /// send a long message first would wait for each other.
    pub const fn group_start(&mut self) -> Group<'_, B> {
        Group {
            communicator: self,
            transfers: Vec::new(),
            own_sends: Vec::new(),
            own_receives: Vec::new(),
        }
    }

    /// Sends to another rank. Returns when the buffer may be used again; for long messages that is
    /// after the receive.
    ///
    /// # Errors
    /// There is no such rank, or the transfer failed.
    pub fn send<T: Element>(&mut self, input: &[T], to: u32) -> Result<(), Error> {
        let mut group = self.group_start();
        group.send(input, to)?;
        group.group_end()
    }

    /// Receives from another rank, which must send as many elements.
    ///
    /// # Errors
    /// There is no such rank, or the transfer failed.
    pub fn receive<T: Element>(&mut self, output: &mut [T], from: u32) -> Result<(), Error> {
        let mut group = self.group_start();
        group.receive(output, from)?;
        group.group_end()
    }
}

impl<'a, B: Backend> Group<'a, B> {
    fn request<T: Element>(&self, count: usize, from: u32, to: u32) -> Request {
        Request {
            collective: Collective::SendRecv,
            element: T::TYPE,
            reduction: Reduction::Sum,
            root: from,
            to,
            in_place: false,
            count: count as u64,
            choice: self.communicator.choice,
        }
    }

    /// Adds a send. A send to the own rank needs a receive in the same group.
    ///
    /// # Errors
    /// There is no such rank.
    pub fn send<T: Element>(&mut self, input: &'a [T], to: u32) -> Result<(), Error> {
        self.communicator.expect_rank(to)?;
        let from = self.communicator.rank;
        let request = self.request::<T>(input.len(), from, to);
        if to == from {
            self.own_sends.push((request, bytemuck::cast_slice(input)));
        } else {
            let memory = Memory::separate::<T>(input, &mut []);
            self.transfers.push((request, memory));
        }
        Ok(())
    }

    /// Adds a receive.
    ///
    /// # Errors
    /// There is no such rank.
    pub fn receive<T: Element>(&mut self, output: &'a mut [T], from: u32) -> Result<(), Error> {
        self.communicator.expect_rank(from)?;
        let to = self.communicator.rank;
        let request = self.request::<T>(output.len(), from, to);
        if to == from {
            self.own_receives
                .push((request, bytemuck::cast_slice_mut(output)));
        } else {
            let memory = Memory::separate::<T>(&[], output);
            self.transfers.push((request, memory));
        }
        Ok(())
    }

    /// Runs all transfers together and returns when they are done.
    ///
    /// # Errors
    /// A send to the own rank has no receive of the same length, or a transfer failed.
    pub fn group_end(self) -> Result<(), Error> {
        let (sends, receives) = (self.own_sends.len(), self.own_receives.len());
        Communicator::<B>::expect(
            Collective::SendRecv,
            "the list of receives from the own rank",
            receives,
            sends,
            "each send to the own rank needs a receive in the same group",
        )?;
        for ((_, input), (_, output)) in self.own_sends.into_iter().zip(self.own_receives) {
            Communicator::<B>::expect(
                Collective::SendRecv,
                "the receive from the own rank, in bytes,",
                output.len(),
                input.len(),
                "a receive is as long as its send",
            )?;
            output.copy_from_slice(input);
        }
        self.communicator
            .home
            .engine()?
            .launch_group(self.transfers)
    }
}
