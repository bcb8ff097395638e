//! Memory of callers that other processes access where it is.
//!
//! A rank offers the allocation of a buffer to all others when it is first used in the order of a
//! stream, and uses it as a region of the buffer tables once all have opened it. Until then, and
//! where it cannot be shared, the buffers are copied through the window. No rank waits for an
//! answer: ranks read offers and answers when they enqueue. They close replaced memory then.
//!
//! An offer changes addresses that the kernels of others look up, so who hears one first waits
//! until its own launches have ended, and who replaces a region does so before. A kernel ends only
//! after all ranks have told it that they no longer access its buffers.

use std::any::Any;
use std::time::{Duration, Instant};

use executor::Error;
use executor::backend::{LaunchContext, Part};
use executor::bootstrap::{Bootstrap, Offer};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::allocation::Allocation;
use crate::backend::{DeviceProgram, Kernels};
use crate::connect::{MOST_REGIONS, OwnRegion, Stage, region_place};
use crate::driver::DeviceDriver;
use crate::layout::REGION_SHIFT;

/// Between two looks for offers and answers.
const LOOK: Duration = Duration::from_millis(1);

/// Most offers of a rank. Others keep them, and a program that allocates memory for each collective
/// gains nothing.
const MOST_OFFERS: u32 = 1024;

/// What a rank says of one of its regions.
#[derive(Serialize, Deserialize)]
struct RegionOffer {
    region: u32,
    /// `None`: the allocation is gone.
    memory: Option<OfferedMemory>,
}

/// An allocation.
#[derive(Serialize, Deserialize)]
struct OfferedMemory {
    /// The driver's handle.
    word: String,
    /// Its address, for ranks of the process that access it there.
    here: Option<u64>,
    bytes: u64,
}

fn offer_name(number: u32) -> String {
    format!("device/region/{number}")
}

/// The name of the answer to an offer of a rank.
fn answer_name(from: u32, number: u32) -> String {
    format!("device/region/{from}/{number}/opened")
}

/// What a rank has said under a name, if it has. That a rank has left shows elsewhere.
fn said<T: DeserializeOwned>(bootstrap: &mut dyn Bootstrap, from: u32, name: &str) -> Option<T> {
    let there = bootstrap.has_offer(from, name).ok()?;
    let offer = there.then(|| bootstrap.fetch(from, name, Duration::ZERO).ok())??;
    offer.read(name, (bootstrap.rank(), from)).ok()
}

/// What is subtracted from addresses of an allocation in the buffer table.
fn origin(region: u32, base: u64) -> u64 {
    base.wrapping_sub(u64::from(region) << REGION_SHIFT)
}

impl<M: DeviceDriver> Kernels<M> {
    /// What is subtracted from the addresses of input and output in the buffer table, if all ranks
    /// access both where they are.
    pub(crate) fn in_regions(
        &mut self,
        part: &Part<'_, DeviceProgram<M>>,
        context: &mut LaunchContext<'_>,
    ) -> Result<Option<[u64; 2]>, Error> {
        if part.program.window_scratch.is_none() || !self.shared.options.opens_regions {
            return Ok(None);
        }
        self.look_for_regions(context)?;
        let memory = &part.memory;
        let input = memory.input().expose_provenance() as u64;
        let output = memory.output().expose_provenance() as u64;
        let input = self.region(input, memory.input_bytes() as u64, context)?;
        let output = self.region(output, memory.output_bytes() as u64, context)?;
        Ok(input.zip(output).map(|(input, output)| [input, output]))
    }

    /// What is subtracted from an address in the buffer table, if all ranks have opened its memory.
    /// Otherwise offers it to them.
    fn region(
        &mut self,
        address: u64,
        bytes: u64,
        context: &mut LaunchContext<'_>,
    ) -> Result<Option<u64>, Error> {
        if bytes == 0 {
            return Ok(Some(address));
        }
        let found = self.shared.driver.allocation(self.device(), address, bytes);
        let Some(allocation) = found else {
            return Ok(None);
        };
        let regions = &mut self.regions;
        regions.uses += 1;
        let mut known = regions.own.iter_mut();
        if let Some(known) = known.find(|it| it.allocation.holds(&allocation)) {
            known.used = regions.uses;
            let is_open = known.stage == Stage::Open;
            return Ok(is_open.then(|| origin(known.number, known.allocation.base)));
        }
        // It replaces what was there before, and its own parts.
        let is_replaced = |it: &&OwnRegion| {
            allocation.is_within(&it.allocation) || it.allocation.is_within(&allocation)
        };
        let place = regions.own.iter().find(is_replaced).map(|it| it.number);
        if self.regions.offers < MOST_OFFERS {
            self.offer_region(allocation, place, context)?;
        }
        Ok(None)
    }

    /// Offers an allocation in place of a region, of one that is gone, or of the one that was used
    /// longest ago.
    fn offer_region(
        &mut self,
        allocation: Allocation,
        place: Option<u32>,
        context: &mut LaunchContext<'_>,
    ) -> Result<(), Error> {
        let device = self.device();
        self.forget_what_is_gone(context)?;
        let regions = &self.regions;
        let is_free = |number: &u32| regions.own.iter().all(|it| it.number != *number);
        let oldest = || regions.own.iter().min_by_key(|it| it.used);
        let number = place
            .or_else(|| (1..MOST_REGIONS).find(is_free))
            .or_else(|| oldest().map(|it| it.number))
            .unwrap_or(1);
        if regions.own.iter().any(|it| it.number == number) {
            self.drain(context)?;
            self.regions.own.retain(|it| it.number != number);
        }
        if !allocation.is_of_peers {
            // Exporting it may wait for kernels.
            self.drain(context)?;
        }
        let offered = self.shared.driver.offer(device, &allocation);
        let (base, bytes, here) = (allocation.base, allocation.bytes(), allocation.is_of_peers);
        let mut own = OwnRegion {
            number,
            allocation,
            stage: Stage::Refused,
            offer: 0,
            used: self.regions.uses,
            kept: None,
        };
        if let Ok((word, kept)) = offered {
            let memory = OfferedMemory {
                word,
                here: here.then_some(base),
                bytes,
            };
            let others = (0..context.supervisor.bootstrap().ranks()).filter(|it| *it != self.rank);
            own.stage = Stage::Offered(others.collect());
            own.offer = self.say_region(number, Some(memory), context)?;
            own.kept = kept.map(|it| Box::new(it) as Box<dyn Any + Send + Sync>);
        }
        self.regions.own.push(own);
        Ok(())
    }

    /// Takes back what the caller has freed, so that others close it.
    fn forget_what_is_gone(&mut self, context: &mut LaunchContext<'_>) -> Result<(), Error> {
        let (driver, device) = (&self.shared.driver, self.device());
        let is_here = |it: &OwnRegion| {
            let known = &it.allocation;
            let there = driver.allocation(device, known.base, known.bytes());
            there.is_some_and(|it| it == *known)
        };
        let gone = self.regions.own.iter().filter(|it| !is_here(it));
        let gone: Vec<u32> = gone.map(|it| it.number).collect();
        if gone.is_empty() {
            return Ok(());
        }
        self.drain(context)?;
        for number in gone {
            self.regions.own.retain(|it| it.number != number);
            self.say_region(number, None, context)?;
        }
        Ok(())
    }

    /// Says something of an own region. Returns the number of the offer.
    fn say_region(
        &mut self,
        region: u32,
        memory: Option<OfferedMemory>,
        context: &mut LaunchContext<'_>,
    ) -> Result<u32, Error> {
        let number = self.regions.offers;
        self.regions.offers += 1;
        let offer = Offer::of(&RegionOffer { region, memory });
        let bootstrap = context.supervisor.bootstrap();
        bootstrap.publish(&offer_name(number), offer)?;
        Ok(number)
    }

    /// Hears what others offer and answer, once in a while.
    fn look_for_regions(&mut self, context: &mut LaunchContext<'_>) -> Result<(), Error> {
        let now = Instant::now();
        if self.regions.looked.is_some_and(|last| now < last + LOOK) {
            return Ok(());
        }
        self.regions.looked = Some(now);
        let bootstrap = context.supervisor.bootstrap();
        for own in &mut self.regions.own {
            let Stage::Offered(missing) = &mut own.stage else {
                continue;
            };
            let name = answer_name(self.rank, own.offer);
            let mut all = true;
            missing.retain(|peer| match said::<bool>(bootstrap, *peer, &name) {
                Some(opened) => {
                    all &= opened;
                    false
                }
                None => true,
            });
            if !all {
                own.stage = Stage::Refused;
                own.kept = None;
            } else if missing.is_empty() {
                own.stage = Stage::Open;
            }
        }
        let rank = self.rank;
        let mut offers: Vec<(u32, u32, RegionOffer)> = Vec::new();
        for peer in (0..bootstrap.ranks()).filter(|it| *it != rank) {
            let heard = self.regions.heard.entry(peer).or_default();
            while let Some(offer) = said(bootstrap, peer, &offer_name(*heard)) {
                offers.push((peer, *heard, offer));
                *heard += 1;
            }
        }
        if offers.is_empty() {
            return Ok(());
        }
        self.drain(context)?;
        for (peer, number, offer) in offers {
            let opened = self.open_region(peer, offer);
            let answer = Offer::of(&opened.is_ok());
            let bootstrap = context.supervisor.bootstrap();
            bootstrap.publish(&answer_name(peer, number), answer)?;
        }
        Ok(())
    }

    /// Opens what a rank offers, and closes what it replaces.
    fn open_region(&mut self, peer: u32, offer: RegionOffer) -> Result<(), String> {
        let RegionOffer { region, memory } = offer;
        let (driver, device) = (&self.shared.driver, self.shared.device(self.rank));
        let table = self.connected.buffer_tables.regions;
        let table = table.filter(|_| (1..MOST_REGIONS).contains(&region));
        let table = table.ok_or_else(|| format!("rank {peer} has no region {region}"))?;
        self.regions.opened.remove(&(peer, region));
        let Some(OfferedMemory { word, here, bytes }) = memory else {
            return Ok(());
        };
        let address = match here.filter(|_| self.connected.peers.is_local(peer)) {
            Some(address) => address,
            None => {
                let (block, address) = driver.open(device, &word, bytes)?;
                self.regions.opened.insert((peer, region), Box::new(block));
                address
            }
        };
        let place = region_place(table, peer, region);
        driver.write(device, place, &address.to_le_bytes())
    }
}
