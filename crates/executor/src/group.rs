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
/// Sends and receives between the same two ranks with the same tag match in the order in which they
/// were added.
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
    fn request<T: Element>(&self, count: usize, from: u32, to: u32, tag: u32) -> Request {
        Request {
            collective: Collective::SendRecv,
            element: T::TYPE,
            reduction: Reduction::Sum,
            root: from,
            to,
            tag,
            in_place: false,
            count: count as u64,
            choice: self.communicator.choice,
        }
    }

    /// Adds a send with tag 0. A send to the own rank needs a receive in the same group.
    ///
    /// # Errors
    /// There is no such rank.
    pub fn send<T: Element>(&mut self, input: &'a [T], to: u32) -> Result<(), Error> {
        self.send_tagged(input, to, 0)
    }

    /// Adds a send with a tag. Only a receive with the same tag gets it.
    ///
    /// # Errors
    /// There is no such rank or tag.
    pub fn send_tagged<T: Element>(
        &mut self,
        input: &'a [T],
        to: u32,
        tag: u32,
    ) -> Result<(), Error> {
        self.communicator.expect_rank(to)?;
        self.communicator.expect_tag(tag)?;
        let from = self.communicator.rank;
        let request = self.request::<T>(input.len(), from, to, tag);
        if to == from {
            self.own_sends.push((request, bytemuck::cast_slice(input)));
        } else {
            let memory = Memory::separate::<T>(input, &mut []);
            self.transfers.push((request, memory));
        }
        Ok(())
    }

    /// Adds a receive with tag 0.
    ///
    /// # Errors
    /// There is no such rank.
    pub fn receive<T: Element>(&mut self, output: &'a mut [T], from: u32) -> Result<(), Error> {
        self.receive_tagged(output, from, 0)
    }

    /// Adds a receive with a tag. It gets the next message of the rank with the same tag.
    ///
    /// # Errors
    /// There is no such rank or tag.
    pub fn receive_tagged<T: Element>(
        &mut self,
        output: &'a mut [T],
        from: u32,
        tag: u32,
    ) -> Result<(), Error> {
        self.communicator.expect_rank(from)?;
        self.communicator.expect_tag(tag)?;
        let to = self.communicator.rank;
        let request = self.request::<T>(output.len(), from, to, tag);
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
    pub fn group_end(mut self) -> Result<(), Error> {
        let (sends, receives) = (self.own_sends.len(), self.own_receives.len());
        Communicator::<B>::expect(
            Collective::SendRecv,
            "the list of receives from the own rank",
            receives,
            sends,
            "each send to the own rank needs a receive in the same group",
        )?;
        // Those of one tag keep their order.
        self.own_sends.sort_by_key(|(request, _)| request.tag);
        self.own_receives.sort_by_key(|(request, _)| request.tag);
        for ((send, input), (receive, output)) in self.own_sends.into_iter().zip(self.own_receives)
        {
            if send.tag != receive.tag {
                return Err(Error::Unsupported {
                    collective: Collective::SendRecv,
                    ranks: self.communicator.ranks,
                    why: format!(
                        "a send to the own rank has tag {} and its receive tag {}; each needs the other in \
                         the same group",
                        send.tag, receive.tag
                    ),
                });
            }
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
