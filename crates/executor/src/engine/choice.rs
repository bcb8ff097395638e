//! The abilities of a communicator, and its way to run a request.

use program::{Reduction, Transfer};

use super::{Engine, Prepared};
use crate::backend::{Backend, CommunicatorShape};
use crate::callers_memory::BufferAccess;
use crate::error::Error;
use crate::request::{Choice, Request};
use crate::transport::Transport;

impl<B: Backend> Engine<B> {
    /// The backend.
    pub const fn backend(&self) -> &B {
        &self.own.backend
    }

    /// The inputs of a choice.
    pub fn shape(&self) -> CommunicatorShape {
        let ranks = self.own.bootstrap.ranks();
        let (fewest, most) = self.own.channels.ranks_per_host();
        CommunicatorShape {
            ranks,
            one_process: self.own.connections.all_by(Transport::P2p),
            hosts: self.own.channels.host_count(),
            even_hosts: fewest == most,
            channels: self.own.channels.count(),
            crowd: self.own.bootstrap.crowd(),
            buffers: self.own.buffers,
        }
    }

    /// The choice for a request, if this communicator supports it.
    pub fn choice(&self, request: &Request) -> Result<Choice, Error> {
        let ranks = self.own.bootstrap.ranks();
        let (element, reduction) = (request.element, request.reduction);
        if request.collective.reduces() && !self.own.backend.reduces(element, reduction) {
            return Err(Error::NoReduction {
                backend: self.own.backend.name(),
                element,
                reduction,
            });
        }
        let choice = request
            .choice
            .or_else(|| self.own.backend.choose(request, &self.shape()));
        let unsupported = |why: String| Error::Unsupported {
            collective: request.collective,
            ranks,
            why,
        };
        let choice = choice.ok_or_else(|| {
            unsupported(format!(
                "the {} backend has no choice",
                self.own.backend.name()
            ))
        })?;
        if let Some(why) = self.own.backend.refuses(request, &choice) {
            return Err(unsupported(why));
        }
        let reaches = self.shape().hosts == 1 || self.own.backend.accesses_all();
        if choice.transfer.stays_on_host() && !reaches {
            return Err(unsupported(
                "a direct or staged transfer accesses the memory of other ranks, and some are on other hosts; take the \
                 transfer `fifo`"
                    .to_owned(),
            ));
        }
        if choice.transfer.accesses_buffers() && self.own.buffers == BufferAccess::Refused {
            return Err(unsupported(format!(
                "the kernel lets no process access the memory of another one here, which the transfer `{}` needs for \
                 memory of the caller; take `fifo`, or give the container the capability SYS_PTRACE",
                choice.transfer
            )));
        }
        if self.own.backend.multicasts()
            && request.collective.reduces()
            && !choice.schedule.reduces(request.element, request.reduction)
        {
            return Err(unsupported(format!(
                "switches do not reduce {} of {} ({}); take another algorithm",
                request.reduction,
                request.element,
                choice.schedule.name()
            )));
        }
        // Only the peer knows the factor of its input.
        if request.collective.reduces()
            && request.reduction == Reduction::PreMultipliedSum
            && choice.transfer != Transfer::Fifo
        {
            return Err(unsupported(
                "mulsum multiplies inputs before they are sent, so they cannot be read where they are; take the \
                 transfer `fifo`"
                    .to_owned(),
            ));
        }
        Ok(choice)
    }

    /// Prepares the program of a request. If all ranks find that they cannot be connected for the
    /// backend's choice, it chooses once more.
    pub(super) fn prepare(&mut self, request: &Request) -> Result<Prepared<B::Program>, Error> {
        let choice = self.choice(request)?;
        let prepared = self.prepare_choice(request, &choice);
        if let Err(Error::Unsupported { .. }) = prepared
            && let Ok(other) = self.choice(request)
            && other != choice
        {
            return self.prepare_choice(request, &other);
        }
        prepared
    }
}
