//! The choice of algorithm, transfer, protocol and channels.
//!
//! Times that were measured with the very number of ranks decide, interpolated between two sizes on
//! logarithmic scales. For other numbers of ranks the model predicts them.

use executor::backend::CommunicatorShape;
use executor::{BufferAccess, Choice, Request};
use program::{Collective, Protocol, Reduction};
use program::{Schedule, Transfer};

use crate::model::Prediction;
use crate::profile::{MeasuredChoice, Profile, STAGED_PIECE_BYTES};
use crate::work::{steps, work};

/// A choice for a request, with its expected time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ExplainedChoice {
    /// The choice.
    pub choice: Choice,
    /// Its expected time, µs.
    pub time_us: f64,
    /// The parts of the time, if the model predicts it; `None` if it was measured.
    pub parts: Option<Prediction>,
    /// Slots and signals that all ranks send; `None` for an algorithm without a model.
    pub messages: Option<f64>,
}

impl Profile {
    /// The choice for a request that is expected to be the fastest.
    pub fn choose(&self, request: &Request, shape: CommunicatorShape) -> Option<Choice> {
        Some(self.explain(request, shape).first()?.choice)
    }

    /// The choices for a request with their expected times, from the fastest on, which
    /// [`Self::choose`] takes.
    pub fn explain(&self, request: &Request, shape: CommunicatorShape) -> Vec<ExplainedChoice> {
        let bytes = request.bytes(shape.ranks);
        let serving = |mut all: Vec<ExplainedChoice>| {
            all.retain(|it| serves(request, &it.choice, shape) && pays(&it.choice, shape));
            all
        };
        let mut all = serving(self.measured(request.collective, shape, bytes));
        if all.is_empty() {
            all = serving(self.predicted(request.collective, shape, bytes));
            quickly_proved(&mut all, request.collective, shape);
        }
        all.sort_by(|one, other| one.time_us.total_cmp(&other.time_us));
        all
    }

    /// Predicted time of a choice, µs; `None` for what was not measured beside other choices or has
    /// no model.
    pub fn predict(
        &self,
        request: &Request,
        choice: &Choice,
        shape: CommunicatorShape,
    ) -> Option<f64> {
        let (collective, bytes) = (request.collective, request.bytes(shape.ranks));
        let measured = self.measured(collective, shape, bytes);
        if measured.is_empty() {
            let predicted = self.model.predict(collective, choice, &shape, bytes)?;
            return Some(predicted.time_us());
        }
        let same = |it: &ExplainedChoice| {
            (it.choice.schedule, it.choice.transfer) == (choice.schedule, choice.transfer)
                && (!choice.transfer.has_protocol() || it.choice.protocol == choice.protocol)
        };
        Some(measured.into_iter().find(same)?.time_us)
    }

    /// The times that were measured with as many ranks of one host.
    fn measured(
        &self,
        collective: Collective,
        shape: CommunicatorShape,
        bytes: u64,
    ) -> Vec<ExplainedChoice> {
        let measured = self.measured.iter().filter(|it| {
            let measured = (it.collective, it.ranks, it.hosts, it.threads);
            // Hosts of a network differ from hosts as which one machine acted.
            measured == (collective, shape.ranks, 1, shape.one_process)
                && it.callers_memory == (shape.buffers == BufferAccess::Kernel)
                && shape.hosts == 1
        });
        let explained = |it: &MeasuredChoice| {
            let choice = it.choice(self.channels.min(shape.channels))?;
            Some(ExplainedChoice {
                choice,
                time_us: interpolate(&self.sizes, &it.times_us, bytes)?,
                parts: None,
                messages: messages(collective, &choice, shape, bytes),
            })
        };
        measured.filter_map(explained).collect()
    }

    /// The times that the model predicts.
    fn predicted(
        &self,
        collective: Collective,
        shape: CommunicatorShape,
        bytes: u64,
    ) -> Vec<ExplainedChoice> {
        let leaders = u16::try_from(shape.crowd.cores).unwrap_or(u16::MAX);
        let leaders = leaders.clamp(1, shape.channels.max(1));
        let choices = all_choices(collective).flat_map(|choice| {
            // More channels only help an algorithm that leaves ranks without work.
            let by_leaders =
                choice.schedule == Schedule::Leader || choice.transfer == Transfer::Hierarchical;
            let several = by_leaders && leaders > 1;
            let several = several.then_some(Choice {
                channels: leaders,
                ..choice
            });
            [choice].into_iter().chain(several)
        });
        let explained = |choice: Choice| {
            let parts = self.model.predict(collective, &choice, &shape, bytes)?;
            Some(ExplainedChoice {
                choice,
                time_us: parts.time_us(),
                parts: Some(parts),
                messages: messages(collective, &choice, shape, bytes),
            })
        };
        choices.filter_map(explained).collect()
    }
}

/// Slots and signals that all ranks send.
fn messages(
    collective: Collective,
    choice: &Choice,
    shape: CommunicatorShape,
    bytes: u64,
) -> Option<f64> {
    let all = work(collective, choice, (shape.ranks, shape.hosts), bytes)?.all;
    Some(all.messages + all.signals)
}

/// Drops the choices with long proofs if any choice has a short one.
fn quickly_proved(
    all: &mut Vec<ExplainedChoice>,
    collective: Collective,
    shape: CommunicatorShape,
) {
    // The processes of a machine prove at the same time.
    let processes = match shape.one_process {
        true => 1.0,
        false => f64::from(shape.crowd.ranks) / f64::from(shape.crowd.cores.max(1)),
    };
    let steps = |it: &ExplainedChoice| steps(collective, &it.choice, (shape.ranks, shape.hosts));
    let fewest = all.iter().map(steps).fold(f64::INFINITY, f64::min);
    let most = STEPS_A_SECOND / processes.max(1.0);
    let most = most.max(MANY_STEPS).max(fewest);
    all.retain(|it| steps(it) <= most);
}

/// Whether a choice can carry out a request.
pub fn serves(request: &Request, choice: &Choice, shape: CommunicatorShape) -> bool {
    let collective = request.collective;
    let reaches = match choice.transfer {
        Transfer::Fifo => true,
        it if it.accesses_buffers() && shape.buffers == BufferAccess::Refused => false,
        Transfer::Direct | Transfer::Staged => shape.hosts == 1,
        Transfer::Hierarchical => shape.even_hosts || !collective.splits_message(),
    };
    if !reaches || !choice.schedule.serves(collective, choice.transfer) {
        return false;
    }
    // A direct transfer reads its sources in shape: it cannot multiply them first, they must not be
    // overwritten during the transfer, and the peers of a group have no buffer tables.
    let multiplies = collective.reduces() && request.reduction == Reduction::PreMultipliedSum;
    let overwritten = collective == Collective::AllToAll
        && request.in_place
        && shape.ranks > 1
        && choice.transfer.accesses_buffers();
    choice.transfer == Transfer::Fifo
        || !(multiplies || overwritten || collective == Collective::SendRecv)
}

/// Whether a choice can be the fastest: copies to scratch memory only pay where peers cannot map
/// the buffers.
pub fn pays(choice: &Choice, shape: CommunicatorShape) -> bool {
    choice.transfer != Transfer::Staged || shape.buffers != BufferAccess::Mapped
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
            // A transfer without a protocol is listed once.
            let protocols = Protocol::ALL.into_iter();
            let once =
                protocols.filter(move |it| transfer.has_protocol() || *it == Protocol::Simple);
            once.map(move |protocol| Choice {
                schedule,
                transfer,
                protocol,
                channels: 1,
                piece_bytes: match transfer {
                    Transfer::Staged => STAGED_PIECE_BYTES,
                    _ => 0,
                },
            })
        })
    });
    choices.filter(move |choice| choice.schedule.serves(collective, choice.transfer))
}

/// Steps of programs that one core proves in a second.
const STEPS_A_SECOND: f64 = 50_000.0;

/// Steps of programs that are always proved: those of a mesh of 32 ranks.
const MANY_STEPS: f64 = 1024.0;

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
    use executor::bootstrap::Crowd;
    use program::ElementType;

    use super::*;

    /// Leaving out programs that take long to prove leaves some.
    #[test]
    fn every_collective_has_a_choice() {
        let profile = Profile::default();
        let flags = [false, true];
        let accesses = [
            BufferAccess::Mapped,
            BufferAccess::Kernel,
            BufferAccess::Refused,
        ];
        let mut accesses = accesses.into_iter().cycle();
        for ranks in [1, 2, 3, 16, 64, 65, 100, 256, 1000, 4096] {
            for (hosts, cores) in [(1, 1), (1, 2), (1, 128), (2, 2), (8, 2), (ranks, 2)] {
                for (one_process, in_place) in flags.map(|it| flags.map(|by| (it, by))).concat() {
                    let buffers = accesses.next().unwrap_or_default();
                    let shape = CommunicatorShape {
                        ranks,
                        one_process,
                        hosts: hosts.min(ranks),
                        even_hosts: ranks.is_multiple_of(hosts.min(ranks)),
                        channels: 2,
                        crowd: Crowd { ranks, cores },
                        buffers,
                    };
                    for collective in Collective::ALL {
                        for reduction in [Reduction::Sum, Reduction::PreMultipliedSum] {
                            let request = Request {
                                collective,
                                element: ElementType::F32,
                                reduction,
                                root: 0,
                                to: 0,
                                tag: 0,
                                in_place,
                                count: 100,
                                choice: None,
                            };
                            let choice = profile.choose(&request, shape);
                            assert!(choice.is_some(), "{collective} {shape:?}");
                        }
                    }
                }
            }
        }
    }

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
