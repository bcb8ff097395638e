//! The α–β model (Hockney) for algorithms that NCCL does not have, so that they can be compared on
//! one plan.
//!
//! A message of n bytes takes α + nβ, and nγ more where it is reduced. p is the number of ranks, n
//! the bytes of one rank's piece where a collective gathers or scatters, otherwise the whole
//! message. Buffers are in place. The formulas are those of Thakur, Rabenseifner and Gropp,
//! "Optimization of Collective Communication Operations in MPICH" (2005), and Chan, Heimlich,
//! Purkayastha and van de Geijn, "Collective communication: theory, practice, and experience"
//! (2007).

use std::fmt;

use plan::Algorithm;
use plan::cost::{CostModel, Estimate};
use program::{Collective, Protocol};
use serde::{Deserialize, Serialize};
use topology::PathType;

use super::inputs::{GraphFigures, Inputs};
use super::profile::{CostProfile, Hardware};

/// An algorithm that the model judges. No name is one of NCCL's, so both can stand in one table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheme {
    /// Each rank with every other (or with the root), one message each.
    FullMesh,
    /// A chain through which pieces of the message follow each other.
    Chain,
    /// A binary tree, the whole message at once.
    BinaryTree,
    /// A ring that passes one rank's piece in each step.
    StepRing,
    /// Bruck: twice the data in each step, for any number of ranks.
    Bruck,
    /// Exchange with partners at distance 1, 2, 4 …, twice the data in each step; ranks are a power
    /// of two.
    RecursiveDoubling,
    /// Exchange with partners at distance p/2, p/4 …, half of the data in each step; ranks are a
    /// power of two.
    RecursiveHalving,
    /// Recursive halving, then recursive doubling; ranks are a power of two.
    HalvingDoubling,
    /// Two binary trees with half of the message each, every inner rank of one a leaf of the other.
    DoubleTree,
    /// The best reduce, then the best broadcast.
    ReduceBroadcast,
    /// Each rank reads the data of all others and reduces it.
    OneShotMesh,
}

impl Scheme {
    /// All of them, in the order in which equals are preferred.
    pub const ALL: [Self; 11] = [
        Self::FullMesh,
        Self::Chain,
        Self::BinaryTree,
        Self::StepRing,
        Self::Bruck,
        Self::RecursiveDoubling,
        Self::RecursiveHalving,
        Self::HalvingDoubling,
        Self::DoubleTree,
        Self::ReduceBroadcast,
        Self::OneShotMesh,
    ];

    /// The name in plans and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::FullMesh => "full-mesh",
            Self::Chain => "chain",
            Self::BinaryTree => "binary-tree",
            Self::StepRing => "step-ring",
            Self::Bruck => "bruck",
            Self::RecursiveDoubling => "recursive-doubling",
            Self::RecursiveHalving => "recursive-halving",
            Self::HalvingDoubling => "halving-doubling",
            Self::DoubleTree => "double-tree",
            Self::ReduceBroadcast => "reduce-broadcast",
            Self::OneShotMesh => "one-shot-mesh",
        }
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A value that is no time.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{name} is {found}; expected a finite number that is not negative")]
pub struct NotATime {
    /// Which one.
    pub name: &'static str,
    /// Its value.
    pub found: f64,
}

/// The α–β model of one communicator.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AlphaBeta {
    ranks: u32,
    alpha_us: f64,
    beta_us: f64,
    gamma_us: f64,
    pieces: Option<u32>,
}

impl AlphaBeta {
    /// A model from α (µs per message), β and γ (µs per byte moved and reduced). A chain cuts a
    /// message into as many pieces as are best.
    ///
    /// # Errors
    /// A value is negative or not finite.
    pub fn new(ranks: u32, alpha_us: f64, beta_us: f64, gamma_us: f64) -> Result<Self, NotATime> {
        for (name, found) in [("alpha", alpha_us), ("beta", beta_us), ("gamma", gamma_us)] {
            if !(found.is_finite() && found >= 0.0) {
                return Err(NotATime { name, found });
            }
        }
        Ok(Self {
            ranks,
            alpha_us,
            beta_us,
            gamma_us,
            pieces: None,
        })
    }

    /// A model of a joined communicator: α is the time of a ring's step with Simple over its
    /// slowest hop, β that of all channels together. γ is 0: NCCL's bandwidths contain the
    /// reduction. `None` without ring channels.
    pub fn of(inputs: &Inputs, profile: &CostProfile) -> Option<Self> {
        Self::of_ring(inputs.ranks, inputs.nodes, &inputs.ring, profile)
    }

    /// The same from the merged ring graph alone, as a plan keeps it.
    pub fn of_ring(
        ranks: u32,
        nodes: u32,
        ring: &GraphFigures,
        profile: &CostProfile,
    ) -> Option<Self> {
        let hardware = match (nodes, ring.type_intra) {
            (2.., _) => Hardware::Net,
            (_, PathType::Nvl) => Hardware::Nvlink,
            _ => Hardware::Pci,
        };
        let alpha = profile
            .hardware_latency_us
            .of(hardware)
            .of(Algorithm::Ring, Protocol::Simple);
        let inside = f64::from(ring.bw_intra);
        let channel = if nodes > 1 {
            inside.min(f64::from(ring.bw_inter))
        } else {
            inside
        };
        let gbps = channel * f64::from(ring.channels);
        (gbps > 0.0).then(|| Self::new(ranks, alpha, 1.0 / (1000.0 * gbps), 0.0).ok())?
    }

    /// α: time of a message without its bytes, µs.
    pub const fn alpha_us(&self) -> f64 {
        self.alpha_us
    }

    /// 1/β: bandwidth of all channels together, GB/s; infinite when bytes take no time.
    pub fn bandwidth(&self) -> f64 {
        1.0 / (1000.0 * self.beta_us)
    }

    /// The same with a fixed number of pieces for chains.
    #[must_use]
    pub const fn with_pieces(mut self, pieces: u32) -> Self {
        self.pieces = Some(pieces);
        self
    }

    /// Time of `stages` stages in a row that messages of `bytes` pass piece by piece, each byte
    /// taking `per_byte`, µs.
    fn pipeline(&self, stages: f64, bytes: f64, per_byte: f64) -> f64 {
        let time =
            |pieces: f64| (pieces + stages - 1.0) * (self.alpha_us + bytes / pieces * per_byte);
        if let Some(pieces) = self.pieces {
            return time(f64::from(pieces.max(1)));
        }
        // Here d/ds of (s + stages - 1)(α + n·b/s) is 0; no piece is smaller than a byte.
        let best = ((stages - 1.0) * bytes * per_byte / self.alpha_us).sqrt();
        let best = if best.is_nan() {
            1.0
        } else {
            best.min(bytes).max(1.0)
        };
        time(best.floor()).min(time(best.ceil()))
    }

    /// Time of a scheme, µs; `None` when it cannot carry out the collective.
    pub fn time_us(&self, collective: Collective, scheme: Scheme, bytes: u64) -> Option<f64> {
        use Collective as C;
        use Scheme as S;
        let ranks = self.ranks.max(1);
        let p = f64::from(ranks);
        let (alpha, beta, gamma) = (self.alpha_us, self.beta_us, self.gamma_us);
        let whole = bytes as f64;
        let piece = whole / p;
        // ⌈log₂ p⌉ rounds.
        let rounds = f64::from(ranks.next_power_of_two().ilog2());
        let power = ranks.is_power_of_two();
        let others = p - 1.0;
        let time = match (collective, scheme) {
            (C::Gather | C::Scatter | C::AllGather | C::AllToAll, S::FullMesh)
            | (C::AllGather, S::StepRing) => others * (alpha + piece * beta),
            (C::Broadcast, S::Chain) => self.pipeline(others, whole, beta),
            (C::Broadcast, S::BinaryTree) => rounds * (alpha + whole * beta),
            (C::AllGather, S::Bruck) => rounds * alpha + others * piece * beta,
            (C::AllGather, S::RecursiveDoubling) if power => rounds * alpha + others * piece * beta,
            (C::AllToAll, S::Bruck) => rounds * (alpha + p / 2.0 * piece * beta),
            (C::Reduce, S::BinaryTree) => rounds * (alpha + whole * (beta + gamma)),
            (C::Reduce, S::Chain) => self.pipeline(others, whole, beta + gamma),
            (C::ReduceScatter, S::StepRing) => others * (alpha + piece * (beta + gamma)),
            (C::ReduceScatter, S::RecursiveHalving) if power => {
                rounds * alpha + others * piece * (beta + gamma)
            }
            (C::AllReduce, S::StepRing) => {
                2.0 * others * (alpha + piece * beta) + others * piece * gamma
            }
            // An inner rank reduces half of the message from each of two children.
            (C::AllReduce, S::DoubleTree) => 2.0 * rounds * alpha + whole * (2.0 * beta + gamma),
            (C::AllReduce, S::HalvingDoubling) if power => {
                2.0 * rounds * alpha + others * piece * (2.0 * beta + gamma)
            }
            (C::AllReduce, S::ReduceBroadcast) => {
                let least = |collective| {
                    let times = [S::BinaryTree, S::Chain]
                        .into_iter()
                        .filter_map(|scheme| self.time_us(collective, scheme, bytes));
                    times.reduce(f64::min)
                };
                least(C::Reduce)? + least(C::Broadcast)?
            }
            (C::AllReduce, S::OneShotMesh) => alpha + others * whole * (beta + gamma),
            _ => return None,
        };
        // A rank on its own sends nothing.
        Some(if ranks == 1 { 0.0 } else { time })
    }
}

impl CostModel for AlphaBeta {
    type Choice = Scheme;

    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn estimates(&self, collective: Collective, bytes: u64) -> Vec<Estimate<Scheme>> {
        let estimate = |scheme| {
            let time_us = self.time_us(collective, scheme, bytes)?;
            Some(Estimate {
                choice: scheme,
                time_us,
            })
        };
        Scheme::ALL.into_iter().filter_map(estimate).collect()
    }
}

#[cfg(test)]
mod tests {
    use plan::cost::doubling;

    use super::*;

    /// α 10 µs, β 1 ms per MB, γ half of it.
    fn model(ranks: u32) -> AlphaBeta {
        match AlphaBeta::new(ranks, 10.0, 0.001, 0.0005) {
            Ok(model) => model,
            Err(error) => unreachable!("{error}"),
        }
    }

    #[test]
    fn formulas_for_eight_ranks_and_8000_bytes() {
        use Collective::*;
        for (collective, scheme, time) in [
            (AllGather, Scheme::FullMesh, 7.0 * 11.0),
            (AllGather, Scheme::StepRing, 7.0 * 11.0),
            (AllGather, Scheme::Bruck, 3.0 * 10.0 + 7.0),
            (AllToAll, Scheme::Bruck, 3.0 * (10.0 + 4.0)),
            (Broadcast, Scheme::BinaryTree, 3.0 * 18.0),
            (Reduce, Scheme::BinaryTree, 3.0 * 22.0),
            (ReduceScatter, Scheme::StepRing, 7.0 * 11.5),
            (ReduceScatter, Scheme::RecursiveHalving, 30.0 + 7.0 * 1.5),
            (AllReduce, Scheme::StepRing, 14.0 * 11.0 + 3.5),
            (AllReduce, Scheme::DoubleTree, 60.0 + 16.0 + 4.0),
            (AllReduce, Scheme::HalvingDoubling, 60.0 + 14.0 + 3.5),
            (AllReduce, Scheme::OneShotMesh, 10.0 + 56.0 + 28.0),
        ] {
            let found = model(8)
                .time_us(collective, scheme, 8000)
                .unwrap_or(f64::NAN);
            assert!(
                (found - time).abs() < 1e-9,
                "{collective} {scheme}: {found}, not {time}"
            );
        }
    }

    #[test]
    fn a_chain_takes_the_best_number_of_pieces() {
        let chain = |model: AlphaBeta| model.time_us(Collective::Broadcast, Scheme::Chain, 1 << 20);
        let best = chain(model(8));
        assert!(best.is_some());
        for pieces in 1..200 {
            assert!(best <= chain(model(8).with_pieces(pieces)), "{pieces}");
        }
        // (s + p - 2)(α + nβ/s)
        let four = model(8)
            .with_pieces(4)
            .time_us(Collective::Broadcast, Scheme::Chain, 8000);
        assert_eq!(four, Some(10.0 * 12.0));
    }

    #[test]
    fn small_messages_take_few_rounds_and_large_ones_little_traffic() {
        let ranges = model(16).sweep(Collective::AllReduce, doubling(8, 1 << 30));
        let schemes: Vec<_> = ranges.iter().filter_map(|range| range.choice).collect();
        assert_eq!(schemes, [Scheme::OneShotMesh, Scheme::HalvingDoubling]);
        let ranges = model(12).sweep(Collective::AllReduce, doubling(8, 1 << 30));
        let schemes: Vec<_> = ranges.iter().filter_map(|range| range.choice).collect();
        assert_eq!(
            schemes,
            [Scheme::OneShotMesh, Scheme::DoubleTree, Scheme::StepRing]
        );
        assert_eq!(ranges.last().map(|range| range.to_bytes), Some(1 << 30));
    }

    #[test]
    fn powers_of_two_only_where_needed() {
        let time =
            |ranks| model(ranks).time_us(Collective::AllGather, Scheme::RecursiveDoubling, 8);
        assert!(time(8).is_some());
        assert_eq!(time(6), None);
    }

    #[test]
    fn odd_values() {
        assert!(AlphaBeta::new(8, f64::NAN, 0.0, 0.0).is_err());
        assert!(AlphaBeta::new(8, 1.0, -1.0, 0.0).is_err());
        for ranks in [0, 1, 2] {
            for collective in Collective::ALL {
                for estimate in model(ranks).estimates(collective, u64::MAX) {
                    assert!(estimate.time_us.is_finite(), "{ranks} {collective}");
                }
            }
        }
        let free = AlphaBeta::new(8, 0.0, 0.0, 0.0);
        let time = free.map(|free| free.time_us(Collective::Broadcast, Scheme::Chain, 0));
        assert_eq!(time, Ok(Some(0.0)));
    }

    #[test]
    fn names_are_not_those_of_nccl() {
        for scheme in Scheme::ALL {
            assert!(scheme.name().parse::<Algorithm>().is_err(), "{scheme}");
        }
    }
}
