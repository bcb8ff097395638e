//! Capacities of links from bandwidths between GPUs, on random machines with random links.

use std::sync::Arc;

use answers::measured::fit::{Capacity, Fit};
use answers::measured::observe::Observations;
use answers::measured::share::shared;
use planner::{Settings, View};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use records::bandwidth::{Direction, Method};
use records::{Bandwidths, Measurements, Total};
use testkit::random;
use topology::{LinkId, LinkType, NodeId, PathTable, System};

/// Machines with at least three GPUs.
const MACHINES: usize = 50;

/// Every measured value is off by up to this share.
const NOISE: f64 = 0.03;

/// Capacities must be right within this share.
const WITHIN: f64 = 0.05;

/// A machine whose links have known capacities.
struct Truth {
    view: View,
    gpus: Vec<NodeId>,
    table: PathTable,
    capacities: Vec<f64>,
    random: fastrand::Rng,
}

impl Truth {
    fn system(&self) -> &System {
        self.view.system()
    }

    fn links(&self, from: usize, to: usize) -> Vec<u32> {
        let path = self.table.path(self.gpus[from], self.gpus[to]);
        path.hops.iter().map(|link| link.0).collect()
    }

    fn pairs(&self) -> Vec<(usize, usize)> {
        let gpus = self.gpus.len();
        let all = (0..gpus).flat_map(|from| (0..gpus).map(move |to| (from, to)));
        all.filter(|(from, to)| from != to).collect()
    }

    fn noisy(&mut self, value: f64) -> f32 {
        (value * (1.0 + NOISE * (2.0 * self.random.f64() - 1.0))) as f32
    }

    /// The bandwidths of transfers at once.
    fn at_once(&self, pairs: &[(usize, usize)]) -> Vec<f64> {
        let transfers: Vec<Vec<u32>> = pairs.iter().map(|it| self.links(it.0, it.1)).collect();
        shared(&transfers, &self.capacities)
    }

    fn matrix(&mut self, direction: Direction) -> Bandwidths {
        let gpus = self.gpus.len();
        let mut values = vec![vec![None; gpus]; gpus];
        let pairs = self.pairs();
        let all = self.at_once(&pairs);
        for ((from, to), under_load) in pairs.into_iter().zip(all) {
            let value = match direction {
                Direction::One => self.at_once(&[(from, to)])[0],
                Direction::Both => self.at_once(&[(from, to), (to, from)]).iter().sum(),
                Direction::All => under_load,
            };
            values[from][to] = Some(self.noisy(value));
        }
        Bandwidths {
            method: method(),
            direction,
            values,
        }
    }

    /// From each GPU to all others, and back.
    fn fans(&mut self) -> Vec<Total> {
        let gpus = self.gpus.len();
        let mut totals = Vec::new();
        for own in 0..gpus {
            for sends in [true, false] {
                let others = (0..gpus).filter(|other| *other != own);
                let transfers: Vec<(usize, usize)> = others
                    .map(|other| if sends { (own, other) } else { (other, own) })
                    .collect();
                let total = self.at_once(&transfers).iter().sum();
                totals.push(Total {
                    method: method(),
                    gbps: self.noisy(total),
                    transfers,
                });
            }
        }
        totals
    }
}

fn method() -> Method {
    Method {
        program: "test",
        test: "test".to_owned(),
        by_peer_access: true,
    }
}

/// Machines whose links have random capacities, in both directions alike or not.
fn machines(alike: bool) -> impl Iterator<Item = Truth> {
    let mut runner = TestRunner::deterministic();
    let strategy = random::machine();
    let settings = Arc::new(Settings::default());
    let made = (0u64..).filter_map(move |seed| {
        let document = strategy.new_tree(&mut runner).ok()?.current();
        let system = System::from_document(&document).ok()?;
        let ranks = system.gpus().count();
        if ranks < 3 {
            return None;
        }
        let views = View::all(system, &settings, false, ranks).ok()?;
        let [view] = &views[..] else {
            return None;
        };
        let system = view.system();
        let mut gpus: Vec<(i32, NodeId)> =
            system.gpus().map(|(node, gpu)| (gpu.dev, node)).collect();
        gpus.sort_unstable();
        let mut random = fastrand::Rng::with_seed(seed);
        let links = (0..system.link_count() as u32).map(LinkId);
        let mut capacities: Vec<f64> = links
            .clone()
            .map(|link| match system.link(link).kind {
                LinkType::Loc => 1e6,
                _ => 10.0 + 90.0 * random.f64(),
            })
            .collect();
        for link in links.filter(|_| alike) {
            let (from, to) = system.ends(link);
            if let Some(back) = system.link_between(to, from, system.link(link).kind) {
                capacities[link.index()] = capacities[back.index()];
            }
        }
        Some(Truth {
            gpus: gpus.into_iter().map(|(_, node)| node).collect(),
            table: PathTable::compute(system, false).ok()?,
            view: view.clone(),
            capacities,
            random,
        })
    });
    made.take(MACHINES)
}

/// Compares capacities with the truth. Returns how many were known, and how many there are.
fn check(truth: &Truth, measurements: &Measurements) -> (usize, usize) {
    let observed = Observations::of(&truth.view, measurements);
    let fit = Fit::of(&observed.fitted);
    let real = |links: &[u32]| {
        let capacities = links.iter().map(|link| truth.capacities[*link as usize]);
        capacities.fold(f64::INFINITY, f64::min)
    };
    let name = |links: &[u32]| {
        let names = links.iter().map(|link| {
            let (from, to) = truth.system().ends(LinkId(*link));
            let node = |node| truth.system().node(node).id;
            format!("{:?}→{:?}", node(from), node(to))
        });
        names.collect::<Vec<_>>().join(", ")
    };
    let right = |seen: f64, real: f64| (seen / real - 1.0).abs() <= WITHIN;
    let mut known = 0;
    for class in &fit.classes {
        let (seen, real) = (class.capacity.gbps(), real(&class.links));
        let is_right = match class.capacity {
            Capacity::Known(_) => right(seen, real),
            Capacity::OneOf { .. } | Capacity::AtLeast(_) => seen <= real * (1.0 + WITHIN),
        };
        known += usize::from(matches!(class.capacity, Capacity::Known(_)));
        let (capacity, links) = (class.capacity, name(&class.links));
        assert!(is_right, "{links}: {capacity:?}, in truth {real:.1}");
    }
    for set in &fit.joint {
        let mut classes = set.iter().map(|it| &fit.classes[*it as usize]);
        assert!(
            classes.any(|class| right(class.capacity.gbps(), real(&class.links))),
            "no link of a set is the limit: {set:?}"
        );
    }
    let slow = &fit.unexplained;
    assert!(slow.is_empty(), "max-min explains everything: {slow:?}");
    (known, fit.classes.len())
}

/// Checks all machines, and that this share of capacities is known.
fn check_all(alike: bool, least: f64, measure: impl Fn(&mut Truth) -> Measurements) {
    let (mut known, mut all) = (0, 0);
    for mut truth in machines(alike) {
        let measurements = measure(&mut truth);
        let found = check(&truth, &measurements);
        (known, all) = (known + found.0, all + found.1);
    }
    let share = known as f64 / all as f64;
    println!(
        "{known} of {all} capacities are known ({:.0} %)",
        100.0 * share
    );
    assert!(share >= least, "{known} of {all}");
}

#[test]
fn pairs_alone_show_what_limits_them() {
    check_all(false, 0.5, |truth| Measurements {
        matrices: vec![truth.matrix(Direction::One)],
        ..Measurements::default()
    });
}

#[test]
fn load_shows_what_is_shared() {
    check_all(false, 0.6, |truth| Measurements {
        matrices: vec![truth.matrix(Direction::One), truth.matrix(Direction::All)],
        totals: truth.fans(),
        ..Measurements::default()
    });
}

#[test]
fn sums_of_both_directions_are_halved() {
    check_all(true, 0.4, |truth| Measurements {
        matrices: vec![truth.matrix(Direction::Both)],
        ..Measurements::default()
    });
}
