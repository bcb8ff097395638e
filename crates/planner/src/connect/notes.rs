//! Differences between the hosts of a job, and ports that they lack.

use plan::GraphKind;

use super::{JobPlan, transports};
use crate::note::Note;

impl JobPlan {
    /// What is odd about hosts, and NCCL accepts.
    pub(crate) fn notes(&self) -> Vec<Note> {
        let facts = &self.facts;
        let ports = || self.hosts.machines.iter().map(|machine| machine.ports);
        let least = ports().map(|(least, _)| least).min().unwrap_or(0);
        let most = ports().map(|(_, most)| most).max().unwrap_or(0);
        let mut notes = Vec::new();
        if least != most {
            notes.push(Note::Nets { least, most });
        }
        let (least, most) = (facts.sm_min, facts.sm_max);
        if least != most {
            notes.push(Note::Gpus { least, most });
        }
        let (least, most) = (facts.min_local_ranks, facts.max_local_ranks);
        if least != most {
            notes.push(Note::Ranks { least, most });
        }
        if facts.cpu_arch.is_none() || facts.cpu_vendor.is_none() {
            notes.push(Note::Processors);
        }
        let hosts = self.hosts.machines.iter().flat_map(|it| &it.nodes);
        if hosts
            .clone()
            .any(|it| transports::lacks_port(it, GraphKind::Tree))
        {
            notes.push(Note::TreePort);
        }
        let nodes = self.expansion.machines().iter().flatten();
        let common = self.common().p2p.per_peer;
        let own = || nodes.clone().filter_map(|node| node.transports().per_peer);
        let least = own().fold(common, u32::min);
        let most = own().fold(common, u32::max);
        if least != most {
            notes.push(Note::PeerChannels { least, most });
        }
        let mut pairs = nodes.filter_map(|node| node.transports().contradictory_pair());
        notes.extend(pairs.next().map(|(from, to)| Note::Transports { from, to }));
        notes
    }
}
