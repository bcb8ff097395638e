//! A time that no placement of a class is faster than: each group lies as suits it best, alone, if
//! only the groups leave each other room on a host.
//!
//! Two groups whose communicators have at most one rank in common need, with a and b ranks of a
//! communicator on each host, a × b GPUs on a host: each of the a ranks has b − 1 others beside it,
//! and none of them twice.

use std::collections::HashSet;

use workload::{Members, Workload};

use crate::step::StepError;
use crate::step::clock::Timeline;
use crate::step::places::{Place, Places};
use crate::step::pricing::{Priced, Pricing};

/// Most kinds of communicators that are planned for it.
const MOST_SHAPES: usize = 2000;

/// The step, µs, than which no order of a class is faster: those that give a communicator the same
/// GPUs on each of its hosts, its ranks in order. `None` where hosts form NVLink domains, where a
/// group has communicators of different sizes, or where there are too many forms for a communicator
/// to lie.
pub(super) fn floor_us(
    pricing: &mut Pricing<'_>,
    places: &Places,
    best: &Priced,
) -> Result<Option<f64>, StepError> {
    let Some(devices) = places.alike().filter(|_| pricing.domain_hosts() == 1) else {
        return Ok(None);
    };
    let devices = devices.to_vec();
    let mut shapes = 0;
    // By group: ranks of a communicator on a host, and the least time of each kind of call.
    let mut choices: Vec<Vec<(u32, Vec<f64>)>> = Vec::new();
    let workload = pricing.question.workload;
    for (at, group) in workload.groups.iter().enumerate() {
        let Some(size) = size(&group.members, places.ranks()) else {
            return Ok(None);
        };
        let mut its = Vec::new();
        let most_here = (devices.len() as u32).min(size);
        let divides = |here: &u32| size.is_multiple_of(*here) && size / here <= places.hosts();
        for here in (1..=most_here).filter(divides) {
            let left = MOST_SHAPES - shapes;
            let Some(forms) = forms((here, size / here), &devices, left) else {
                return Ok(None);
            };
            shapes += forms.len();
            its.push((here, pricing.least_times(at, &forms, best)?));
        }
        choices.push(its);
    }
    let apart = apart(workload, places.ranks())?;
    let mut search = Choice {
        gpus: devices.len() as u32,
        choices: &choices,
        apart: &apart,
        taken: Vec::new(),
        left: MOST_CHOICES,
        least_us: f64::INFINITY,
    };
    let is_complete = search.next(&mut |taken| {
        let mut times = best.times();
        for (group, at) in taken.iter().enumerate() {
            best.set_times(group, &choices[group][*at].1, &mut times);
        }
        let timeline = Timeline::of(workload, &best.of_entries(&times));
        let bubble = workload.pipeline.map_or(0.0, |it| it.bubble());
        timeline.end_us + bubble * timeline.micro_batch_us
    });
    // The best order may be of another class.
    Ok(is_complete.then_some(search.least_us.min(best.step_us())))
}

/// Most choices for all groups together.
const MOST_CHOICES: usize = 1 << 12;

/// A choice of the ranks of a communicator on a host, group after group.
struct Choice<'a> {
    gpus: u32,
    choices: &'a [Vec<(u32, Vec<f64>)>],
    /// Pairs of groups whose communicators have at most one rank in common.
    apart: &'a HashSet<(usize, usize)>,
    taken: Vec<usize>,
    /// Choices that may still be looked at.
    left: usize,
    least_us: f64,
}

impl Choice<'_> {
    /// Tries all choices for the groups that are left. `false` if there are too many.
    fn next(&mut self, step_us: &mut dyn FnMut(&[usize]) -> f64) -> bool {
        let group = self.taken.len();
        let Some(its) = self.choices.get(group) else {
            if self.left == 0 {
                return false;
            }
            self.left -= 1;
            self.least_us = self.least_us.min(step_us(&self.taken));
            return true;
        };
        for (at, (here, _)) in its.iter().enumerate() {
            let fits = self.taken.iter().enumerate().all(|(other, taken)| {
                let (there, _) = self.choices[other][*taken];
                !self.apart.contains(&(other, group)) || here * there <= self.gpus
            });
            if fits {
                self.taken.push(at);
                let is_complete = self.next(step_us);
                self.taken.pop();
                if !is_complete {
                    return false;
                }
            }
        }
        true
    }
}

/// Pairs of groups, the earlier one first, whose communicators have at most one rank in common and
/// that hold all ranks.
fn apart(workload: &Workload, ranks: u32) -> Result<HashSet<(usize, usize)>, StepError> {
    let mut of_rank: Vec<Vec<Option<usize>>> = Vec::new();
    for group in &workload.groups {
        let all = group.members.communicators(ranks);
        let all = all.map_err(|why| StepError::Members {
            group: group.name.clone(),
            why,
        })?;
        let mut its = vec![None; ranks as usize];
        for (number, communicator) in all.enumerate() {
            for rank in communicator {
                if let Some(of) = its.get_mut(rank as usize) {
                    *of = Some(number);
                }
            }
        }
        of_rank.push(its);
    }
    let mut found = HashSet::new();
    for (one, first) in of_rank.iter().enumerate() {
        for (other, second) in of_rank.iter().enumerate().skip(one + 1) {
            let mut seen = HashSet::new();
            let mut both = first.iter().zip(second);
            if both.all(|it| matches!(it, (Some(a), Some(b)) if seen.insert((*a, *b)))) {
                found.insert((one, other));
            }
        }
    }
    Ok(found)
}

/// Ranks of each communicator of a group, if all have equally many.
fn size(members: &Members, ranks: u32) -> Option<u32> {
    match members {
        Members::Listed(lists) => {
            let first = lists.first()?.len();
            let equal = lists.iter().all(|it| it.len() == first);
            equal.then_some(first as u32)
        }
        Members::All | Members::Grid(_) => Some(members.size(ranks)),
    }
}

/// All forms for a communicator to lie with `here` ranks on each of some hosts: the same GPUs on
/// each. `None` if there are more than `most`.
fn forms((here, hosts): (u32, u32), devices: &[i32], most: usize) -> Option<Vec<Vec<Place>>> {
    let forms = subsets(devices, here as usize, most)?.into_iter();
    let forms = forms.map(|chosen| {
        let places = (0..hosts).flat_map(|host| {
            chosen.iter().map(move |device| Place {
                host,
                kind: 0,
                device: *device,
            })
        });
        places.collect()
    });
    Some(forms.collect())
}

/// All parts of some numbers with so many of them; `None` if there are more than `most`.
fn subsets(of: &[i32], size: usize, most: usize) -> Option<Vec<Vec<i32>>> {
    let mut found: Vec<Vec<i32>> = vec![Vec::new()];
    for (at, number) in of.iter().enumerate() {
        let left = of.len() - at;
        let mut next = Vec::new();
        for part in found {
            if part.len() < size {
                let mut with = part.clone();
                with.push(*number);
                next.push(with);
            }
            if part.len() + left > size {
                next.push(part);
            }
        }
        if next.len() > most.saturating_mul(2).max(1) {
            return None;
        }
        found = next;
    }
    found.retain(|it| it.len() == size);
    (found.len() <= most).then_some(found)
}
