//! The meeting of ranks, in two steps: so one thread can make several ranks.

use std::time::Duration;

use program::Channels;
use shared_memory::{Patience, Waiter};

use crate::backend::Backend;
use crate::bootstrap::{Bootstrap, Offer, give_up};
use crate::callers_memory::{BufferAccess, try_kernel};
use crate::connections::Connections;
use crate::engine::{Engine, Parts};
use crate::error::Error;
use crate::offered::OfferedMemory;
use crate::programs::Programs;
use crate::registered::Registered;
use crate::settings::Settings;
use crate::transport::Transport;

/// The name of what every rank offers: an [`OfferedMemory`].
const MEMORY: &str = "memory";

/// Channels of a communicator without a plan: both trees of a double binary tree.
const PLAIN_CHANNELS: usize = 2;

/// A rank that has made its offers, and has not fetched those of others.
pub(crate) struct Starting<B: Backend> {
    backend: B,
    bootstrap: Box<dyn Bootstrap>,
    connections: Connections,
    registered: Registered,
    programs: Programs,
    channels: Channels,
    offer: Offer,
    patience: Patience,
    longest: Duration,
    callers_memory: bool,
}

impl<B: Backend> Starting<B> {
    /// Makes the offers.
    pub fn new(
        backend: B,
        mut bootstrap: Box<dyn Bootstrap>,
        programs: Programs,
        settings: &Settings,
    ) -> Result<Self, Error> {
        let (rank, ranks) = (bootstrap.rank(), bootstrap.ranks());
        let longest = settings.longest_wait;
        let refused = |why: String| Error::Bootstrap { rank, why };
        let plain = || Channels::plain(ranks, PLAIN_CHANNELS);
        let channels = settings.channels.clone().map_or_else(plain, Ok);
        let channels = channels.map_err(|error| refused(error.to_string()))?;
        if channels.ranks() != ranks {
            let planned = channels.ranks();
            return Err(refused(format!(
                "the plan is for {planned} ranks, and there are {ranks}"
            )));
        }
        let hosts: Vec<u32> = (0..ranks).map(|peer| bootstrap.host(peer)).collect();
        let channels = channels.on_hosts(&hosts);
        let channels = channels.map_err(|error| refused(error.to_string()))?;
        let offered = Connections::begin(bootstrap.as_mut(), backend.slot_bytes(), longest)
            .and_then(|connections| {
                let registered = Registered::begin(bootstrap.as_mut(), settings.buffer_bytes)?;
                let (base, segment) = connections.base();
                let memory = OfferedMemory {
                    base,
                    arena: registered.offer(),
                    slot_bytes: backend.slot_bytes(),
                    backend: backend.offer(),
                };
                let offer = Offer {
                    segment,
                    ..Offer::of(&memory)
                };
                bootstrap.publish(MEMORY, offer.clone())?;
                Ok((connections, registered, offer))
            });
        let (connections, registered, offer) =
            offered.map_err(|error| give_up(bootstrap.as_mut(), error))?;
        let cores = settings.cores.unwrap_or_else(|| {
            std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
        });
        // Ranks and their proxies share the cores.
        let remote = (0..ranks).any(|peer| bootstrap.transport(peer) == Transport::Net);
        let threads = bootstrap.sharing_cores() * if remote { 2 } else { 1 };
        Ok(Self {
            backend,
            bootstrap,
            connections,
            registered,
            programs,
            channels,
            offer,
            patience: Patience::new(threads as usize, cores),
            longest,
            callers_memory: settings.callers_memory,
        })
    }

    /// Fetches the offers of the others.
    pub fn finish(mut self) -> Result<Engine<B>, Error> {
        let met = self.meet();
        let buffers = met.map_err(|error| give_up(self.bootstrap.as_mut(), error))?;
        let bell = self.connections.bells[self.bootstrap.rank() as usize].clone();
        // The backend polls before it waits.
        let patience = Patience {
            spins: 0,
            ..self.patience
        };
        Ok(Engine::new(Parts {
            backend: self.backend,
            bootstrap: self.bootstrap,
            connections: self.connections,
            registered: self.registered,
            programs: self.programs,
            channels: self.channels,
            waiter: Waiter::new(bell, patience),
            spins: self.patience.spins,
            longest: self.longest,
            buffers,
        }))
    }

    fn meet(&mut self) -> Result<BufferAccess, Error> {
        let bootstrap = self.bootstrap.as_mut();
        let offers = bootstrap.gather(MEMORY, &self.offer, self.longest)?;
        let (rank, own) = (bootstrap.rank(), self.backend.slot_bytes());
        let mut bases = Vec::with_capacity(offers.len());
        let mut arenas = Vec::with_capacity(offers.len());
        let mut backends = Vec::with_capacity(offers.len());
        for (offer, peer) in offers.into_iter().zip(0_u32..) {
            let memory: OfferedMemory = offer.read(MEMORY, (rank, peer))?;
            let slots = memory.slot_bytes;
            if slots != own {
                let why = format!(
                    "rank {peer} has FIFOs of {slots}, but rank {rank} of {own}; give all ranks the same cost profile"
                );
                return Err(Error::Bootstrap { rank, why });
            }
            bases.push((offer.segment, memory.base));
            arenas.push(memory.arena);
            backends.push(memory.backend);
        }
        let agreed = self.backend.agree(&backends);
        agreed.map_err(|why| Error::Bootstrap { rank, why })?;
        self.connections.meet(bootstrap, bases)?;
        self.registered.meet(bootstrap, arenas.into_iter())?;
        self.backend.meet(bootstrap, self.longest)?;
        match self.callers_memory && !self.connections.all_by(Transport::P2p) {
            true => try_kernel(bootstrap, self.longest),
            false => Ok(BufferAccess::Mapped),
        }
    }
}
