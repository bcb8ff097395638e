//! Windows of callers: memory that all ranks register together and that a multicast (NVLS) reaches.
//!
//! A launch whose buffers are in windows writes the window's number and the offset in it to the
//! buffer table. Kernels compare those of all ranks, and use the buffers where they are if all are
//! equal; otherwise they copy through scratch memory. So a rank whose buffer is elsewhere, or was
//! freed, costs time and nothing else.
//!
//! All ranks register and deregister in the same order, so a window has the same number on all.

use std::sync::Arc;
use std::time::Duration;

use executor::Error;
use executor::backend::OwnWiring;
use executor::bootstrap::Bootstrap;
use serde::{Deserialize, Serialize};

use crate::allocation::Bindable;
use crate::backend::{DeviceProgram, Kernels};
use crate::connect::{CallersWindow, Meeting, NotMade, VECTOR_BYTES};
use crate::driver::{DeviceDriver, LaunchMemory, Team};
use crate::layout::REGION_SHIFT;

/// Entries of the table of windows. Number 0 means that a buffer is in none, and the last one is
/// the window for staging buffers.
const ENTRIES: u32 = 64;
const STAGING: u32 = ENTRIES - 1;

/// What the length of that window is a multiple of, bytes.
const GRANULE: u64 = 2 << 20;

/// Additional bytes of the window for staging buffers, for the alignment of both.
const ROOM_BYTES: u64 = 1024;

/// What a rank registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Range {
    /// The window's number.
    number: u32,
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
                "{most} windows are registered, the most that there can be; deregister one"
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
        let shared = Arc::clone(&self.shared);
        let mut meeting = Meeting {
            shared: &shared,
            bootstrap,
            longest,
            name: format!("device/callers-window/{begun}"),
        };
        let not_made = |why: NotMade| why.error(|rank, why| refused(format!("rank {rank}: {why}")));
        let table = self.allocate_table();
        let own = table.and_then(|table| Ok((table, self.bindable(address, &team)?)));
        let range = own.as_ref().map(|(_, memory)| Range {
            number,
            offset: address - memory.base,
            bytes,
            bound: memory.bytes,
        });
        let range = range.map_err(String::clone);
        let ranges = meeting.exchange("memory", &range).map_err(not_made)?;
        expect_equal(&ranges)?;
        let (table, memory) = own.map_err(|why| self.failed(why))?;
        let address_of_table = table.1;
        team.bytes = memory.bytes;
        team.memory = Some(memory.clone());
        let part = match team.ranks {
            0..=1 => None,
            _ => {
                let (part, addresses) = meeting.make(&team).map_err(not_made)?;
                self.place_window(address_of_table, number, addresses.all)?;
                Some(part)
            }
        };
        // What is not equal on all ranks changes only now.
        self.keep_table(table);
        self.windows.own.push(CallersWindow {
            number,
            memory,
            part,
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
        let needed = own
            .buffer_bytes
            .saturating_mul(2)
            .saturating_add(ROOM_BYTES);
        let is_long = |it: &(u64, u64, M::Multicast)| it.1 >= needed;
        if !own.bound.multicasts
            || !self.shared.options.stages_in_window
            || self.windows.staging.as_ref().is_some_and(is_long)
        {
            return Ok(());
        }
        let (collective, ranks) = (own.collective, own.bootstrap.ranks());
        let shared = Arc::clone(&self.shared);
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
        let bytes = needed.checked_next_multiple_of(GRANULE).unwrap_or(needed);
        // Programs are refused earlier if there is no multicast.
        let kind = self.connected.peers.multicast.clone();
        let kind = kind.map_err(|why| self.failed(why))?;
        let made = meeting.make(&Team {
            ranks,
            bytes,
            kind,
            memory: None,
        });
        let refused = |rank, why| Error::Unsupported {
            collective,
            ranks,
            why: format!("rank {rank} has no window of {bytes} bytes for the buffers: {why}"),
        };
        let (part, addresses) = made.map_err(|why| why.error(refused))?;
        let table = self.connected.callers_windows.unwrap_or_default();
        self.place_window(table, STAGING, addresses.all)?;
        self.windows.staging = Some((addresses.own, bytes, part));
        Ok(())
    }

    /// Address of the staging buffers in a window.
    pub(crate) fn staging_window(&self, program: &DeviceProgram<M>) -> Option<u64> {
        let staging = self.windows.staging.as_ref();
        staging.filter(|_| program.registered).map(|it| it.0)
    }

    /// Makes the table of where windows begin, for staging buffers.
    pub(crate) fn make_table(&mut self) -> Result<(), Error> {
        let table = self.allocate_table();
        let table = table.map_err(|why| self.failed(why))?;
        self.keep_table(table);
        Ok(())
    }

    /// The table of where windows begin by its address, with its memory if it is new.
    fn allocate_table(&self) -> Result<(Option<M::Block>, u64), String> {
        if let Some(table) = self.connected.callers_windows {
            return Ok((None, table));
        }
        let bytes = u64::from(ENTRIES) * size_of::<u64>() as u64;
        let (block, address) = self.shared.driver.allocate(self.device(), bytes)?;
        Ok((Some(block), address))
    }

    fn keep_table(&mut self, (block, address): (Option<M::Block>, u64)) {
        self.connected.callers_windows = Some(address);
        if let Some(block) = block {
            self.shared.keep(block, None);
        }
    }

    /// Keeps what windows are bound to until the last rank of this process is gone: a kernel that
    /// does not end may still use it.
    fn keep_windows(&mut self) {
        for window in std::mem::take(&mut self.windows.own) {
            window
                .part
                .into_iter()
                .for_each(|it| self.shared.keep(it, None));
        }
        if let Some((.., part)) = self.windows.staging.take() {
            self.shared.keep(part, None);
        }
        if let Some(window) = self.connected.windows.latest.take() {
            self.shared.keep(window, None);
        }
    }

    /// What is subtracted from the addresses of input and output in the buffer table, so that it
    /// has their places in windows, or 0.
    pub(crate) fn registered_places(
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

    /// The number of the window that holds a buffer, and the offset in it; 0: none does, or a
    /// multicast cannot begin there.
    fn place_in_window(&self, address: u64, bytes: u64) -> u64 {
        let place = |number: u32, base: u64| {
            let offset = address - base;
            match (address | offset).is_multiple_of(VECTOR_BYTES) {
                true => u64::from(number) << REGION_SHIFT | offset,
                false => 0,
            }
        };
        let is_in = |base: u64, most: u64| {
            bytes > 0 && address >= base && address - base <= most.saturating_sub(bytes)
        };
        if let Some((base, most, _)) = &self.windows.staging
            && is_in(*base, *most)
        {
            return place(STAGING, *base);
        }
        let own = self.windows.own.iter();
        let mut holding = own
            .filter(|it| is_in(it.memory.base, it.memory.bytes))
            .peekable();
        if holding.peek().is_none() {
            return 0;
        }
        // The caller may have freed its memory, and have other memory there.
        let there = self.shared.driver.allocation(self.device(), address, bytes);
        let found = there.and_then(|it| holding.find(|own| own.memory.allocation.holds(&it)));
        found.map_or(0, |it| place(it.number, it.memory.base))
    }
}

impl<M: DeviceDriver> Drop for Kernels<M> {
    fn drop(&mut self) {
        self.in_flight.clear();
        self.keep_windows();
    }
}

/// Fails if a rank registers other memory than rank 0.
fn expect_equal(ranges: &[Range]) -> Result<(), Error> {
    let Some((first, others)) = ranges.split_first() else {
        return Ok(());
    };
    let other = (1..).zip(others).find(|(_, it)| *it != first);
    other.map_or(Ok(()), |(rank, other)| {
        let range = |it: &Range| {
            let Range {
                number,
                offset,
                bytes,
                bound,
            } = it;
            format!("{bytes} bytes from byte {offset} on of {bound} as window {number}")
        };
        Err(refused(format!(
            "rank {rank} registers {}, and rank 0 {}; all ranks register and deregister alike, as many bytes, which begin \
             at the same distance from a multiple of the granularity of their memory",
            range(other),
            range(first)
        )))
    })
}
