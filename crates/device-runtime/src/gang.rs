//! Launches ranks that depend on each other together.
//!
//! A kernel of one rank waits for kernels of other ranks. If each rank launched its own, one could
//! already wait while another rank still allocates memory or loads code, and a GPU may finish
//! these only after all its kernels have ended. So every rank deposits its launch, and the rank
//! that completes a set of dependent ranks launches them all.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::driver::DeviceCopy;
use crate::entry::Kernel;
use crate::layout::LaunchPart;

/// The launch that a rank asks for.
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
    pub parts: Vec<LaunchPart>,
    /// Ranks of other processes that it exchanges data or signals with.
    pub remote: Vec<u32>,
    /// Whether a network connects it to any remote rank, so that proxies need to be woken.
    pub uses_network: bool,
    /// The stream in whose order it runs; `None`: it runs at once.
    pub stream: Option<u64>,
    /// Copies before the kernel, in the order of that stream.
    pub before: Vec<DeviceCopy>,
    /// Copies behind the kernel, in the order of that stream.
    pub after: Vec<DeviceCopy>,
}

#[derive(Default)]
struct State {
    waiting: BTreeMap<u32, Deposit>,
    failures: BTreeMap<u32, String>,
}

/// The meeting point of the ranks of a process.
pub struct Gang {
    state: Mutex<State>,
    /// Launches in the order of streams, by rank: those submitted, and those of them that ended.
    in_order: Vec<[AtomicU32; 2]>,
    /// Finished launches, by rank.
    ended: Vec<AtomicU32>,
    /// Not 0 when the kernels must end early.
    aborted: AtomicU32,
    /// Changes while launches make progress.
    progress: AtomicU32,
}

impl Gang {
    /// Creates a gang of `ranks` ranks.
    pub fn new(ranks: usize) -> Self {
        Self {
            state: Mutex::default(),
            in_order: (0..ranks).map(|_| Default::default()).collect(),
            ended: (0..ranks).map(|_| AtomicU32::new(0)).collect(),
            aborted: AtomicU32::new(0),
            progress: AtomicU32::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is consistent between any two statements here, also after a panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of finished launches of a rank.
    pub fn ended(&self, rank: u32) -> u32 {
        self.ended
            .get(rank as usize)
            .map_or(0, |ended| ended.load(Ordering::Acquire))
    }

    fn in_order(&self, rank: u32, place: usize) -> Option<&AtomicU32> {
        Some(&self.in_order.get(rank as usize)?[place])
    }

    /// Number of launches of a rank that were submitted in the order of streams.
    pub fn submitted(&self, rank: u32) -> u32 {
        let submitted = self.in_order(rank, 0);
        submitted.map_or(0, |it| it.load(Ordering::Acquire))
    }

    /// Number of those that have not ended.
    pub fn open(&self, rank: u32) -> u32 {
        let ended = self.in_order(rank, 1);
        let ended = ended.map_or(0, |it| it.load(Ordering::Acquire));
        self.submitted(rank).wrapping_sub(ended)
    }

    /// Reports to ranks that their launch was submitted in the order of their streams, or why it
    /// could not be.
    pub fn submit(&self, ranks: &[u32], failure: Option<&String>) {
        if failure.is_some() {
            self.close(ranks, failure);
        }
        for submitted in ranks.iter().filter_map(|rank| self.in_order(*rank, 0)) {
            submitted.fetch_add(1, Ordering::Release);
        }
    }

    /// Reports to ranks that a launch that was submitted in the order of their streams has ended,
    /// and why it failed if it did.
    pub fn close(&self, ranks: &[u32], failure: Option<&String>) {
        let mut state = self.lock();
        for rank in ranks {
            if let Some(why) = failure {
                state.failures.insert(*rank, why.clone());
            }
            if let Some(ended) = self.in_order(*rank, 1) {
                ended.fetch_add(1, Ordering::Release);
            }
        }
    }

    /// Deposits a launch. Returns the deposits to launch if it was the last that was missing.
    pub fn join(&self, deposit: Deposit) -> Option<Vec<Deposit>> {
        let mut state = self.lock();
        let rank = deposit.rank;
        if deposit.stream.is_none() {
            state.failures.remove(&rank);
        }
        state.waiting.insert(rank, deposit);
        let ranks = complete(&state.waiting, rank)?;
        let all = ranks.iter().filter_map(|rank| state.waiting.remove(rank));
        Some(all.collect())
    }

    /// Reports to the ranks that their launch has ended, and why it failed if it did.
    pub fn finish(&self, deposits: &[Deposit], failure: Option<&String>) {
        let mut state = self.lock();
        for deposit in deposits {
            if let Some(why) = failure {
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

    /// Takes a deposit back. Returns `false` if it was already launched.
    pub fn withdraw(&self, rank: u32) -> bool {
        self.lock().waiting.remove(&rank).is_some()
    }

    /// Tells the leading rank to abort. A communicator does not recover from this.
    pub fn abort(&self) {
        self.aborted.store(1, Ordering::Release);
    }

    /// Tells the ranks that their launches make progress.
    pub fn advance(&self) {
        self.progress.fetch_add(1, Ordering::Relaxed);
    }

    /// A number that changes while launches make progress.
    pub fn progress(&self) -> u32 {
        self.progress.load(Ordering::Relaxed)
    }

    /// Whether a rank aborted.
    pub fn is_aborted(&self) -> bool {
        self.aborted.load(Ordering::Acquire) != 0
    }

    /// A peer whose matching deposit is missing.
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

/// The ranks that depend on `rank`, directly or not, if all have deposited. Two ranks that list
/// each other mean the same exchange, because both count their exchanges alike. A rank that does
/// not list its peer in return has not reached that exchange yet.
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
            uses_network: false,
            stream: None,
            before: Vec::new(),
            after: Vec::new(),
        }
    }

    fn leads(joined: Option<Vec<Deposit>>) -> Option<Vec<u32>> {
        let mut ranks: Vec<u32> = joined?.iter().map(|it| it.rank).collect();
        ranks.sort_unstable();
        Some(ranks)
    }

    #[test]
    fn the_last_one_leads() {
        let gang = Gang::new(3);
        assert_eq!(leads(gang.join(deposit(0, &[1, 2]))), None);
        assert_eq!(gang.missing(0), Some(1));
        assert_eq!(leads(gang.join(deposit(2, &[0, 1]))), None);
        assert_eq!(leads(gang.join(deposit(1, &[0, 2]))), Some(vec![0, 1, 2]));
    }

    #[test]
    fn an_exchange_of_two_does_not_wait_for_a_third() {
        let gang = Gang::new(3);
        // Rank 0 waits for rank 1, which first exchanges data with rank 2.
        assert_eq!(leads(gang.join(deposit(0, &[1]))), None);
        assert_eq!(leads(gang.join(deposit(1, &[2]))), None);
        assert_eq!(leads(gang.join(deposit(2, &[1]))), Some(vec![1, 2]));
        assert_eq!(gang.missing(0), Some(1));
        assert_eq!(leads(gang.join(deposit(1, &[0]))), Some(vec![0, 1]));
    }

    #[test]
    fn launches_in_order_are_open_until_they_end() {
        let gang = Gang::new(2);
        for _ in 0..3 {
            gang.submit(&[0, 1], None);
        }
        gang.close(&[0, 1], None);
        assert_eq!(
            (gang.open(0), gang.submitted(1), gang.failure(1)),
            (2, 3, None)
        );
        gang.submit(&[1], Some(&"full".to_owned()));
        assert_eq!((gang.open(1), gang.submitted(1)), (2, 4));
        assert_eq!(gang.failure(1).as_deref(), Some("full"));
    }

    #[test]
    fn who_needs_nobody_leads_at_once() {
        let gang = Gang::new(1);
        assert_eq!(leads(gang.join(deposit(0, &[]))), Some(vec![0]));
    }
}
