//! The address of a rank's process for its whole life, and the messages of survivors that gather
//! there.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use bootstrap::message::read_whole;
use bootstrap::socket::Acceptor;
use bootstrap::socket::accept::{Arrived, Until};
use bootstrap::socket::blocking::Connection;
use bootstrap::{Key, Kind, PeerInfo};
use serde::{Deserialize, Serialize};

use crate::ports::CommunicatorPorts;

/// How long connecting, and sending an answer, may take.
pub(crate) const PROOF_TIME: Duration = Duration::from_secs(2);

/// Where a rank's process is found for its whole life, in any communicator.
#[derive(Debug)]
pub(crate) struct Home {
    /// Its rank when all met.
    pub rank: u32,
    /// The ranks' descriptions of themselves then.
    pub infos: Arc<[PeerInfo]>,
    pub key: Key,
    /// The listener of the first communicator.
    pub listener: Arc<TcpListener>,
    /// Their ports in the plan.
    pub planned: CommunicatorPorts,
}

impl Home {
    /// The key for gathering.
    pub(crate) fn gather_key(&self) -> Key {
        self.key.child("gather", 0)
    }

    /// Accepts survivors.
    pub(crate) fn acceptor(&self) -> std::io::Result<Acceptor> {
        let listener = Arc::clone(&self.listener);
        Acceptor::new(listener, &self.gather_key(), &[Kind::Regroup], Until::Heard)
    }

    /// The members of a communicator, for ranks that are excluded.
    pub(crate) fn present(&self, members: &[u32], generation: u64) -> NewMembers {
        let address = |rank: &u32| (*rank, self.infos[*rank as usize].address);
        NewMembers {
            generation,
            members: members.iter().map(address).collect(),
        }
    }
}

/// The message of a survivor to the leader.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Candidate {
    pub rank: u32,
    /// Where its predecessor in the new ring connects to.
    pub ring: SocketAddr,
    /// How often it has gathered.
    pub generation: u64,
}

/// The members of the new communicator, by first rank.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct NewMembers {
    pub generation: u64,
    /// With their new listening addresses.
    pub members: Vec<(u32, SocketAddr)>,
}

impl NewMembers {
    /// Whether the members are ascending and below `ranks`, the number of ranks that met at first.
    pub(crate) fn is_valid(&self, ranks: usize) -> bool {
        let members = &self.members;
        members.is_sorted_by(|(one, _), (next, _)| one < next)
            && members
                .last()
                .is_some_and(|(last, _)| (*last as usize) < ranks)
    }

    /// As a message.
    pub(crate) fn encode(&self) -> Vec<u8> {
        postcard::to_allocvec(self).unwrap_or_default()
    }
}

/// The message of an accepted survivor. Connections of a communicator have another key.
pub(crate) fn candidate(arrived: Arrived) -> Option<(Candidate, Connection)> {
    let candidate = read_whole(&arrived.frame).ok()?;
    Some((candidate, Connection::of(arrived, PROOF_TIME).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ascending_ranks_that_met_are_members() {
        let valid = |ranks: &[u32]| {
            let address = SocketAddr::from(([127, 0, 0, 1], 1));
            let members = ranks.iter().map(|rank| (*rank, address)).collect();
            let gathered = NewMembers {
                generation: 1,
                members,
            };
            gathered.is_valid(4)
        };
        assert!(valid(&[0, 1, 2, 3]) && valid(&[2]));
        for ranks in [&[][..], &[0, 4], &[u32::MAX], &[1, 1], &[2, 1]] {
            assert!(!valid(ranks), "{ranks:?}");
        }
    }
}
