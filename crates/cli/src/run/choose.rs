//! Which way is taken.

use anyhow::{Context, Result};
use backend_cpu::{Cpu, Profile, profile};
use executor::{Choice, Communicator, Request};
use plan::program::{Schedule, Transfer};

use super::Spec;

/// The way for a request, within what the command line leaves. All ranks choose the same.
pub fn choose(
    communicator: &mut Communicator<Cpu>,
    spec: &Spec,
    profile: &Profile,
    request: &Request,
) -> Result<Choice> {
    let (schedule, wanted_transfer) = (spec.schedule()?, spec.transfer()?);
    let place = communicator.shape()?;
    communicator.set_way(None);
    let usual = communicator.way(request);
    let channels = match (spec.channels, &usual) {
        (Some(channels), _) => channels,
        // Between hosts it depends on the message.
        (None, Ok(usual)) if !place.one_host => usual.channels,
        _ => profile.channels,
    };
    let channels = channels.min(place.channels);
    if schedule.is_none() && wanted_transfer.is_none() && spec.protocol.is_none() {
        return Ok(Choice { channels, ..usual? });
    }
    // Of ways of which no time is known, the most like the one that would be taken freely.
    let usual = usual.ok();
    let unlike = |way: &Choice| {
        usual.map(|usual| {
            (
                way.transfer != usual.transfer,
                way.protocol != usual.protocol,
                way.schedule != usual.schedule,
            )
        })
    };
    let mut best: Option<(f64, Choice)> = None;
    for way in profile::choices(request, spec.ranks) {
        let way = Choice { channels, ..way };
        let wanted = schedule.is_none_or(|it| it == way.schedule)
            && wanted_transfer.is_none_or(|it| it == way.transfer)
            && match way.transfer {
                Transfer::Fifo => spec.protocol.is_none_or(|it| it == way.protocol),
                // A direct transfer has no protocol, and reaches no other host.
                Transfer::Direct => spec.protocol.is_none() && place.one_host,
            };
        if !wanted {
            continue;
        }
        let time = profile.predict(request, &way, place);
        let time = time.unwrap_or(f64::INFINITY);
        let better = best.is_none_or(|(least, kept)| {
            time < least || time == least && unlike(&way) < unlike(&kept)
        });
        if better {
            best = Some((time, way));
        }
    }
    let (_, way) = best.with_context(|| {
        let serving = Schedule::ALL.into_iter().filter(|schedule| {
            let serves = |transfer| schedule.serves(spec.collective, transfer);
            Transfer::ALL.into_iter().any(serves)
        });
        let names: Vec<&str> = serving.map(Schedule::name).collect();
        format!(
            "{} cannot be carried out so; expected one of the algorithms {}, with a protocol through FIFOs, or directly \
             by mesh, two-phase-mesh or nvls",
            crate::sizes::kebab(spec.collective),
            names.join(", ")
        )
    })?;
    Ok(way)
}
