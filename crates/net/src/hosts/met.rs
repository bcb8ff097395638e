//! A rank of a process that has met the others.

use std::collections::HashMap;
use std::net::TcpListener;
use std::sync::Arc;

use bootstrap::socket::service::Service;
use bootstrap::{Key, PeerInfo};
use executor::Error;

use super::crowd::sharing;
use super::{Base, Hosts};
use crate::errors::of_system;
use crate::forwarding::HandOvers;
use crate::home::Home;
use crate::plugin::{Agreement, PluginNic};
use crate::ports::CommunicatorPorts;
use crate::proxy::{MOST_THREADS, bell};
use crate::reach::{Trial, reached};

/// Ranks on a core beyond which a rank that waits for other hosts sleeps at once, as
/// [`shared_memory::Patience::new`] has it within a host.
const CROWDED: usize = 2;
/// The common state of the ranks of a process that have met the others.
pub(super) struct MetRanks<'a> {
    pub base: &'a Arc<Base>,
    pub infos: &'a Arc<[PeerInfo]>,
    pub trial: &'a Trial,
    pub agreed: &'a Agreement,
    pub key: &'a Key,
    pub planned: &'a CommunicatorPorts,
    pub home: &'a Arc<Home>,
    pub members: &'a [u32],
    pub generation: u64,
}

impl MetRanks<'_> {
    /// One of the ranks.
    pub(super) fn rank(
        &self,
        service: Service,
        listeners: Vec<TcpListener>,
    ) -> Result<Hosts, Error> {
        let (rank, infos) = (service.rank(), self.infos);
        let system = |error: std::io::Error| of_system(rank, &error);
        let reached = reached(infos, self.trial, rank, self.agreed, &self.base.interfaces);
        let checks = self.base.options.checks;
        let nics = match &self.agreed.plugin {
            Some(plugin) => PluginNic::all(plugin, &service.alarm(), checks),
            None if self.trial.any_remote => {
                let nics = self.base.tcp(listeners, infos, rank, self.key);
                nics.map_err(system)?
            }
            None => Vec::new(),
        };
        let proxies = nics.len().min(MOST_THREADS);
        let (bell, alarms) = bell(proxies).map_err(system)?;
        // In a rehearsal, ranks that act as other hosts still share these cores.
        let near = sharing(infos, rank).count();
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let mut hosts = Hosts {
            rank,
            ranks: infos.len() as u32,
            infos: Arc::clone(infos),
            hosts: self.trial.hosts.clone(),
            threads: Vec::new(),
            transports: self.trial.transports().to_vec(),
            reached,
            hand_overs: HandOvers::new(self.key.clone()),
            key: self.key.clone(),
            generation: self.generation,
            splits: 0,
            base: Arc::clone(self.base),
            home: Arc::clone(self.home),
            members: self.members.to_vec(),
            spare_cores: near * (1 + proxies) <= cores,
            crowded: near > CROWDED * cores,
            proxies: None,
            nics: nics.into(),
            service: Some(service),
            asked: HashMap::new(),
            arrived: HashMap::new(),
            planned: self.planned.clone(),
            bell,
            alarms,
            handover: None,
            handover_sockets: HashMap::default(),
            sleepers: HashMap::default(),
        };
        hosts.reached.forwarded = hosts.forwarded();
        Ok(hosts)
    }
}
