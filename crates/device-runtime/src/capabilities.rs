//! Capabilities of the transports between the ranks of a communicator, and the choices they refuse.
//! Equal on all ranks.

use executor::backend::Backend;
use executor::{Choice, Request};
use program::{Protocol, Schedule, Transfer};

use crate::backend::Kernels;
use crate::default_choice::Capabilities;
use crate::driver::DeviceDriver;
use crate::entry::Kernel;

/// Bytes from which a communicator with registered memory takes NVLS, if no plan says it: longer
/// than what LL128 moves.
const REGISTERED_NVLS: u64 = (1 << 20) + 1;

/// Most channels to choose, NCCL's limit.
const MOST_CHANNELS: u16 = 64;

impl<M: DeviceDriver> Kernels<M> {
    /// The capabilities of the transports between the ranks, for a request.
    pub fn capabilities(&self, request: &Request) -> Capabilities {
        let peers = &self.connected.peers;
        Capabilities {
            direct: peers.all_p2p,
            ll128: peers.splits_lines.is_none()
                && (!peers.any_shm || self.shared.driver.keeps_lines()),
            blocks: u16::try_from(self.shared.usual_blocks(self.blocks(request)))
                .unwrap_or(u16::MAX)
                .min(MOST_CHANNELS),
            nvls_from: (self.shared.options.nvls_from(request.collective))
                .or_else(|| self.registers().then_some(REGISTERED_NVLS))
                .filter(|_| peers.all_p2p && peers.multicast.is_ok()),
        }
    }

    /// Notes for the process why nothing is reduced by switches, if so.
    pub(crate) fn note_no_multicast(&self) {
        let why = self.connected.peers.multicast.as_ref().err();
        self.shared.note_without_multicast(why.cloned());
    }

    /// Resident blocks of the kernel for a request.
    fn blocks(&self, request: &Request) -> u32 {
        let reduces = request.collective.reduces().then_some(request.element);
        self.connected.peers.blocks.of(Kernel::of(reduces))
    }

    /// Why a choice for a request is not possible between the ranks; `None` if it is.
    pub(crate) fn why_refused(&self, request: &Request, choice: &Choice) -> Option<String> {
        let Capabilities { direct, ll128, .. } = self.capabilities(request);
        let (peers, blocks) = (&self.connected.peers, self.blocks(request));
        let why = || match &peers.apart {
            Some((one, other, why)) => format!(" (ranks {one} and {other}: {why})"),
            None => String::new(),
        };
        if choice.schedule == Schedule::Nvls {
            if !direct {
                return Some(format!(
                    "NVLS needs P2P between all ranks{}; take another algorithm",
                    why()
                ));
            }
            if let Err(why) = &peers.multicast {
                return Some(format!("{why}; take another algorithm"));
            }
        }
        if choice.transfer == Transfer::Hierarchical {
            return Some(
                "hierarchical algorithms do not run on GPUs; take the transfer `fifo` or `direct`"
                    .to_owned(),
            );
        }
        if choice.transfer == Transfer::Staged {
            return Some(
                "staged transfers are for memory of callers on processors; take the transfer `fifo` or `direct`"
                    .to_owned(),
            );
        }
        if choice.transfer == Transfer::Direct && !direct {
            return Some(format!(
                "a direct transfer accesses the buffers of other ranks, and not all ranks reach each other by P2P{}; take the \
                 transfer `fifo`",
                why()
            ));
        }
        if u32::from(choice.channels) > blocks {
            return Some(format!(
                "{} channels need as many blocks of each rank at a time, and on the GPU with the fewest each rank has {blocks}, \
                 because ranks of all processes on a GPU share it; take fewer channels or fewer ranks on a GPU",
                choice.channels
            ));
        }
        let lines = choice.transfer == Transfer::Fifo && choice.protocol == Protocol::Ll128;
        if let (true, Some((one, other))) = (lines, peers.splits_lines) {
            return Some(format!(
                "LL128 needs lines of 128 bytes that arrive whole, and between ranks {one} and {other} PCIe may split them; take \
                 the protocol LL or Simple"
            ));
        }
        (lines && !ll128).then(|| {
            format!(
                "LL128 needs lines of 128 bytes that arrive whole, and some ranks of a host lack P2P{}; take the protocol LL \
                 or Simple",
                why()
            )
        })
    }
}
