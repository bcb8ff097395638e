//! Simulated jobs with faults from a seed, and their outcomes.

use std::time::Duration;

use bootstrap::{Failure, Infos, Key, LinkError, Message, PeerInfo, Timing};
use fastrand::Rng;

use crate::world::{Event, Node, PATIENCE, Participant, State, Traffic, World, address, info};

const SECRET: &[u8; 7] = b"the job";

/// What is done to a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The process of a rank is killed.
    Kill(u32),
    /// The process of a rank is stopped for good.
    Stop(u32),
    /// The process of a rank is killed, and another one is started in its place.
    Restart(u32),
    /// The process of a rank is stopped for this many milliseconds.
    Pause(u32, u64),
    /// A connection is cut: both ends learn of it.
    Cut(u64),
    /// A connection loses everything from now on, and no end learns of it.
    Stall(u64),
    /// A connection delays everything by this many milliseconds.
    Delay(u64, u64),
    /// A bit of the next bytes on a connection is altered.
    Alter(u64),
    /// A stranger connects to a rank's address and sends random bytes.
    Stranger(u32),
    /// A message claims to be longer than the limit.
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
pub(crate) struct Scenario {
    /// Ranks.
    pub ranks: u32,
    /// Roots.
    pub roots: u32,
    /// Faults with their times.
    pub faults: Vec<(Duration, Fault)>,
    /// Seed of everything else that is random.
    pub seed: u64,
}

/// The outcome of a rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It met all others, and its exchange was right.
    Done,
    /// It was told of a failure.
    Failed(Failure),
    /// It was killed, stopped or never came.
    Gone,
}

impl Scenario {
    /// A random one.
    pub(crate) fn random(seed: u64) -> Self {
        let mut random = Rng::with_seed(seed);
        let ranks = random.u32(2..13);
        let roots = random.u32(1..=ranks.min(4));
        let faults = (0..random.u32(..4))
            .map(|_| {
                let at = Duration::from_micros(random.u64(..3_000_000));
                let at = if random.bool() { at / 300 } else { at };
                let rank = random.u32(..ranks);
                let pipe = random.u64(..);
                let fault = match random.u32(..16) {
                    0 => Fault::Kill(rank),
                    1 => Fault::Stop(rank),
                    2 => Fault::Cut(pipe),
                    3 => Fault::Stall(pipe),
                    4 => Fault::Delay(pipe, random.u64(..20_000)),
                    5 => Fault::Alter(pipe),
                    6 => Fault::Stranger(rank),
                    7 => Fault::Oversized(pipe),
                    8 => Fault::Missing(rank),
                    9 => Fault::Double(rank),
                    10 => Fault::WrongToken(rank),
                    11 => Fault::OtherPlan(rank),
                    12 => Fault::SameDevice(rank.max(1)),
                    13 => Fault::Pause(rank, random.u64(..40_000)),
                    14 => Fault::Restart(rank),
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

    /// When every rank must have ended on the virtual clock: the time to meet, twice the silence
    /// timeout, and the patience of a rank that asks.
    pub(crate) fn deadline(&self) -> Duration {
        let timing = Timing::default();
        timing.join + 2 * timing.silence + PATIENCE + Duration::from_secs(30)
    }

    /// Runs the job; returns each rank's outcome and its time.
    ///
    /// # Errors
    /// A rank neither succeeds nor fails by the deadline; the text names it.
    pub(crate) fn run(&self) -> Result<Vec<(Outcome, Duration)>, String> {
        let deadline = self.deadline();
        let mut world = self.world();
        while world.step(deadline) {}
        for rank in (0..self.ranks).filter(|rank| self.restarts(*rank)) {
            let again = world.nodes.iter().rposition(|it| it.rank == rank);
            world.nodes.swap(rank as usize, again.unwrap_or_default());
        }
        let members = world.nodes.drain(..).take(self.ranks as usize);
        let outcome = |(rank, node): (usize, Node<Infos>)| match (node.outcome, node.state) {
            (Some((Outcome::Failed(failure), _)), _)
                if failure.what.is_empty() || failure.rank >= self.ranks =>
            {
                Err(format!("rank {rank} hears of no culprit: {failure:?}"))
            }
            (Some(outcome), _) => Ok(outcome),
            (None, State::Gone | State::Stopped) => Ok((Outcome::Gone, Duration::ZERO)),
            (None, _) => Err(format!(
                "rank {rank} neither succeeds nor fails within {deadline:?}: {self:?}"
            )),
        };
        members.enumerate().map(outcome).collect()
    }

    /// The job at its start.
    fn world(&self) -> World<Infos> {
        let mut world = World::new(self.ranks, self.roots, self.seed ^ 0x5eed);
        for rank in 0..self.ranks {
            self.add_member(&mut world, rank, rank);
        }
        world.add_roots(&Key::of_secret(SECRET));
        let second = |rank: &u32| self.has(Fault::Double(*rank)) || self.restarts(*rank);
        for rank in (0..self.ranks).filter(second) {
            self.add_member(&mut world, rank, u32::MAX);
        }
        for node in 0..world.nodes.len() {
            let begin = Duration::from_micros(world.random.u64(..500_000));
            let Node {
                machine,
                process,
                rank,
                state,
                ..
            } = &mut world.nodes[node];
            let is_root = matches!(machine, Participant::Root(_));
            if self.has(Fault::Missing(*process)) {
                *state = State::Gone;
                continue;
            }
            if *process == u32::MAX && self.restarts(*rank) {
                continue;
            }
            let late = is_root && self.has(Fault::LateRoots);
            let begin = if late { Duration::from_secs(3) } else { begin };
            world.at(begin, Event::Start(node));
        }
        for (at, fault) in &self.faults {
            world.at(*at, Event::Fault(*fault));
        }
        world
    }

    fn add_member(&self, world: &mut World<Infos>, rank: u32, process: u32) {
        let node = world.nodes.len();
        let same = self.has(Fault::SameDevice(rank));
        let place = info(if same { 0 } else { rank }, 2);
        let info = PeerInfo {
            rank,
            fingerprint: [u8::from(self.has(Fault::OtherPlan(rank))); 32],
            host_name: info(rank, 2).host_name,
            process: node as u32,
            address: address(node),
            ..place
        };
        let wrong = self.has(Fault::WrongToken(rank));
        let key = Key::of_secret(if wrong { b"another" } else { SECRET });
        let table = Infos::new(info.clone(), self.ranks);
        let own = table.own_block();
        world.add_member(&info, process, key, table, own);
    }

    fn restarts(&self, rank: u32) -> bool {
        self.has(Fault::Restart(rank))
    }

    fn has(&self, fault: Fault) -> bool {
        self.faults.iter().any(|(_, it)| *it == fault)
    }
}

/// Messages as bytes, which faults can alter.
impl Traffic for Infos {
    fn encode(message: Message<Vec<u8>>) -> Result<Vec<u8>, Message<Vec<u8>>> {
        Ok(message.encode())
    }

    fn decode(bytes: &[u8]) -> Result<Message<Vec<u8>>, LinkError> {
        Message::decode(bytes)
    }

    fn part(rank: u32) -> Option<Vec<u8>> {
        Some(format!("what rank {rank} says").into_bytes())
    }
}
