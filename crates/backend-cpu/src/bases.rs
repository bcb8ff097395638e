//! The addresses of a program's buffers, in this process and in others.

use executor::backend::LaunchContext;
use executor::registered::{Reach, ReachError, Registered};
use executor::supervisor::Fault;
use shared_memory::{BufferTable, ProcessMemoryError};

use crate::program::{BUFFERS, BufferBase, CpuOperand, CpuStep};
use crate::remote;

/// The fault of a failed access to a peer's memory.
#[cold]
pub fn refused_by(refused: remote::RefusedAccess, peers: &[u32]) -> Box<Fault> {
    let remote::RefusedAccess { base, error } = refused;
    Box::new(Fault {
        peer: peers[base as usize / BUFFERS - 1],
        refused: !matches!(error, ProcessMemoryError::NoMemory { .. }),
        why: error.to_string(),
    })
}

/// How a launch finds the buffers of peers.
#[derive(Debug, Clone, Copy)]
pub struct Launch<'a> {
    registered: &'a Registered,
    number: u64,
    request: u64,
}

impl<'a> Launch<'a> {
    #[inline]
    pub const fn of(context: &LaunchContext<'a>) -> Self {
        Self {
            registered: context.registered,
            number: context.launch,
            request: context.request,
        }
    }
}

/// The peers' buffer addresses, looked up when a launch first needs them.
pub struct PeerBases<'a> {
    pub peers: &'a [u32],
    pub bases: &'a mut [BufferBase],
    pub extents: &'a [u64],
    pub known: &'a mut [u64],
    pub launch: Launch<'a>,
}

impl PeerBases<'_> {
    /// Looks up the peers of a step. Their signals have arrived. Returns `false` if one withdrew
    /// its buffers.
    ///
    /// # Errors
    /// A peer's buffer table is invalid, or it runs another request.
    #[inline]
    pub fn look_up(
        &mut self,
        step: &CpuStep,
        buffer_tables: &[BufferTable],
    ) -> Result<bool, Box<Fault>> {
        for place in step.sources().iter().chain(step.destinations()) {
            if let CpuOperand::Memory { base, .. } = place
                && *base as usize >= BUFFERS
            {
                let peer = *base as usize / BUFFERS - 1;
                if buffer_tables[self.peers[peer] as usize].is_withdrawn() {
                    return Ok(false);
                }
                if self.known[peer] != self.launch.number {
                    self.look_up_peer(peer, buffer_tables)?;
                }
            }
        }
        Ok(true)
    }

    fn look_up_peer(
        &mut self,
        peer: usize,
        buffer_tables: &[BufferTable],
    ) -> Result<(), Box<Fault>> {
        let rank = self.peers[peer];
        let fault = |why| {
            let (refused, why) = match why {
                ReachError::Closed(why) => (true, why),
                ReachError::Invalid(why) => (false, why),
            };
            Box::new(Fault {
                peer: rank,
                refused,
                why,
            })
        };
        let launch = self.launch.number;
        let Some((request, buffers)) = buffer_tables[rank as usize].read(launch) else {
            let why = format!(
                "it signals that it has begun launch {launch}, and shows no buffers of it, or they were overwritten"
            );
            return Err(fault(ReachError::Invalid(why)));
        };
        // Otherwise this rank could write to buffers that the peer does not lend any more.
        if request != self.launch.request {
            let why = format!("it runs another request in launch {launch}");
            return Err(fault(ReachError::Invalid(why)));
        }
        let first = BUFFERS * (1 + peer);
        let bases = self.bases[first..].iter_mut().zip(&self.extents[first..]);
        for ((base, extent), buffer) in bases.zip(&buffers) {
            *base = match self
                .launch
                .registered
                .reach(rank, buffer, *extent)
                .map_err(fault)?
            {
                Reach::Here(pointer) => BufferBase::Local(pointer),
                Reach::Elsewhere { process, address } => BufferBase::Remote { process, address },
            };
        }
        self.known[peer] = launch;
        Ok(())
    }
}

/// The address of a local operand; `None` if it is remote or a slot.
#[inline(always)]
pub fn local(place: CpuOperand, turn: usize, bases: &[BufferBase]) -> Option<*mut u8> {
    match place {
        CpuOperand::Memory {
            base,
            offset,
            stride,
        } => match bases[base as usize] {
            BufferBase::Local(base) => Some(base.wrapping_add(offset + turn * stride)),
            BufferBase::Remote { .. } => None,
        },
        CpuOperand::Fifo(_) => None,
    }
}

/// The address of a remote operand; `None` if it is local or a slot.
pub fn remote(
    place: CpuOperand,
    turn: usize,
    bases: &[BufferBase],
) -> Option<remote::RemoteAddress> {
    match place {
        CpuOperand::Memory {
            base,
            offset,
            stride,
        } => match bases[base as usize] {
            BufferBase::Local(_) => None,
            BufferBase::Remote { process, address } => Some(remote::RemoteAddress {
                base,
                process,
                address: address.wrapping_add((offset + turn * stride) as u64),
            }),
        },
        CpuOperand::Fifo(_) => None,
    }
}
