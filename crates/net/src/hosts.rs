//! Joining ranks of several hosts, and the bootstrap of their communicator.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bootstrap::interface::{self, Interface, Wanted};
use bootstrap::member::Meeting;
use bootstrap::socket::service::{self, Service};
use bootstrap::socket::{Config, listen};
use bootstrap::{Key, PeerInfo, Timing};
use executor::bootstrap::{Bootstrap, Offer};
use executor::{Error, Failure, Network, Route, Transport};
use shared_memory::fifo::relay::{Inflow, Outflow};
use shared_memory::{Bell, Handle, Mapping};

use crate::host::Host;
use crate::proxy::thread::{Common, Proxy, Way, bell};

/// Bytes of the memory by which ranks of a host find out whether they can share any.
const TRIAL_BYTES: usize = 4096;

/// How a rank joins.
#[derive(Debug)]
pub struct Options {
    /// The own rank.
    pub rank: u32,
    /// Ranks.
    pub ranks: u32,
    /// What the ranks know.
    pub key: Key,
    /// How the ring is found.
    pub meeting: Meeting,
    /// Roots that are in this process.
    pub roots: Vec<(u32, TcpListener)>,
    /// Which interfaces are used.
    pub interfaces: Wanted,
    /// This host.
    pub host: Host,
    /// Version of the program.
    pub version: String,
    /// Fingerprint of everything that all ranks must agree on.
    pub fingerprint: [u8; 32],
    /// The device that this rank drives; empty if none.
    pub device: String,
    /// How long things may take.
    pub timing: Timing,
    /// Whether ranks of one host may share memory (NCCL's `NCCL_SHM_DISABLE` says no).
    pub share_memory: bool,
    /// Sockets of each connection between hosts.
    pub sockets: u16,
    /// Whether what goes between hosts carries checksums.
    pub checks: bool,
    /// By channel: the NIC that the plan names; by number of the channel if it names none.
    pub nics: Vec<u32>,
}

/// How ranks are reached, for the head of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reached {
    /// Ranks of the own host, with which memory is shared.
    pub shared: u32,
    /// Ranks of other hosts.
    pub far: u32,
    /// Ranks of the own host with which memory cannot be shared, and why not.
    pub fallen_back: Vec<(u32, String)>,
    /// Interfaces and their addresses.
    pub interfaces: Vec<(String, SocketAddr)>,
    /// Names of all hosts, each once.
    pub hosts: Vec<String>,
}

/// The bootstrap of a rank among ranks of several hosts.
pub struct Hosts {
    rank: u32,
    ranks: u32,
    infos: Vec<PeerInfo>,
    transports: Vec<Transport>,
    reached: Reached,
    key: Key,
    options: NetOptions,
    /// Before the service, for what was posted is sent before this rank says that it is done.
    proxies: Vec<Proxy>,
    service: Option<Service>,
    listeners: Vec<TcpListener>,
    bell: Bell,
    alarms: Arc<[std::os::fd::OwnedFd]>,
    linger: Duration,
}

struct NetOptions {
    sockets: u16,
    checks: bool,
    nics: Vec<u32>,
    join: Duration,
    spare_cores: bool,
}

/// How long posting what is left may take at the end.
const DRAIN_TIME: Duration = Duration::from_secs(5);

impl Hosts {
    /// Meets the other ranks, and finds out how each is reached.
    ///
    /// # Errors
    /// They do not come, do not agree, or there is no interface; the error names the culprit.
    pub fn join(options: Options) -> Result<Self, Error> {
        let Options { rank, ranks, .. } = options;
        let refused = |why: String| Error::Bootstrap { rank, why };
        let system = |error: std::io::Error| refused(error.to_string());
        let all = interface::list().map_err(system)?;
        let chosen = interface::choose(&all, &options.interfaces).map_err(refused)?;
        let listener = listen(chosen[0].address).map_err(system)?;
        let nics: Result<Vec<TcpListener>, _> =
            chosen.iter().map(|it| listen(it.address)).collect();
        let listeners = nics.map_err(system)?;
        let addresses: std::io::Result<Vec<SocketAddr>> =
            listeners.iter().map(TcpListener::local_addr).collect();
        let info = PeerInfo {
            rank,
            version: options.version.clone(),
            fingerprint: options.fingerprint,
            host: options.host.identity,
            host_name: options.host.name.clone(),
            process: std::process::id(),
            device: options.device.clone(),
            address: chosen[0].address,
            nics: addresses.map_err(system)?,
        };
        let service = Service::join(Config {
            key: options.key.clone(),
            ranks,
            meeting: options.meeting.clone(),
            roots: options.roots,
            listener,
            info,
            timing: options.timing,
        });
        let service = service.map_err(|error| of_service(rank, error))?;
        let infos = service.infos();
        let infos = if infos.is_empty() {
            return Err(refused("the ranks have not met".to_owned()));
        } else {
            infos
        };
        let (transports, fallen_back) = agree(
            &service,
            &infos,
            rank,
            options.share_memory,
            options.timing.join,
        )?;
        let reached = reached(&infos, &transports, rank, fallen_back, &chosen);
        let (bell, alarms) = bell(listeners.len()).map_err(system)?;
        let here = transports.iter().filter(|it| **it != Transport::Net);
        let threads = here.count() * (1 + listeners.len());
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Ok(Self {
            rank,
            ranks,
            infos,
            transports,
            reached,
            key: options.key,
            options: NetOptions {
                sockets: options.sockets.clamp(1, 64),
                checks: options.checks,
                nics: options.nics,
                join: options.timing.join,
                spare_cores: threads <= cores,
            },
            proxies: Vec::new(),
            service: Some(service),
            listeners,
            bell,
            alarms,
            linger: DRAIN_TIME,
        })
    }

    /// How the others are reached.
    pub const fn reached(&self) -> &Reached {
        &self.reached
    }

    /// What all ranks say of themselves.
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

    /// The NIC of a route: what the plan says, or the channel's number.
    fn nic(&self, route: &Route, nics: usize) -> usize {
        let named = self.options.nics.get(usize::from(route.channel));
        named.map_or(usize::from(route.channel), |it| *it as usize) % nics.max(1)
    }
}

fn of_service(rank: u32, error: service::Error) -> Error {
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

/// How each rank is reached, and the ranks of the own host with which memory cannot be shared. Two ranks share memory if
/// both can open what the other made; all hear of all trials, so both ends of a pair say the same.
fn agree(
    service: &Service,
    infos: &[PeerInfo],
    rank: u32,
    share: bool,
    longest: Duration,
) -> Result<(Vec<Transport>, Vec<(u32, String)>), Error> {
    let of = |error| of_service(rank, error);
    let own = infos[rank as usize].host;
    let here = |peer: u32| infos[peer as usize].host == own && peer != rank;
    // The memory lives until all have tried to open it.
    let trial = if share {
        shared_memory::process_memory::allow_peers();
        let made = Mapping::shared("trial", TRIAL_BYTES);
        made.and_then(|it| it.populate().map(|()| it))
            .map_err(|error| error.to_string())
    } else {
        Err("NCCL_SHM_DISABLE is set".to_owned())
    };
    let handle = match &trial {
        Ok(mapping) => match mapping.handle() {
            Ok(Some(handle)) => format!("+{handle}"),
            Ok(None) => "-its memory has no handle".to_owned(),
            Err(error) => format!("-{error}"),
        },
        Err(why) => format!("-{why}"),
    };
    let handles = service.exchange(handle.into_bytes(), longest).map_err(of)?;
    let mut problems: Vec<(u32, String)> = Vec::new();
    for peer in (0..infos.len() as u32).filter(|peer| here(*peer)) {
        let text = String::from_utf8_lossy(&handles[peer as usize]).into_owned();
        if let Err(why) = &trial {
            problems.push((peer, format!("rank {rank} cannot share memory: {why}")));
            continue;
        }
        let opened = match text.strip_prefix('+') {
            Some(handle) => handle
                .parse::<Handle>()
                .and_then(|handle| Mapping::open(&handle))
                .map_err(|error| error.to_string()),
            None => Err(format!(
                "rank {peer} cannot share memory: {}",
                text.trim_start_matches('-')
            )),
        };
        problems.extend(opened.err().map(|why| (peer, why)));
    }
    let told = postcard::to_allocvec(&problems).unwrap_or_default();
    let all = service.exchange(told, longest).map_err(of)?;
    drop(trial);
    let mut transports = vec![Transport::Net; infos.len()];
    let mut fallen_back = Vec::new();
    for peer in 0..infos.len() as u32 {
        if peer == rank {
            transports[peer as usize] = Transport::P2p;
        } else if here(peer) {
            let theirs: Vec<(u32, String)> =
                postcard::from_bytes(&all[peer as usize]).unwrap_or_default();
            let mine = problems.iter().find(|(other, _)| *other == peer);
            let theirs = theirs.iter().find(|(other, _)| *other == rank);
            match mine.or(theirs) {
                Some((_, why)) => fallen_back.push((peer, why.clone())),
                None => transports[peer as usize] = Transport::Shm,
            }
        }
    }
    Ok((transports, fallen_back))
}

fn reached(
    infos: &[PeerInfo],
    transports: &[Transport],
    rank: u32,
    fallen_back: Vec<(u32, String)>,
    chosen: &[Interface],
) -> Reached {
    let count = |wanted: Transport| transports.iter().filter(|it| **it == wanted).count() as u32;
    let mut hosts: Vec<(u64, String)> = Vec::new();
    for info in infos {
        if !hosts.iter().any(|(host, _)| *host == info.host) {
            hosts.push((info.host, info.host_name.clone()));
        }
    }
    let nics = &infos[rank as usize].nics;
    Reached {
        shared: count(Transport::Shm),
        far: count(Transport::Net) - fallen_back.len() as u32,
        fallen_back,
        interfaces: chosen
            .iter()
            .zip(nics)
            .map(|(it, nic)| (it.name.clone(), *nic))
            .collect(),
        hosts: hosts.into_iter().map(|(_, name)| name).collect(),
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

    fn network(&mut self) -> Option<&mut dyn Network> {
        let far = self.transports.contains(&Transport::Net);
        far.then_some(self as &mut dyn Network)
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

impl Network for Hosts {
    fn begin(&mut self, own_bell: Bell) {
        let Some(service) = &self.service else {
            return;
        };
        let common = Common {
            key: self.key.clone(),
            rank: self.rank,
            places: self.infos.iter().map(PeerInfo::place).collect(),
            alarm: service.alarm(),
            bell: self.bell.clone(),
            own_bell,
            alarms: Arc::clone(&self.alarms),
            spare_cores: self.options.spare_cores,
        };
        for (listener, nic) in self.listeners.drain(..).zip(0..) {
            match Proxy::start(&common, nic, listener) {
                Ok(proxy) => self.proxies.push(proxy),
                Err(error) => {
                    let what = format!("the proxy of NIC {nic} cannot be started: {error}");
                    service.fail(bootstrap::Failure::new(self.rank, what));
                }
            }
        }
    }

    fn bell(&self) -> Bell {
        self.bell.clone()
    }

    fn send(&mut self, route: &Route, slots: Box<dyn Outflow>) -> Result<(), Error> {
        let nic = self.nic(route, self.proxies.len());
        let theirs = &self.infos[route.to as usize].nics;
        let to = theirs[self.nic(route, theirs.len())];
        let way = Way {
            to,
            sockets: self.options.sockets,
            checks: self.options.checks,
            longest: self.options.join,
        };
        let Some(proxy) = self.proxies.get(nic) else {
            return Err(self.no_proxy());
        };
        proxy
            .send(route, slots, &way)
            .map_err(|failure| Error::Bootstrap {
                rank: self.rank,
                why: failure.to_string(),
            })
    }

    fn receive(&mut self, route: &Route, slots: Box<dyn Inflow>) -> Result<(), Error> {
        let nic = self.nic(route, self.proxies.len());
        match self.proxies.get(nic) {
            Some(proxy) => {
                proxy.receive(route, slots);
                Ok(())
            }
            None => Err(self.no_proxy()),
        }
    }
}

impl Hosts {
    fn no_proxy(&self) -> Error {
        Error::Bootstrap {
            rank: self.rank,
            why: "there is no proxy that could carry data to other hosts".to_owned(),
        }
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        let failed = self
            .service
            .as_ref()
            .is_some_and(|it| it.failure(None).is_some());
        if !failed {
            let until = Instant::now() + self.linger;
            for proxy in &self.proxies {
                proxy.drain(until);
            }
        }
        // Says that it is done, and waits for the others a little.
        self.service = None;
    }
}
