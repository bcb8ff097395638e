//! The choice of algorithm, transfer, protocol and channels.
//!
//! Times that were measured with the very number of ranks decide, interpolated between two sizes on
//! logarithmic scales. For other numbers of ranks the model predicts them.

use executor::backend::CommunicatorShape;
use executor::{Choice, Request};
use plan::cost::{CostModel, Estimate};
use program::{Collective, Protocol, Reduction};
use program::{Schedule, Transfer};

use crate::profile::{MeasuredChoice, Profile};

impl Profile {
    /// The cost model of a communicator.
    pub const fn of(&self, shape: CommunicatorShape) -> ProfileModel<'_> {
        ProfileModel {
            profile: self,
            shape,
        }
    }

    /// The choice for a request that is expected to be the fastest.
    pub fn choose(&self, request: &Request, shape: CommunicatorShape) -> Option<Choice> {
        let bytes = request.bytes(shape.ranks);
        if shape.hosts > 1 {
            // Measurements between ranks of one host do not apply to a network.
            return Some(between_hosts(request, bytes));
        }
        let fastest = |estimates: Vec<Estimate<Choice>>| {
            let estimates = estimates.into_iter();
            let can = estimates.filter(|it| serves(request, &it.choice, shape));
            can.min_by(|one, other| one.time_us.total_cmp(&other.time_us))
        };
        let model = self.of(shape);
        let measured = fastest(model.measured(request.collective, bytes));
        let best = measured.or_else(|| fastest(model.predicted(request.collective, bytes)));
        Some(best?.choice)
    }

    /// Predicted time of a choice, µs; `None` between hosts, and for what was not measured beside
    /// other choices or has no model.
    pub fn predict(
        &self,
        request: &Request,
        choice: &Choice,
        shape: CommunicatorShape,
    ) -> Option<f64> {
        if shape.hosts > 1 {
            return None;
        }
        let bytes = request.bytes(shape.ranks);
        let measured = self.of(shape).measured(request.collective, bytes);
        if measured.is_empty() {
            let ranks = (shape.ranks, shape.cores);
            return (self.model).time_us(request.collective, choice, ranks, bytes);
        }
        let same = |it: &Estimate<Choice>| {
            (it.choice.schedule, it.choice.transfer) == (choice.schedule, choice.transfer)
                && (choice.transfer == Transfer::Direct || it.choice.protocol == choice.protocol)
        };
        Some(measured.into_iter().find(same)?.time_us)
    }
}

/// Whether a choice can carry out a request.
pub fn serves(request: &Request, choice: &Choice, shape: CommunicatorShape) -> bool {
    let collective = request.collective;
    let reaches = match choice.transfer {
        Transfer::Fifo => true,
        Transfer::Direct => shape.hosts == 1,
        Transfer::Hierarchical => shape.even_hosts || !collective.splits_message(),
    };
    if !reaches || !choice.schedule.serves(collective, choice.transfer) {
        return false;
    }
    // A direct transfer reads its sources in shape: it cannot multiply them first, they must not be
    // overwritten during the transfer, and the peers of a group have no buffer tables.
    let multiplies = collective.reduces() && request.reduction == Reduction::PreMultipliedSum;
    let overwritten = collective == Collective::AllToAll && request.in_place && shape.ranks > 1;
    choice.transfer == Transfer::Fifo
        || !(multiplies || overwritten || collective == Collective::SendRecv)
}

/// All choices for a request, each with one channel.
pub fn choices(request: &Request, shape: CommunicatorShape) -> Vec<Choice> {
    let all = all_choices(request.collective);
    all.filter(|choice| serves(request, choice, shape))
        .collect()
}

/// All choices for a collective, each with one channel.
fn all_choices(collective: Collective) -> impl Iterator<Item = Choice> {
    let choices = Schedule::ALL.into_iter().flat_map(|schedule| {
        Transfer::ALL.into_iter().flat_map(move |transfer| {
            // A direct transfer has no protocol; it is listed once.
            let protocols = Protocol::ALL.into_iter();
            let once =
                protocols.filter(move |it| transfer != Transfer::Direct || *it == Protocol::Simple);
            once.map(move |protocol| Choice {
                schedule,
                transfer,
                protocol,
                channels: 1,
                piece_bytes: 0,
            })
        })
    });
    choices.filter(move |choice| choice.schedule.serves(collective, choice.transfer))
}

/// Largest message between hosts sent with LL, which rings no bell for posted slots, bytes.
const MOST_REMOTE_LL: u64 = 2 << 10;

/// Largest message between hosts sent to all ranks at once instead of around a ring, bytes.
const MOST_REMOTE_MESH: u64 = 64 << 10;

/// The choice between hosts. These limits made an all-reduce over TCP between two hosts fastest.
/// One channel, because each connection costs system calls.
fn between_hosts(request: &Request, bytes: u64) -> Choice {
    let short = bytes <= MOST_REMOTE_MESH;
    let rings = Schedule::Ring.serves(request.collective, Transfer::Fifo);
    Choice {
        schedule: match short || !rings {
            true => Schedule::Mesh,
            false => Schedule::Ring,
        },
        transfer: Transfer::Fifo,
        protocol: match bytes <= MOST_REMOTE_LL {
            true => Protocol::Ll,
            false => Protocol::Simple,
        },
        channels: 1,
        piece_bytes: 0,
    }
}

/// The cost model of one communicator.
#[derive(Debug, Clone, Copy)]
pub struct ProfileModel<'a> {
    profile: &'a Profile,
    shape: CommunicatorShape,
}

impl CostModel for ProfileModel<'_> {
    type Choice = Choice;

    fn ranks(&self) -> u32 {
        self.shape.ranks
    }

    fn estimates(&self, collective: Collective, bytes: u64) -> Vec<Estimate<Choice>> {
        let measured = self.measured(collective, bytes);
        if measured.is_empty() {
            return self.predicted(collective, bytes);
        }
        measured
    }
}

impl ProfileModel<'_> {
    /// The times that were measured with as many ranks.
    fn measured(&self, collective: Collective, bytes: u64) -> Vec<Estimate<Choice>> {
        let (profile, shape) = (self.profile, self.shape);
        let measured = profile.measured.iter().filter(|it| {
            (it.collective, it.ranks, it.threads) == (collective, shape.ranks, shape.one_process)
        });
        let estimate = |it: &MeasuredChoice| {
            Some(Estimate {
                choice: it.choice(profile.channels.min(shape.channels))?,
                time_us: interpolate(&profile.sizes, &it.times_us, bytes)?,
            })
        };
        measured.filter_map(estimate).collect()
    }

    /// The times that the model predicts.
    fn predicted(&self, collective: Collective, bytes: u64) -> Vec<Estimate<Choice>> {
        let shape = self.shape;
        let leaders = u16::try_from(shape.cores).unwrap_or(u16::MAX);
        let leaders = leaders.clamp(1, shape.channels.max(1));
        let choices = all_choices(collective).flat_map(|choice| {
            // More channels only help an algorithm that leaves ranks without work.
            let several = choice.schedule == Schedule::Leader && leaders > 1;
            let several = several.then_some(Choice {
                channels: leaders,
                ..choice
            });
            [choice].into_iter().chain(several)
        });
        let ranks = (shape.ranks, shape.cores);
        let predicted = choices.filter_map(|choice| {
            let model = &self.profile.model;
            let time_us = model.time_us(collective, &choice, ranks, bytes)?;
            Some(Estimate { choice, time_us })
        });
        predicted.collect()
    }
}

/// Interpolates the time at a size on logarithmic scales; beyond the largest size proportionally.
/// `None` where `times` ends before `sizes`.
fn interpolate(sizes: &[u64], times: &[f64], bytes: u64) -> Option<f64> {
    let (first, last) = (sizes.first()?, sizes.last()?);
    if bytes <= *first {
        return times.first().copied();
    }
    if bytes >= *last {
        return Some(times.get(sizes.len() - 1)? * bytes as f64 / *last as f64);
    }
    let above = sizes.partition_point(|size| *size <= bytes);
    let (low, high) = (sizes[above - 1] as f64, sizes[above] as f64);
    let share = (bytes as f64 / low).ln() / (high / low).ln();
    let (before, after) = (times.get(above - 1)?.ln(), times.get(above)?.ln());
    Some((before + share * (after - before)).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_between_sizes_are_on_a_straight_line_of_logarithms() {
        let (sizes, times) = ([8, 32], [1.0, 4.0]);
        assert_eq!(interpolate(&sizes, &times, 1), Some(1.0));
        assert!(interpolate(&sizes, &times, 16).is_some_and(|time| (time - 2.0).abs() < 1e-9));
        assert_eq!(interpolate(&sizes, &times, 64), Some(8.0));
        assert_eq!(interpolate(&[], &[], 64), None);
        assert_eq!(interpolate(&sizes, &times[..1], 16), None);
        assert_eq!(interpolate(&sizes, &times[..1], 64), None);
        assert_eq!(interpolate(&sizes, &times[..1], 8), Some(1.0));
    }
}
