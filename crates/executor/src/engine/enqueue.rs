//! Launches in the order of a device's stream: they are enqueued, and looked after until they end.

use std::time::Duration;

use program::Collective;

use super::{Engine, Run, part};
use crate::backend::{Backend, InFlight};
use crate::communicator::Communicator;
use crate::error::Error;
use crate::memory::Memory;
use crate::open_group::End;
use crate::request::{Choice, Request};
use crate::supervisor::LOOK;

/// Between two looks while this rank waits until what was enqueued has ended.
const NAP: Duration = Duration::from_micros(20);

/// Channels of all transfers of a rank with every other rank, in both directions together; each
/// transfer has one at least. They run together and wait for each other.
const CHANNELS_OF_ALL: u32 = 32;

/// A transfer on memory of a device.
#[derive(Debug)]
pub struct DeviceTransfer<'a> {
    /// The other end, not [`End::FromAny`].
    pub end: End,
    /// The tag.
    pub tag: u32,
    /// What is sent or written.
    pub memory: Memory<'a>,
}

impl<B: Backend> Engine<B> {
    /// Enqueues a request behind the work of a stream of the device. If its program was not
    /// prepared before, once all that was enqueued has ended: its connections and its memory change
    /// then.
    pub fn enqueue(
        &mut self,
        request: &Request,
        memory: Memory<'_>,
        scalar: u64,
        stream: u64,
    ) -> Result<InFlight, Error> {
        self.withdrawing(|own| own.try_enqueue(request, memory, (scalar, stream)))
    }

    fn try_enqueue(
        &mut self,
        request: &Request,
        memory: Memory<'_>,
        (scalar, stream): (u64, u64),
    ) -> Result<InFlight, Error> {
        let at = self.place(request, &memory)?;
        self.note_launch(at, &memory);
        let enqueued = self.with_part(at, (memory, scalar), None, |backend, it| {
            let (parts, context) = it;
            backend.enqueue(parts, &[], stream, context)
        });
        let enqueued = enqueued.map_err(|error| self.fail_unless_common(error));
        self.prepared.get(at).note_run(&self.own.waiter);
        enqueued
    }

    /// Enqueues transfers with other ranks, which run together, and copies within this rank's
    /// memory, from inputs to outputs. Transfers between two ranks in one direction with one tag
    /// run one after the other.
    pub fn enqueue_transfers(
        &mut self,
        transfers: Vec<DeviceTransfer<'_>>,
        copies: &[Memory<'_>],
        stream: u64,
    ) -> Result<InFlight, Error> {
        if self.failure.is_some() {
            return Err(self.broken());
        }
        self.withdrawing(|own| own.try_enqueue_transfers(transfers, copies, stream))
    }

    fn try_enqueue_transfers(
        &mut self,
        mut transfers: Vec<DeviceTransfer<'_>>,
        mut copies: &[Memory<'_>],
        stream: u64,
    ) -> Result<InFlight, Error> {
        let mut in_flight = InFlight::default();
        while !(transfers.is_empty() && copies.is_empty()) {
            let (mut now, mut later): (Vec<DeviceTransfer<'_>>, _) = (Vec::new(), Vec::new());
            for transfer in transfers {
                let ends = |it: &DeviceTransfer<'_>| (it.end, it.tag);
                match now.iter().any(|it| ends(it) == ends(&transfer)) {
                    true => later.push(transfer),
                    false => now.push(transfer),
                }
            }
            let enqueued = self.enqueue_together(now, copies, stream);
            in_flight = enqueued.map_err(|error| self.fail_unless_common(error))?;
            transfers = later;
            copies = &[];
        }
        Ok(in_flight)
    }

    /// Enqueues transfers of which no two have the same connection.
    fn enqueue_together(
        &mut self,
        mut transfers: Vec<DeviceTransfer<'_>>,
        copies: &[Memory<'_>],
        stream: u64,
    ) -> Result<InFlight, Error> {
        // A receiver offers its end without waiting, and a sender waits for that.
        transfers.sort_by_key(|it| matches!(it.end, End::To(_)));
        let mut places = Vec::with_capacity(transfers.len());
        for transfer in transfers {
            let found = self
                .transfer_request(&transfer)
                .and_then(|it| self.find(&it));
            match found {
                Ok(place) => {
                    self.prepared.hold(place);
                    places.push((place, (transfer.memory, 0)));
                }
                Err(error) => {
                    places.iter().for_each(|(it, _)| self.prepared.release(*it));
                    return Err(error);
                }
            }
        }
        places.sort_by_key(|(place, _)| *place);
        let held: Vec<usize> = places.iter().map(|(place, _)| *place).collect();
        let own = &mut self.own;
        let parts = self.prepared.each(places.into_iter());
        let parts = parts.map(|(prepared, memory)| part(prepared, memory, &own.registered));
        let mut parts: Vec<_> = parts.collect();
        let (backend, mut context) = own.lend(Run {
            launch: (self.launches, 0),
            collective: Collective::SendRecv,
            comparison: None,
            longest: own.longest,
            since: None,
            nap: LOOK,
            spins: own.spins,
            progress: None,
        });
        let enqueued = backend.enqueue(&mut parts, copies, stream, &mut context);
        held.into_iter().for_each(|it| self.prepared.release(it));
        enqueued
    }

    /// The request of a transfer, equal at both ends.
    fn transfer_request(&mut self, transfer: &DeviceTransfer<'_>) -> Result<Request, Error> {
        let own = &self.own.bootstrap;
        let (rank, ranks) = (own.rank(), own.ranks());
        let (ends, bytes) = match transfer.end {
            End::To(peer) => ((rank, peer), transfer.memory.input_bytes()),
            End::From(peer) => ((peer, rank), transfer.memory.output_bytes()),
            End::FromAny => {
                return Err(Error::Unsupported {
                    collective: Collective::SendRecv,
                    ranks,
                    why: "in the order of a stream a receive names its sender".to_owned(),
                });
            }
        };
        let request = Request::transfer(ends, transfer.tag, bytes as u64);
        let choice = self.choice(&request)?;
        let others = ranks.saturating_sub(1).max(1);
        let most = (CHANNELS_OF_ALL / (2 * others)).max(1);
        Ok(Request {
            choice: Some(Choice {
                channels: u16::try_from(most).unwrap_or(u16::MAX).min(choice.channels),
                ..choice
            }),
            ..request
        })
    }

    /// Looks after what was enqueued, for all ranks that wait for it. Returns what has not ended.
    pub fn look_after(&mut self) -> Result<InFlight, Error> {
        if self.failure.is_some() {
            return Err(self.broken());
        }
        let own = &mut self.own;
        let collective = self
            .last
            .map_or(Collective::AllReduce, |(last, _)| last.collective);
        let (backend, mut context) = own.lend(Run {
            launch: (self.launches, 0),
            collective,
            // Transfers are not compared.
            comparison: (self.launches > 0).then(|| self.known.launch(collective)),
            longest: own.longest,
            since: None,
            nap: LOOK,
            spins: 0,
            progress: None,
        });
        let looked = backend.look_after(&mut context);
        looked.map_err(|error| self.fail(error))
    }

    /// Waits until what was enqueued has ended.
    pub fn drain(&mut self) -> Result<(), Error> {
        while self.look_after()?.launches > 0 {
            std::thread::sleep(NAP);
        }
        Ok(())
    }

    /// Tells what was enqueued to end early. Returns what has not ended yet.
    pub fn end_early(&mut self) -> InFlight {
        self.own.backend.end_early()
    }
}

impl<B: Backend> Communicator<B> {
    /// Enqueues transfers on memory of this rank's device, which run together behind the work of
    /// the device's stream `stream`, and before what that stream gets later. Sends to the own rank
    /// and receives from it match in order. Waits as [`Self::enqueue`].
    ///
    /// # Errors
    /// There is no such rank or tag; a send to the own rank has no receive of the same length and
    /// tag; or as [`Self::enqueue`].
    pub fn enqueue_transfers(
        &mut self,
        transfers: Vec<DeviceTransfer<'_>>,
        stream: u64,
    ) -> Result<InFlight, Error> {
        let (mut others, mut sends, mut receives) = (Vec::new(), Vec::new(), Vec::new());
        for transfer in transfers {
            self.expect_tag(transfer.tag)?;
            match transfer.end {
                End::To(peer) if peer == self.rank => sends.push(transfer),
                End::From(peer) if peer == self.rank => receives.push(transfer),
                End::To(peer) | End::From(peer) => {
                    self.expect_rank(peer)?;
                    others.push(transfer);
                }
                End::FromAny => others.push(transfer),
            }
        }
        // Those of one tag keep their order.
        sends.sort_by_key(|it| it.tag);
        receives.sort_by_key(|it| it.tag);
        let lengths = |all: &[DeviceTransfer<'_>]| -> Vec<(u32, usize)> {
            let length = |it: &DeviceTransfer<'_>| {
                (it.tag, it.memory.input_bytes() + it.memory.output_bytes())
            };
            all.iter().map(length).collect()
        };
        if lengths(&sends) != lengths(&receives) {
            return Err(Error::Unsupported {
                collective: Collective::SendRecv,
                ranks: self.ranks(),
                why: "each send to the own rank needs a receive of the same length and tag in the same group"
                    .to_owned(),
            });
        }
        let copies = sends.iter().zip(&receives);
        let copies: Vec<Memory<'_>> = copies
            .map(|(from, to)| from.memory.to(&to.memory))
            .collect();
        others.retain(|it| it.memory.input_bytes() + it.memory.output_bytes() > 0);
        self.engine.enqueue_transfers(others, &copies, stream)
    }
}
