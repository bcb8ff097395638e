//! Offers of other ranks: asked for, arrived, fetched.

use std::time::Duration;

use bootstrap::socket::service;
use executor::Error;
use executor::bootstrap::Offer;

use super::Hosts;
use crate::errors::of_service;

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
            text: String::from_utf8_lossy(&value).into_owned(),
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
}
