//! Certificates that the checker accepts and refuses.

use std::cmp::Ordering;

use fastrand::Rng;
use plan::certificate::{
    Certificate, Direction, Edge, Forest, Fraction, Lengths, Operation, Proof, Route, Tree, check,
    tightness,
};

use crate::common::{certified, one_host, random_links, value};

/// Where every vertex is a rank, the cuts of all-gather and broadcast are optima.
#[test]
fn no_lengths_prove_less_than_an_optimum() {
    let mut rng = Rng::with_seed(29);
    for _ in 0..500 {
        let ranks = rng.u32(2..=7);
        let links = random_links(&mut rng, ranks);
        let graph = one_host(ranks as usize, 0, &links);
        let genuine = certified(graph.clone());
        if value(&genuine, Operation::AllGather).numerator == 0 {
            continue;
        }
        for bound in &genuine.bounds {
            let operation = bound.operation;
            let Proof::Cut(cut) = &bound.proof else {
                continue;
            };
            let crosses = |(from, to, _): &(u32, u32, u64)| {
                let inside = |vertex| cut.sides[0].inside.contains(vertex);
                let out = matches!(operation, Operation::AllGather | Operation::Broadcast);
                (inside(from), inside(to)) == (out, !out)
            };
            let lengths = |of: &mut dyn FnMut(&(u32, u32, u64)) -> u64| {
                Proof::Lengths(vec![Lengths {
                    class: 0,
                    lengths: links.iter().map(of).collect(),
                }])
            };
            let any = tightness(&graph, operation, &lengths(&mut |_| rng.u64(..20)));
            let same = tightness(
                &graph,
                operation,
                &lengths(&mut |link| crosses(link).into()),
            );
            match operation {
                Operation::AllReduce | Operation::AllReduceInNetwork => assert!(any.is_err()),
                Operation::AllToAll => {}
                _ => {
                    assert_eq!(same, Ok(bound.bandwidth), "{operation} {links:?}");
                    let less = |it: Fraction| it.compare(bound.bandwidth) == Ordering::Less;
                    assert!(!any.is_ok_and(less), "{operation} {links:?}");
                }
            }
        }
    }
}

#[test]
fn a_certificate_survives_json() {
    let links = [(0, 2, 7), (2, 0, 7), (1, 2, 5), (2, 1, 5)];
    let certificate = certified(one_host(2, 1, &links));
    let text = certificate.to_json().unwrap();
    assert_eq!(Certificate::from_json(&text).unwrap(), certificate);
    let later = text.replace("\"version\":1", "\"version\":2");
    assert!(Certificate::from_json(&later).is_err());
    assert!(Certificate::from_json(&text[..text.len() / 2]).is_err());
}

/// Three ranks in a row with links of 10 in both directions, and trees along the row.
fn row() -> (Certificate, Forest) {
    // Links 0 and 1 join ranks 0 and 1, links 2 and 3 ranks 1 and 2.
    let links = [(0, 1, 10), (1, 0, 10), (1, 2, 10), (2, 1, 10)];
    let edge = |from: u32, to: u32, link: u32| Edge {
        from,
        to,
        routes: vec![Route {
            weight: 1,
            links: vec![link],
        }],
    };
    let tree = |root: u32, edges: Vec<Edge>| Tree {
        root,
        weight: 1,
        edges,
    };
    let forest = Forest {
        direction: Direction::Out,
        trees: vec![
            tree(0, vec![edge(0, 1, 0), edge(1, 2, 2)]),
            tree(1, vec![edge(1, 0, 1), edge(1, 2, 2)]),
            tree(2, vec![edge(2, 1, 3), edge(1, 0, 1)]),
        ],
    };
    (certified(one_host(3, 0, &links)), forest)
}

fn with_forest(certificate: &Certificate, forest: Forest, claim: u128) -> Certificate {
    let mut certificate = certificate.clone();
    let gather = certificate
        .bounds
        .iter_mut()
        .find(|it| it.operation == Operation::AllGather);
    let gather = gather.unwrap();
    gather.reached = Fraction::new(claim, 1);
    gather.forests = vec![forest];
    certificate
}

#[test]
fn a_forest_reaches_the_bound() {
    let (certificate, forest) = row();
    assert_eq!(
        value(&certificate, Operation::AllGather),
        Fraction::new(10, 1).unwrap()
    );
    check(&with_forest(&certificate, forest.clone(), 10)).unwrap();
    // It does not reach more or less than it does.
    assert!(check(&with_forest(&certificate, forest.clone(), 9)).is_err());
    assert!(check(&with_forest(&certificate, forest, 11)).is_err());
}

#[test]
fn a_broken_forest_is_refused() {
    let (certificate, forest) = row();
    let breaks: [fn(&mut Forest); 9] = [
        |forest| forest.direction = Direction::In,
        |forest| drop(forest.trees.pop()),
        |forest| drop(forest.trees[0].edges.pop()),
        |forest| forest.trees[0].edges.swap(0, 1),
        |forest| forest.trees[0].root = 1,
        |forest| forest.trees[0].weight = 2,
        |forest| forest.trees[0].edges[0].routes[0].links[0] = 1,
        |forest| forest.trees[0].edges[0].routes[0].links.clear(),
        |forest| forest.trees[0].edges[1].routes[0].links[0] = 99,
    ];
    for (number, broken) in breaks.into_iter().enumerate() {
        let mut forest = forest.clone();
        broken(&mut forest);
        let refused = check(&with_forest(&certificate, forest, 10));
        assert!(refused.is_err(), "change {number} was not noticed");
    }
}

#[test]
fn damaged_files_are_refused_or_checked() {
    let mut rng = Rng::with_seed(24);
    let links = random_links(&mut rng, 6);
    let text = certified(one_host(4, 2, &links)).to_json().unwrap();
    let mut read = 0;
    for _ in 0..4000 {
        let mut bytes = text.clone().into_bytes();
        for _ in 0..rng.u32(1..4) {
            let at = rng.usize(..bytes.len());
            // Digits more often than other bytes, so that the file stays JSON.
            bytes[at] = match rng.bool() && bytes[at].is_ascii_digit() {
                true => rng.u8(b'0'..=b'9'),
                false => rng.u8(b' '..=b'~'),
            };
        }
        let Ok(text) = String::from_utf8(bytes) else {
            continue;
        };
        // Neither reading nor checking panics, whatever the numbers are.
        if let Ok(certificate) = Certificate::from_json(&text) {
            read += 1;
            let _ = check(&certificate);
        }
    }
    assert!(read > 50, "only {read} were read");
}
