//! Joins ranks of several hosts; the bootstrap of their communicator.

mod crowd;
mod met;
mod network;
mod offers;
mod options;

use std::collections::HashMap;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{OwnedFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bootstrap::interface::{self, Interface};
use bootstrap::member::Meeting;
use bootstrap::message::read_whole;
use bootstrap::socket::service::Service;
use bootstrap::socket::{Config, listen};
use bootstrap::{Key, PeerInfo, Timing};
use executor::bootstrap::{Bootstrap, Crowd, Offer};
use executor::{Error, Failure, Network, Transport};
use shared_memory::{Alarms, Bell};

use crate::errors::{of_job, of_service, of_system};
use crate::forwarding::{HandOvers, HandoverSocket};
use crate::home::Home;
use crate::nic::{Nic, Nics};
use crate::plugin::{self, Agreement, Own};
use crate::ports::CommunicatorPorts;
use crate::proxy::{Proxies, ProxyQueues};
use crate::reach::{Reachability, agree};
use crate::tcp::connect::MOST_SOCKETS;
use crate::tcp::{self, TcpNic};

pub use bootstrap::MOST_RANKS;
use crowd::{most_crowded, sharing};
use met::MetRanks;
pub use options::{Options, loopback_id};

/// The bootstrap of a rank among ranks of several hosts.
pub struct Hosts {
    pub(crate) rank: u32,
    ranks: u32,
    infos: Arc<[PeerInfo]>,
    transports: Vec<Transport>,
    hosts: Vec<u32>,
    /// Ranks of this process that joined by themselves.
    threads: Vec<u32>,
    reached: Reachability,
    key: Key,
    /// How often ranks were lost, and how often it was split.
    pub(crate) generation: u64,
    splits: u64,
    pub(crate) base: Arc<Base>,
    pub(crate) home: Arc<Home>,
    /// By rank: its rank when all met.
    pub(crate) members: Vec<u32>,
    spare_cores: bool,
    crowded: bool,
    /// Before the service: what was posted is sent before this rank announces that it is done.
    proxies: Option<Proxies>,
    nics: Nics,
    service: Option<Service>,
    /// Tickets of offers that were asked for and not fetched yet, by rank and name.
    asked: HashMap<(u32, String), u32>,
    /// Offers that came and were not fetched yet.
    arrived: HashMap<(u32, String), Vec<u8>>,
    planned: CommunicatorPorts,
    bell: Bell,
    alarms: Arc<[OwnedFd]>,
    /// FIFOs that other ranks of the host forward for this one.
    hand_overs: HandOvers,
    /// Where they hand FIFOs over to this one.
    handover: Option<HandoverSocket>,
    /// Their handover sockets, by rank.
    handover_sockets: HashMap<u32, SocketAddr>,
    /// By rank: the descriptor, in its process, that wakes it while it sleeps on its connections.
    sleepers: HashMap<u32, RawFd>,
}

/// How long sending what is left may take at the end.
const DRAIN_TIME: Duration = Duration::from_secs(5);

/// Between two checks whether other ranks still need this rank's proxies.
const LOOK: Duration = Duration::from_millis(1);

/// The common state of all communicators of a job.
#[derive(Debug)]
pub(crate) struct Base {
    interfaces: Vec<Interface>,
    options: Options,
    plugin: Own,
}

impl Base {
    /// Listens on the first interface, at a free port.
    pub(crate) fn listen(&self) -> std::io::Result<TcpListener> {
        listen(self.interfaces[0].address)
    }

    pub(crate) fn timing(&self) -> Timing {
        self.options.timing
    }

    /// The description of a rank; `nics` are its listeners.
    fn info(&self, rank: u32, nics: &[TcpListener]) -> std::io::Result<PeerInfo> {
        let Options { host, .. } = &self.options;
        let nics: std::io::Result<Vec<SocketAddr>> =
            nics.iter().map(TcpListener::local_addr).collect();
        Ok(PeerInfo {
            rank,
            version: self.options.version.clone(),
            fingerprint: self.options.fingerprint,
            options: self.options.alike.clone(),
            host: host.identity,
            host_name: host.name.clone(),
            machine: host.machine,
            cores: host.cores.clone(),
            process: std::process::id(),
            device: self.options.device.clone(),
            address: self.interfaces[0].address,
            nics: nics?,
        })
    }

    /// The interfaces as NICs.
    fn tcp(
        &self,
        listeners: Vec<TcpListener>,
        infos: &[PeerInfo],
        rank: u32,
        key: &Key,
    ) -> std::io::Result<Vec<Box<dyn Nic>>> {
        let settings = tcp::Settings {
            rank,
            places: infos.iter().map(PeerInfo::place).collect(),
            key: key.clone(),
            sockets: self.options.sockets.clamp(1, MOST_SOCKETS),
            checks: self.options.checks,
            timing: self.options.timing,
        };
        let nics = listeners.into_iter();
        nics.map(|it| Ok(Box::new(TcpNic::new(it, &settings)?) as Box<dyn Nic>))
            .collect()
    }
}

/// The state of one communicator.
pub(crate) struct Ring {
    /// The first rank of this process.
    pub rank: u32,
    pub ranks: u32,
    /// Ranks of each process.
    pub width: u32,
    pub key: Key,
    pub meeting: Meeting,
    pub roots: Vec<(u32, TcpListener)>,
    pub listener: TcpListener,
    pub planned: CommunicatorPorts,
    /// Where this rank is found, the members' ranks when all met, and how often ranks were lost
    /// since.
    pub home: Option<(Arc<Home>, Vec<u32>, u64)>,
}

impl Hosts {
    /// Says which other ranks are threads of this process, which these know. All ranks say it
    /// before the communicator is made.
    pub fn set_threads(&mut self, ranks: Vec<u32>) {
        self.threads = ranks;
    }

    /// Meets the other ranks, and finds out how to reach each.
    ///
    /// # Errors
    /// Ranks are missing or disagree, or there is no interface; the error names the rank to blame.
    pub fn join(options: Options) -> Result<Self, Error> {
        let rank = options.rank;
        let first = Self::join_all(options)?.into_iter().next();
        first.ok_or_else(|| no_ranks(rank))
    }

    /// As [`Self::join`], for all ranks of this process ([`Options::width`]), which meet the others
    /// together. Use each on a thread of its own.
    ///
    /// # Errors
    /// As [`Self::join`].
    pub fn join_all(mut options: Options) -> Result<Vec<Self>, Error> {
        let Options {
            rank, ranks, width, ..
        } = options;
        if width == 0 || !rank.is_multiple_of(width) || !ranks.is_multiple_of(width) {
            return Err(no_ranks(rank));
        }
        if ranks > MOST_RANKS {
            let why = format!("{ranks} ranks are too many, expected at most {MOST_RANKS}");
            return Err(Error::Bootstrap { rank, why });
        }
        let system = |error: std::io::Error| of_system(rank, &error);
        let all = interface::list().map_err(system)?;
        let interfaces = interface::choose(&all, &options.interfaces)
            .map_err(|why| Error::Bootstrap { rank, why })?;
        let mut roots = std::mem::take(&mut options.roots);
        // A process that is alone checks in nowhere, and its root would wait for it.
        roots.retain(|_| ranks > width);
        let base = Base {
            interfaces,
            plugin: Own::new(options.net_plugin.clone()),
            options,
        };
        let ring = Ring {
            rank,
            ranks,
            width,
            key: base.options.key.clone(),
            meeting: base.options.meeting.clone(),
            roots,
            listener: base.listen().map_err(system)?,
            planned: CommunicatorPorts {
                ports: base.options.ports.clone(),
                ranks: (0..ranks).collect(),
            },
            home: None,
        };
        Self::meet(&Arc::new(base), ring)
    }

    pub(crate) fn meet(base: &Arc<Base>, ring: Ring) -> Result<Vec<Self>, Error> {
        let Ring {
            rank, ranks, width, ..
        } = ring;
        let system = |error: std::io::Error| of_system(rank, &error);
        let Options {
            timing,
            share_memory,
            ..
        } = base.options;
        let own = rank..rank + width;
        let (mut listeners, mut infos) = (Vec::new(), Vec::new());
        for rank in own.clone() {
            let of_rank = base.interfaces.iter().map(|it| listen(it.address));
            let of_rank: std::io::Result<Vec<TcpListener>> = of_rank.collect();
            let of_rank = of_rank.map_err(system)?;
            infos.push(base.info(rank, &of_rank).map_err(system)?);
            listeners.push(of_rank);
        }
        // Survivors of a failure gather where the rank listened at first.
        let listener = Arc::new(ring.listener);
        let services = Service::join(Config {
            key: ring.key.clone(),
            processes: ranks / width,
            meeting: ring.meeting,
            roots: ring.roots,
            listener: Arc::clone(&listener),
            infos,
            timing,
        });
        let services = services.map_err(|error| of_service(rank, error))?;
        let service = services.first().ok_or_else(|| no_ranks(rank))?;
        let infos = service.infos();
        let (home, members, generation) = ring.home.unwrap_or_else(|| {
            let home = Home {
                rank,
                infos: Arc::clone(&infos),
                key: ring.key.clone(),
                listener,
                planned: ring.planned.clone(),
            };
            (Arc::new(home), (0..ranks).collect(), 0)
        });
        let trial = agree(service, &infos, own.clone(), share_memory, timing.join)?;
        let agreed = if trial.any_remote {
            plugin::agree_all(&base.plugin, service, &infos, rank, timing.join)?
        } else {
            Agreement::default()
        };
        let met = MetRanks {
            base,
            infos: &infos,
            trial: &trial,
            agreed: &agreed,
            key: &ring.key,
            planned: &ring.planned,
            home: &home,
            members: &members,
            generation,
        };
        let all = services.into_iter().zip(listeners);
        all.map(|(service, listeners)| met.rank(service, listeners))
            .collect()
    }

    /// A communicator of the ranks with this color, ordered by `order` and then by rank; `None` for
    /// a color below 0. All ranks call it together.
    ///
    /// # Errors
    /// Another rank does not call it, or fails.
    pub fn split(&mut self, color: i32, order: i32) -> Result<Option<Self>, Error> {
        let rank = self.rank;
        let system = |error: std::io::Error| of_system(rank, &error);
        let listener = self.base.listen().map_err(system)?;
        let address = listener.local_addr().map_err(system)?;
        let own = postcard::to_allocvec(&(color, order, address)).unwrap_or_default();
        let all = self.service()?.exchange(own, self.base.options.timing.join);
        let all = all.map_err(|error| of_service(rank, error))?;
        self.splits += 1;
        if color < 0 {
            return Ok(None);
        }
        let mut members: Vec<(i32, u32, SocketAddr)> = Vec::new();
        for (part, rank) in all.iter().zip(0..) {
            let (theirs, order, address): (i32, i32, SocketAddr) =
                read_whole(part).map_err(|_| Error::Bootstrap {
                    rank: self.rank,
                    why: format!("rank {rank} sends no valid color and order to split by"),
                })?;
            if theirs == color {
                members.push((order, rank, address));
            }
        }
        members.sort_unstable_by_key(|(order, rank, _)| (*order, *rank));
        let place = members
            .iter()
            .position(|(_, it, _)| *it == rank)
            .unwrap_or(0);
        let (_, _, next) = members[(place + 1) % members.len()];
        let key = self.key.child(&format!("split {color}"), self.splits);
        let ring = Ring {
            rank: place as u32,
            ranks: members.len() as u32,
            width: 1,
            key,
            meeting: Meeting::Known(next),
            roots: Vec::new(),
            listener,
            planned: self.planned.of(members.iter().map(|(_, rank, _)| *rank)),
            home: None,
        };
        let hosts = Self::meet(&self.base, ring)?;
        Ok(hosts.into_iter().next())
    }

    /// How the other ranks are reached.
    pub const fn reached(&self) -> &Reachability {
        &self.reached
    }

    /// Of the ranks that share cores with this one, itself included: how many have lower ranks, and
    /// how many there are.
    pub fn place_among_sharing(&self) -> (u32, u32) {
        let sharing = sharing(&self.infos, self.rank);
        let before = sharing.clone().filter(|it| it.rank < self.rank).count();
        (before as u32, sharing.count() as u32)
    }

    /// The ranks' descriptions of themselves.
    pub fn infos(&self) -> &[PeerInfo] {
        &self.infos
    }

    /// The key of this communicator.
    pub const fn key(&self) -> &Key {
        &self.key
    }

    pub(crate) fn service(&self) -> Result<&Service, Error> {
        self.service.as_ref().ok_or_else(|| Error::Bootstrap {
            rank: self.rank,
            why: "the communicator has ended".to_owned(),
        })
    }
}

fn no_ranks(rank: u32) -> Error {
    let why = "each process needs as many ranks as the others, at least one, and its first rank is a multiple of that"
        .to_owned();
    Error::Bootstrap { rank, why }
}

impl Bootstrap for Hosts {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn shares_memory(&self, peer: u32) -> bool {
        peer == self.rank || self.threads.contains(&peer)
    }

    fn transport(&self, peer: u32) -> Transport {
        self.transports[peer as usize]
    }

    fn same_host(&self, peer: u32) -> bool {
        self.infos[peer as usize].host == self.infos[self.rank as usize].host
    }

    fn host(&self, peer: u32) -> u32 {
        self.hosts[peer as usize]
    }

    fn sharing_cores(&self) -> u32 {
        self.place_among_sharing().1
    }

    fn crowd(&self) -> Crowd {
        most_crowded(&self.infos)
    }

    fn network(&mut self) -> Option<&mut dyn Network> {
        let remote = self.transports.contains(&Transport::Net);
        remote.then_some(self as &mut dyn Network)
    }

    fn alarms_of(&mut self, peer: u32) -> Option<Alarms> {
        self.woken(peer)
    }

    fn prefetch(&mut self, offers: &[(u32, String)]) {
        self.ask_for(offers);
    }

    fn publish(&mut self, name: &str, offer: Offer) -> Result<(), Error> {
        self.service()?.publish(name, offer.message);
        Ok(())
    }

    fn fetch(&mut self, from: u32, name: &str, longest: Duration) -> Result<Offer, Error> {
        self.await_offer(from, name, longest)
    }

    fn has_offer(&mut self, from: u32, name: &str) -> Result<bool, Error> {
        self.look_for_offer(from, name)
    }

    fn gather(&mut self, name: &str, own: &Offer, longest: Duration) -> Result<Vec<Offer>, Error> {
        self.gather_offers(name, own, longest)
    }

    fn fail(&mut self, failure: &Failure) {
        if let Some(service) = &self.service {
            service.fail(bootstrap::Failure::new(failure.rank, failure.what.clone()));
        }
    }

    fn failure(&mut self, waiting_for: Option<u32>) -> Option<Failure> {
        let failure = self.service.as_ref()?.failure(waiting_for)?;
        Some(of_job(failure))
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        let service = self.service.as_ref();
        let failed = || service.is_some_and(|it| it.failure(None).is_some());
        if let Some(service) = service
            && !failed()
        {
            service.finish();
            // Every rank announces that it is done before it waits for another one.
            self.hand_overs.end();
            // Others may work for hours; they learn that this rank has left.
            let until = Instant::now() + self.base.options.timing.join;
            let forwards = || self.queues().is_some_and(ProxyQueues::forwards);
            while forwards() && !failed() && Instant::now() < until {
                std::thread::sleep(LOOK);
            }
        }
        self.handover = None;
        if !failed() {
            let until = Instant::now() + DRAIN_TIME;
            self.hand_overs.await_sent(until);
            if let Some(queues) = self.queues() {
                queues.drain(until);
            }
        }
        // Announces that this rank is done, and waits a little for the others.
        self.service = None;
    }
}
