//! Which way is taken on GPUs.

use anyhow::{Result, bail};
use device_runtime::{DeviceDriver, default_choice};
use executor::{Choice, Request};
use plan::Protocol;
use plan::program::{Schedule, Transfer};

use super::Gpu;
use crate::run::Spec;

/// What the command line leaves to choose.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wanted {
    /// The only algorithm.
    pub schedule: Option<Schedule>,
    /// The only transfer.
    pub transfer: Option<Transfer>,
    /// The only protocol.
    pub protocol: Option<Protocol>,
    /// Channels.
    pub channels: Option<u16>,
}

impl Wanted {
    /// What a command line leaves.
    pub fn of(spec: &Spec) -> Result<Self> {
        Ok(Self {
            schedule: spec.schedule()?,
            transfer: spec.transfer()?,
            protocol: spec.protocol,
            channels: spec.channels,
        })
    }
}

/// The way for a request, within what is left.
pub fn choose_way<M: DeviceDriver>(
    communicator: &mut Gpu<M>,
    wanted: &Wanted,
    request: &Request,
) -> Result<Choice> {
    communicator.set_way(None);
    let chosen = communicator.way(request)?;
    let place = communicator.shape()?;
    let channels = wanted
        .channels
        .unwrap_or(chosen.channels)
        .min(place.channels);
    let fits = |way: &Choice| {
        wanted.schedule.is_none_or(|only| only == way.schedule)
            && wanted.transfer.is_none_or(|only| only == way.transfer)
            && match way.transfer {
                Transfer::Fifo => wanted.protocol.is_none_or(|only| only == way.protocol),
                Transfer::Direct => wanted.protocol.is_none() && way.protocol == Protocol::Simple,
            }
            && default_choice::serves(request, way.schedule, way.transfer, place.ranks)
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
                piece_bytes: 0,
            })
        };
        Transfer::ALL.into_iter().rev().flat_map(of_transfer)
    });
    // What the transports between the ranks refuse is left out, unless nothing else fits.
    let mut refused = None;
    for way in others.filter(fits) {
        let asked = Request {
            way: Some(way),
            ..*request
        };
        match communicator.way(&asked) {
            Ok(way) => return Ok(way),
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    match refused {
        Some(error) => Err(error.into()),
        None => bail!(
            "{} cannot be carried out so; see --algorithm, --transfer and --protocol in topo run --help",
            crate::sizes::kebab(request.collective)
        ),
    }
}
