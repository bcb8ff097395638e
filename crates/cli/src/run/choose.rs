//! The choice of algorithm, protocol, transfer and channels.

use anyhow::{Context, Result, bail};
use backend_cpu::{Cpu, Profile, choose};
use executor::{Choice, Communicator, Request};
use program::{Schedule, Transfer};

use super::Spec;
use crate::sizes::algorithms;

/// The choice for a request within the limits of the command line. All ranks choose the same.
pub fn choose(
    communicator: &mut Communicator<Cpu>,
    spec: &Spec,
    profile: &Profile,
    request: &Request,
) -> Result<Choice> {
    let (schedule, wanted_transfer) = (spec.schedule()?, spec.transfer()?);
    let place = communicator.shape()?;
    communicator.set_choice(None);
    let usual = communicator.choice(request);
    let channels = match (spec.channels, &usual) {
        (Some(channels), _) => channels,
        (None, Ok(usual)) => usual.channels,
        (None, Err(_)) => profile.channels,
    };
    let channels = channels.min(place.channels);
    if schedule.is_none() && wanted_transfer.is_none() && spec.protocol.is_none() {
        return Ok(Choice { channels, ..usual? });
    }
    // Among choices without a known time, the one most like the unrestricted choice.
    let usual = usual.ok();
    let unlike = |choice: &Choice| {
        usual.map(|usual| {
            (
                choice.transfer != usual.transfer,
                choice.protocol != usual.protocol,
                choice.schedule != usual.schedule,
            )
        })
    };
    let mut best: Option<(f64, Choice)> = None;
    for choice in choose::choices(request, place) {
        let choice = Choice { channels, ..choice };
        let wanted = schedule.is_none_or(|it| it == choice.schedule)
            && wanted_transfer.is_none_or(|it| it == choice.transfer)
            && match choice.transfer {
                Transfer::Fifo => spec.protocol.is_none_or(|it| it == choice.protocol),
                // A direct transfer has no protocol.
                Transfer::Direct => spec.protocol.is_none(),
                Transfer::Hierarchical => spec.protocol.is_none_or(|it| it == choice.protocol),
            };
        if !wanted {
            continue;
        }
        let time = profile.predict(request, &choice, place);
        let time = time.unwrap_or(f64::INFINITY);
        let better = best.is_none_or(|(least, kept)| {
            time < least || time == least && unlike(&choice) < unlike(&kept)
        });
        if better {
            best = Some((time, choice));
        }
    }
    let hierarchical = wanted_transfer == Some(Transfer::Hierarchical);
    if best.is_none() && hierarchical && !place.even_hosts && spec.collective.splits_message() {
        bail!(
            "hierarchical algorithms for {} need as many ranks on each host; expected another --transfer",
            spec.collective.command_name()
        );
    }
    let (_, choice) = best.with_context(|| {
        format!(
            "no algorithm for {} fits --algorithm, --transfer and --protocol; expected one of the algorithms {}, \
             with a protocol or, for mesh, two-phase-mesh, leader and nvls, with --transfer direct",
            spec.collective.command_name(),
            algorithms(spec.collective)
                .map(Schedule::name)
                .collect::<Vec<_>>()
                .join(", ")
        )
    })?;
    Ok(choice)
}
