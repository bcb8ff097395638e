//! What carries a rank's FIFOs to other hosts and back: its own proxies, those of another rank, or a net plug-in.

use std::collections::BTreeMap;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bootstrap::PeerInfo;
use bootstrap::socket::service::Alarm;
use executor::network::{HandedOver, Progress};
use executor::{Error, Failure, Network, Route, Transport};
use program::Protocol;
use shared_memory::fifo::relay::{SlotsIn, SlotsOut};
use shared_memory::{Alarms, Bell};

use super::{Hosts, of_service};
use crate::ended::NEWS_TIME;
use crate::forwarding::{HandoverSocket, Lent, Refusal, Request, Taken, Woken};
use crate::plugin::Fabric;
use crate::proxy::thread::{ConnectOptions, Hand, Proxy};
use crate::proxy::{Common, InlineProgress};
use crate::tcp::connect::{Hello, words};

/// The name under which a rank says of its handover socket.
const HANDOVER: &str = "handover";

/// Between two looks whether it has come.
const LOOK: Duration = Duration::from_millis(5);

impl Network for Hosts {
    fn begin(&mut self, bell: Bell) -> Result<Bell, Error> {
        let alarm = self.service()?.alarm();
        let common = Common {
            key: self.key.clone(),
            rank: self.rank,
            places: self.infos.iter().map(PeerInfo::place).collect(),
            alarm: alarm.clone(),
            timing: self.base.timing,
            bell: self.bell.clone(),
            own_bell: bell,
            alarms: Arc::clone(&self.alarms),
            spare_cores: self.spare_cores,
        };
        if let Some(fabric) = &self.fabric {
            fabric.begin(common, self.base.checks);
            self.open_door(alarm)?;
            return Ok(self.bell.clone());
        }
        for (listener, nic) in std::mem::take(&mut self.listeners).into_iter().zip(0..) {
            let proxy = Proxy::start(&common, nic, listener);
            self.proxies.push(proxy.map_err(|error| {
                self.broken(format!("the proxy of NIC {nic} cannot be started: {error}"))
            })?);
        }
        let inline = Arc::new(InlineProgress {
            nics: self.proxies.iter().map(Proxy::nic_progress).collect(),
            spare_cores: self.spare_cores,
        });
        self.inline = Some(Arc::clone(&inline));
        self.open_door(alarm)?;
        Ok(self.bell.clone().with(inline))
    }

    fn progress(&self) -> Option<Arc<dyn Progress>> {
        Some(self.inline.clone()? as _)
    }

    fn carrier(&self, route: &Route) -> Option<u32> {
        let carrier = self.planned.carrier(route).filter(|_| self.base.pxn)?;
        let near = self.transports[carrier as usize] == Transport::Shm;
        let left =
            |service: &bootstrap::socket::service::Service| service.alarm().is_expected(carrier);
        (near && !self.service.as_ref().is_none_or(left)).then_some(carrier)
    }

    fn reaches_devices(&self) -> bool {
        self.fabric.as_ref().is_some_and(Fabric::reaches_devices)
    }

    fn device_ends(&self, route: &Route) -> (bool, bool) {
        self.planned.device_ends(route)
    }

    fn send(&mut self, route: &Route, slots: SlotsOut) -> Result<(), Error> {
        if let Some(fabric) = &self.fabric {
            let device = self.planned.near(route, fabric.devices());
            let service = self.service()?;
            let ask = |rank, name: &str| service.ask(rank, name);
            return fabric.send(ask, route, device, slots, None).map(|_| ());
        }
        let nic = self.planned.near(route, self.proxies.len());
        let options = self.connect_options(route);
        let proxy = self.proxies.get(nic).ok_or_else(|| self.no_proxy())?;
        let SlotsOut::Copied(slots) = slots else {
            return Err(self.broken(in_place(route)));
        };
        let sent = proxy.send(route, slots, &options);
        sent.map_err(|failure| self.disconnected(failure))
    }

    fn hand_over(
        &mut self,
        route: &Route,
        carrier: u32,
        handed: HandedOver,
    ) -> Result<Option<Alarms>, Error> {
        let longest = self.base.timing.silence;
        let request = Request {
            hello: Hello::new(route, 0, 1),
            nic: self.planned.near(route, usize::MAX) as u32,
            to: self.connect_options(route).to,
            base: handed.base,
            fifo: handed.fifo,
        };
        let socket = match self.handover_sockets.get(&carrier) {
            Some(socket) => *socket,
            None => {
                let said = self.service()?.fetch(carrier, HANDOVER, longest);
                let said = said.map_err(|error| of_service(self.rank, error))?;
                let said = String::from_utf8_lossy(&said).into_owned();
                let socket = said.parse().map_err(|_| Error::Bootstrap {
                    rank: self.rank,
                    why: format!("rank {carrier} says nothing sensible of where its proxies are"),
                })?;
                self.handover_sockets.insert(carrier, socket);
                socket
            }
        };
        let process = self.infos[carrier as usize].process;
        match self.lender.lend(socket, process, &request, longest) {
            Ok(Lent::Taken(alarms)) => Ok(Some(alarms)),
            Ok(Lent::Done) => Ok(None),
            Ok(Lent::Failed(failure)) => Err(self.disconnected(failure)),
            Err(ending) => {
                // It may be done with its work, of which the news comes a little later.
                let alarm = self.service()?.alarm();
                let until = Instant::now() + NEWS_TIME;
                while !alarm.is_expected(carrier) && Instant::now() < until {
                    std::thread::sleep(LOOK);
                }
                let failed = self.service()?.failure(None);
                if alarm.is_expected(carrier) && failed.is_none() {
                    return Ok(None);
                }
                let place = self.infos[carrier as usize].place();
                let what = format!(
                    "{place}: {} is to be carried by rank {carrier}, but handing it over to {socket} {ending}",
                    words(route)
                );
                Err(self.disconnected(bootstrap::Failure::new(carrier, what)))
            }
        }
    }

    fn receive(&mut self, route: &Route, slots: SlotsIn) -> Result<(), Error> {
        if let Some(fabric) = &self.fabric {
            let device = self.planned.remote(route, fabric.devices());
            return fabric.receive(self.service()?, route, device, slots);
        }
        let nic = self.planned.remote(route, self.proxies.len());
        let proxy = self.proxies.get(nic).ok_or_else(|| self.no_proxy())?;
        let SlotsIn::Copied(slots) = slots else {
            return Err(self.broken(in_place(route)));
        };
        proxy.receive(route, slots);
        Ok(())
    }
}

/// Why sockets do not carry slots in place.
fn in_place(route: &Route) -> String {
    format!(
        "{} lies where only NICs of a net plug-in reach it, and there is none; run the same backend on all ranks",
        words(route)
    )
}

impl Hosts {
    /// Other ranks of this host that carry what this one sends point to point, and to how many each.
    pub(super) fn carried(&self) -> Vec<(u32, u32)> {
        let remote = (0..self.ranks).filter(|to| self.transports[*to as usize] == Transport::Net);
        let mut carried: BTreeMap<u32, u32> = BTreeMap::new();
        for to in remote {
            let route = Route {
                from: self.rank,
                to,
                channel: 0,
                port: 0,
                protocol: Protocol::Simple,
            };
            if let Some(carrier) = self.carrier(&route) {
                *carried.entry(carrier).or_default() += 1;
            }
        }
        carried.into_iter().collect()
    }

    /// How the receiver of a route is connected to.
    fn connect_options(&self, route: &Route) -> ConnectOptions {
        let theirs = &self.infos[route.to as usize].nics;
        ConnectOptions {
            to: theirs[self.planned.remote(route, theirs.len())],
            sockets: self.base.sockets,
            checks: self.base.checks,
            longest: self.base.timing.silence,
        }
    }

    /// Lets ranks of this host hand over what the plan wants this rank to carry for them.
    fn open_door(&mut self, alarm: Alarm) -> Result<(), Error> {
        let ranks = 0..self.ranks;
        let near = ranks.filter(|it| self.transports[*it as usize] == Transport::Shm);
        let near: Vec<u32> = near.collect();
        if near.is_empty() || self.planned.ports.is_none() {
            return Ok(());
        }
        let base = Arc::clone(&self.base);
        let options = move |request: &Request| ConnectOptions {
            to: request.to,
            sockets: base.sockets,
            checks: base.checks,
            longest: base.timing.silence,
        };
        let hands: Vec<Hand> = self.proxies.iter().map(Proxy::hand).collect();
        let fabric = self.fabric.clone();
        let events: Vec<Woken> = self.alarms.iter().map(AsRawFd::as_raw_fd).collect();
        let take = move |request: &Request, taken: Taken| {
            let Taken {
                route,
                slots,
                served,
            } = taken;
            let count = fabric
                .as_ref()
                .map_or(hands.len(), |fabric| fabric.devices());
            let nic = request.nic as usize % count.max(1);
            let sent = match &fabric {
                Some(fabric) => {
                    let ask = |rank, name: &str| alarm.ask(rank, name);
                    let sent = fabric.send(ask, &route, nic, slots, Some(served));
                    sent.map_err(|error| bootstrap::Failure::new(route.from, error.to_string()))
                }
                None => match (hands.get(nic), slots) {
                    (Some(hand), SlotsOut::Copied(slots)) => {
                        hand.send(&route, slots, Some(served), &options(request))
                    }
                    (Some(_), SlotsOut::InPlace(_)) => {
                        Err(bootstrap::Failure::new(route.from, in_place(&route)))
                    }
                    (None, _) => Ok(false),
                },
            };
            match sent {
                // Threads of a plug-in drive several NICs where there are many.
                Ok(true) => Ok(events[nic % events.len()]),
                Ok(false) => Err(Refusal::Done),
                Err(failure) => Err(Refusal::Failed(failure)),
            }
        };
        let failed = |error: std::io::Error| {
            self.broken(format!(
                "other ranks cannot be let in to the proxies: {error}"
            ))
        };
        let listener = self.base.listen().map_err(failed)?;
        let socket = HandoverSocket::open(listener, &self.key, near, self.ranks, Box::new(take));
        let socket = socket.map_err(failed)?;
        self.service()?
            .publish(HANDOVER, socket.address().to_string().into_bytes());
        self.handover = Some(socket);
        Ok(())
    }

    /// Makes the job fail because of this rank.
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
            failure: Failure {
                rank: failure.rank,
                what: failure.what,
            },
        }
    }

    fn no_proxy(&self) -> Error {
        Error::Bootstrap {
            rank: self.rank,
            why: "there is no proxy that could carry data to other hosts".to_owned(),
        }
    }
}
