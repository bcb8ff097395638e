//! Tests of layouts.

use super::*;

/// Two domains of three ranks in nodes {0, 2} and {1}, then one of two hosts with one rank each
/// in one node.
fn layout(order: Option<&RankOrder>) -> JobLayout {
    let split = DomainShape::new(vec![vec![0, 2], vec![1]], vec![0; 3]);
    let domain = DomainShape::new(vec![vec![0, 1]], vec![0, 4]);
    JobLayout::new(vec![split, domain], &[(0, 2), (1, 1)], order).expect("an order that fits")
}

/// Checks that must hold for every layout.
fn check(layout: &JobLayout) {
    assert_eq!((layout.ranks(), layout.nodes(), layout.hosts()), (8, 5, 4));
    assert_eq!(layout.rank(8), None);
    assert_eq!(layout.node(5), None);
    assert_eq!(layout.counted(8), None);
    let mut lowest = Vec::new();
    for node in (0..5).filter_map(|node| layout.node(node)) {
        let ranks = layout.ranks_of(node);
        lowest.push(ranks[0]);
        for (position, rank) in ranks.iter().enumerate() {
            let place = layout.rank(*rank).expect("a rank of the job");
            assert_eq!(place.node, node);
            assert_eq!(layout.rank_at(node, place.local), *rank);
            assert_eq!(layout.position(place) as usize, position);
            let counted = layout.ranks_before(node) + position as u32;
            assert_eq!(layout.counted(counted), Some((node, position as u32)));
        }
    }
    assert!(lowest.is_sorted(), "{lowest:?}");
}

#[test]
fn places() {
    let layout = layout(None);
    check(&layout);
    let seen: Vec<_> = (0..8)
        .filter_map(|rank| layout.rank(rank))
        .map(|place| (place.node.node, place.member, place.host))
        .collect();
    assert_eq!(
        seen,
        [
            (0, 0, 0),
            (1, 0, 0),
            (0, 1, 0),
            (2, 0, 1),
            (3, 0, 1),
            (2, 1, 1),
            (4, 0, 2),
            (4, 1, 3)
        ]
    );
    let before: Vec<u32> = (0..5)
        .filter_map(|node| layout.node(node))
        .map(|node| layout.ranks_before(node))
        .collect();
    assert_eq!(before, [0, 2, 3, 5, 6]);
}

#[test]
fn representatives_show_every_pair_first() {
    let split = || DomainShape::new(vec![vec![0], vec![1]], vec![0; 2]);
    let whole = || DomainShape::new(vec![vec![0]], vec![0]);
    let machine_and_index = |node: NodePlace| (node.machine, node.index);
    for runs in [
        &[(0, 5), (1, 4), (0, 1), (1, 1)][..],
        &[(1, 1), (1, 3), (0, 2)],
        &[(0, 1)],
        &[(1, 1)],
    ] {
        for order in [None, Some(3)] {
            let ranks = runs.iter().map(|(machine, n)| (2 - *machine as u32) * n);
            let ranks: u32 = ranks.sum();
            let order = order.map(|by| RankOrder::new((0..ranks).map(|it| (it + by) % ranks)));
            let layout = JobLayout::new(vec![split(), whole()], runs, order.as_ref());
            let layout = layout.expect("an order that fits");
            let pair = |node: u32| {
                let following = (node + 1) % layout.nodes();
                [node, following].map(|it| layout.node(it).map(machine_and_index))
            };
            let found: Vec<u32> = layout.representatives().collect();
            assert!(found.is_sorted_by(|one, other| one < other), "{found:?}");
            for node in 0..layout.nodes() {
                let first = (0..=node).find(|it| pair(*it) == pair(node));
                assert!(
                    first.is_some_and(|it| found.contains(&it)),
                    "{runs:?}, {node}"
                );
            }
        }
    }
}

#[test]
fn places_in_another_order() {
    let order = RankOrder::new([7, 2, 4, 0, 1, 3, 6, 5]);
    let layout = layout(Some(&order));
    check(&layout);
    // Rank 0 is the last GPU, so the last machine's node is node 0.
    let first = layout.rank(0).expect("rank 0");
    assert_eq!(
        (first.node.machine, first.node.node, first.host, first.local),
        (1, 0, 3, 1)
    );
    assert_eq!(layout.ranks_of(first.node), [0, 6]);
    let second = layout.rank(1).expect("rank 1");
    assert_eq!(
        (second.node.node, layout.ranks_of(second.node)),
        (1, vec![1, 3])
    );
}
