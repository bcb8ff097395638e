//! Data between hosts by an NCCL net plug-in instead of sockets.
//!
//! In reading order: [`agree`] (whether all ranks have the same plug-in), `nic` (a NIC of it),
//! [`ends`] (connections from the time when they are asked for), [`messages`] (FIFOs that are
//! copied), [`in_place`] (FIFOs whose slots NICs access).

pub mod agree;
pub mod ends;
pub mod in_place;
pub mod messages;
mod nic;

use std::sync::OnceLock;
use std::time::Duration;

use bootstrap::PeerInfo;
use bootstrap::message::read_whole;
use bootstrap::socket::service::Service;
use executor::Error;
use net_plugin::{Plugin, PluginChoice};
use shared_memory::call_within;
use shared_memory::fifo::SLOTS;

use crate::errors::of_service;
use agree::{LoadedNic, LoadedPlugin, Report};

pub(crate) use nic::PluginNic;

/// Messages of a connection that may be under way.
const MESSAGES: usize = SLOTS as usize;

/// The plug-in of this process. It is loaded when the first rank on another host is met, and stays
/// for all communicators.
#[derive(Debug)]
pub(crate) struct Own {
    wanted: PluginChoice,
    loaded: OnceLock<Result<Option<Plugin>, net_plugin::Error>>,
}

impl Own {
    pub(crate) const fn new(wanted: PluginChoice) -> Self {
        Self {
            wanted,
            loaded: OnceLock::new(),
        }
    }

    /// Loads and starts it, for at most so long.
    fn load(
        &self,
        communicator: u64,
        longest: Duration,
    ) -> &Result<Option<Plugin>, net_plugin::Error> {
        self.loaded.get_or_init(|| {
            let wanted = self.wanted.clone();
            let loaded = call_within(longest, move || Plugin::load(&wanted, communicator));
            loaded.unwrap_or_else(|why| {
                Err(net_plugin::Error::Silent {
                    wanted: self.wanted.to_string(),
                    why: why.to_string(),
                })
            })
        })
    }

    fn report(&self, communicator: u64, longest: Duration) -> Report {
        match self.load(communicator, longest) {
            Ok(None) => Report::Nothing,
            Ok(Some(plugin)) => Report::Loaded(LoadedPlugin {
                name: plugin.name().to_owned(),
                version: plugin.version(),
                path: plugin.path().to_owned(),
                devices: plugin.devices().iter().map(LoadedNic::from).collect(),
            }),
            Err(error) if self.wanted == PluginChoice::Found => {
                Report::FallenBack(error.to_string())
            }
            Err(error) => Report::Failed(error.to_string()),
        }
    }
}

/// The agreement of the ranks: the plug-in, or why one that was found is not used.
#[derive(Debug, Default)]
pub(crate) struct Agreement {
    pub plugin: Option<Plugin>,
    pub loaded: Option<LoadedPlugin>,
    pub fallen_back: Option<String>,
}

/// Loads the plug-in, and finds out whether all ranks have the same. All ranks call it together.
pub(crate) fn agree_all(
    own: &Own,
    service: &Service,
    infos: &[PeerInfo],
    rank: u32,
    longest: Duration,
) -> Result<Agreement, Error> {
    let refused = |why: String| Error::Bootstrap { rank, why };
    // The others wait for the report meanwhile.
    let report = own.report(number(infos), longest / 2);
    let bytes = postcard::to_allocvec(&report).unwrap_or_default();
    let all = service.exchange_alike(bytes, longest);
    let all = all.map_err(|error| of_service(rank, error))?;
    let all: Result<Vec<Report>, _> = all.iter().map(|it| read_whole(it)).collect();
    let all = all
        .map_err(|_| refused("another rank sends no valid report of its net plug-in".to_owned()))?;
    let fallen_back = agree::decide(infos, &all).map_err(refused)?;
    let Report::Loaded(loaded) = report else {
        return Ok(Agreement {
            fallen_back,
            ..Agreement::default()
        });
    };
    Ok(Agreement {
        plugin: own.load(0, longest).clone().ok().flatten(),
        loaded: Some(loaded),
        fallen_back: None,
    })
}

/// A number of the communicator that its ranks agree on: a hash of where its first rank listens.
fn number(infos: &[PeerInfo]) -> u64 {
    let text = infos
        .first()
        .map(|it| format!("{} {}", it.address, it.process));
    crate::host::hash(text.unwrap_or_default().as_bytes()).max(1)
}
