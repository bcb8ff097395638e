//! Joins ranks of several hosts; the bootstrap of their communicator.

mod network;
mod options;

use std::collections::HashMap;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bootstrap::interface::{self, Interface};
use bootstrap::member::Meeting;
use bootstrap::socket::service::{self, Service};
use bootstrap::socket::{Config, listen};
use bootstrap::{Key, PeerInfo, Timing};
use executor::bootstrap::{Bootstrap, Offer};
use executor::{Error, Failure, Network, Transport};
use shared_memory::Bell;

use crate::forwarding::{HandOvers, HandoverSocket};
use crate::host::Host;
use crate::late_joins;
use crate::nic::{Nic, Nics};
use crate::plugin::{self, Agreed, Own, PluginNic};
use crate::ports::Planned;
use crate::proxy::{MOST_THREADS, Proxies, ProxyQueues, bell};
use crate::reach::{Reached, agree, reached};
use crate::regroup::{Home, Survivor};
use crate::tcp::{self, TcpNic};

pub use options::{Options, loopback_id};

/// The bootstrap of a rank among ranks of several hosts.
pub struct Hosts {
    rank: u32,
    ranks: u32,
    infos: Vec<PeerInfo>,
    transports: Vec<Transport>,
    reached: Reached,
    key: Key,
    /// How often ranks were lost, and how often it was split.
    generation: u64,
    splits: u64,
    base: Arc<Base>,
    home: Arc<Home>,
    /// By rank: its rank when all met.
    members: Vec<u32>,
    spare_cores: bool,
    /// Before the service: what was posted is sent before this rank announces that it is done.
    proxies: Option<Proxies>,
    nics: Nics,
    service: Option<Service>,
    planned: Planned,
    bell: Bell,
    alarms: Arc<[OwnedFd]>,
    /// FIFOs that other ranks of the host forward for this one.
    hand_overs: HandOvers,
    /// Where they hand FIFOs over to this one.
    handover: Option<HandoverSocket>,
    /// Their handover sockets, by rank.
    handover_sockets: HashMap<u32, SocketAddr>,
}

/// How long sending what is left may take at the end.
const DRAIN_TIME: Duration = Duration::from_secs(5);

/// Between two checks whether other ranks still need this rank's proxies.
const LOOK: Duration = Duration::from_millis(1);

/// What all communicators of a job have in common.
#[derive(Debug)]
pub(crate) struct Base {
    interfaces: Vec<Interface>,
    host: Host,
    version: String,
    fingerprint: [u8; 32],
    alike: Vec<(String, String)>,
    device: String,
    pub timing: Timing,
    share_memory: bool,
    sockets: u16,
    checks: bool,
    pxn: bool,
    plugin: Own,
}

impl Base {
    /// Listens on the first interface, at a free port.
    pub fn listen(&self) -> std::io::Result<TcpListener> {
        listen(self.interfaces[0].address)
    }
}

/// What differs between communicators.
pub(crate) struct Ring {
    pub rank: u32,
    pub ranks: u32,
    pub key: Key,
    pub meeting: Meeting,
    pub roots: Vec<(u32, TcpListener)>,
    pub listener: TcpListener,
    pub planned: Planned,
    /// Where this rank is found, the members' ranks when all met, and how often ranks were lost since.
    pub home: Option<(Arc<Home>, Vec<u32>, u64)>,
}

impl Hosts {
    /// Meets the other ranks, and finds out how to reach each.
    ///
    /// # Errors
    /// Ranks are missing or disagree, or there is no interface; the error names the rank to blame.
    pub fn join(options: Options) -> Result<Self, Error> {
        let Options { rank, ranks, .. } = options;
        let refused = |why: String| Error::Bootstrap { rank, why };
        let all = interface::list().map_err(|error| refused(error.to_string()))?;
        let interfaces = interface::choose(&all, &options.interfaces).map_err(refused)?;
        let base = Base {
            interfaces,
            host: options.host,
            version: options.version,
            fingerprint: options.fingerprint,
            alike: options.alike,
            device: options.device,
            timing: options.timing,
            share_memory: options.share_memory,
            sockets: options.sockets.clamp(1, 64),
            checks: options.checks,
            pxn: options.pxn,
            plugin: Own::new(options.net_plugin),
        };
        let listener = base.listen().map_err(|error| refused(error.to_string()))?;
        Self::meet(
            Arc::new(base),
            Ring {
                rank,
                ranks,
                key: options.key,
                meeting: options.meeting,
                roots: options.roots,
                listener,
                planned: Planned {
                    ports: options.ports,
                    ranks: (0..ranks).collect(),
                },
                home: None,
            },
        )
    }

    pub(crate) fn meet(base: Arc<Base>, ring: Ring) -> Result<Self, Error> {
        let Ring { rank, ranks, .. } = ring;
        let system = |error: std::io::Error| Error::Bootstrap {
            rank,
            why: error.to_string(),
        };
        let nics: std::io::Result<Vec<TcpListener>> = base
            .interfaces
            .iter()
            .map(|it| listen(it.address))
            .collect();
        let listeners = nics.map_err(system)?;
        let addresses: std::io::Result<Vec<SocketAddr>> =
            listeners.iter().map(TcpListener::local_addr).collect();
        let info = PeerInfo {
            rank,
            version: base.version.clone(),
            fingerprint: base.fingerprint,
            options: base.alike.clone(),
            host: base.host.identity,
            host_name: base.host.name.clone(),
            machine: base.host.machine,
            cores: base.host.cores.clone(),
            process: std::process::id(),
            device: base.device.clone(),
            address: base.interfaces[0].address,
            nics: addresses.map_err(system)?,
        };
        // Survivors of a failure gather where the rank listened at first.
        let gathering = ring.listener.try_clone().map_err(system)?;
        let service = Service::join(Config {
            key: ring.key.clone(),
            ranks,
            meeting: ring.meeting,
            roots: ring.roots,
            listener: ring.listener,
            info,
            timing: base.timing,
        });
        let service = service.map_err(|error| of_service(rank, error))?;
        let infos = service.infos();
        let (home, members, generation) = ring.home.unwrap_or_else(|| {
            let home = Home {
                rank,
                infos: infos.clone(),
                key: ring.key.clone(),
                listener: gathering,
                planned: ring.planned.clone(),
            };
            (Arc::new(home), (0..ranks).collect(), 0)
        });
        let trial = agree(&service, &infos, rank, base.share_memory, base.timing.join)?;
        let mut agreed = if trial.any_remote {
            plugin::agree_all(&base.plugin, &service, &infos, rank, base.timing.join)?
        } else {
            Agreed::default()
        };
        let reached = reached(&infos, &trial, rank, &agreed, &base.interfaces);
        let nics = match agreed.plugin.take() {
            Some(plugin) => PluginNic::all(&plugin, &service.alarm(), base.checks),
            None => {
                let settings = tcp::Settings {
                    rank,
                    places: infos.iter().map(PeerInfo::place).collect(),
                    key: ring.key.clone(),
                    sockets: base.sockets,
                    checks: base.checks,
                    timing: base.timing,
                };
                let nics = listeners.into_iter();
                let nics = nics.map(|it| Ok(Box::new(TcpNic::new(it, &settings)?) as Box<dyn Nic>));
                nics.collect::<std::io::Result<Vec<_>>>().map_err(system)?
            }
        };
        let proxies = nics.len().min(MOST_THREADS);
        let (bell, alarms) = bell(proxies).map_err(system)?;
        let hand_overs = HandOvers::new(ring.key.clone());
        // In a rehearsal, ranks that act as other hosts still share these cores.
        let sharing = sharing(&infos, rank).count();
        let threads = sharing * (1 + proxies);
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let mut hosts = Self {
            rank,
            ranks,
            infos,
            transports: trial.transports,
            reached,
            key: ring.key,
            generation,
            splits: 0,
            base,
            home,
            members,
            spare_cores: threads <= cores,
            proxies: None,
            nics: nics.into(),
            service: Some(service),
            planned: ring.planned,
            bell,
            alarms,
            hand_overs,
            handover: None,
            handover_sockets: HashMap::default(),
        };
        hosts.reached.forwarded = hosts.forwarded();
        Ok(hosts)
    }

    /// A communicator of the ranks with this color, ordered by `order` and then by rank; `None` for a color
    /// below 0. All ranks call it together.
    ///
    /// # Errors
    /// Another rank does not call it, or fails.
    pub fn split(&mut self, color: i32, order: i32) -> Result<Option<Self>, Error> {
        let rank = self.rank;
        let system = |error: std::io::Error| Error::Bootstrap {
            rank,
            why: error.to_string(),
        };
        let listener = self.base.listen().map_err(system)?;
        let address = listener.local_addr().map_err(system)?;
        let told = postcard::to_allocvec(&(color, order, address)).unwrap_or_default();
        let all = self.service()?.exchange(told, self.base.timing.join);
        let all = all.map_err(|error| of_service(rank, error))?;
        self.splits += 1;
        if color < 0 {
            return Ok(None);
        }
        let mut members: Vec<(i32, u32, SocketAddr)> = Vec::new();
        for (part, rank) in all.iter().zip(0..) {
            let (theirs, order, address): (i32, i32, SocketAddr) = postcard::from_bytes(part)
                .map_err(|_| Error::Bootstrap {
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
            key,
            meeting: Meeting::Known(next),
            roots: Vec::new(),
            listener,
            planned: self.planned.of(members.iter().map(|(_, rank, _)| *rank)),
            home: None,
        };
        Self::meet(Arc::clone(&self.base), ring).map(Some)
    }

    /// What this rank needs to continue if others fail. To be taken before the communicator is made, and
    /// kept while it works.
    ///
    /// # Errors
    /// The system has no descriptor or thread left.
    pub fn survivor(&self) -> Result<Survivor, Error> {
        let (home, members) = (Arc::clone(&self.home), self.members.clone());
        // Nobody is late before ranks were lost.
        let late_joins = if self.generation == 0 {
            None
        } else {
            let kept = late_joins::listen(Arc::clone(&home), members.clone(), self.generation);
            Some(kept.map_err(|error| Error::Bootstrap {
                rank: self.rank,
                why: error.to_string(),
            })?)
        };
        Ok(Survivor {
            home,
            members,
            generation: self.generation,
            base: Arc::clone(&self.base),
            alarm: self.service()?.alarm(),
            late_joins,
        })
    }

    /// How the other ranks are reached.
    pub const fn reached(&self) -> &Reached {
        &self.reached
    }

    /// Of the ranks that share cores with this one, itself included: how many have lower ranks, and how
    /// many there are.
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

    fn service(&self) -> Result<&Service, Error> {
        self.service.as_ref().ok_or_else(|| Error::Bootstrap {
            rank: self.rank,
            why: "the communicator has ended".to_owned(),
        })
    }
}

/// The ranks that share cores with this one, itself included.
fn sharing(infos: &[PeerInfo], rank: u32) -> impl Iterator<Item = &PeerInfo> + Clone {
    let own = &infos[rank as usize];
    infos.iter().filter(move |it| own.shares_cores(it))
}

pub(crate) fn of_service(rank: u32, error: service::Error) -> Error {
    match error {
        service::Error::Failed(failure) => Error::Aborted {
            rank,
            failure: Failure {
                rank: failure.rank,
                what: failure.what,
            },
        },
        other => Error::Bootstrap {
            rank,
            why: other.to_string(),
        },
    }
}

impl Bootstrap for Hosts {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn shares_memory(&self, peer: u32) -> bool {
        peer == self.rank
    }

    fn transport(&self, peer: u32) -> Transport {
        self.transports[peer as usize]
    }

    fn same_host(&self, peer: u32) -> bool {
        self.infos[peer as usize].host == self.infos[self.rank as usize].host
    }

    fn sharing_cores(&self) -> u32 {
        self.place_among_sharing().1
    }

    fn network(&mut self) -> Option<&mut dyn Network> {
        let remote = self.transports.contains(&Transport::Net);
        remote.then_some(self as &mut dyn Network)
    }

    fn publish(&mut self, name: &str, offer: Offer) -> Result<(), Error> {
        self.service()?.publish(name, offer.text.into_bytes());
        Ok(())
    }

    fn fetch(&mut self, from: u32, name: &str, longest: Duration) -> Result<Offer, Error> {
        let value = self.service()?.fetch(from, name, longest);
        let value = value.map_err(|error| of_service(self.rank, error))?;
        Ok(Offer {
            text: String::from_utf8_lossy(&value).into_owned(),
            segment: None,
        })
    }

    fn exchange(
        &mut self,
        _name: &str,
        text: String,
        longest: Duration,
    ) -> Result<Vec<String>, Error> {
        let all = self.service()?.exchange(text.into_bytes(), longest);
        let all = all.map_err(|error| of_service(self.rank, error))?;
        let texts = all
            .iter()
            .map(|it| String::from_utf8_lossy(it).into_owned());
        Ok(texts.collect())
    }

    fn fail(&mut self, failure: &Failure) {
        if let Some(service) = &self.service {
            service.fail(bootstrap::Failure::new(failure.rank, failure.what.clone()));
        }
    }

    fn failure(&mut self, waiting_for: Option<u32>) -> Option<Failure> {
        let failure = self.service.as_ref()?.failure(waiting_for)?;
        Some(Failure {
            rank: failure.rank,
            what: failure.what,
        })
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
            while self.queues().is_some_and(ProxyQueues::forwards) && !failed() {
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
