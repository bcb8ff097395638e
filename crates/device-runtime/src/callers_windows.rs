//! Windows of callers: memory that all ranks register together and that a multicast (NVLS) reaches.
//!
//! A launch whose buffers are in windows writes the window's number and the offset in it to the
//! buffer table. Kernels compare those of all ranks, and use the buffers where they are if all are
//! equal; otherwise they copy through scratch memory. So a rank whose buffer is elsewhere, or was
//! freed, costs time and nothing else.
//!
//! All ranks register and deregister in the same order, so a window has the same number on all.

use std::time::Duration;

use executor::Error;
use executor::backend::OwnWiring;
use executor::bootstrap::Bootstrap;
use serde::{Deserialize, Serialize};

use crate::backend::{DeviceProgram, Kernels};
use crate::connect::{CallersWindow, Meeting, NotMade};
use crate::driver::{Bindable, DeviceDriver, LaunchMemory, Team};
use crate::layout::REGION_SHIFT;

/// Most windows of a rank, and one: number 0 means that a buffer is in none. The last one is for
/// staging buffers.
const MOST_WINDOWS: u32 = 64;
const STAGING: u32 = MOST_WINDOWS - 1;

/// Additional bytes of the window for staging buffers, for the alignment of both.
const ROOM_BYTES: u64 = 1024;

/// What a rank registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Range {
    /// Where it begins in the memory that is bound, bytes.
    offset: u64,
    bytes: u64,
    /// Bytes that are bound.
    bound: u64,
}

fn refused(why: String) -> Error {
    Error::Registration { why }
}

impl<M: DeviceDriver> Kernels<M> {
    /// Registers memory together with all other ranks. Nothing runs meanwhile. Returns the window's
    /// number.
    pub(crate) fn register_window(
        &mut self,
        (address, bytes): (u64, u64),
        bootstrap: &mut dyn Bootstrap,
        longest: Duration,
    ) -> Result<u32, Error> {
        let peers = &self.connected.peers;
        if let Some((one, other, why)) = &peers.apart {
            return Err(refused(format!(
                "NVLS needs P2P between all ranks (ranks {one} and {other}: {why})"
            )));
        }
        let kind = peers.multicast.clone().map_err(refused)?;
        let is_free = |number: &u32| self.windows.own.iter().all(|it| it.number != *number);
        let number = (1..STAGING).find(is_free).ok_or_else(|| {
            let most = STAGING - 1;
            refused(format!(
                "{most} windows are registered, the most that there can be"
            ))
        })?;
        let mut team = Team {
            ranks: bootstrap.ranks(),
            bytes,
            kind,
            memory: None,
        };
        let begun = self.windows.begun;
        self.windows.begun += 1;
        let shared = std::sync::Arc::clone(&self.shared);
        let mut meeting = Meeting {
            shared: &shared,
            bootstrap,
            longest,
            name: format!("device/callers-window/{begun}"),
        };
        let not_made = |why| match why {
            NotMade::Failed(error) => error,
            NotMade::Refused { rank, why } => refused(format!("rank {rank}: {why}")),
        };
        let table = self.window_table();
        let own = table.and_then(|table| Ok((table, self.bindable(address, &team)?)));
        let range = own.as_ref().map(|(_, memory)| Range {
            offset: address - memory.base,
            bytes,
            bound: memory.bytes,
        });
        let range = range.map_err(String::clone);
        let ranges = meeting.exchange("memory", &range).map_err(not_made)?;
        expect_equal(&ranges)?;
        let (table, memory) = own.map_err(|why| self.failed(why))?;
        team.bytes = memory.bytes;
        team.memory = Some(memory);
        let part = match team.ranks {
            0..=1 => None,
            _ => {
                let (part, addresses) = meeting.make(&team).map_err(not_made)?;
                self.place_window(table, number, addresses.all)?;
                Some(part)
            }
        };
        self.windows.own.push(CallersWindow {
            number,
            memory,
            _part: part,
        });
        Ok(number)
    }

    /// Ends a window. Nothing runs meanwhile.
    pub(crate) fn deregister_window(&mut self, number: u32) -> Result<(), Error> {
        let own = &mut self.windows.own;
        match own.iter().position(|it| it.number == number) {
            Some(at) => {
                own.remove(at);
                Ok(())
            }
            None => Err(refused(format!("there is no window {number}"))),
        }
    }

    fn bindable(&self, address: u64, team: &Team) -> Result<Bindable, String> {
        if team.bytes == 0 {
            return Err("it registers 0 bytes".to_owned());
        }
        self.shared.driver.bindable(self.device(), address, team)
    }

    /// Writes where a window begins in multicast addresses.
    fn place_window(&self, table: u64, number: u32, all: u64) -> Result<(), Error> {
        let place = table + u64::from(number) * size_of::<u64>() as u64;
        let (driver, device) = (&self.shared.driver, self.device());
        let wrote = driver.write(device, place, &all.to_le_bytes());
        wrote.map_err(|why| self.failed(why))
    }

    /// Makes a window that holds both buffers of a launch, if it is wanted; all ranks do it
    /// together while they wire a program. A longer one replaces it.
    pub(crate) fn meet_staging_window(&mut self, own: &mut OwnWiring<'_>) -> Result<(), Error> {
        let needed = 2 * own.buffer_bytes + ROOM_BYTES;
        let is_long = |it: &(u64, u64, M::Multicast)| it.1 >= needed;
        if !own.bound.multicasts
            || !self.shared.options.stages_in_window
            || self.windows.staging.as_ref().is_some_and(is_long)
        {
            return Ok(());
        }
        let (collective, ranks) = (own.collective, own.bootstrap.ranks());
        let shared = std::sync::Arc::clone(&self.shared);
        let begun = self.windows.begun;
        self.windows.begun += 1;
        let mut meeting = Meeting {
            shared: &shared,
            bootstrap: own.bootstrap,
            longest: own.longest,
            name: format!("device/callers-window/{begun}"),
        };
        // No launch of this rank uses it.
        self.windows.staging = None;
        let bytes = needed.next_power_of_two();
        let made = meeting.make(&Team {
            ranks,
            bytes,
            // Programs are refused earlier if there is no multicast.
            kind: self.connected.peers.multicast.clone().unwrap_or_default(),
            memory: None,
        });
        let (part, addresses) = made.map_err(|why| match why {
            NotMade::Failed(error) => error,
            NotMade::Refused { rank, why } => Error::Unsupported {
                collective,
                ranks,
                why: format!("rank {rank} has no window of {bytes} bytes for the buffers: {why}"),
            },
        })?;
        let table = self.window_table().map_err(|why| self.failed(why))?;
        self.place_window(table, STAGING, addresses.all)?;
        self.windows.staging = Some((addresses.own, bytes, part));
        Ok(())
    }

    /// Address of the staging buffers in a window.
    pub(crate) fn staging_window(&self, program: &DeviceProgram<M>) -> Option<u64> {
        let staging = self.windows.staging.as_ref();
        staging.filter(|_| program.registered).map(|it| it.0)
    }

    /// Address of the table of where windows begin.
    pub(crate) fn window_table(&mut self) -> Result<u64, String> {
        if let Some(table) = self.connected.windows.of_callers {
            return Ok(table);
        }
        let bytes = u64::from(MOST_WINDOWS) * size_of::<u64>() as u64;
        let (block, address) = self.shared.driver.allocate(self.device(), bytes)?;
        self.shared.keep(block, None);
        self.connected.windows.of_callers = Some(address);
        Ok(address)
    }

    /// What is subtracted from the addresses of input and output in the buffer table, so that it
    /// has their places in windows, or 0.
    pub(crate) fn window_places(
        &self,
        own: &LaunchMemory<M::Block>,
        (input_bytes, output_bytes): (usize, usize),
    ) -> [u64; 2] {
        let origin =
            |address: u64, bytes| address.wrapping_sub(self.place_in_window(address, bytes as u64));
        [
            origin(own.input, input_bytes),
            origin(own.output, output_bytes),
        ]
    }

    /// The number of the window that holds a buffer, and the offset in it; 0: none does.
    fn place_in_window(&self, address: u64, bytes: u64) -> u64 {
        let is_in = |base: u64, most: u64| {
            bytes > 0 && address >= base && address - base <= most.saturating_sub(bytes)
        };
        if let Some((base, most, _)) = &self.windows.staging
            && is_in(*base, *most)
        {
            return u64::from(STAGING) << REGION_SHIFT | (address - base);
        }
        let holds = |it: &&CallersWindow<M>| is_in(it.memory.base, it.memory.bytes);
        let Some(CallersWindow { number, memory, .. }) = self.windows.own.iter().find(holds) else {
            return 0;
        };
        // The caller may have freed it, and have other memory there.
        let is_there =
            self.shared.driver.allocation(self.device(), address) == Some(memory.allocation);
        match is_there {
            true => u64::from(*number) << REGION_SHIFT | (address - memory.base),
            false => 0,
        }
    }
}

/// Fails if a rank registers other memory than rank 0.
fn expect_equal(ranges: &[Range]) -> Result<(), Error> {
    let Some((first, others)) = ranges.split_first() else {
        return Ok(());
    };
    let other = (1..).zip(others).find(|(_, it)| *it != first);
    other.map_or(Ok(()), |(rank, other)| {
        let range = |it: &Range| format!("{} bytes from byte {} on of {}", it.bytes, it.offset, it.bound);
        Err(refused(format!(
            "rank {rank} registers {}, and rank 0 {}; all ranks register as many bytes, which begin at the same distance from a \
             multiple of the granularity of their memory",
            range(other),
            range(first)
        )))
    })
}
