//! The bound of all-to-all: the cut that the most pairs of ranks must cross per bandwidth.
//!
//! |S ∩ C|·|C ∖ S| pieces leave S. To find the worst cut is hard, and any cut proves; those that
//! are tight for the other operations, each rank and each host are tried.

use std::cmp::Ordering;

use plan::certificate::{CapacityGraph, Cut, Fraction, Operation, Proof, Side, tightness};

/// The worst of these cuts, of each host, and of their complements, with what it proves.
pub fn pieces(graph: &CapacityGraph, mut cuts: Vec<Cut>) -> Option<Cut> {
    cuts.extend((0..graph.hosts.len()).map(|class| one_host(graph, class)));
    let complements: Vec<Cut> = cuts.iter().map(|cut| complement(graph, cut)).collect();
    cuts.extend(complements);
    let mut least: Option<(Fraction, Cut)> = None;
    for cut in cuts {
        let proof = Proof::Cut(cut);
        let Ok(value) = tightness(graph, Operation::AllToAll, &proof) else {
            continue;
        };
        let smaller = |(least, _): &(Fraction, Cut)| value.compare(*least) == Ordering::Less;
        if let Proof::Cut(cut) = proof
            && least.as_ref().is_none_or(smaller)
        {
            least = Some((value, cut));
        }
    }
    least.map(|(_, cut)| cut)
}

/// All vertices of one host of a class.
fn one_host(graph: &CapacityGraph, class: usize) -> Cut {
    let side = |class: usize, count: u32, all: bool| {
        let vertices = match all {
            true => graph.hosts[class].vertices.len() as u32,
            false => 0,
        };
        Side {
            class: class as u32,
            count,
            inside: (0..vertices).collect(),
        }
    };
    let mut sides = vec![side(class, 1, true)];
    for (at, host) in graph.hosts.iter().enumerate() {
        let others = host.count - u32::from(at == class);
        if others > 0 {
            sides.push(side(at, others, false));
        }
    }
    Cut {
        network: Vec::new(),
        sides,
    }
}

fn complement(graph: &CapacityGraph, cut: &Cut) -> Cut {
    let others = |inside: &[u32], count: usize| -> Vec<u32> {
        let all = 0..count as u32;
        all.filter(|vertex| inside.binary_search(vertex).is_err())
            .collect()
    };
    let sides = cut.sides.iter().map(|side| Side {
        inside: others(
            &side.inside,
            graph.hosts[side.class as usize].vertices.len(),
        ),
        ..*side
    });
    Cut {
        network: others(&cut.network, graph.network.len()),
        sides: sides.collect(),
    }
}
