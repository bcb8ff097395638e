//! Certificates with one thing changed, all of which the checker refuses.
//!
//! The changes are such that what the certificate says is no longer true: links have odd
//! bandwidths, so that no other set of vertices and no other lengths give the same value, and a
//! forest is changed only where it then is none, or loads some link otherwise than claimed.

use bounds::{CertificateRequest, certify};
use fastrand::Rng;
use plan::certificate::{
    CapacityGraph, Certificate, Cut, Direction, Forest, Fraction, Lengths, Operation, Part, Proof,
    Side, check, tightness,
};

use crate::common::{everything, one_host};

/// Certificates that are changed.
const MUTATIONS: usize = 2000;

/// A machine whose every vertex has links in both directions, of bandwidths that no two sums of
/// links share: each has a random part of 40 bits.
fn odd_machine(rng: &mut Rng) -> CapacityGraph {
    let vertices = rng.u32(4..=9);
    let ranks = rng.u32(3..=vertices);
    let mut links = Vec::new();
    let mut join = |rng: &mut Rng, a, b| {
        for (from, to) in [(a, b), (b, a)] {
            links.push((from, to, 1_000_000 + rng.u64(..1 << 40)));
        }
    };
    // A ring and a chord for each vertex.
    for vertex in 0..vertices {
        let next = (vertex + 1) % vertices;
        join(rng, vertex, next);
        let other = (vertex + rng.u32(2..vertices - 1)) % vertices;
        join(rng, vertex, other);
    }
    one_host(ranks as usize, (vertices - ranks) as usize, &links)
}

/// A certificate of all operations, with forests where they are found.
fn genuine(rng: &mut Rng) -> Certificate {
    let wanted = CertificateRequest {
        forests: true,
        units: Some(rng.u64(1..=2)),
        ..everything()
    };
    let mut certificate = certify(odd_machine(rng), &wanted).unwrap();
    // Lengths prove something whatever they are.
    let links = certificate.graph.hosts[0].links.len();
    for bound in &mut certificate.bounds {
        if bound.operation == Operation::AllReduce {
            bound.proof = each_rank(&certificate.graph);
            let proved = tightness(&certificate.graph, bound.operation, &bound.proof);
            bound.bandwidth = proved.unwrap();
            continue;
        }
        let in_network = bound.operation == Operation::AllReduceInNetwork;
        if in_network || !bound.forests.is_empty() || rng.bool() {
            continue;
        }
        let proof = Proof::Lengths(vec![Lengths {
            class: 0,
            lengths: (0..links).map(|_| 1 + rng.u64(..1 << 30)).collect(),
        }]);
        bound.bandwidth = tightness(&certificate.graph, bound.operation, &proof).unwrap();
        bound.proof = proof;
    }
    certificate
}

/// The partition of the ranks into sets of one.
fn each_rank(graph: &CapacityGraph) -> Proof {
    let vertices = (0..).zip(&graph.hosts[0].vertices);
    let part = |(vertex, _)| Part {
        times: 1,
        set: Cut {
            network: Vec::new(),
            sides: vec![Side {
                class: 0,
                count: 1,
                inside: vec![vertex],
            }],
        },
    };
    Proof::Partition {
        direction: Direction::In,
        parts: vertices.filter(|(_, it)| it.rank).map(part).collect(),
    }
}

/// Puts another vertex into a set, or takes one out.
fn toggle(rng: &mut Rng, cut: &mut Cut, vertices: u32) {
    let inside = &mut cut.sides[0].inside;
    let vertex = rng.u32(..vertices);
    match inside.binary_search(&vertex) {
        Ok(place) => _ = inside.remove(place),
        Err(place) => inside.insert(place, vertex),
    }
}

/// Changes a proof.
fn change_proof(rng: &mut Rng, proof: &mut Proof, vertices: u32) -> &'static str {
    match proof {
        Proof::Cut(cut) => match rng.u32(..3) {
            0 => {
                toggle(rng, cut, vertices);
                "cut: a vertex"
            }
            1 => {
                cut.sides[0].count += 1;
                "cut: a host more"
            }
            _ => {
                _ = cut.sides.pop();
                "cut: a side less"
            }
        },
        Proof::Partition { parts, direction } => {
            let at = rng.usize(..parts.len());
            let members = parts.iter().map(|part| part.set.sides[0].inside.len());
            // What leaves one of sets that have all vertices enters another.
            let all = members.sum::<usize>() == vertices as usize;
            match rng.u32(..if all { 3 } else { 4 }) {
                0 => {
                    toggle(rng, &mut parts[at].set, vertices);
                    "partition: a vertex"
                }
                1 => {
                    parts[at].times += 1;
                    "partition: a set once more"
                }
                2 => {
                    _ = parts.remove(at);
                    "partition: a set less"
                }
                _ => {
                    *direction = match direction {
                        Direction::In => Direction::Out,
                        Direction::Out => Direction::In,
                    };
                    "partition: the other direction"
                }
            }
        }
        Proof::Lengths(classes) => {
            let lengths = &mut classes[0].lengths;
            let at = rng.usize(..lengths.len());
            match rng.u32(..4) {
                0 => {
                    lengths[at] += 1 + rng.u64(..1 << 20);
                    "lengths: a longer link"
                }
                1 => {
                    lengths[at] = 0;
                    "lengths: a link without length"
                }
                2 => {
                    _ = lengths.remove(at);
                    "lengths: a link less"
                }
                _ => {
                    classes[0].class += 1;
                    "lengths: another class"
                }
            }
        }
    }
}

/// Changes a forest so that it is none, or none with equal roots.
fn change_forest(rng: &mut Rng, forest: &mut Forest, vertices: u32) -> &'static str {
    let count = forest.trees.len();
    let at = rng.usize(..count);
    let tree = &mut forest.trees[at];
    let edge = rng.usize(..tree.edges.len());
    match rng.u32(..9) {
        0 => {
            tree.weight += 1;
            return "tree: its weight, without its routes";
        }
        1 => {
            tree.root = (tree.root + 1 + rng.u32(..vertices - 1)) % vertices;
            return "tree: another root";
        }
        2 => {
            _ = tree.edges.remove(edge);
            return "tree: an edge less";
        }
        3 => {
            let again = tree.edges[edge].clone();
            tree.edges.push(again);
            return "tree: an edge twice";
        }
        4 => {
            forest.direction = match forest.direction {
                Direction::In => Direction::Out,
                Direction::Out => Direction::In,
            };
            return "forest: the other direction";
        }
        _ => {}
    }
    let edge = &mut tree.edges[edge];
    let route = rng.usize(..edge.routes.len());
    match rng.u32(..5) {
        0 => {
            edge.routes[route].weight += 1;
            "route: its weight"
        }
        1 => {
            _ = edge.routes.remove(route);
            "route: missing"
        }
        2 => {
            _ = edge.routes[route].links.pop();
            "route: a link less"
        }
        3 => {
            let links = &mut edge.routes[route].links;
            // Links come in pairs of opposite directions.
            links[0] ^= 1;
            "route: a link backward"
        }
        _ => {
            std::mem::swap(&mut edge.from, &mut edge.to);
            "edge: its ends exchanged"
        }
    }
}

/// Changes one thing.
fn mutate(rng: &mut Rng, certificate: &mut Certificate) -> &'static str {
    let at = rng.usize(..certificate.bounds.len());
    let vertices = certificate.graph.hosts[0].vertices.len() as u32;
    let links = certificate.graph.hosts[0].links.len();
    let more = |value: &mut Fraction, above: bool| match above {
        true => value.numerator += 1,
        false => value.denominator += 1,
    };
    let next = certificate.bounds[(at + 1) % certificate.bounds.len()].operation;
    let bound = &mut certificate.bounds[at];
    match rng.u32(..14) {
        0 => {
            more(&mut bound.bandwidth, rng.bool());
            "the bound"
        }
        1 => {
            bound.operation = next;
            "the operation of another bound"
        }
        2 => match &mut bound.reached {
            Some(reached) => {
                more(reached, rng.bool());
                "what trees reach"
            }
            none => {
                *none = Some(bound.bandwidth);
                "trees that there are not"
            }
        },
        3 if !bound.forests.is_empty() => {
            _ = bound.forests.pop();
            "a forest less"
        }
        4 if bound.reached.is_some() => {
            bound.reached = None;
            "trees without what they reach"
        }
        5 => {
            // Every link is in a proof of some bound: those of all lengths, or of each rank's cut.
            let link = rng.usize(..links);
            let list = &mut certificate.graph.hosts[0].links;
            list[link].to = list[link].from;
            "a link from a vertex to itself"
        }
        6..=9 if !bound.forests.is_empty() => {
            let forest = rng.usize(..bound.forests.len());
            change_forest(rng, &mut bound.forests[forest], vertices)
        }
        _ => change_proof(rng, &mut bound.proof, vertices),
    }
}

#[test]
fn every_mutation_is_refused() {
    let mut rng = Rng::with_seed(23);
    let mut kinds = std::collections::BTreeMap::new();
    let mut done = 0;
    while done < MUTATIONS {
        let genuine = genuine(&mut rng);
        check(&genuine).unwrap();
        for _ in 0..10 {
            let mut mutated = genuine.clone();
            let kind = mutate(&mut rng, &mut mutated);
            let refused = check(&mutated).is_err();
            assert!(refused, "{kind}: {genuine:?} became {mutated:?}");
            *kinds.entry(kind).or_insert(0) += 1;
            done += 1;
        }
    }
    // Each kind of change was made.
    assert!(
        kinds.len() >= 27 && kinds.values().all(|count| *count >= 5),
        "{kinds:?}"
    );
}
