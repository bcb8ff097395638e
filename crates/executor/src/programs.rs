//! Proved programs, kept for further message sizes. No rank waits for a proof that it does not
//! need.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use program::Collective;
use program::lower::{self, SendRecv};
use program::verify::{self, VerifiedProgram};
use program::{BoundProgram, Channels, MessageSize, Schedule, Transfer};
use rustc_hash::FxHashMap;

use crate::error::Error;
use crate::request::{Choice, Request};

/// Slots of FIFOs.
const FIFO_SLOTS: u32 = shared_memory::fifo::SLOTS as u32;

/// Most steps of programs that are kept. Beyond it those that were used longest ago are removed;
/// they are proved again when they are needed.
const MOST_STEPS: usize = 4 << 20;

/// The inputs that programs depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ProgramKey {
    collective: Collective,
    schedule: Schedule,
    transfer: Transfer,
    root: u32,
    to: u32,
    in_place: bool,
    channels: u16,
    /// Whether the buffers are registered.
    registered: bool,
}

impl ProgramKey {
    pub fn of(request: &Request, choice: &Choice) -> Self {
        Self {
            collective: request.collective,
            schedule: choice.schedule,
            transfer: choice.transfer,
            root: request.root,
            to: request.to,
            in_place: request.in_place,
            channels: choice.channels,
            registered: false,
        }
    }

    /// The same with registered buffers.
    pub const fn registered(self) -> Self {
        Self {
            registered: true,
            ..self
        }
    }
}

/// The programs of all ranks for one key.
#[derive(Debug)]
pub(crate) struct Proved {
    /// In rank order; ranks that take no part are missing.
    verified: Vec<VerifiedProgram>,
    collective: Collective,
}

impl Proved {
    /// The program of a rank, bound to a message.
    pub fn bind(&self, rank: u32, message: &MessageSize) -> Result<BoundProgram, Error> {
        let refused = |why: String| Error::Program {
            rank,
            collective: self.collective,
            why,
        };
        let own = self.verified.iter().find(|it| it.program().rank == rank);
        let own = own.ok_or_else(|| refused("there is none for this rank".to_owned()))?;
        own.bind(message)
            .map_err(|error| refused(error.to_string()))
    }

    /// Steps of all programs.
    fn steps(&self) -> usize {
        let lanes = self.verified.iter().flat_map(|it| &it.program().lanes);
        lanes.map(|lane| lane.steps().count()).sum()
    }
}

/// The proof of a key, while its programs are written and afterwards.
type Proof = OnceLock<Result<Arc<Proved>, Error>>;

/// A proof that is kept.
#[derive(Debug, Default)]
struct Kept {
    proof: Arc<Proof>,
    /// Steps of its programs, and 1, once they are proved.
    steps: usize,
    /// The number of its last use.
    used: u64,
}

#[derive(Debug, Default)]
struct Known {
    by_key: FxHashMap<ProgramKey, Kept>,
    uses: u64,
}

impl Known {
    /// The proof of a key, which may not have begun.
    fn proof(&mut self, key: &ProgramKey) -> Arc<Proof> {
        self.uses += 1;
        let kept = self.by_key.entry(*key).or_default();
        kept.used = self.uses;
        Arc::clone(&kept.proof)
    }

    /// Notes the steps of a proof. If there are too many, removes the oldest half.
    fn note(&mut self, key: &ProgramKey, steps: usize) {
        if let Some(kept) = self.by_key.get_mut(key) {
            kept.steps = steps;
        }
        let mut all: usize = self.by_key.values().map(|it| it.steps).sum();
        if all <= MOST_STEPS {
            return;
        }
        let mut by_use: Vec<(u64, ProgramKey)> = self
            .by_key
            .iter()
            .map(|(key, it)| (it.used, *key))
            .collect();
        by_use.sort_unstable_by_key(|(used, _)| *used);
        // The last is in use.
        by_use.pop();
        for (_, oldest) in by_use {
            if all <= MOST_STEPS / 2 {
                return;
            }
            all -= self.by_key.remove(&oldest).map_or(0, |it| it.steps);
        }
    }
}

/// Programs by key; ranks that are threads share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Programs {
    known: Arc<Mutex<Known>>,
}

impl Programs {
    /// The programs for a key, written and proved at the first call.
    pub fn get(&self, key: &ProgramKey, all: &Channels, rank: u32) -> Result<Arc<Proved>, Error> {
        let mut proved = self.proof(key, || prove(key, all, rank));
        if let Err(Error::Program { rank: prover, .. }) = &mut proved {
            *prover = rank;
        }
        proved
    }

    /// The proof of a key, which is made at the first call. Ranks that need the same wait for it.
    fn proof(
        &self,
        key: &ProgramKey,
        prove: impl FnOnce() -> Result<Arc<Proved>, Error>,
    ) -> Result<Arc<Proved>, Error> {
        let proof = self.lock().proof(key);
        let mut steps = None;
        let proved = proof.get_or_init(|| {
            let proved = prove();
            steps = Some(1 + proved.as_ref().map_or(0, |it| it.steps()));
            proved
        });
        let proved = proved.clone();
        if let Some(steps) = steps {
            self.lock().note(key, steps);
        }
        proved
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        // A thread that panics between two statements leaves a consistent map.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes and proves the programs for a key.
fn prove(key: &ProgramKey, all: &Channels, rank: u32) -> Result<Arc<Proved>, Error> {
    let channels = all.take(usize::from(key.channels));
    let programs = if key.collective == Collective::SendRecv {
        let numbers: Vec<u16> = (0..channels.count()).collect();
        lower::send_recv(&SendRecv {
            ranks: channels.ranks(),
            from: key.root,
            to: key.to,
            channels: &numbers,
            transfer: key.transfer,
            in_place: key.in_place,
        })
    } else {
        let request = lower::ProgramRequest {
            collective: key.collective,
            schedule: key.schedule,
            transfer: key.transfer,
            root: key.root,
            in_place: key.in_place,
            channels: &channels,
        };
        match key.registered {
            true => lower::lower_registered(&request),
            false => lower::lower(&request),
        }
    };
    let programs = programs.map_err(|error| Error::Unsupported {
        collective: key.collective,
        ranks: channels.ranks(),
        why: error.to_string(),
    })?;
    let verified = verify::verify(programs, FIFO_SLOTS).map_err(|error| Error::Program {
        rank,
        collective: key.collective,
        why: error.to_string(),
    })?;
    Ok(Arc::new(Proved {
        verified,
        collective: key.collective,
    }))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;

    fn key(root: u32) -> ProgramKey {
        ProgramKey {
            collective: Collective::Broadcast,
            schedule: Schedule::Tree,
            transfer: Transfer::Fifo,
            root,
            to: 0,
            in_place: false,
            channels: 2,
            registered: false,
        }
    }

    #[test]
    fn a_proof_delays_no_other_one() {
        let (programs, channels) = (Programs::default(), Channels::plain(4, 2).unwrap());
        let (tell, told) = channel();
        let (end, ended) = channel();
        std::thread::scope(|scope| {
            let (slow, channels) = (&programs, &channels);
            let slow = scope.spawn(move || {
                slow.proof(&key(0), || {
                    tell.send(()).unwrap();
                    let other = ended.recv_timeout(Duration::from_secs(20));
                    other.expect("the other proof ends first");
                    prove(&key(0), channels, 0)
                })
            });
            told.recv().unwrap();
            programs.get(&key(1), channels, 0).unwrap();
            end.send(()).unwrap();
            slow.join().unwrap().unwrap();
        });
        assert_eq!(programs.lock().by_key.len(), 2);
    }

    #[test]
    fn programs_that_were_used_longest_ago_are_removed() {
        let mut known = Known::default();
        for root in 0..1000 {
            // The first is used again and again.
            for root in [0, root] {
                known.proof(&key(root));
            }
            known.note(&key(root), MOST_STEPS / 8);
        }
        let roots: Vec<u32> = known.by_key.keys().map(|key| key.root).collect();
        assert!(roots.contains(&0) && roots.contains(&999), "{roots:?}");
        assert!(roots.len() <= 8, "{roots:?}");
        // One that is longer alone is kept.
        known.note(&key(999), 2 * MOST_STEPS);
        assert_eq!(known.by_key.len(), 1);
    }

    #[test]
    fn each_rank_is_named_in_its_refusal() {
        let (programs, channels) = (Programs::default(), Channels::plain(2, 2).unwrap());
        let refuse = || {
            Err(Error::Program {
                rank: 0,
                collective: Collective::Broadcast,
                why: String::new(),
            })
        };
        assert!(programs.proof(&key(0), refuse).is_err());
        let refused = programs.get(&key(0), &channels, 1);
        assert!(matches!(refused, Err(Error::Program { rank: 1, .. })));
    }
}
