//! How far choices are from the fastest ones that were measured.

use std::fmt;

use executor::backend::CommunicatorShape;
use executor::{Choice, Request};
use program::{Collective, ElementType, Reduction};

use crate::profile::{MeasuredChoice, Profile};
use crate::speeds::Scale;

/// Time of a choice that was not measured, because it was that far behind, by the fastest one's.
const UNMEASURED: f64 = 4.0;

/// A choice beside the fastest one that was measured.
#[derive(Debug, Clone, Copy)]
pub struct Loss {
    /// The collective.
    pub collective: Collective,
    /// The communicator.
    pub shape: CommunicatorShape,
    /// Message size, bytes.
    pub bytes: u64,
    /// The choice.
    pub choice: Choice,
    /// Its measured time by the least one, at least 1.
    pub factor: f64,
    /// The fastest choice.
    pub best: Choice,
    /// Its measured time, µs.
    pub best_us: f64,
}

impl Profile {
    /// The losses of this profile's choices on the machine, and the sizes, of other measurements.
    pub fn losses(&self, scale: Scale, truth: &Self) -> Vec<Loss> {
        let mut losses = Vec::new();
        let mut begin: &[MeasuredChoice] = &truth.measured;
        // Choices for a collective by the same ranks follow each other.
        while let [first, ..] = begin {
            let shape = first.shape(truth.cores);
            let key = |it: &MeasuredChoice| (it.collective, it.shape(truth.cores));
            let alike = begin.iter().take_while(|it| key(it) == key(first)).count();
            let (group, rest) = begin.split_at(alike);
            begin = rest;
            let table = self.table(&request(first.collective), shape, scale);
            let found = truth.sizes.iter().enumerate().filter_map(|(at, bytes)| {
                let choice = table.choose(*bytes)?;
                let timed = group.iter().filter_map(|it| {
                    let time = *it.times_us.get(at.checked_sub(it.first)?)?;
                    Some((it.choice()?, time))
                });
                let least = |one: &(Choice, f64), other: &(Choice, f64)| one.1.total_cmp(&other.1);
                let (best, best_us) = timed.clone().min_by(least)?;
                // A transfer without a protocol is measured once.
                let like = |it: &Choice| {
                    let protocol = choice.transfer.has_protocol().then_some(it.protocol);
                    let wanted = choice.transfer.has_protocol().then_some(choice.protocol);
                    (it.schedule, it.transfer, protocol)
                        == (choice.schedule, choice.transfer, wanted)
                };
                let time = timed.into_iter().find(|(it, _)| like(it));
                Some(Loss {
                    collective: first.collective,
                    shape,
                    bytes: *bytes,
                    choice,
                    factor: time.map_or(UNMEASURED, |(_, time)| time / best_us),
                    best,
                    best_us,
                })
            });
            losses.extend(found);
        }
        losses
    }
}

/// A request for a collective with two buffers, of any size.
pub(crate) fn request(collective: Collective) -> Request {
    Request {
        collective,
        element: ElementType::F32,
        reduction: Reduction::Sum,
        root: 0,
        to: 0,
        tag: 0,
        in_place: false,
        count: 1,
        choice: None,
    }
}

/// The median and the largest loss.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Losses {
    /// Half of the choices lose no more.
    pub median: f64,
    /// The largest.
    pub most: f64,
}

impl Losses {
    /// Of some choices; `None` if there are none.
    pub fn of<'a>(losses: impl IntoIterator<Item = &'a Loss>) -> Option<Self> {
        let mut factors: Vec<f64> = losses.into_iter().map(|it| it.factor).collect();
        factors.sort_by(f64::total_cmp);
        Some(Self {
            median: *factors.get(factors.len() / 2)?,
            most: *factors.last()?,
        })
    }
}

impl fmt::Display for Losses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.2} at the median, {:.2} at most",
            self.median, self.most
        )
    }
}
