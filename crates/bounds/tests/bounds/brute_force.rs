//! Every cut and every partition of small graphs.

use std::cmp::Ordering;

use fastrand::Rng;
use plan::certificate::{CapacityGraph, Fraction, Operation, check};

use crate::common::{certified, class, one_host, random_links, value};

type Links = [(u32, u32, u64)];

/// Bandwidth out of a set of vertices, a bit each.
fn out(links: &Links, set: u32) -> u128 {
    let leaves = |(from, to, _): &&(u32, u32, u64)| set >> from & 1 == 1 && set >> to & 1 == 0;
    let leaving = links.iter().filter(leaves);
    leaving.map(|(.., capacity)| u128::from(*capacity)).sum()
}

fn turned(links: &Links) -> Vec<(u32, u32, u64)> {
    let turned = links
        .iter()
        .map(|(from, to, capacity)| (*to, *from, *capacity));
    turned.collect()
}

fn least(values: impl Iterator<Item = Fraction>) -> Fraction {
    values.min_by(|one, two| one.compare(*two)).unwrap()
}

/// The bound of all-gather over all cuts.
fn all_gather(links: &Links, ranks: u32, vertices: u32) -> Fraction {
    let all = (1u32 << ranks) - 1;
    let sets = (1..1u32 << vertices).filter(|set| set & all != 0 && set & all != all);
    least(sets.map(|set| {
        let inside = u128::from((set & all).count_ones());
        Fraction::new(u128::from(ranks - 1) * out(links, set), inside).unwrap()
    }))
}

/// The bound of a broadcast from rank 0 over all cuts.
fn broadcast(links: &Links, ranks: u32, vertices: u32) -> Fraction {
    let all = (1u32 << ranks) - 1;
    let sets = (1..1u32 << vertices).filter(|set| set & 1 == 1 && set & all != all);
    least(sets.map(|set| Fraction::new(out(links, set), 1).unwrap()))
}

/// The least bandwidth out of a set with exactly these ranks.
fn narrowest(links: &Links, ranks: u32, vertices: u32, set: u32) -> u128 {
    let others = 0..1u32 << (vertices - ranks);
    let sets = others.map(|others| set | others << ranks);
    sets.map(|set| out(links, set)).min().unwrap()
}

/// Calls `found` with every partition of the ranks from `next` on.
fn partitions(next: u32, ranks: u32, sets: &mut Vec<u32>, found: &mut impl FnMut(&[u32])) {
    if next == ranks {
        return found(sets);
    }
    for at in 0..sets.len() {
        sets[at] |= 1 << next;
        partitions(next + 1, ranks, sets, found);
        sets[at] &= !(1 << next);
    }
    sets.push(1 << next);
    partitions(next + 1, ranks, sets, found);
    sets.pop();
}

/// The bound of all-reduce over all partitions; sets are left by the counted links.
fn partition(links: &Links, ranks: u32, vertices: u32) -> Fraction {
    let narrow = (0..1u32 << ranks).map(|set| narrowest(links, ranks, vertices, set));
    let narrow: Vec<u128> = narrow.collect();
    let mut best: Option<Fraction> = None;
    partitions(0, ranks, &mut Vec::new(), &mut |sets| {
        if sets.len() < 2 {
            return;
        }
        let total: u128 = sets.iter().map(|set| narrow[*set as usize]).sum();
        let below = u128::from(ranks) * (sets.len() as u128 - 1);
        let value = Fraction::new(u128::from(ranks - 1) * total, below).unwrap();
        if best.is_none_or(|best| value.compare(best) == Ordering::Less) {
            best = Some(value);
        }
    });
    best.unwrap()
}

/// The bound of all-reduce over all cuts.
fn all_reduce_cut(links: &Links, ranks: u32, vertices: u32) -> Fraction {
    let all = (1u32 << ranks) - 1;
    let sets = (1..1u32 << vertices).filter(|set| set & all != 0 && set & all != all);
    let factor = 2 * u128::from(ranks - 1);
    least(sets.map(|set| Fraction::new(factor * out(links, set), u128::from(ranks)).unwrap()))
}

#[test]
fn cuts_and_partitions_of_two_thousand_random_graphs() {
    let mut rng = Rng::with_seed(20);
    for number in 0..2000 {
        let vertices = rng.u32(2..=9);
        let ranks = rng.u32(2..=vertices.min(6));
        let links = random_links(&mut rng, vertices);
        let back = turned(&links);
        let graph = one_host(ranks as usize, (vertices - ranks) as usize, &links);
        let certificate = certified(graph);
        check(&certificate).unwrap();
        let cut = all_reduce_cut(&links, ranks, vertices);
        let all_reduce = [
            cut,
            partition(&links, ranks, vertices),
            partition(&back, ranks, vertices),
        ];
        for (operation, expected) in [
            (Operation::AllGather, all_gather(&links, ranks, vertices)),
            (Operation::ReduceScatter, all_gather(&back, ranks, vertices)),
            (Operation::Broadcast, broadcast(&links, ranks, vertices)),
            (Operation::Reduce, broadcast(&back, ranks, vertices)),
            (Operation::AllReduceInNetwork, cut),
            (Operation::AllReduce, least(all_reduce.into_iter())),
        ] {
            let found = value(&certificate, operation);
            let equal = found.compare(expected) == Ordering::Equal;
            assert!(
                equal,
                "graph {number} {operation}: {found:?}, {expected:?}\n{links:?}"
            );
        }
    }
}

#[test]
fn equal_hosts_as_one_are_equal_hosts_written_out() {
    let mut rng = Rng::with_seed(21);
    for number in 0..240 {
        let classes = rng.u32(1..=2);
        let mut collapsed = CapacityGraph {
            network: vec!["network".to_owned()],
            hosts: Vec::new(),
        };
        let mut written = collapsed.clone();
        for _ in 0..classes {
            let ranks = rng.u32(1..=4);
            let others = rng.u32(0..=2);
            let count = rng.u32(1..=4);
            // The network's vertex follows those of the host.
            let links = random_links(&mut rng, ranks + others + 1);
            let host = |count| class(ranks as usize, others as usize, count, &links);
            collapsed.hosts.push(host(count));
            written.hosts.extend((0..count).map(|_| host(1)));
        }
        if collapsed.ranks() < 2 {
            continue;
        }
        let (one, two) = (certified(collapsed), certified(written));
        check(&one).unwrap();
        for bound in one
            .bounds
            .iter()
            .filter(|it| it.operation != Operation::AllToAll)
        {
            let other = value(&two, bound.operation);
            let equal = bound.bandwidth.compare(other) == Ordering::Equal;
            assert!(
                equal,
                "job {number} {}: {:?}, {other:?}",
                bound.operation, bound.bandwidth
            );
        }
    }
}

#[test]
fn slower_links_never_raise_a_bound() {
    let mut rng = Rng::with_seed(22);
    for number in 0..300 {
        let vertices = rng.u32(3..=8);
        let ranks = rng.u32(2..=vertices);
        let mut links = random_links(&mut rng, vertices);
        let graph = |links: &Links| one_host(ranks as usize, (vertices - ranks) as usize, links);
        let before = certified(graph(&links));
        if links.is_empty() {
            continue;
        }
        let at = rng.usize(..links.len());
        links[at].2 -= 1;
        let after = certified(graph(&links));
        // A better answer for all-to-all would be too hard: any cut may be taken there.
        for bound in before
            .bounds
            .iter()
            .filter(|it| it.operation != Operation::AllToAll)
        {
            let slower = value(&after, bound.operation);
            let rises = slower.compare(bound.bandwidth) == Ordering::Greater;
            assert!(!rises, "graph {number} {}", bound.operation);
        }
    }
}
