//! One attempt: whether its outcome is known already, and otherwise on which arithmetic it is
//! walked.

use plan::Pattern;
use topology::PathType;

use super::layout::{Amounts, AttemptLayout, Uses, Which};
use super::memo::{Memo, Speed};
use super::nearby::Nearby;
use super::record::Record;
use super::residual::{PortsLeft, Residual};
use super::route_map::{RouteMap, SearchRoute};
use super::thousandths::Thousandths;
use super::walk::{AttemptPorts, PERFECT};
use super::{Searcher, packed};

/// Words that hold the links of most attempts.
pub(super) const FEW_WORDS: usize = 2;

/// Words that hold the links of almost all attempts.
pub(super) const MANY_WORDS: usize = 4;

/// The inputs of a layout.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Limits {
    intra: u16,
    inter: u16,
    both_directions: bool,
    balanced: bool,
    /// Which state of the links and ports there is.
    state: u32,
}

/// The layouts of attempts so far.
#[derive(Debug, Default)]
pub(super) struct AttemptLayouts {
    uses: Vec<(Limits, Uses)>,
    layouts: Vec<KnownLayout>,
    /// Keys, each once.
    keys: Vec<Vec<u64>>,
}

/// A layout, and for what.
#[derive(Debug)]
struct KnownLayout {
    limits: Limits,
    bw: (f32, f32),
    /// The place of the uses.
    uses: usize,
    layout: Option<AttemptLayout>,
    /// Words for what links have left.
    words: usize,
    speed: Speed,
}

/// The routes that an attempt may use, each with what it is used for.
pub(super) fn allowed<'a>(
    route_map: &'a RouteMap,
    nearby: &'a [Nearby],
    attempt: &Record,
) -> impl Iterator<Item = (Which, &'a SearchRoute)> {
    let (both_directions, worst) = (attempt.uses_both_directions(), attempt.type_inter);
    let leaving = if attempt.pattern == Pattern::BalancedTree {
        Which::HalfInter
    } else {
        Which::Inter
    };
    let [entries, exits] = route_map.port_routes();
    let entries = entries.iter().map(|route| (Which::Inter, route));
    let exits = exits.iter().map(move |route| (leaving, route));
    nearby
        .iter()
        .flat_map(|nearby| &nearby.list)
        .map(|next| (Which::Intra, &next.route))
        .chain(
            entries
                .chain(exits)
                .filter(move |(_, route)| route.is_within(worst, both_directions)),
        )
}

/// The amounts that an attempt asks for.
pub(super) fn asked(attempt: &Record) -> Amounts {
    Amounts {
        intra: Thousandths::amount(attempt.bw_intra),
        inter: Thousandths::amount(attempt.bw_inter),
        half_inter: Thousandths::amount(attempt.bw_inter / 2.0),
        of_port: attempt.bw_inter as i32,
    }
}

impl AttemptLayouts {
    /// The place of the layout for an attempt.
    pub(super) fn of(
        &mut self,
        route_map: &RouteMap,
        nearby: &[Nearby],
        memo: &Memo,
        links: &Thousandths,
        ports: &PortsLeft,
        attempt: &Record,
    ) -> usize {
        let limits = Limits {
            intra: memo.intra_class(attempt.type_intra),
            inter: memo.inter_class(attempt.type_inter),
            both_directions: attempt.uses_both_directions(),
            balanced: attempt.pattern == Pattern::BalancedTree,
            state: memo.state(),
        };
        let bw = (attempt.bw_intra, attempt.bw_inter);
        let known = self
            .layouts
            .iter()
            .position(|known| known.limits == limits && known.bw == bw);
        known.unwrap_or_else(|| {
            let sorts = memo.inter() && !route_map.has_nvs;
            let at = self.uses.iter().position(|(known, _)| *known == limits);
            let at = at.unwrap_or_else(|| {
                let allowed = allowed(route_map, nearby, attempt);
                let uses = Uses::new(route_map, links, allowed, sorts);
                self.uses.push((limits, uses));
                self.uses.len() - 1
            });
            let asked = asked(attempt);
            let uses = &self.uses[at].1;
            let mut layout = AttemptLayout::new(links, ports, uses, &asked);
            let key = layout.as_mut().and_then(|layout| layout.key.take());
            let speed = key.map_or_else(|| Speed::exact(attempt), |key| self.number(key));
            self.layouts.push(KnownLayout {
                limits,
                bw,
                uses: at,
                words: layout.as_ref().map_or(usize::MAX, packed::words),
                layout,
                speed,
            });
            self.layouts.len() - 1
        })
    }

    /// Which bandwidths walk like those of a layout.
    pub(super) fn speed(&self, at: usize) -> Speed {
        self.layouts[at].speed
    }

    fn number(&mut self, key: Vec<u64>) -> Speed {
        let known = self.keys.iter().position(|known| *known == key);
        Speed::Like(known.unwrap_or_else(|| {
            self.keys.push(key);
            self.keys.len() - 1
        }))
    }
}

impl Searcher<'_> {
    /// The lists of ports for an attempt that allows this path type.
    pub(super) fn prepare_ports(&mut self, type_inter: PathType) {
        let class = self.memo.inter_class(type_inter);
        let known = self.ports.iter().position(|(known, _)| *known == class);
        self.ports_at = known.unwrap_or_else(|| {
            let routing = self.view.routing();
            let select = |gpu| self.port_order.select(routing, Some(type_inter), gpu).ok();
            let ports = if self.view.inter {
                AttemptPorts {
                    all: select(None),
                    of_gpu: (0..self.route_map.gpus as u32)
                        .map(|gpu| select(Some(gpu)))
                        .collect(),
                }
            } else {
                AttemptPorts::default()
            };
            self.ports.push((class, ports));
            self.ports.len() - 1
        });
    }

    /// One attempt. Returns whether `best` was replaced.
    pub(super) fn attempt(
        &mut self,
        current: &mut Record,
        best: &mut Record,
        budget: &mut i32,
    ) -> bool {
        current.channels = 0;
        let in_integers = self.thousandths.agrees(current);
        let known = if in_integers {
            let nearby = self.nearby.within(&self.route_map, &self.memo, current);
            Some(self.layouts.of(
                &self.route_map,
                nearby,
                &self.memo,
                &self.thousandths,
                &self.scratch.ports_left,
                current,
            ))
        } else {
            None
        };
        let speed = known.map_or_else(|| Speed::exact(current), |at| self.layouts.speed(at));
        let signature = self.memo.sign(current, speed);
        if let Some(outcome) = self.memo.recall(&signature, current, best) {
            *budget = outcome.budget_left;
            current.hops = outcome.hops;
            return false;
        }
        self.prepare_ports(current.type_inter);
        let nearby = self.nearby.within(&self.route_map, &self.memo, current);
        self.before.1.clone_from(&self.scratch.ports_left);
        let mut changed = false;
        let packed = known.and_then(|at| {
            let known = &self.layouts.layouts[at];
            let uses = &self.layouts.uses[known.uses].1;
            Some((known.layout.as_ref()?, uses, known.words))
        });
        let (route_map, scratch) = (&self.route_map, &mut self.scratch);
        let ports = &self.ports[self.ports_at].1;
        let walked = if let Some((layout, uses, ..=FEW_WORDS)) = packed {
            let links = &mut self.few_words;
            links.lay_out(layout, uses, &self.thousandths);
            scratch.walk(route_map, nearby, ports, links, current, best, *budget)
        } else if let Some((layout, uses, ..=MANY_WORDS)) = packed {
            let links = &mut self.many_words;
            links.lay_out(layout, uses, &self.thousandths);
            scratch.walk(route_map, nearby, ports, links, current, best, *budget)
        } else if in_integers {
            let links = &mut self.thousandths;
            scratch.walk(route_map, nearby, ports, links, current, best, *budget)
        } else {
            self.before.0.clone_from(&self.floats);
            let links = &mut self.floats;
            let walked = scratch.walk(route_map, nearby, ports, links, current, best, *budget);
            if self.before.0 != self.floats {
                self.thousandths.follow(&self.floats);
                changed = true;
            }
            walked
        };
        changed |= self.before.1 != self.scratch.ports_left;
        *budget = walked.budget_left;
        // A walk that stopped early did not see everything.
        if *budget == PERFECT {
            self.memo.changed(changed);
        } else {
            self.memo
                .note(signature, changed, *budget, current.hops, walked.seen);
        }
        walked.improved
    }
}
