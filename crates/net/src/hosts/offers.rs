//! Offers of other ranks: asked for, arrived, fetched.

use std::os::fd::RawFd;
use std::time::Duration;

use bootstrap::message::read_whole;
use bootstrap::socket::service;
use executor::Error;
use executor::bootstrap::Offer;
use serde::{Deserialize, Serialize};

use super::Hosts;
use crate::errors::of_service;
use crate::proxy::Proxies;

/// An offer that goes around the ring.
#[derive(Serialize, Deserialize)]
struct Gathered<'a> {
    /// The descriptor, in the rank's process, that wakes it while it sleeps on its connections.
    alarm: Option<RawFd>,
    offer: &'a [u8],
}

impl Hosts {
    /// Asks for offers, which [`Self::await_offer`] takes.
    pub(super) fn ask_for(&mut self, offers: &[(u32, String)]) {
        let Some(service) = &self.service else {
            return;
        };
        for (from, name) in offers {
            let asked = self.asked.entry((*from, name.clone()));
            asked.or_insert_with(|| service.ask(*from, name));
        }
    }

    /// Waits for an offer.
    pub(super) fn await_offer(
        &mut self,
        from: u32,
        name: &str,
        longest: Duration,
    ) -> Result<Offer, Error> {
        let place = (from, name.to_owned());
        let value = match self.arrived.remove(&place) {
            Some(value) => value,
            None => {
                let service = self.service()?;
                let value = match self.asked.get(&place) {
                    Some(ticket) => service.answer(*ticket, from, name, longest),
                    None => service.fetch(from, name, longest),
                };
                self.asked.remove(&place);
                value.map_err(|error| of_service(self.rank, error))?
            }
        };
        Ok(Offer {
            message: value,
            segment: None,
        })
    }

    /// Whether an offer is there.
    pub(super) fn look_for_offer(&mut self, from: u32, name: &str) -> Result<bool, Error> {
        let place = (from, name.to_owned());
        if self.arrived.contains_key(&place) {
            return Ok(true);
        }
        self.ask_for(&[(from, name.to_owned())]);
        let ticket = self.asked.get(&place).copied().unwrap_or_default();
        match self.service()?.answer(ticket, from, name, Duration::ZERO) {
            Ok(value) => {
                self.asked.remove(&place);
                self.arrived.insert(place, value);
                Ok(true)
            }
            Err(service::Error::NoOffer { .. }) => Ok(false),
            Err(error) => Err(of_service(self.rank, error)),
        }
    }

    /// The offers of all ranks, around the ring: with a question to each rank there would be a
    /// connection for each pair.
    pub(super) fn gather_offers(
        &mut self,
        name: &str,
        own: &Offer,
        longest: Duration,
    ) -> Result<Vec<Offer>, Error> {
        let inline = self.proxies.as_ref().and_then(Proxies::inline);
        let own = Gathered {
            alarm: inline.map(|it| it.alarm()),
            offer: &own.message,
        };
        let own = postcard::to_allocvec(&own).unwrap_or_default();
        let all = self.service()?.exchange(own, longest);
        let all = all.map_err(|error| of_service(self.rank, error))?;
        let mut offers = Vec::with_capacity(all.len());
        for (rank, bytes) in (0..).zip(all.iter()) {
            let Gathered { alarm, offer } = read_whole(bytes).map_err(|_| Error::Bootstrap {
                rank: self.rank,
                why: format!("rank {rank} sends no valid `{name}`"),
            })?;
            if let Some(alarm) = alarm.filter(|it| *it >= 0) {
                self.sleepers.insert(rank, alarm);
            }
            offers.push(Offer {
                message: offer.to_vec(),
                segment: None,
            });
        }
        Ok(offers)
    }
}
