//! Fabrics: what goes between hosts by an NCCL net plug-in instead of sockets.
//!
//! In reading order: [`agree`] (whether all ranks have the same), [`carry`] (one FIFO, copied), [`in_place`] (one whose slots
//! NICs reach themselves), `ends` (how far each is), [`thread`] (driving all of them).

pub mod agree;
pub mod carry;
mod ends;
pub mod in_place;
pub mod thread;

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use bootstrap::PeerInfo;
use bootstrap::socket::service::Service;
use executor::{Error, Route};
use net_plugin::{Plugin, Wanted};
use shared_memory::fifo::relay::{SlotsIn, SlotsOut};

use crate::forwarding::Served;
use crate::hosts::of_service;
use crate::proxy::Common;
use crate::tcp::connect::words;
use agree::{Loaded, Nic, Says};
use ends::Offered;
use thread::Driver;

/// Most threads of a rank; with more NICs each drives several.
const MOST_THREADS: usize = 16;

/// A plug-in of this process, which is loaded when the first rank on another host is met and stays for all communicators.
#[derive(Debug)]
pub(crate) struct Own {
    wanted: Wanted,
    loaded: OnceLock<Result<Option<Plugin>, net_plugin::Error>>,
}

impl Own {
    pub const fn new(wanted: Wanted) -> Self {
        Self {
            wanted,
            loaded: OnceLock::new(),
        }
    }

    fn load(&self, communicator: u64) -> &Result<Option<Plugin>, net_plugin::Error> {
        self.loaded
            .get_or_init(|| Plugin::load(&self.wanted, communicator))
    }

    fn says(&self, communicator: u64) -> Says {
        match self.load(communicator) {
            Ok(None) => Says::Nothing,
            Ok(Some(plugin)) => Says::Loaded(Loaded {
                name: plugin.name().to_owned(),
                version: plugin.version(),
                path: plugin.path().to_owned(),
                devices: plugin.devices().iter().map(Nic::from).collect(),
            }),
            Err(error) if self.wanted == Wanted::Found => Says::FallenBack(error.to_string()),
            Err(error) => Says::Failed(error.to_string()),
        }
    }
}

/// What ranks came to: the plug-in, or why one that was found is not used.
#[derive(Debug, Default)]
pub(crate) struct Agreed {
    pub fabric: Option<Fabric>,
    pub loaded: Option<Loaded>,
    pub fallen_back: Option<String>,
}

/// Loads what is wanted, and finds out whether all ranks have the same. All call it together.
pub(crate) fn agree_all(
    own: &Own,
    service: &Service,
    infos: &[PeerInfo],
    rank: u32,
    longest: Duration,
) -> Result<Agreed, Error> {
    let refused = |why: String| Error::Bootstrap { rank, why };
    let says = own.says(number(infos));
    let told = postcard::to_allocvec(&says).unwrap_or_default();
    let all = service.exchange(told, longest);
    let all = all.map_err(|error| of_service(rank, error))?;
    let all: Result<Vec<Says>, _> = all.iter().map(|it| postcard::from_bytes(it)).collect();
    let all = all
        .map_err(|_| refused("another rank says nothing sensible of its net plug-in".to_owned()))?;
    let fallen_back = agree::decide(infos, &all).map_err(refused)?;
    let Says::Loaded(loaded) = says else {
        return Ok(Agreed {
            fallen_back,
            ..Agreed::default()
        });
    };
    let plugin = own.load(0).clone().ok().flatten();
    Ok(Agreed {
        fabric: plugin.map(Fabric::new),
        loaded: Some(loaded),
        fallen_back: None,
    })
}

/// A number of the communicator that its ranks agree on: where its first rank listens, by FNV-1a.
fn number(infos: &[PeerInfo]) -> u64 {
    let text = infos
        .first()
        .map(|it| format!("{} {}", it.address, it.process));
    let text = text.unwrap_or_default();
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    hash.max(1)
}

/// A plug-in and the threads that drive its NICs. Several may give them work.
#[derive(Clone)]
pub(crate) struct Fabric {
    plugin: Plugin,
    state: Arc<Mutex<State>>,
}

struct State {
    /// What the threads have in common, once it has begun.
    common: Option<Common>,
    checks: bool,
    drivers: Vec<Option<Driver>>,
}

impl Fabric {
    fn new(plugin: Plugin) -> Self {
        let threads = plugin.devices().len().min(MOST_THREADS);
        let state = State {
            common: None,
            checks: false,
            drivers: (0..threads).map(|_| None).collect(),
        };
        Self {
            plugin,
            state: Arc::new(Mutex::new(state)),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Between two statements here the state is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Most threads that there will be.
    pub fn threads(&self) -> usize {
        self.state().drivers.len()
    }

    /// NICs that there are.
    pub fn devices(&self) -> usize {
        self.plugin.devices().len()
    }

    /// Whether all NICs read and write memory of GPUs.
    pub fn reaches_devices(&self) -> bool {
        let mut devices = self.plugin.devices().iter();
        devices.all(net_plugin::Device::takes_device_memory)
    }

    /// Begins; threads start when there is something for them.
    pub fn begin(&self, common: Common, checks: bool) {
        let mut state = self.state();
        state.common = Some(common);
        state.checks = checks;
    }

    /// From now on carries what is posted to a FIFO from a NIC, once the receiver offers a handle: what this rank sends, or
    /// what another one handed over. Answers no if the threads are about to end.
    pub fn send(
        &self,
        ask: impl FnOnce(u32, &str) -> u32,
        route: &Route,
        device: usize,
        slots: SlotsOut,
        served: Option<Served>,
    ) -> Result<bool, Error> {
        let mut state = self.state();
        let driver = state.driver(&self.plugin, route.from, device)?;
        let ticket = ask(route.to, &offer(route));
        Ok(driver.send(route, device as u32, slots, ticket, served))
    }

    /// From now on posts to a FIFO what comes by a route to a NIC, and offers the handle that the sender needs.
    pub fn receive(
        &self,
        service: &Service,
        route: &Route,
        device: usize,
        slots: SlotsIn,
    ) -> Result<(), Error> {
        let listening = self.plugin.listen(device as u32);
        let (listening, handle) = listening.map_err(|error| Error::Bootstrap {
            rank: route.to,
            why: format!("{} cannot be made: {error}", words(route)),
        })?;
        let mut state = self.state();
        let driver = state.driver(&self.plugin, route.to, device)?;
        let in_place = matches!(slots, SlotsIn::InPlace(_));
        driver.receive(route, device as u32, slots, listening);
        service.publish(&offer(route), Offered { handle, in_place }.bytes());
        Ok(())
    }

    /// Whether anything is carried for other ranks.
    pub fn serves(&self) -> bool {
        self.state().drivers.iter().flatten().any(Driver::serves)
    }

    /// Sends everything that was posted, within some time.
    pub fn drain(&self, until: Instant) {
        for driver in self.state().drivers.iter().flatten() {
            driver.drain(until);
        }
    }
}

impl State {
    fn driver(&mut self, plugin: &Plugin, rank: u32, device: usize) -> Result<&Driver, Error> {
        let at = device % self.drivers.len().max(1);
        let (checks, common) = (self.checks, &self.common);
        if self.drivers[at].is_none() {
            let started = match common {
                Some(common) => Driver::start(common, at, plugin, checks),
                None => Err(io::Error::other("the communicator has not begun")),
            };
            self.drivers[at] = Some(started.map_err(|error| Error::Bootstrap {
                rank,
                why: format!("the thread of NIC {device} cannot be started: {error}"),
            })?);
        }
        let missing = || Error::Bootstrap {
            rank,
            why: format!("NIC {device} has no thread"),
        };
        self.drivers[at].as_ref().ok_or_else(missing)
    }
}

impl std::fmt::Debug for Fabric {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fabric")
            .field("plugin", &self.plugin)
            .finish_non_exhaustive()
    }
}

/// The name under which the handle of a route is offered.
fn offer(route: &Route) -> String {
    let Route {
        from,
        to,
        channel,
        port,
        protocol,
    } = route;
    format!("net plug-in {from} {to} {channel} {port} {protocol}")
}
