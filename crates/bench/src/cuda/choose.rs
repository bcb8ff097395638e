//! The choice of algorithm, protocol, transfer and channels on GPUs.

use answers::names::algorithms;
use anyhow::{Result, bail};
use device_runtime::{DeviceDriver, default_choice};
use executor::{Choice, Request};
use program::Protocol;
use program::{Schedule, Transfer};

use super::Gpu;
use crate::Spec;

/// Limits of the run.
#[derive(Debug, Clone, Copy, Default)]
pub struct ChoiceLimits {
    /// Only this algorithm.
    pub schedule: Option<Schedule>,
    /// Only this transfer.
    pub transfer: Option<Transfer>,
    /// Only this protocol.
    pub protocol: Option<Protocol>,
    /// Most channels.
    pub channels: Option<u16>,
}

impl ChoiceLimits {
    pub(super) fn of(spec: &Spec) -> Self {
        Self {
            schedule: spec.algorithm,
            transfer: spec.transfer,
            protocol: spec.protocol,
            channels: spec.channels,
        }
    }
}

/// The choice for a request within the limits of the run.
///
/// # Errors
/// Nothing fits, or the transports refuse all that does.
pub fn choose<M: DeviceDriver>(
    communicator: &mut Gpu<M>,
    wanted: &ChoiceLimits,
    request: &Request,
) -> Result<Choice> {
    communicator.set_choice(None);
    let chosen = communicator.choice(request)?;
    let place = communicator.shape();
    let channels = wanted
        .channels
        .unwrap_or(chosen.channels)
        .min(place.channels);
    let fits = |choice: &Choice| {
        wanted.schedule.is_none_or(|only| only == choice.schedule)
            && wanted.transfer.is_none_or(|only| only == choice.transfer)
            && match choice.transfer {
                Transfer::Fifo => wanted.protocol.is_none_or(|only| only == choice.protocol),
                Transfer::Hierarchical | Transfer::Staged => false,
                Transfer::Direct => {
                    wanted.protocol.is_none() && choice.protocol == Protocol::Simple
                }
            }
            && default_choice::serves(request, choice.schedule, choice.transfer, place.ranks)
    };
    let chosen = Choice { channels, ..chosen };
    if fits(&chosen) {
        return Ok(chosen);
    }
    let others = Schedule::ALL.into_iter().flat_map(|schedule| {
        let of_transfer = move |transfer| {
            // The chosen protocol, or the one that takes messages of any size.
            let protocols = [
                chosen.protocol,
                Protocol::Simple,
                Protocol::Ll128,
                Protocol::Ll,
            ];
            // Through FIFOs a channel may be two lanes, each of which is a block.
            let fewer = match transfer {
                Transfer::Fifo if wanted.channels.is_none() => channels.div_ceil(2),
                _ => channels,
            };
            protocols.into_iter().map(move |protocol| Choice {
                schedule,
                transfer,
                protocol,
                channels: fewer,
                piece_bytes: default_choice::piece_bytes(schedule, transfer, place.ranks),
            })
        };
        Transfer::ALL.into_iter().rev().flat_map(of_transfer)
    });
    // A choice that the transports refuse is passed over, unless nothing else fits.
    let mut refused = None;
    for choice in others.filter(fits) {
        let asked = Request {
            choice: Some(choice),
            ..*request
        };
        match communicator.choice(&asked) {
            Ok(choice) => return Ok(choice),
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    match refused {
        Some(error) => Err(error.into()),
        None => bail!(
            "no algorithm for {} fits the algorithm, transfer and protocol that were asked for; expected one of the algorithms {}",
            request.collective.command_name(),
            algorithms(request.collective)
                .map(Schedule::name)
                .collect::<Vec<_>>()
                .join(", ")
        ),
    }
}
