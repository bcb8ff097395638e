//! Buffer tables of kernels: the buffers of ranks that access each other's memory.
//!
//! Within a process a buffer table holds addresses. Other processes map this rank's memory at
//! addresses of their own. For them the table holds the number of a *region* and an offset in it,
//! and each rank has a table of where the regions of every other rank begin in its own address
//! space. Region 0 is the *window*, a piece of memory that all ranks have opened, into which the
//! buffers of a direct transfer are copied; the others are allocations of the caller
//! (`regions.rs`), which need no copy. If a window is too short for a program, a longer one
//! replaces it while that program is wired. All ranks wire it together, so none accesses the window
//! then. The old window stays allocated, because peers have it open.

use executor::bootstrap::Offer;
use executor::error::Error;
use program::BoundProgram;
use rustc_hash::FxHashMap;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Connector;
use crate::driver::DeviceDriver;
use crate::layout::DeviceBufferTable;

/// Additional bytes of a window, for the alignment of the caller's two buffers.
const ROOM_BYTES: u64 = 1024;

/// Alignment within a window, bytes.
const LINE_BYTES: u64 = 256;

/// Bytes of the shortest window.
const LEAST_WINDOW: u64 = 1 << 20;

/// Regions of a rank, with its window.
pub(crate) const MOST_REGIONS: u32 = 64;

/// The place of a rank's region in a table of regions.
pub(crate) fn region_place(table: u64, rank: u32, region: u32) -> u64 {
    let number = u64::from(rank) * u64::from(MOST_REGIONS) + u64::from(region);
    table + number * size_of::<u64>() as u64
}

/// The buffer tables and windows that a rank knows.
#[derive(Debug, Default)]
pub(crate) struct BufferTables {
    /// Address of the own buffer table.
    pub own: Option<u64>,
    /// Addresses of the peers' buffer tables.
    pub of_peers: FxHashMap<u32, u64>,
    /// Address and length of the own window.
    pub window: Option<(u64, u64)>,
    /// Address of the table of regions: where each region of each rank begins here. `None` if all
    /// ranks are in this process.
    pub regions: Option<u64>,
    /// Addresses of the peers' windows.
    windows: FxHashMap<u32, u64>,
    /// Number of programs that accessed memory of other processes, equal on all ranks.
    programs: u64,
}

impl BufferTables {
    /// Address of the caller's buffers in the own window, after `scratch_bytes` bytes of scratch.
    pub fn behind_scratch(&self, scratch_bytes: u64) -> Option<u64> {
        let (address, _) = self.window?;
        Some(address + scratch_bytes.next_multiple_of(LINE_BYTES))
    }
}

/// Whether peers may access this rank's buffers. Signals without FIFOs mean that they do. Of a
/// multicast only registered buffers are in the table.
pub(crate) fn shows_buffers(bound: &BoundProgram) -> bool {
    let direct = !(bound.peers.is_empty() && bound.waits.is_empty() && bound.notifies.is_empty());
    direct && !bound.multicasts
}

impl<M: DeviceDriver> Connector<'_, '_, M> {
    /// Publishes the own buffer table and window, and opens those of the program's peers.
    pub(super) fn meet_buffer_tables(&mut self) -> Result<(), Error> {
        let bound = self.own.bound;
        let registers = bound.multicasts && self.known.callers_windows.is_some();
        if !registers && !shows_buffers(bound) {
            return Ok(());
        }
        let alone = self.known.peers.is_alone();
        if self.known.buffer_tables.own.is_none() {
            let bytes = size_of::<DeviceBufferTable>() as u64;
            let address = self.allocate(bytes, alone)?;
            self.known.buffer_tables.own = Some(address);
            let offered = self.offered(address, alone)?;
            self.say("device/buffer-table", &offered)?;
        }
        let others = bound.waits.iter().map(|it| &it.peer);
        let others = others.filter(|_| registers);
        for peer in bound.peers.iter().chain(others) {
            if !self.known.buffer_tables.of_peers.contains_key(peer) {
                let address = self.fetch_address(
                    *peer,
                    "device/buffer-table",
                    size_of::<DeviceBufferTable>() as u64,
                )?;
                self.known.buffer_tables.of_peers.insert(*peer, address);
            }
        }
        match alone || registers {
            true => Ok(()),
            false => self.meet_windows(),
        }
    }

    fn meet_windows(&mut self) -> Result<(), Error> {
        let bound = self.own.bound;
        let regions = match self.known.buffer_tables.regions {
            Some(regions) => regions,
            None => {
                let ranks = self.own.bootstrap.ranks();
                let address = self.allocate(region_place(0, ranks, 0), true)?;
                *self.known.buffer_tables.regions.insert(address)
            }
        };
        let scratch = bound.scratch_bytes.next_multiple_of(LINE_BYTES);
        let wanted = scratch + 2 * self.own.buffer_bytes + ROOM_BYTES;
        let buffer_tables = &self.known.buffer_tables;
        let (number, window) = (buffer_tables.programs, buffer_tables.window);
        if window.is_none_or(|(_, bytes)| bytes < wanted) {
            let bytes = wanted.next_power_of_two().max(LEAST_WINDOW);
            let address = self.allocate(bytes, false)?;
            self.known.buffer_tables.window = Some((address, bytes));
        }
        let (address, _) = self.known.buffer_tables.window.unwrap_or_default();
        let offered = self.offered(address, false)?;
        self.say(&format!("device/window/{number}"), &offered)?;
        self.known.buffer_tables.programs += 1;
        let known = self.known.buffer_tables.windows.keys().chain(&bound.peers);
        let mut peers: Vec<u32> = known.copied().collect();
        peers.sort_unstable();
        peers.dedup();
        for peer in peers {
            let address =
                self.fetch_address(peer, &format!("device/window/{number}"), LINE_BYTES)?;
            if self.known.buffer_tables.windows.insert(peer, address) == Some(address) {
                continue;
            }
            // No kernel of this rank runs.
            let (driver, place) = (&self.shared.driver, region_place(regions, peer, 0));
            let wrote = driver.write(self.device(), place, &address.to_le_bytes());
            wrote.map_err(|why| self.failed(why))?;
        }
        Ok(())
    }

    pub(super) fn say<T: Serialize>(&mut self, name: &str, message: &T) -> Result<(), Error> {
        self.own.bootstrap.publish(name, Offer::of(message))
    }

    /// Waits for the message of a peer.
    pub(super) fn hear<T: DeserializeOwned>(&mut self, peer: u32, name: &str) -> Result<T, Error> {
        let bootstrap = &mut self.own.bootstrap;
        let offer = bootstrap.fetch(peer, name, self.own.longest)?;
        offer.read(name, (bootstrap.rank(), peer))
    }
}
