//! The outcomes of a searcher's earlier attempts.
//!
//! NCCL's outer loop often changes a limit that excludes nothing on the machine, and then repeats
//! the same walk. Such an attempt is not walked again if its solutions could not replace the best
//! one.

use plan::Pattern;
use topology::PathType;

use super::record::Record;
use super::seen::BestSolution;

/// Everything that the steps of a walk depend on, apart from the bandwidth that is left.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Signature {
    /// The first field, because attempts differ in it most and comparisons end early.
    speed: Speed,
    pattern: Pattern,
    collnet: bool,
    cross_nic: i32,
    same_channels: bool,
    /// The types that the limits let through, of those that there are.
    intra: u16,
    inter: u16,
    min_channels: usize,
    max_channels: usize,
    hops: i32,
    /// Which state of the links and ports it began with.
    state: u32,
}

/// Which bandwidths an attempt asks for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Speed {
    /// Inside the host and towards the network, GB/s.
    Exact(f32, f32),
    /// All bandwidths with which the walk is the same: the number of a [layout](super::layout).
    Like(usize),
}

impl Speed {
    /// The bandwidths of an attempt, and no others.
    pub(super) const fn exact(attempt: &Record) -> Self {
        Self::Exact(attempt.bw_intra, attempt.bw_inter)
    }
}

/// How a walk ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct WalkOutcome {
    pub budget_left: i32,
    pub hops: i32,
    /// Which state of the links and ports it left.
    state: u32,
    seen: BestSolution,
}

/// The walks so far.
#[derive(Debug)]
pub(super) struct Memo {
    inter: bool,
    intra_kinds: u16,
    inter_kinds: u16,
    /// Changes whenever a walk leaves links or ports other than it found them.
    state: u32,
    states: u32,
    walks: Vec<(Signature, WalkOutcome)>,
}

impl Memo {
    pub(super) const fn new(inter: bool, (intra_kinds, inter_kinds): (u16, u16)) -> Self {
        Self {
            inter,
            intra_kinds,
            inter_kinds,
            state: 0,
            states: 0,
            walks: Vec::new(),
        }
    }

    /// The job leaves the system.
    pub(super) const fn inter(&self) -> bool {
        self.inter
    }

    /// Which state of links and ports there is.
    pub(super) const fn state(&self) -> u32 {
        self.state
    }

    /// The types at most as bad as a limit.
    const fn up_to(limit: PathType) -> u16 {
        (2 << limit as u16) - 1
    }

    /// The limits on ports that matter, as bits.
    pub(super) const fn inter_class(&self, limit: PathType) -> u16 {
        self.inter_kinds & Self::up_to(limit)
    }

    /// The limits between GPUs that matter, as bits.
    pub(super) const fn intra_class(&self, limit: PathType) -> u16 {
        self.intra_kinds & Self::up_to(limit)
    }

    pub(super) fn sign(&self, record: &Record, speed: Speed) -> Signature {
        Signature {
            pattern: record.pattern,
            collnet: record.collnet,
            // Without ports there is nothing to cross.
            cross_nic: if self.inter { record.cross_nic } else { 0 },
            same_channels: record.same_channels,
            intra: self.intra_class(record.type_intra),
            inter: self.inter_class(record.type_inter),
            speed,
            min_channels: record.min_channels,
            max_channels: record.max_channels,
            hops: record.hops,
            state: self.state,
        }
    }

    /// The outcome of an equal walk, if none of its solutions would replace `best`.
    pub(super) fn recall(
        &self,
        signature: &Signature,
        current: &Record,
        best: &Record,
    ) -> Option<WalkOutcome> {
        let (_, outcome) = self.walks.iter().find(|(known, _)| known == signature)?;
        // A walk that changes the bandwidth left must be repeated.
        if outcome.state != signature.state {
            return None;
        }
        if outcome.seen.could_replace(current, best) {
            return None;
        }
        Some(*outcome)
    }

    /// Notes how a walk ended. `changed`: it left links or ports other than it found them.
    pub(super) fn note(
        &mut self,
        signature: Signature,
        changed: bool,
        budget_left: i32,
        hops: i32,
        seen: BestSolution,
    ) {
        self.changed(changed);
        self.walks.push((
            signature,
            WalkOutcome {
                budget_left,
                hops,
                state: self.state,
                seen,
            },
        ));
    }

    /// Marks links or ports as changed outside a remembered walk.
    pub(super) const fn changed(&mut self, changed: bool) {
        if changed {
            self.states += 1;
            self.state = self.states;
        }
    }
}
