//! What is done to a simulated job, from a seed, and how it may end.

use std::time::Duration;

use crate::failure::Failure;
use crate::machine::Timing;
use crate::simulation::faulty::{PATIENCE, World};
use crate::simulation::random::Random;

/// What is done to a job, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The process of a rank is killed.
    Kill(u32),
    /// The process of a rank is stopped and never goes on.
    Stop(u32),
    /// The process of a rank is stopped, and goes on so many milliseconds later.
    Pause(u32, u64),
    /// A connection is cut: both ends hear of it.
    Cut(u64),
    /// A connection carries nothing any more, and nobody hears of it.
    Stall(u64),
    /// What a connection carries comes so many milliseconds later.
    Delay(u64, u64),
    /// A bit of what a connection carries next is altered.
    Alter(u64),
    /// Somebody connects to a rank's address and sends random bytes.
    Stranger(u32),
    /// A message claims to be longer than any may be.
    Oversized(u64),
    /// A rank never comes.
    Missing(u32),
    /// A second process says that it is this rank.
    Double(u32),
    /// A rank has another token.
    WrongToken(u32),
    /// A rank has another plan.
    OtherPlan(u32),
    /// A rank drives the device that rank 0 drives, on the same host.
    SameDevice(u32),
    /// The roots begin to listen late.
    LateRoots,
}

/// A job and what is done to it.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// Ranks.
    pub ranks: u32,
    /// Roots.
    pub roots: u32,
    /// Faults with their times.
    pub faults: Vec<(Duration, Fault)>,
    /// For everything else that is random.
    pub seed: u64,
}

/// How it ended for a rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It heard everything right, and all others were done too.
    Done,
    /// It heard of this.
    Failed(Failure),
    /// It was killed, stopped or never came.
    Gone,
}

impl Scenario {
    /// A random one.
    pub fn random(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let ranks = 2 + random.below(11) as u32;
        let roots = 1 + random.below(u64::from(ranks.min(4))) as u32;
        let faults = (0..random.below(4))
            .map(|_| {
                let at = Duration::from_micros(random.below(3_000_000));
                let at = if random.below(2) == 0 { at / 300 } else { at };
                let rank = random.below(u64::from(ranks)) as u32;
                let pipe = random.next();
                let fault = match random.below(15) {
                    0 => Fault::Kill(rank),
                    1 => Fault::Stop(rank),
                    2 => Fault::Cut(pipe),
                    3 => Fault::Stall(pipe),
                    4 => Fault::Delay(pipe, random.below(20_000)),
                    5 => Fault::Alter(pipe),
                    6 => Fault::Stranger(rank),
                    7 => Fault::Oversized(pipe),
                    8 => Fault::Missing(rank),
                    9 => Fault::Double(rank),
                    10 => Fault::WrongToken(rank),
                    11 => Fault::OtherPlan(rank),
                    12 => Fault::SameDevice(rank.max(1)),
                    13 => Fault::Pause(rank, random.below(40_000)),
                    _ => Fault::LateRoots,
                };
                (at, fault)
            })
            .collect();
        Self {
            ranks,
            roots,
            faults,
            seed,
        }
    }

    /// By when every rank must have ended, on the virtual clock: the time to meet, twice the time that silence is
    /// borne, and the patience of those who ask.
    pub fn deadline(&self) -> Duration {
        let timing = Timing::default();
        timing.join + 2 * timing.silence + PATIENCE + Duration::from_secs(30)
    }

    /// Runs it, and gives each rank's outcome and when it ended.
    ///
    /// # Errors
    /// A rank neither succeeds nor fails by the deadline; the text names it.
    pub fn run(&self) -> Result<Vec<(Outcome, Duration)>, String> {
        World::new(self).run(self)
    }

    pub(super) fn has(&self, fault: Fault) -> bool {
        self.faults.iter().any(|(_, it)| *it == fault)
    }
}
