//! Launching together what needs each other.
//!
//! A kernel of one rank waits for kernels of others. Were each launched when its rank comes, one could be running, and
//! waiting, while another rank still allocates memory or loads code, for which a GPU may want all its kernels to end.
//! So a rank deposits what it wants to run, and whoever completes a set of ranks that need each other launches them all.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::entry::Kernel;
use crate::layout::Part;

/// What a rank wants to run.
#[derive(Debug, Clone)]
pub struct Deposit {
    /// The rank.
    pub rank: u32,
    /// Ranks of this process that it exchanges data or signals with.
    pub peers: Vec<u32>,
    /// Its device.
    pub device: u32,
    /// Its kernel.
    pub kernel: Kernel,
    /// Its programs.
    pub parts: Vec<Part>,
    /// Ranks of other processes that it exchanges data or signals with.
    pub remote: Vec<u32>,
    /// Whether they reach any of those by a network: whoever carries what goes there is to be woken.
    pub carried: bool,
}

/// What a rank is to do after it deposited.
#[derive(Debug)]
pub enum Role {
    /// Launch these.
    Leads(Vec<Deposit>),
    /// Wait for the outcome.
    Follows,
}

#[derive(Default)]
struct State {
    waiting: BTreeMap<u32, Deposit>,
    failures: BTreeMap<u32, String>,
}

/// Where ranks meet.
pub struct Gang {
    state: Mutex<State>,
    /// By rank: launches that have ended.
    ended: Vec<AtomicU32>,
    /// By rank: not 0 when its kernels should be given up.
    given_up: AtomicU32,
}

impl Gang {
    /// For so many ranks.
    pub fn new(ranks: usize) -> Self {
        Self {
            state: Mutex::default(),
            ended: (0..ranks).map(|_| AtomicU32::new(0)).collect(),
            given_up: AtomicU32::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Between two statements here the state is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Launches of a rank that have ended.
    pub fn ended(&self, rank: u32) -> u32 {
        self.ended
            .get(rank as usize)
            .map_or(0, |ended| ended.load(Ordering::Acquire))
    }

    /// Deposits, and answers who launches.
    pub fn join(&self, deposit: Deposit) -> Role {
        let mut state = self.lock();
        let rank = deposit.rank;
        state.failures.remove(&rank);
        state.waiting.insert(rank, deposit);
        match complete(&state.waiting, rank) {
            Some(ranks) => {
                let all = ranks.iter().filter_map(|rank| state.waiting.remove(rank));
                Role::Leads(all.collect())
            }
            None => Role::Follows,
        }
    }

    /// Tells those whose kernels were launched how that went.
    pub fn finish(&self, deposits: &[Deposit], outcome: &Result<(), String>) {
        let mut state = self.lock();
        for deposit in deposits {
            if let Err(why) = outcome {
                state.failures.insert(deposit.rank, why.clone());
            }
            if let Some(ended) = self.ended.get(deposit.rank as usize) {
                ended.fetch_add(1, Ordering::Release);
            }
        }
    }

    /// Why the last launch of a rank failed; `None` if it did not.
    pub fn failure(&self, rank: u32) -> Option<String> {
        self.lock().failures.remove(&rank)
    }

    /// Takes a deposit back; `false` if it was launched already.
    pub fn withdraw(&self, rank: u32) -> bool {
        self.lock().waiting.remove(&rank).is_some()
    }

    /// Tells whoever leads to give up.
    pub fn give_up(&self) {
        self.given_up.store(1, Ordering::Release);
    }

    /// Whether somebody gave up. A communicator does not recover from that.
    pub fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Acquire) != 0
    }

    /// A peer of a rank that has not deposited what the rank waits for.
    pub fn missing(&self, rank: u32) -> Option<u32> {
        let state = self.lock();
        let own = state.waiting.get(&rank)?;
        let missing = |peer: &&u32| {
            let theirs = state.waiting.get(peer);
            theirs.is_none_or(|theirs| !theirs.peers.contains(&rank))
        };
        own.peers.iter().find(missing).copied()
    }
}

/// The ranks that need each other and this one, if all have come. Two ranks that name each other speak of the same
/// exchange, for both count their exchanges alike; one that names another which does not name it is not yet where that
/// one waits.
fn complete(waiting: &BTreeMap<u32, Deposit>, rank: u32) -> Option<Vec<u32>> {
    let mut ranks = vec![rank];
    let mut at = 0;
    while let Some(rank) = ranks.get(at).copied() {
        at += 1;
        for peer in &waiting.get(&rank)?.peers {
            if !waiting.get(peer)?.peers.contains(&rank) {
                return None;
            }
            if !ranks.contains(peer) {
                ranks.push(*peer);
            }
        }
    }
    Some(ranks)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deposit(rank: u32, peers: &[u32]) -> Deposit {
        Deposit {
            rank,
            peers: peers.to_vec(),
            device: 0,
            kernel: Kernel::Move,
            parts: Vec::new(),
            remote: Vec::new(),
            carried: false,
        }
    }

    fn leads(role: &Role) -> Option<Vec<u32>> {
        match role {
            Role::Leads(deposits) => {
                let mut ranks: Vec<u32> = deposits.iter().map(|it| it.rank).collect();
                ranks.sort_unstable();
                Some(ranks)
            }
            Role::Follows => None,
        }
    }

    #[test]
    fn the_last_one_leads() {
        let gang = Gang::new(3);
        assert_eq!(leads(&gang.join(deposit(0, &[1, 2]))), None);
        assert_eq!(gang.missing(0), Some(1));
        assert_eq!(leads(&gang.join(deposit(2, &[0, 1]))), None);
        assert_eq!(leads(&gang.join(deposit(1, &[0, 2]))), Some(vec![0, 1, 2]));
    }

    #[test]
    fn an_exchange_of_two_does_not_wait_for_a_third() {
        let gang = Gang::new(3);
        // Rank 0 waits for 1, which first has something to do with 2.
        assert_eq!(leads(&gang.join(deposit(0, &[1]))), None);
        assert_eq!(leads(&gang.join(deposit(1, &[2]))), None);
        assert_eq!(leads(&gang.join(deposit(2, &[1]))), Some(vec![1, 2]));
        assert_eq!(gang.missing(0), Some(1));
        assert_eq!(leads(&gang.join(deposit(1, &[0]))), Some(vec![0, 1]));
    }

    #[test]
    fn who_needs_nobody_leads_at_once() {
        let gang = Gang::new(1);
        assert_eq!(leads(&gang.join(deposit(0, &[]))), Some(vec![0]));
    }
}
