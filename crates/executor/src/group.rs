//! Groups: transfers between pairs of ranks that run together.

use program::Collective;

use crate::backend::Backend;
use crate::communicator::Communicator;
use crate::element::Element;
use crate::error::Error;
use crate::memory::Memory;
use crate::open_group::{Call, End, OpenGroup};

/// Transfers since [`Communicator::group_start`], which [`Group::group_end`] runs together.
///
/// Sends and receives between the same two ranks with the same tag match in the order in which they
/// were added.
#[must_use = "nothing is sent before `group_end`"]
pub struct Group<'a, B: Backend> {
    communicator: &'a mut Communicator<B>,
    transfers: OpenGroup<'a>,
    /// Sends to the own rank, and receives from it, with their tags.
    own_sends: Vec<(u32, &'a [u8])>,
    own_receives: Vec<(u32, &'a mut [u8])>,
}

impl<B: Backend> Communicator<B> {
    /// Begins a group of transfers, which run at the same time. One by one, two ranks that both
    /// send a long message first would wait for each other.
    pub fn group_start(&mut self) -> Group<'_, B> {
        Group {
            communicator: self,
            transfers: OpenGroup::default(),
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
    /// Adds a transfer of elements of a type with another rank.
    fn add<T: Element>(&mut self, end: End, tag: u32, memory: Memory<'a>) {
        let at = self.transfers.entries.len();
        let longest = self.communicator.engine.longest_wait();
        let call = Call::Transfer(end, tag);
        self.transfers.insert(at, 0, call, memory, longest);
        self.transfers.entries[at].like = (T::TYPE, self.communicator.choice);
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
        if to == self.communicator.rank {
            self.own_sends.push((tag, bytemuck::cast_slice(input)));
        } else {
            let memory = Memory::separate::<T>(input, &mut []);
            self.add::<T>(End::To(to), tag, memory);
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
        if from == self.communicator.rank {
            self.own_receives
                .push((tag, bytemuck::cast_slice_mut(output)));
        } else {
            let memory = Memory::separate::<T>(&[], output);
            self.add::<T>(End::From(from), tag, memory);
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
        self.own_sends.sort_by_key(|(tag, _)| *tag);
        self.own_receives.sort_by_key(|(tag, _)| *tag);
        let own = self.own_sends.into_iter().zip(self.own_receives);
        let mut own: Vec<_> = own.collect();
        for ((send, input), (receive, output)) in &own {
            if send != receive {
                return Err(Error::Unsupported {
                    collective: Collective::SendRecv,
                    ranks: self.communicator.ranks,
                    why: format!(
                        "a send to the own rank has tag {send} and its receive tag {receive}; each needs the \
                         other in the same group"
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
        }
        self.communicator.engine.run_all(&mut self.transfers)?;
        for ((_, input), (_, output)) in &mut own {
            output.copy_from_slice(input);
        }
        Ok(())
    }
}
