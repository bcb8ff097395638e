//! Tests that every shortcut of the search gives the same result as the plain search.

use std::sync::Arc;

use plan::Pattern;
use testkit::Machine;
use topology::{NodeType, PathType};

use super::attempt::{FEW_WORDS, MANY_WORDS};
use super::layout::{AttemptLayout, Uses};
use super::memo::Speed;
use super::packed::{self, PackedLinks};
use super::record::Record;
use super::residual::Residual;
use super::route_map::never_binds;
use super::walk::{PERFECT, WalkEnd};
use super::{Searcher, attempt, speeds};
use crate::view::View;

/// Steps of an attempt here: enough for several channels and for budgets that run out.
const BUDGET: i32 = 300;

fn views() -> impl Iterator<Item = (String, View)> {
    let machines = Machine::all().expect("machines");
    machines.into_iter().flat_map(|machine| {
        [1, 2].into_iter().filter_map(move |hosts| {
            let system = machine.system().ok()?;
            let ranks = hosts * system.count(NodeType::Gpu);
            let views = View::all(system, &Arc::default(), false, ranks).ok()?;
            let first = views.into_iter().next()?;
            Some((format!("{} × {hosts}", machine.name), first))
        })
    })
}

/// Attempts of all shapes.
fn attempts(view: &View, searcher: &Searcher<'_>) -> Vec<Record> {
    let speeds = speeds::table(plan::NcclVersion::NEWEST, view.inter, searcher.sm_min);
    let mut attempts = Vec::new();
    for pattern in [Pattern::Ring, Pattern::BalancedTree, Pattern::Tree] {
        for (cross_nic, same_channels) in [(0, true), (0, false), (2, false)] {
            for (type_intra, type_inter) in [
                (PathType::Nvl, PathType::Pxb),
                (PathType::Phb, PathType::Phb),
                (PathType::Sys, PathType::Sys),
            ] {
                for (number, bw) in speeds.iter().enumerate().step_by(3) {
                    let mut attempt = Record::new(pattern, false, 1, 8, searcher.route_map.gpus);
                    attempt.cross_nic = cross_nic;
                    attempt.same_channels = same_channels;
                    attempt.type_intra = type_intra;
                    attempt.type_inter = type_inter;
                    attempt.set_bw(*bw);
                    if number % 2 == 1 {
                        attempt.bw_intra = speeds[number - 1];
                    }
                    attempts.push(attempt);
                }
            }
        }
    }
    attempts
}

/// The outcome of a walk: steps left, what was seen, the best solution, and links that are still
/// taken.
type WalkOutcome = (i32, usize, i32, usize, i32, Vec<u32>, Vec<[u32; 2]>, i32);

struct Bench<'a, 's> {
    searcher: &'s mut Searcher<'a>,
    attempt: &'s Record,
}

impl Bench<'_, '_> {
    fn outcome(&self, walked: WalkEnd, best: &Record, hops: i32) -> WalkOutcome {
        let gpus = self.searcher.route_map.gpus;
        (
            walked.budget_left,
            walked.seen.channels,
            walked.seen.hops,
            best.channels,
            best.hops,
            best.intra[..best.channels * gpus].to_vec(),
            best.inter[..best.channels].to_vec(),
            hops,
        )
    }

    fn walk<R: Residual>(&mut self, pick: impl Fn(&mut Searcher<'_>) -> R) -> (WalkOutcome, R) {
        let gpus = self.searcher.route_map.gpus;
        self.searcher.prepare_ports(self.attempt.type_inter);
        let ports_before = self.searcher.scratch.ports_left.clone();
        let mut links = pick(self.searcher);
        let searcher = &mut *self.searcher;
        let nearby = searcher
            .nearby
            .within(&searcher.route_map, &searcher.memo, self.attempt);
        let mut current = self.attempt.clone();
        let mut best = Record::new(current.pattern, false, 1, 8, gpus);
        let ports = &searcher.ports[searcher.ports_at].1;
        let walked = searcher.scratch.walk(
            &searcher.route_map,
            nearby,
            ports,
            &mut links,
            &mut current,
            &mut best,
            BUDGET,
        );
        // NCCL loses bandwidth of some ports; here every walk begins with the same.
        searcher.scratch.ports_left = ports_before;
        (self.outcome(walked, &best, current.hops), links)
    }

    fn layout(&mut self) -> Option<(AttemptLayout, Uses, Speed)> {
        let searcher = &mut *self.searcher;
        let nearby = searcher
            .nearby
            .within(&searcher.route_map, &searcher.memo, self.attempt);
        let sorts = searcher.memo.inter() && !searcher.route_map.has_nvs;
        let allowed = attempt::allowed(&searcher.route_map, nearby, self.attempt);
        let uses = Uses::new(&searcher.route_map, &searcher.thousandths, allowed, sorts);
        let asked = attempt::asked(self.attempt);
        let ports = &searcher.scratch.ports_left;
        let layout = AttemptLayout::new(&searcher.thousandths, ports, &uses, &asked)?;
        let at = searcher.layouts.of(
            &searcher.route_map,
            nearby,
            &searcher.memo,
            &searcher.thousandths,
            ports,
            self.attempt,
        );
        let speed = searcher.layouts.speed(at);
        Some((layout, uses, speed))
    }

    fn packed<const WORDS: usize>(&mut self, layout: &AttemptLayout, uses: &Uses) -> WalkOutcome {
        let (outcome, _) = self.walk(|searcher| {
            let mut links = PackedLinks::<WORDS>::new();
            links.lay_out(layout, uses, &searcher.thousandths);
            links
        });
        outcome
    }
}

/// All arithmetics take the same steps, and bandwidths of one layout give the same walk.
#[test]
fn every_arithmetic_comes_to_the_same() {
    let (mut in_integers, mut in_words, mut alike) = (0, 0, 0);
    for (name, view) in views() {
        let mut searcher = Searcher::new(&view);
        let mut known: Vec<(Record, Speed, WalkOutcome)> = Vec::new();
        for attempt in attempts(&view, &searcher) {
            if !searcher.thousandths.agrees(&attempt) {
                continue;
            }
            let mut bench = Bench {
                searcher: &mut searcher,
                attempt: &attempt,
            };
            let (expected, after) = bench.walk(|searcher| searcher.floats.clone());
            let (found, _) = bench.walk(|searcher| searcher.thousandths.clone());
            assert_eq!(found, expected, "{name}: {attempt:?} in integers");
            for (link, before) in bench.searcher.floats.links().iter().enumerate() {
                // Links that cannot be the first to lack bandwidth may drift: nobody looks.
                assert!(
                    after.links()[link] == *before || never_binds(view.system(), link as u32),
                    "{name}: {attempt:?} gave back other than it took of link {link}"
                );
            }
            in_integers += 1;
            let Some((layout, uses, speed)) = bench.layout() else {
                continue;
            };
            let words = packed::words(&layout);
            if words <= FEW_WORDS {
                let found = bench.packed::<FEW_WORDS>(&layout, &uses);
                assert_eq!(found, expected, "{name}: {attempt:?} in few words");
            }
            if words <= MANY_WORDS {
                let found = bench.packed::<MANY_WORDS>(&layout, &uses);
                assert_eq!(found, expected, "{name}: {attempt:?} in many words");
                in_words += 1;
            }
            // Alike: the other's outcome is this one's.
            let twin = known.iter().find(|(other, other_speed, _)| {
                let same = |record: &Record| {
                    let limits = (record.type_intra, record.type_inter);
                    (
                        record.pattern,
                        record.cross_nic,
                        record.same_channels,
                        limits,
                    )
                };
                *other_speed == speed && same(other) == same(&attempt)
            });
            if let Some((_, _, outcome)) = twin {
                assert_eq!(*outcome, expected, "{name}: {attempt:?} is not alike");
                alike += 1;
            }
            if expected.0 != PERFECT {
                known.push((attempt.clone(), speed, expected));
            }
        }
    }
    assert!(in_integers > 1000 && in_words > 1000 && alike > 100);
}
