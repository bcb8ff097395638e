//! The loss of a choice: its time by that of the fastest choice that was measured.

use executor::backend::CommunicatorShape;
use executor::{Choice, Request};
use program::{Collective, ElementType, Reduction};

use crate::profile::{MeasuredChoice, Profile};
use crate::speeds::Scale;
use crate::table::{BEHIND, ChoiceTable, is_like};

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
}

/// The losses of a profile's choices on the machine, and at the sizes, of other measurements, where
/// choices for a collective by the same ranks follow each other.
pub fn losses(profile: &Profile, scale: Scale, truth: &Profile) -> Vec<Loss> {
    let key = |it: &MeasuredChoice| (it.collective, it.shape(truth.cores));
    let groups = truth.measured.chunk_by(|one, next| key(one) == key(next));
    let of_group = |group: &[MeasuredChoice]| {
        let (collective, shape) = key(group.first()?);
        let table = ChoiceTable::new(profile, scale, &request(collective), shape);
        let loss = |(at, bytes): (usize, &u64)| {
            let choice = table.choose(*bytes)?;
            let timed = group.iter().filter_map(|it| {
                let time = *it.times_us.get(at.checked_sub(it.first)?)?;
                Some((it.choice()?, time))
            });
            let best = timed.clone().map(|(_, time)| time).reduce(f64::min)?;
            // A transfer without a protocol is measured once.
            let alike = timed.filter(|(it, _)| is_like(it, &choice));
            let time = alike.min_by_key(|(it, _)| it.channels.abs_diff(choice.channels));
            Some(Loss {
                collective,
                shape,
                bytes: *bytes,
                choice,
                factor: time.map_or(BEHIND, |(_, time)| time / best),
            })
        };
        let sizes = truth.sizes.iter().enumerate();
        Some(sizes.filter_map(loss).collect::<Vec<_>>())
    };
    groups.filter_map(of_group).flatten().collect()
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
