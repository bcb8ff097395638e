//! The network of a rank: its own proxies, and those of other ranks of the host.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bootstrap::PeerInfo;
use bootstrap::message::read_whole;
use executor::network::{HandedOver, Progress};
use executor::{Error, Network, Route, Transport};
use program::Protocol;
use shared_memory::fifo::relay::{SlotsIn, SlotsOut};
use shared_memory::{Alarms, Bell};

use super::Hosts;
use crate::ended::NEWS_TIME;
use crate::errors::{of_job, of_service};
use crate::forwarding::{
    HandOver, HandedOverFifo, HandoverSocket, Refusal, Request, WakeDescriptor, event_of,
};
use crate::proxy::{Common, Proxies, ProxyQueues};
use crate::tcp::connect::{Hello, words};

/// The name under which a rank publishes the address of its handover socket.
const HANDOVER: &str = "handover";

/// Most ranks of a host that wake each other by descriptors, since each needs one for each other.
const MOST_WOKEN: usize = 64;

/// Between two checks whether news of a rank has arrived.
const LOOK: Duration = Duration::from_millis(5);

impl Network for Hosts {
    fn begin(&mut self, bell: Bell) -> Result<Bell, Error> {
        let alarm = self.service()?.alarm();
        let common = Common {
            rank: self.rank,
            places: self.infos.iter().map(PeerInfo::place).collect(),
            alarm,
            bell: self.bell.clone(),
            own_bell: bell,
            alarms: Arc::clone(&self.alarms),
            spare_cores: self.spare_cores,
            crowded: self.crowded,
            nics: Arc::clone(&self.nics),
        };
        let proxies = Proxies::start(&common);
        let proxies = proxies
            .map_err(|error| self.broken(format!("the proxies cannot be started: {error}")))?;
        let inline = proxies.inline();
        self.proxies = Some(proxies);
        self.open_handover_socket()?;
        Ok(match inline {
            Some(inline) => self.bell.clone().with(inline),
            None => self.bell.clone(),
        })
    }

    fn progress(&self) -> Option<Arc<dyn Progress>> {
        Some(self.proxies.as_ref()?.inline()? as _)
    }

    fn pxn_proxy(&self, route: &Route) -> Option<u32> {
        let proxy = self
            .planned
            .pxn_proxy(route)
            .filter(|_| self.base.options.pxn)?;
        let near = self.transports[proxy as usize] == Transport::Shm;
        let left =
            |service: &bootstrap::socket::service::Service| service.alarm().is_expected(proxy);
        (near && !self.service.as_ref().is_none_or(left)).then_some(proxy)
    }

    fn reaches_devices(&self) -> bool {
        self.nics.iter().all(|it| it.properties().reaches_devices)
    }

    fn device_ends(&self, route: &Route) -> (bool, bool) {
        self.planned.device_ends(route)
    }

    fn send(&mut self, route: &Route, slots: SlotsOut) -> Result<(), Error> {
        let queues = self.queues().ok_or_else(|| self.no_proxy())?;
        let nic = self.planned.near(route, self.nics.len());
        let sent = queues.send(nic, route, self.receiver(route), slots, None);
        match sent {
            // The threads of a rank that is not done take every connection.
            Ok(_) => Ok(()),
            Err(failure) if failure.rank == self.rank => Err(self.broken(failure.what)),
            Err(failure) => Err(self.disconnected(failure)),
        }
    }

    fn hand_over(
        &mut self,
        route: &Route,
        proxy: u32,
        handed: HandedOver,
    ) -> Result<Option<Alarms>, Error> {
        let longest = self.base.timing().silence;
        let request = Request {
            hello: Hello::new(route, 0, 1),
            nic: self.planned.near(route, usize::MAX) as u32,
            to: self.receiver(route),
            handed,
        };
        let socket = match self.handover_sockets.get(&proxy) {
            Some(socket) => *socket,
            None => {
                let said = self.service()?.fetch(proxy, HANDOVER, longest);
                let said = said.map_err(|error| of_service(self.rank, error))?;
                let socket = read_whole(&said).map_err(|_| Error::Bootstrap {
                    rank: self.rank,
                    why: format!("rank {proxy} publishes no valid address of its handover socket"),
                })?;
                self.handover_sockets.insert(proxy, socket);
                socket
            }
        };
        let process = self.infos[proxy as usize].process;
        match self
            .hand_overs
            .hand_over(socket, process, &request, longest)
        {
            Ok(HandOver::Taken(alarms)) => Ok(Some(alarms)),
            Ok(HandOver::Done) => Ok(None),
            Ok(HandOver::Failed(failure)) => Err(self.disconnected(failure)),
            Err(ending) => {
                // It may be done with its work; that news may arrive a little later.
                let alarm = self.service()?.alarm();
                let until = Instant::now() + NEWS_TIME;
                while !alarm.is_expected(proxy) && Instant::now() < until {
                    std::thread::sleep(LOOK);
                }
                let failed = self.service()?.failure(None);
                if alarm.is_expected(proxy) && failed.is_none() {
                    return Ok(None);
                }
                let place = self.infos[proxy as usize].place();
                let what = format!(
                    "{place}: {} is to be forwarded by rank {proxy}, but handing it over to {socket} {ending}",
                    words(route)
                );
                Err(self.disconnected(bootstrap::Failure::new(proxy, what)))
            }
        }
    }

    fn receive(&mut self, route: &Route, slots: SlotsIn) -> Result<(), Error> {
        let queues = self.queues().ok_or_else(|| self.no_proxy())?;
        let nic = self.planned.remote(route, self.nics.len());
        let received = queues.receive(nic, route, slots);
        received.map_err(|why| self.broken(why))
    }
}

impl Hosts {
    /// The alarm of another rank of this host that sleeps on its connections.
    pub(super) fn woken(&self, peer: u32) -> Option<Alarms> {
        let event = *self.sleepers.get(&peer)?;
        let near = |it: &&Transport| **it == Transport::Shm;
        // A thread of this process wakes the one that sleeps.
        let own = peer == self.rank;
        if !own
            && (self.transports[peer as usize] != Transport::Shm
                || self.transports.iter().filter(near).count() > MOST_WOKEN)
        {
            return None;
        }
        let event = event_of(self.infos[peer as usize].process, event)?;
        Some(Alarms::Events([event].into()))
    }

    /// Other ranks of this host that forward for this one, point to point in the first channel, and
    /// to how many ranks each.
    pub(super) fn forwarded(&self) -> Vec<(u32, u32)> {
        let remote = (0..self.ranks).filter(|to| self.transports[*to as usize] == Transport::Net);
        let mut forwarded: BTreeMap<u32, u32> = BTreeMap::new();
        for to in remote {
            let route = Route {
                from: self.rank,
                to,
                channel: 0,
                port: 0,
                protocol: Protocol::Simple,
            };
            if let Some(proxy) = self.pxn_proxy(&route) {
                *forwarded.entry(proxy).or_default() += 1;
            }
        }
        forwarded.into_iter().collect()
    }

    /// The queues of the proxies, once these have started.
    pub(super) fn queues(&self) -> Option<&ProxyQueues> {
        self.proxies.as_ref().map(Proxies::queues)
    }

    /// Where the receiver of a route listens, if it uses TCP.
    fn receiver(&self, route: &Route) -> SocketAddr {
        let theirs = &self.infos[route.to as usize].nics;
        theirs[self.planned.remote(route, theirs.len())]
    }

    /// Lets ranks of this host hand over FIFOs that the plan wants this rank to forward.
    fn open_handover_socket(&mut self) -> Result<(), Error> {
        let ranks = 0..self.ranks;
        let near = ranks.filter(|it| self.transports[*it as usize] == Transport::Shm);
        let near: Vec<u32> = near.collect();
        if near.is_empty() || self.planned.ports.is_none() {
            return Ok(());
        }
        let Some(queues) = self.queues().cloned() else {
            return Ok(());
        };
        let nics = self.nics.len().max(1);
        let events: Vec<WakeDescriptor> = self.alarms.iter().map(AsRawFd::as_raw_fd).collect();
        let take = move |request: &Request, taken: HandedOverFifo| {
            let HandedOverFifo {
                route,
                slots,
                forwarded,
            } = taken;
            let nic = request.nic as usize % nics;
            let sent = queues.send(nic, &route, request.to, slots, Some(forwarded));
            match sent {
                Ok(true) => Ok(events[nic % events.len()]),
                Ok(false) => Err(Refusal::Done),
                Err(failure) => Err(Refusal::Failed(failure)),
            }
        };
        let failed = |error: std::io::Error| {
            self.broken(format!("the handover socket cannot be opened: {error}"))
        };
        let listener = self.base.listen().map_err(failed)?;
        let socket = HandoverSocket::open(listener, &self.key, near, self.ranks, Box::new(take));
        let socket = socket.map_err(failed)?;
        let address = postcard::to_allocvec(&socket.address()).unwrap_or_default();
        self.service()?.publish(HANDOVER, address);
        self.handover = Some(socket);
        Ok(())
    }

    /// Makes the job fail and blames this rank.
    fn broken(&self, why: String) -> Error {
        if let Some(service) = &self.service {
            service.fail(bootstrap::Failure::new(self.rank, why.clone()));
        }
        let rank = self.rank;
        Error::Bootstrap { rank, why }
    }

    fn disconnected(&self, failure: bootstrap::Failure) -> Error {
        Error::Disconnected {
            rank: self.rank,
            failure: of_job(failure),
        }
    }

    fn no_proxy(&self) -> Error {
        Error::Bootstrap {
            rank: self.rank,
            why: "there is no proxy for connections to other hosts".to_owned(),
        }
    }
}
