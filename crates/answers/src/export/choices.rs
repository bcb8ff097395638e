//! The choices of plans, for the tuner plug-in.

use std::cmp::Ordering;

use plan::cost::{Calls, TunedOperation};
use plan::{Algorithm, CostTable};
use program::{Collective, Protocol};
use tuner_plugin::table::{Choice, Communicator, RingCost, Table};

/// Sizes from here on are one range, bytes.
const LARGEST: u64 = 1 << 42;

/// The choice for a size.
type SizeChoice = (Algorithm, Protocol, Option<u8>);

/// The choices of a communicator.
///
/// `gpus` names its GPUs for readers. With `channels` the plan's numbers of channels are part of
/// the choices; otherwise NCCL fits its own to each size. They are for calls like `calls`: NCCL
/// tells a tuner plug-in neither type nor operation.
///
/// `None` if nothing is chosen: the communicator has one rank.
pub(super) fn communicator(
    costs: &CostTable,
    gpus: &str,
    channels: bool,
    calls: Calls,
) -> Option<Communicator> {
    if costs.job.ranks < 2 {
        return None;
    }
    let mut of = Communicator {
        nodes: costs.job.nodes.into(),
        ranks: costs.job.ranks.into(),
        gpus: vec![gpus.to_owned()],
        ..Communicator::default()
    };
    let mut collectives = Collective::TUNED;
    collectives.sort_by_key(|it| *it as u8);
    for collective in collectives {
        of.costs.extend(ring_costs(costs, collective));
        of.choices
            .extend(ranges(costs, collective, channels, calls));
    }
    Some(of)
}

/// NCCL's costs of rings.
fn ring_costs(costs: &CostTable, collective: Collective) -> impl Iterator<Item = RingCost> {
    let entries = costs.entries.iter();
    entries
        .filter(move |it| it.collective == collective && it.algorithm == Algorithm::Ring)
        .filter(|it| it.bandwidth > 0.0)
        .map(|it| RingCost {
            collective: it.collective as u8,
            protocol: it.protocol as u8,
            latency: it.latency,
            bandwidth: it.bandwidth,
        })
}

fn taken(costs: &CostTable, operation: &TunedOperation, channels: bool) -> Option<SizeChoice> {
    let choice = costs.choose_for(operation).ok()?;
    let count = channels.then(|| u8::try_from(choice.channels).ok());
    Some((choice.algorithm, choice.protocol, count.flatten()))
}

/// The ranges of sizes with equal choices. Costs are straight lines between powers of two, so
/// between two of these a choice changes once, or channels step by step.
fn ranges(costs: &CostTable, collective: Collective, channels: bool, calls: Calls) -> Vec<Choice> {
    let of = |bytes| {
        let operation = TunedOperation {
            collective,
            bytes,
            calls,
        };
        taken(costs, &operation, channels)
    };
    let mut found: Vec<(u64, Option<SizeChoice>)> = vec![(0, of(0))];
    let mut from = 0;
    for to in plan::cost::doubling(1, LARGEST) {
        changes((from, of(from)), (to, of(to)), &of, &mut found);
        from = to;
    }
    let ends = found.iter().skip(1).map(|(least, _)| least - 1);
    let ends: Vec<u64> = ends.chain([u64::MAX]).collect();
    let choices = found
        .into_iter()
        .zip(ends)
        .filter_map(|((least, taken), most)| {
            let (algorithm, protocol, channels) = taken?;
            Some(Choice {
                collective: collective as u8,
                least,
                most,
                algorithm: algorithm as u8,
                protocol: protocol as u8,
                channels,
                chunk: None,
            })
        });
    choices.collect()
}

/// A size, and what is taken for it.
type At = (u64, Option<SizeChoice>);

/// Appends the first size of each new choice after `from`, up to `to`, by halving.
fn changes(from: At, to: At, of: &impl Fn(u64) -> Option<SizeChoice>, found: &mut Vec<At>) {
    if from.1 == to.1 {
        return;
    }
    if to.0 - from.0 <= 1 {
        found.push(to);
        return;
    }
    let middle = from.0 + (to.0 - from.0) / 2;
    let middle = (middle, of(middle));
    changes(from, middle, of, found);
    changes(middle, to, of, found);
}

/// One table of several communicators. Those that NCCL cannot tell apart and that choose alike are
/// one.
pub(super) fn table(communicators: impl IntoIterator<Item = Communicator>) -> Table {
    let mut table = Table::default();
    for new in communicators {
        let is_equal = |it: &&mut Communicator| {
            (it.nodes, it.ranks) == (new.nodes, new.ranks)
                && it.costs == new.costs
                && it.choices == new.choices
        };
        match table.communicators.iter_mut().find(is_equal) {
            Some(known) => known.gpus.extend(new.gpus),
            None => table.communicators.push(new),
        }
    }
    let by_size = |a: &Communicator, b: &Communicator| -> Ordering {
        (a.nodes, a.ranks).cmp(&(b.nodes, b.ranks))
    };
    table.communicators.sort_by(by_size);
    table
}
